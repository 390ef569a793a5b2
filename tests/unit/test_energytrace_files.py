"""EnergyTrace files: logs of the open recorders, exports of the vendor's tool, and what is refused."""

import numpy as np
import pytest

from labctl.errors import FileFault
from labctl.formats import describe, detect, read_file

# 3 V and 2 mA for 1 ms are 6 uJ: 60 counts of 0.1 uJ, 6000 of 1 nJ.
N = 12
ENERGY_J = 6e-6 * np.arange(N)
CCS = '"Time (ns)","Current (nA)","Voltage (mV)","Energy (uJ)"\n'


def counted(per_ms=60, state="", n=N, first=0):
    return "".join(f"{state}{1000 * k} 2000000 3000 {(first + per_ms * k) % 2**32}\n" for k in range(n))


def exported(separator=",", point=".", n=N):
    rows = [(f"{1_000_000 * k}", "2000000", "3000", f"{6 * k}{point}0") for k in range(n)]
    return "".join(separator.join(row) + "\n" for row in rows)


@pytest.fixture
def saved(tmp_path):
    def save(text):
        path = tmp_path / "et.log"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return save


def check(foreign):
    assert foreign.format == "energytrace"
    record = foreign.record
    assert record.dt_s == pytest.approx(1e-3, rel=1e-9)
    assert [(c.name, c.unit) for c in record.channels.values()] == [("I1", "A"), ("V1", "V"), ("E1", "J")]
    assert record.channels["E1"].codes[0] == pytest.approx(ENERGY_J, rel=1e-9)
    assert record.channels["I1"].codes[0] == pytest.approx(np.full(N, 2e-3))
    assert record.channels["V1"].codes[0] == pytest.approx(np.full(N, 3.0))
    assert record.granted["averages"] is True


@pytest.mark.parametrize(
    ("text", "unit_j"),
    [
        (counted(60), 1e-7),
        (counted(6000), 1e-9),
        ("# energytrace-util\n\n" + counted(60), 1e-7),
        (counted(60, state="0000000000000001 "), 1e-7),
        (counted(60, first=2**32 - 100), 1e-7),
        (counted(60).replace("\n", "\r\n"), 1e-7),
        ("\ufeff" + counted(60), 1e-7),
    ],
    ids=["0.1uJ", "1nJ", "remarks", "five", "wrapped", "crlf", "bom"],
)
def test_logs_of_whole_numbers(saved, text, unit_j):
    foreign = read_file(saved(text))
    check(foreign)
    assert foreign.record.granted["unit_j"] == unit_j
    assert any(f"taken as {unit_j:g} J" in warning for warning in foreign.warnings)


def test_a_log_in_si_units(saved):
    # What `%e` prints of microseconds, nanoampere, millivolt and counts of 0.1 uJ over their powers of ten.
    text = "".join(f"{k / 1e3:e} {2e-3:e} {3.0:e} {60 * k / 1e7:e}\n" for k in range(N))
    foreign = read_file(saved(text))
    check(foreign)
    assert foreign.warnings == ()


def test_a_log_in_si_units_whose_counts_were_worth_less(saved):
    # The recorder divides by 1e7 what counted nanojoule: 6000 counts in a millisecond show as 0.6 mJ.
    text = "".join(f"{k / 1e3:e} {2e-3:e} {3.0:e} {6000 * k / 1e7:e}\n" for k in range(N))
    with pytest.raises(FileFault, match=r"et.log: one count of energy would be 0.01 J .* none of those known"):
        read_file(saved(text))


@pytest.mark.parametrize(
    "text",
    [
        CCS + exported(),
        CCS.replace('"', "") + exported(),
        CCS.replace('"', "").replace(",", ";") + exported(";"),
        CCS.replace('"', "").replace(",", ";") + exported(";", ","),
        CCS.replace(",", "\t") + exported("\t", ","),
        CCS + exported().replace("\n", ",\n"),
        CCS + exported().replace(",2000000", ',"2000000"') + "\n",
    ],
    ids=["quoted", "plain", "semicolon", "decimal-comma", "tab", "trailing", "quoted-values"],
)
def test_exports_with_their_units_in_the_header(saved, text):
    path = saved(text)
    assert detect(path) == "energytrace"
    foreign = read_file(path)
    check(foreign)
    assert foreign.warnings == ()


def test_columns_in_another_order_and_other_units(saved):
    text = "Energy (mJ),Time (us),State,Voltage (V),Current (mA)\n" + "".join(
        f"{0.006 * k:.3f},{1000 * k},LPM0,3.0,2.0\n" for k in range(N)
    )
    check(read_file(saved(text)))


def test_it_is_described_with_its_numbers(saved):
    found = describe(read_file(saved(CCS + exported())))
    assert [c["name"] for c in found["channels"]] == ["I1", "V1", "E1"]
    assert found["channels"][2]["max"] == pytest.approx(66e-6)


def test_missing_samples_are_a_gap_and_cost_no_energy(saved):
    lines = counted().splitlines(keepends=True)
    foreign = read_file(saved("".join(lines[:5] + lines[7:])))
    codes = foreign.record.channels["E1"].codes[0]
    assert foreign.record.gaps == ((0, 5, 2),)
    assert np.flatnonzero(np.isnan(codes)).tolist() == [5, 6]
    assert codes[-1] == pytest.approx(66e-6)
    assert any("2 of 12 samples are missing" in warning for warning in foreign.warnings)


def test_a_time_that_comes_twice_is_told(saved):
    lines = counted().splitlines(keepends=True)
    foreign = read_file(saved("".join([*lines[:4], lines[3], *lines[4:]])))
    check(foreign)
    assert any("1 line(s) whose time" in warning for warning in foreign.warnings)


def test_a_last_line_that_is_cut_is_left_out(saved):
    foreign = read_file(saved(counted() + "12000 2000000 3000 7"))
    check(foreign)
    assert foreign.warnings[0].startswith("its last line is not ended")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (counted(180), "none of those known"),
        (counted(0), "stands still"),
        (counted(n=1) + counted(n=1), "times of the log"),
        (counted() + "12000 2000000 3000,5 720\n", "line 13: a comma in a number"),
        (counted() + "12000 2000000 3000\n", "line 13: a line of EnergyTrace has four columns"),
        (counted() + "1.2e-2 2e-3 3.0 7.2e-5\n", "line 13: whole numbers and others are mixed"),
        (CCS + exported().replace(".0", ",0"), "line 2 has 5 fields, the header names 4; if the decimals"),
        (CCS + exported() + '12000000,"2,000,000",3000,72\n', r"line 14: '2,000,000' is no number that can be read"),
        (CCS + exported() + '12000000,2000000,3000,"72,5"\n', r"line 14: '72,5' is no number that can be read"),
        (CCS.replace(",", ";") + exported(";") + "12000000;2000000;3000;72,5\n", "line 14: '72,5' is no number"),
        (CCS + exported() + "12000000,2000000,3000,nan\n", "line 14: 'nan' is no number"),
        (CCS, "0 lines"),
    ],
    ids=range(12),
)
def test_what_is_not_certain_is_refused_with_its_line(saved, text, words):
    with pytest.raises(FileFault, match=words):
        read_file(saved(text))


@pytest.mark.parametrize("text", ["1 2 3\n4 5 6\n", "a b c d\ne f g h\n", "Time (ns),Current (nA)\n1,2\n", "# only\n"])
def test_other_text_is_not_taken_for_it(saved, text):
    with pytest.raises(FileFault) as refused:
        read_file(saved(text))
    assert "EnergyTrace has" not in str(refused.value)
