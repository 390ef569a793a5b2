"""What docs/published.md says of optimisation is what its commands give, for one board, within the band it states."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from labctl.firmware import COMPILER

DOCS = Path(__file__).resolve().parents[2] / "docs" / "published.md"
BOARD = "stm32f0discovery"
BAND_RATIO = 0.03
COLUMNS = {
    "Os": ("Os", ""),
    "O0": ("O0", ""),
    "ecp=plain, Os": ("Os", "ecp=plain"),
    "ecp=plain, O0": ("O0", "ecp=plain"),
    "Os, 64 B": ("Os", ""),
    "O0, 64 B": ("O0", ""),
}
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


def stated() -> dict[tuple[str, str, str], tuple[float, float]]:
    """Read the tables of the section: time in s and ratio by operation, profile and variant."""
    found, header = {}, []
    for line in DOCS.read_text("utf-8").partition("## Was it optimised?")[2].partition("\n## ")[0].splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if cells[0] == "board":
            header = cells
        elif cells[0] == BOARD:
            for name, cell in zip(header, cells, strict=True):
                if name in COLUMNS:
                    value, unit, ratio = re.fullmatch(r"([\d.]+) (\w+), ([\d.]+)", cell).groups()
                    found[cells[1], *COLUMNS[name]] = (float(value) * UNITS[unit], float(ratio))
    return found


def test_the_tables_have_what_is_measured_again():
    told = stated()
    assert {key[0] for key in told} == {"ecdsa-p256", "sha256", "aes-128-ctr"} and len(told) == 8
    published_s = {"ecdsa-p256": 7.1, "sha256": 397e-6, "aes-128-ctr": 486e-6}
    for (operation, *_), (duration_s, ratio) in told.items():
        # Both have three digits, or two behind the point.
        assert ratio == pytest.approx(duration_s / published_s[operation], rel=0.01, abs=0.005)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_the_tables_are_what_the_commands_give(labctl, tmp_path):
    if shutil.which(COMPILER) is None:
        pytest.skip(f"{COMPILER} is not installed: make test installs it")
    given = {}
    plain = ["--variant", "plain", "--variant", "ecp=plain"]
    for operation, more in (("ecdsa*", plain), ("sha256", ["--bytes", "64"]), ("aes-128-ctr", ["--bytes", "64"])):
        arguments = ["--measure", "--board", BOARD, "--op", operation, "--profile", "Os", "--profile", "O0", *more]
        done = labctl("published", *arguments, "--json", "--out", "out", cwd=tmp_path, timeout_s=3000)
        for row in json.loads(done.stdout)["comparisons"]:
            if row["column"] == "duration_s":
                given[row["operation"], row["profile"], row["variant"]] = (row["value"], row["ratio"])
    told = stated()
    assert set(given) == set(told)
    for key, (duration_s, ratio) in given.items():
        print(f"{key}: {duration_s:.4g} s, {ratio:.3f} of the published time")
        assert duration_s == pytest.approx(told[key][0], rel=BAND_RATIO), key
        assert ratio == pytest.approx(told[key][1], rel=BAND_RATIO), key
