"""The command where its output goes nowhere, breaks, or cannot show every sign: never a traceback."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from labctl.campaign import runner

from .campaign_synthetic import Synthetic, planned_folder

GOLDEN = Path(__file__).parents[2] / "captures" / "golden" / "stm32vldiscovery-sha256-64.h5"
LABCTL = f"{sys.executable} -c 'from labctl.cli import main; main()'"


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
        errors="replace",
    )


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"COLUMNS": "20"},
        {"TERM": "dumb", "NO_COLOR": "1"},
        {"MPLBACKEND": "nonsense"},
    ],
    ids=lambda e: ",".join(f"{k}={v}" for k, v in e.items()),
)
def test_any_locale_and_terminal(environment):
    done = shell(f"{LABCTL} analyze {GOLDEN}", **environment)
    assert done.returncode == 0, done.stderr
    assert "sha256" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("redirection", "statuses"),
    [("| head -1", {0}), (">&-", {0, 3}), (">/dev/full", {3}), ("2>&-", {0}), ("--shunt x 2>/dev/full", {2})],
)
def test_output_that_breaks(redirection, statuses):
    done = shell(f"{LABCTL} analyze {GOLDEN} {redirection}")
    assert done.returncode in statuses, done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_of_an_export_who_has_read_enough_is_no_fault(tmp_path):
    opened = planned_folder(tmp_path / "night", 3)
    runner.run(opened, Synthetic({}), "made-up-bench")
    # What does not fit into a pipe meets a reader who has left.
    for words in (f"export {opened.path} --waveform 1", f"export {opened.path}"):
        done = shell(f"{LABCTL} campaign {words} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}")
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("odd", ["/dev/zero", "/dev/null", "pipe"])
def test_what_is_no_file_is_refused_at_once(odd, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    path = odd if odd.startswith("/") else str(tmp_path / "pipe")
    done = shell(f"{LABCTL} analyze {path}")
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_terminated_command_ends_in_order(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", "from labctl.cli import main; main()", "sim", "start", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        pytest.skip("the firmware is not built")
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in err


def test_a_background_job_of_a_script_can_be_ended(tmp_path):
    """A shell without job control starts background jobs with SIGINT ignored; SIGTERM must still end them."""
    done = shell(
        f"cd {tmp_path}; {LABCTL} sim start --json >out & job=$!; "
        "for i in $(seq 100); do [ -s out ] && break; sleep 0.1; done; "
        "kill -TERM $job; for i in $(seq 100); do kill -0 $job 2>/dev/null || exit 0; sleep 0.1; done; "
        "kill -KILL $job; exit 9"
    )
    assert done.returncode == 0


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize(
    ("arguments", "status"), [(("bench", "check", "--bench", "none.toml"), 2), (("measure", "--shunt", "1.3 V"), 2)]
)
def test_a_message_is_as_wide_as_the_terminal(tmp_path, columns, arguments, status):
    """On a terminal long messages break at spaces; elsewhere each is one line, for who searches them."""
    command = [sys.executable, "-c", "from labctl.cli import main; main()", *arguments]
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    done = subprocess.run(command, cwd=tmp_path, stderr=slave, stdout=slave, check=False, timeout=60)
    os.close(slave)
    shown = os.read(master, 1 << 16).decode().replace("\r\n", "\n")
    os.close(master)
    piped = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == piped.returncode == status
    assert max(map(len, shown.splitlines())) <= columns < max(map(len, piped.stderr.splitlines()))
    assert shown.split() == piped.stderr.split()
