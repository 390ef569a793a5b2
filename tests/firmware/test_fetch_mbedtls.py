"""The script that fetches mbedTLS: what it makes of the machine's apt sources, what it accepts, what it says.

A stand-in apt-get in the search path plays the distribution; nothing here uses the network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "firmware" / "fetch_mbedtls.sh"

ONE_LINE = """\
# a comment
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian stable main contrib
deb-src http://mirror.example/debian stable main
"""
DEB822 = """\
Types: deb
URIs: http://other.example/debian
Suites: stable
Components: main
"""


class Machine:
    """A machine with its own apt sources, an archive to hand out, and a script that pins this archive's hash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.build = folder / "build"
        self.etc = folder / "etc"
        self.bin = folder / "bin"
        (self.etc / "parts").mkdir(parents=True)
        self.bin.mkdir()
        (self.etc / "sources.list").write_text(ONE_LINE)
        (self.etc / "parts" / "main.sources").write_text(DEB822)
        source = folder / "mbedtls-x" / "include"
        source.mkdir(parents=True)
        (source / "version.h").write_text("a header\n")
        self.archive = folder / "orig.tar.gz"
        with tarfile.open(self.archive, "w:gz") as tar:
            tar.add(source.parent, "mbedtls-x")
        self.sha256 = subprocess.run(
            ["sha256sum", str(self.archive)], capture_output=True, text=True, check=True
        ).stdout.split()[0]
        self.script = folder / "fetch.sh"
        text = SCRIPT.read_text()
        pinned = next(line for line in text.splitlines() if line.startswith("sha256="))
        self.script.write_text(text.replace(pinned, f"sha256={self.sha256}"))
        self.offer(self.sha256)

    def offer(self, sha256: str, archive: Path | None = None) -> None:
        """Let the stand-in distribution offer version 2.28.3-1 with this hash, and hand out this archive."""
        log = self.folder / "apt.log"
        self._tool("apt-config", f"echo \"list='{self.etc}/sources.list'\"; echo \"parts='{self.etc}/parts/'\"")
        self._tool("apt-cache", f"printf 'Version: 2.28.3-1\\nChecksums-Sha256:\\n {sha256} 12 orig.tar.gz\\n'")
        self._tool(
            "apt-get",
            f'echo "$@" >>{log}\ncase "$*" in *" source "*) cp {archive or self.archive} mbedtls.orig.tar.gz;; esac',
        )

    def _tool(self, name: str, body: str) -> None:
        tool = self.bin / name
        tool.write_text(f"#!/bin/sh\n{body}\n")
        tool.chmod(0o755)

    def run(self) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}
        return subprocess.run(
            ["sh", str(self.script), str(self.build)], capture_output=True, text=True, check=False, env=environment
        )

    def calls(self) -> list[str]:
        log = self.folder / "apt.log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_tree_is_unpacked(machine: Machine):
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert (machine.build / "mbedtls" / "include" / "version.h").read_text() == "a header\n"


def test_both_source_formats_become_deb_src(machine: Machine):
    machine.run()
    sources = machine.build / "apt" / "sources"
    derived = (sources / "derived.list").read_text().splitlines()
    assert derived == [
        "deb-src [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian stable main contrib",
        "deb-src http://mirror.example/debian stable main",
    ]
    assert (sources / "main.sources").read_text() == DEB822.replace("Types: deb", "Types: deb-src")


def test_apt_is_told_to_stay_inside_the_build_folder(machine: Machine):
    machine.run()
    for call in machine.calls():
        assert "Dir::Etc::SourceList=/dev/null" in call
        for setting in ("Dir::Etc::SourceParts", "Dir::State::Lists", "Dir::Cache"):
            assert f"{setting}={machine.build}/" in call
    assert machine.calls()[-1].endswith("source --download-only --tar-only mbedtls=2.28.3-1")


def test_system_files_are_left_alone(machine: Machine):
    machine.run()
    assert (machine.etc / "sources.list").read_text() == ONE_LINE
    assert (machine.etc / "parts" / "main.sources").read_text() == DEB822


def test_second_run_does_nothing(machine: Machine):
    machine.run()
    n_calls = len(machine.calls())
    marker = machine.build / "mbedtls" / "marker"
    marker.touch()
    assert machine.run().returncode == 0
    assert len(machine.calls()) == n_calls
    assert marker.exists()


def test_a_file_that_was_removed_or_edited_is_brought_back(machine: Machine):
    machine.run()
    header = machine.build / "mbedtls" / "include" / "version.h"
    for harm in (header.unlink, lambda: header.write_text("edited\n")):
        harm()
        assert machine.run().returncode == 0
        assert header.read_text() == "a header\n"


def test_archive_that_is_there_is_used_without_network(machine: Machine):
    (machine.build / "downloads").mkdir(parents=True)
    shutil.copy(machine.archive, machine.build / "downloads" / "brought-by-hand.tar.gz")
    assert machine.run().returncode == 0
    assert machine.calls() == []
    assert (machine.build / "mbedtls" / "include" / "version.h").exists()


def test_wrong_archive_is_refused(machine: Machine, tmp_path: Path):
    wrong = tmp_path / "wrong"
    wrong.write_bytes(b"tampered")
    machine.offer(machine.sha256, wrong)
    done = machine.run()
    assert done.returncode == 3
    assert machine.sha256 in done.stderr
    assert "remedy: delete what lies there" in done.stderr
    assert not (machine.build / "mbedtls").exists()


def test_other_version_on_offer_is_refused_with_the_remedy(machine: Machine):
    machine.offer("0" * 64)
    done = machine.run()
    assert done.returncode == 3
    assert f"whose archive has SHA-256 {machine.sha256}" in done.stderr
    assert f"into {machine.build}/downloads" in done.stderr


def test_script_names_no_host():
    assert "://" not in SCRIPT.read_text()


def test_repository_tracks_no_third_party_source():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git work tree")
    tracked = listed.stdout.splitlines()
    assert "firmware/fetch_mbedtls.sh" in tracked
    assert not [name for name in tracked if name.startswith("build/")]
    marks = ("Copyright The Mbed TLS Contributors", "SPDX-License-Identifier: Apache-2.0")
    for name in tracked:
        if name.startswith("firmware/"):
            text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
            assert not any(mark in text for mark in marks), name
