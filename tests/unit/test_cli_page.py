"""What the page of a measurement says below its tables: lines of 80 columns that part no number from its unit."""

import dataclasses
from pathlib import Path

import pytest

from labctl import cli
from labctl.store import open_capture, write_capture

GOLDEN = Path(__file__).parents[2] / "captures" / "golden" / "stm32vldiscovery-sha256-64.h5"


def copied(path, method="DUT unpowered", **facts):
    with open_capture(GOLDEN) as capture:
        zero = capture.records["zero"]
        zero = dataclasses.replace(zero, granted={**zero.granted, "method": method})
        bench = {**capture.provenance["bench"], **facts}
        return write_capture(path, dataclasses.replace(
            capture, records={**capture.records, "zero": zero}, provenance={**capture.provenance, "bench": bench}))


def page(capsys, *paths):
    assert cli.run(["analyze", *map(str, paths)]) == 0
    out = capsys.readouterr().out
    first = "The true values" if "The true values" in out else "Zero: "
    return out[out.index(first):].splitlines()


def test_the_last_line_tells_where_the_captures_are_and_how_much_they_take(capsys, tmp_path):
    paths = [copied(tmp_path / name) for name in ("a.h5", "b.h5")]
    n_bytes = sum(path.stat().st_size for path in paths)
    assert 1e6 < n_bytes < 9.9e6  # else the unit or the digits below are others
    assert page(capsys, *paths)[-1] == f"Captures in {tmp_path} ({n_bytes / 1e6:.1f} MB)"


def test_zero_readings_are_counted_beyond_one(capsys, tmp_path):
    one, other = copied(tmp_path / "a.h5", "first"), copied(tmp_path / "b.h5", "second")
    assert page(capsys, one)[0].startswith("Zero: first, 20")
    lines = page(capsys, one, other)
    assert lines[0].startswith("Zero: 2 readings, one for each image. The first: first, 20")
    assert sum("Zero:" in line for line in lines) == 1


@pytest.mark.parametrize("supply_v", [5.0, 5.25, 123.456])
def test_no_line_ends_in_a_blank_or_between_a_number_and_its_unit(capsys, tmp_path, supply_v):
    method = "of 12.5 ms at 40 mA and more " * 4
    lines = page(capsys, copied(tmp_path / "a.h5", method.strip(), world_supply_v=3.3, supply_v=supply_v))[:-1]
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)
    assert f"told {supply_v:g} V." in " ".join(lines)
    for whole in (f"{supply_v:g} V.", "12.5 ms", "40 mA"):
        assert sum(line.count(whole) for line in lines) == " ".join(lines).count(whole) > 0
