"""Results as JSON rows and as a table: keys from the contract of `--json`, numbers from JCGM 100 rounding."""

import json
import math

import numpy as np
import pytest
from rich.console import Console

from labctl.errors import Unsupported
from labctl.model import Contribution, MissingRow, Operation, Result
from labctl.operations import NAMES
from labctl.report.labels import missing_sentences, missing_to_json
from labctl.report.table import SPREAD_KEYS, render, shares, to_json_rows

# The contract, typed from the issue.
CONTRACT = [
    "board",
    "operation",
    "bytes",
    "implementation",
    "n_runs",
    "n_iterations",
    "n_refused",
    "n_clipped",
    "duration_mean_s",
    "duration_std_s",
    "duration_se_s",
    "duration_max_s",
    "duration_expanded_s",
    "current_mean_a",
    "current_max_a",
    "power_mean_w",
    "power_supply_mean_w",
    "power_std_w",
    "power_ripple_w",
    "power_min_w",
    "power_max_w",
    "power_expanded_w",
    "energy_mean_j",
    "energy_net_idle_j",
    "energy_std_j",
    "energy_se_j",
    "energy_expanded_j",
    "coverage_factor",
    "charge_mean_c",
    "cycles_mean",
    "captures",
]
# Typed from the issue about boards and operations.
SETTINGS = ["profile", "clock_hz", "variant", "throughput_mib_s", "cycles_per_byte"]
TRUTH = {"duration_s": 191.2e-6, "power_w": 48.1e-3, "energy_j": 9.25e-6}


def result(**changes) -> Result:
    fields = {
        **{"board": "stm32vldiscovery", "operation": "sha256", "bytes": 64, "implementation": "mbedtls"},
        **{"n_runs": 20, "n_iterations": 1, "n_refused": 0, "n_clipped": 0, "coverage_factor": 1.97},
        **{"duration_mean_s": 191.2345e-6, "duration_std_s": 1e-9, "duration_se_s": 2e-10, "duration_max_s": 191.3e-6},
        **{"duration_expanded_s": 2.31e-9, "current_mean_a": 14.92e-3, "current_max_a": 18e-3},
        **{"power_mean_w": 48.2e-3, "power_supply_mean_w": 48.9e-3, "power_std_w": 5e-6, "power_ripple_w": 1.928e-3},
        **{"power_min_w": 44e-3, "power_max_w": 53e-3, "power_expanded_w": 1.45e-3, "energy_mean_j": 9.214e-6},
        **{"energy_net_idle_j": None, "energy_std_j": 9.214e-9, "energy_se_j": 2e-9, "energy_expanded_j": 0.276e-6},
        **{"charge_mean_c": 2.85e-6, "cycles_mean": 4589.6},
    }
    return Result(**(fields | changes))


def text(*arguments, width=80) -> str:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(render(*arguments))
    return captured.get()


def test_rows_have_exactly_the_keys_of_the_contract():
    (row,) = to_json_rows([result()], [["captures/a.h5"]])
    assert list(row) == [*CONTRACT[:-1], *SETTINGS, *SPREAD_KEYS, CONTRACT[-1], "warnings"]
    assert row["energy_mean_j"] == 9.214e-6
    assert row["captures"] == ["captures/a.h5"]


def test_truth_stands_beside_the_results_where_it_is_known():
    rows = to_json_rows([result(), result()], [["a"], ["b"]], [TRUTH, None])
    assert {key: rows[0][f"truth_{key}"] for key in TRUTH} == TRUTH
    assert list(rows[1]) == [*CONTRACT[:-1], *SETTINGS, *SPREAD_KEYS, CONTRACT[-1], "warnings"]


def test_what_is_no_number_becomes_null_in_strict_json():
    rows = to_json_rows(
        [result(energy_std_j=math.nan, coverage_factor=math.inf, n_runs=np.int64(3), power_mean_w=np.float64(0.5))],
        [[]],
        [{"duration_s": math.nan}],
    )
    (row,) = json.loads(json.dumps(rows, allow_nan=False))
    assert row["energy_std_j"] is None
    assert row["coverage_factor"] is None
    assert row["energy_net_idle_j"] is None
    assert row["truth_duration_s"] is None
    assert row["truth_energy_j"] is None
    assert (row["n_runs"], row["power_mean_w"], row["captures"]) == (3, 0.5, [])


def test_captures_must_match_the_results():
    with pytest.raises(ValueError, match="shorter"):
        to_json_rows([result(), result()], [["a"]])


def test_the_first_line_names_the_bench_and_says_emulated():
    assert text([result()], "desk-3", False).splitlines()[0].startswith("Bench desk-3; board stm32vldiscovery")
    first = text([result()], "ours", True).splitlines()[0]
    assert first.startswith("Bench ours")
    assert "emulated" in first
    assert "emulated" in text([result()], "emulated", True).splitlines()[0]
    assert "emulated" not in text([result()], "desk-3", False)


def test_values_are_rounded_by_their_uncertainty_and_power_is_named():
    printed = text([result()], "desk-3", False, "dut", [TRUTH])
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert "sha256 191.2345 \u00b5s 14.9 mA 48.2 mW 9.21 \u00b5J 0.10 %" in lines
    assert "64 B, 20 runs ± 0.0023 \u00b5s ± 1.4 mW ± 0.28 \u00b5J 4.0 %" in lines
    assert "true value 191.2000 \u00b5s 48.10 mW 9.250 \u00b5J" in lines
    assert "95 %; k = 1.97 for the energy" in printed
    assert "the DUT's" in printed
    assert "the supply's" in text([result()], "desk-3", False, "supply")


def test_no_value_is_cut_at_eighty_columns():
    rows = [
        result(operation="ecdsa-p256.verify", bytes=None, n_iterations=1000, duration_mean_s=2.4345678),
        result(operation="ecdsa-p256.keygen", energy_mean_j=121.83e-3, energy_expanded_j=3.7e-3),
        result(board="another-board-of-ours", duration_expanded_s=math.nan, current_mean_a=math.nan),
    ]
    printed = text(rows, "emulated", True, "dut", [TRUTH, TRUTH, None])
    assert max(len(line) for line in printed.splitlines()) <= 80
    assert "…" not in printed
    for value in ("ecdsa-p256.verify", "1000 in each run", "121.8 mJ", "± 3.7 mJ", "another-board-of-ours", "n/a"):
        assert value in printed


def test_shares_are_of_the_variance():
    parts = [
        Contribution(name, "B", "rectangular", 1.0, "1", effect)
        for name, effect in zip("abcdef", (8, 4, 4, 2, 0, 0), strict=True)
    ]
    assert shares(parts) == "a 64 %, b 16 %, c 16 %, d 4 %"
    parts = [Contribution(name, "B", "rectangular", 1.0, "1", 1.0) for name in "abcde"]
    assert shares(parts) == "a 20 %, b 20 %, c 20 %, d 20 %, others 20 %"
    assert shares([]) == "n/a"
    printed = text([result(budget={"energy": tuple(parts)})], "desk-3", False)
    assert "a 20 %, b 20 %, c 20 %, d 20 %, others 20 %" in printed


def test_warnings_are_sentences_that_name_their_operations():
    rows = [result(warnings=("window is short",)), result(operation="busy", warnings=("window is short",), n_refused=2)]
    lines = text(rows, "desk-3", False).splitlines()
    assert "sha256, busy: window is short" in lines
    assert "busy: 2 of its windows were refused" in lines


def test_what_sizes_supply_battery_and_deadline_stands_in_a_table_of_its_own():
    rows = [result(energy_net_idle_j=6.634e-6), result(operation="ecdsa-p256.keygen", duration_max_s=2.4345678)]
    printed = text(rows, "desk-3", False)
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert "operation net of idle current charge duration" in lines
    assert "sha256 6.63 \u00b5J 18.0 mA 2.85 \u00b5C 191.3000 \u00b5s" in lines
    assert "ecdsa-p256.keygen n/a 18.0 mA 2.85 \u00b5C 2.4345678000 s" in lines
    assert max(len(line) for line in printed.splitlines()) <= 80


def spread(shape, low, median, high, outliers=()):
    quartiles = {"energy_quartile_low_j": low, "energy_median_j": median, "energy_quartile_high_j": high}
    return {**quartiles, "energy_shape": shape, "energy_outliers": outliers}


def test_median_and_quartiles_stand_beside_a_mean_that_is_no_typical_run():
    rows = [
        result(operation="ecdsa-p256.keygen", energy_mean_j=1.51e-6, **spread("skewed", 0.545e-6, 1.002e-6, 1.84e-6)),
        result(operation="aes-128-ctr", **spread("bimodal", 8.2e-6, 8.31e-6, 10.1e-6)),
        result(operation="sha256", **spread("outliers", 9.2101e-6, 9.2112e-6, 9.2123e-6, (7,))),
        result(operation="sha512", **spread("outliers", 9.2e-6, 9.21e-6, 9.22e-6, (0, 1, 2, 19))),
        result(operation="busy", **spread("", 9.2e-6, 9.21e-6, 9.22e-6)),
    ]
    printed = text(rows, "desk-3", False)
    assert max(len(line) for line in printed.splitlines()) <= 80
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert "ecdsa-p256.keygen 1.51 \u00b5J 1.00 \u00b5J 545 nJ 1.84 \u00b5J skewed" in lines
    assert "aes-128-ctr 9.21 \u00b5J 8.31 \u00b5J 8.20 \u00b5J 10.1 \u00b5J bimodal" in lines
    # The mean lies 2.8 nJ above the median: 9.2140 and 9.2112, in steps of a tenth of a nJ.
    assert "sha256 9.21400 \u00b5J 9.21120 \u00b5J 9.21010 \u00b5J 9.21230 \u00b5J 1 outlier" in lines
    assert "sha512 9.2140 \u00b5J 9.2100 \u00b5J 9.2000 \u00b5J 9.2200 \u00b5J 4 outliers" in lines
    assert len([line for line in lines if line.startswith("busy")]) == 2
    assert "median" not in text([rows[-1]], "desk-3", False)


def test_outliers_are_a_list_in_json():
    (row,) = json.loads(json.dumps(to_json_rows([result(energy_outliers=(3, 17))]), allow_nan=False))
    assert row["energy_outliers"] == [3, 17]
    (row,) = to_json_rows([result()])
    assert (row["energy_outliers"], row["energy_shape"]) == ([], "")


def test_spreads_are_of_a_size_and_of_nothing_not_given():
    negative = result(energy_mean_j=-9.214e-6, power_mean_w=-48.2e-3)
    lines = [" ".join(line.split()) for line in text([negative], "desk-3", False).splitlines()]
    assert any(line.startswith("sha256") and line.endswith(" 0.10 %") for line in lines)
    drowned = text([result(energy_mean_j=0.2e-6, power_mean_w=-1e-3)], "desk-3", False)
    rows = [line.split() for line in drowned.splitlines()]
    assert [row[-1] for row in rows if row and row[0] in ("sha256", "64")][:2] == ["n/a", "n/a"]


LONG = (
    "the scope's own noise is 218 \u00b5A rms and reaches 1.04 mA among 1538313 samples; ripple of 300 \u00b5W and "
    "12.5 % \u00b1 3 % of 59.3 \u00b5J at 24 MHz"
)


@pytest.mark.parametrize("n_letters", range(1, 60))
def test_a_number_stays_with_its_unit_on_whatever_line_it_falls(n_letters):
    sentence = f"{'x' * n_letters} {LONG}"
    printed = text([result(warnings=(sentence,))], "desk-3", False)
    lines = printed[printed.index("sha256: x"):].splitlines()
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)
    assert " ".join(lines) == f"sha256: {sentence}"
    whole = ("218 \u00b5A", "1.04 mA", "1538313 samples", "300 \u00b5W", "12.5 %", "\u00b1 3 %", "59.3 \u00b5J")
    for quantity in (*whole, "24 MHz"):
        assert any(quantity in line for line in lines), quantity


def test_sentences_keep_to_eighty_columns_on_a_wide_terminal_and_to_a_narrow_one():
    for width in (200, 60):
        printed = text([result(warnings=(LONG,))], "desk-3", False, width=width)
        lines = printed[printed.index("sha256: the scope"):].splitlines()
        assert max(len(line) for line in lines) <= min(width, 80)
        assert " ".join(lines) == f"sha256: {LONG}"


def test_sentences_go_into_json_as_they_come():
    (row,) = to_json_rows([result(warnings=(LONG,))], [[]])
    assert row["warnings"] == [LONG]


@pytest.mark.parametrize("n_letters", range(1, 30))
def test_shares_stay_with_their_percent(n_letters):
    names = [f"{'x' * n_letters}", "channel gain", "supply of the board", "decoupling", "z"]
    parts = tuple(Contribution(name, "B", "rectangular", 1.0, "1", 1.0) for name in names)
    printed = text([result(operation="ecdsa-p256.verify", budget={"energy": parts})], "desk-3", False)
    lines = printed[printed.index("shares of"):].splitlines()
    assert sum(line.count("20 %") for line in lines) == 5
    assert max(len(line) for line in lines) <= 80


def test_no_results_give_a_heading_and_nothing_else():
    assert len(text([], "desk-3", False).splitlines()) == 3


SET = {"profile": "Os", "clock_hz": 24_000_000, "throughput_mib_s": 0.3191, "cycles_per_byte": 71.7125}


def lines_of(rows) -> list[str]:
    printed = text(rows, "desk-3", False)
    assert max(len(line) for line in printed.splitlines()) <= 80
    return [" ".join(line.split()) for line in printed.splitlines()]


def test_what_a_byte_costs_stands_in_a_table_where_there_are_messages():
    rows = [
        result(**SET),
        result(operation="drbg", bytes=16, **{**SET, "throughput_mib_s": 0.005, "cycles_per_byte": None}),
        result(operation="busy", bytes=None, **{**SET, "throughput_mib_s": None, "cycles_per_byte": None}),
    ]
    lines = lines_of(rows)
    # 9.214 uJ over 64 and 16 bytes; 1024 times 0.3191 and 0.005, in the unit of the least.
    assert "sha256 327 KiB/s 71.7 144 nJ" in lines
    assert "drbg 5.12 KiB/s n/a 576 nJ" in lines
    assert len([line for line in lines if line.startswith("busy")]) == 2
    assert not any("throughput" in line for line in lines_of(rows[2:]))


def test_what_all_rows_share_is_said_once_and_on_no_row():
    lines = lines_of([result(**SET), result(operation="busy", bytes=None, **SET)])
    assert "All rows: 24 MHz, profile Os." in lines
    assert len([line for line in lines if "Os" in line or "24 MHz" in line]) == 1
    assert "64 B, 20 runs ± 0.0023 \u00b5s ± 1.4 mW ± 0.28 \u00b5J 4.0 %" in lines
    assert "All rows: 24 MHz, profile Os, key=inside." in lines_of([result(**SET, variant="key=inside")])


def test_what_differs_stands_on_each_row():
    rows = [
        result(**SET),
        result(**SET, variant="key=inside,piece=16"),
        result(**{**SET, "profile": "O2"}, bytes=1024),
        result(**{**SET, "clock_hz": 8_000_000}),
    ]
    lines = lines_of(rows)
    throughput = [line.split(" 0.319")[0] for line in lines if "MiB/s" in line]
    assert throughput == [
        "sha256, 64 B, Os, 24 MHz, plain",
        "sha256, 64 B, Os, 24 MHz, key=inside, piece=16",
        "sha256, 1024 B, O2, 24 MHz, plain",
        "sha256, 64 B, Os, 8 MHz, plain",
    ]
    # Too long for the tables with more columns: on lines of their own.
    assert "64 B, Os, 24 MHz" in lines
    assert "key=inside, piece=16" in lines
    assert not any(line.startswith("All rows") for line in lines)


def test_a_size_names_a_row_only_beside_the_same_operation_of_another():
    rows = [result(**SET), result(operation="sm3", bytes=32, implementation="portable", **SET)]
    assert "sha256 n/a 18.0 mA 2.85 \u00b5C 191.3000 \u00b5s" in lines_of(rows)
    rows.append(result(bytes=32, **SET))
    assert "sha256, 32 B n/a 18.0 mA 2.85 \u00b5C 191.3000 \u00b5s" in lines_of(rows)


def test_boards_carry_their_clocks_in_the_heading():
    rows = [result(**SET), result(board="stm32f4discovery", **{**SET, "clock_hz": 168_000_000})]
    printed = " ".join(lines_of(rows))
    assert "board stm32vldiscovery (24 MHz), stm32f4discovery (168 MHz)" in printed
    assert "sha256, stm32f4discovery n/a 18.0 mA" in printed
    assert "All rows: profile Os." in printed


def test_many_rows_are_counted_in_sentences_and_shares():
    part = Contribution("gain", "B", "rectangular", 1.0, "1", 1.0)
    rows = [
        result(bytes=16 * n, warnings=("too short",) + (("odd",) if n != 3 else ()), budget={"energy": (part,)}, **SET)
        for n in range(1, 7)
    ]
    lines = lines_of(rows)
    assert "all 6 rows: too short" in lines
    assert "sha256 (16 B), sha256 (32 B), sha256 (64 B) and 2 others: odd" in lines
    assert "all 6 rows gain 100 %" in lines


def lacking(*names, error="the DUT refuses: no", **settings) -> list[MissingRow]:
    return [MissingRow("stm32vldiscovery", Operation(name, **settings), Unsupported(error)) for name in names]


def test_rows_that_there_are_not_are_named_by_reason():
    rows = [*lacking("sm3", "sm4-ctr", variant="piece=16"), *lacking("sm3", error="other", variant="key=inside")]
    assert missing_sentences(rows) == [
        "no result for sm3 (piece=16), sm4-ctr (piece=16): the DUT refuses: no",
        "no result for sm3 (key=inside): other",
    ]
    assert missing_to_json(lacking("sm3", bytes=16, clock_hz=8_000_000)) == [{
        "board": "stm32vldiscovery", "operation": "sm3", "bytes": 16, "implementation": "mbedtls", "profile": "Os",
        "clock_hz": 8_000_000, "variant": "", "reason": "the DUT refuses: no",
    }]


def test_a_row_that_there_is_not_is_not_named_like_one_that_is_there():
    (row,) = lacking("sha256", bytes=16384, profile="Os", clock_hz=24_000_000)
    assert missing_sentences([row], [result(**SET)]) == ["no result for sha256 (16384 B): the DUT refuses: no"]
    assert missing_sentences([row], [result(**SET, variant="key=inside"), result(**SET)]) == [
        "no result for sha256 (16384 B, plain): the DUT refuses: no"]


@pytest.mark.parametrize(
    ("mib_s", "shown"),
    [
        ([0.12, 0.3191], ["0.120 MiB/s", "0.319 MiB/s"]),
        ([0.09, 0.25, 2.0], ["92.2 KiB/s", "256 KiB/s", "2048 KiB/s"]),
        ([99.96, 0.5, 10.0], ["100 MiB/s", "0.500 MiB/s", "10.0 MiB/s"]),
    ],
)
def test_throughputs_have_one_unit_and_keep_their_digits(mib_s, shown):
    lines = lines_of([result(bytes=16 * n, **{**SET, "throughput_mib_s": one}) for n, one in enumerate(mib_s, 1)])
    assert [" ".join(line.split()[3:5]) for line in lines if "iB/s" in line] == shown


def test_an_operation_of_two_passes_is_marked():
    rows = [result(operation=name, **SET) for name in ("aes-128-ctr", "aes-128-ctr.encrypt", "sm4-cbc", "sha256")]
    lines = lines_of(rows)
    marked = [line.split()[0] for line in lines if "MiB/s" in line]
    assert marked == ["aes-128-ctr*", "aes-128-ctr.encrypt", "sm4-cbc*", "sha256"]
    note = "* Two passes: the message is encrypted, then decrypted, and a byte of it counts once for both."
    assert note in " ".join(lines)
    assert "One pass alone: aes-128-ctr.encrypt, .decrypt." in " ".join(lines)
    assert "Two passes" not in " ".join(lines_of(rows[1:2]))
    # All that have a direction by name have two passes without one, and nothing else has.
    for name in NAMES:
        is_marked = any(f"{name}*" in line for line in lines_of([result(operation=name, **SET)]))
        assert is_marked is (f"{name}.encrypt" in NAMES), name


def test_one_operation_on_several_boards_stands_together():
    f1, f4 = {"board": "stm32vldiscovery"}, {"board": "stm32f4discovery"}
    rows = [result(**f1, **SET), result(**f1, bytes=256, **SET), result(operation="sm3", **f1, **SET),
            result(**f4, **SET), result(operation="sm3", **f4, **SET), result(**f4, bytes=256, **SET)]
    for row, throughput in zip(rows, (0.3, 0.4, 0.5, 0.6, 0.7, 0.8), strict=True):
        object.__setattr__(row, "throughput_mib_s", throughput)
    lines = lines_of(rows)
    assert [line.split(" MiB/s")[0].split()[-1] for line in lines if "MiB/s" in line] == [
        "0.300", "0.600", "0.400", "0.800", "0.500", "0.700"]
    # True values go with their rows, and JSON keeps the order in which captures were taken.
    truths = [{"duration_s": n} for n in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)]
    printed = text(rows, "desk-3", False, "dut", truths)
    assert [line.split()[2] for line in printed.splitlines() if "true value" in line] == [
        f"{n}.000000" for n in (1, 4, 2, 6, 3, 5)]
    assert [row["throughput_mib_s"] for row in to_json_rows(rows)] == [0.3, 0.4, 0.5, 0.6, 0.7, 0.8]


def test_warnings_that_differ_in_quantities_are_one():
    values = (("0.91 mA", 3), ("220 \u00b5A", 3), ("1.3 A", 3), ("1 A", 4))
    rows = [result(operation=f"op-{n}", warnings=(f"noise of {value}, in {n_runs} of 20 runs",))
            for n, (value, n_runs) in enumerate(values)]
    lines = lines_of(rows)
    assert "op-0, op-1, op-2: noise of 220 \u00b5A to 1.3 A, in 3 of 20 runs" in lines
    assert "op-3: noise of 1 A, in 4 of 20 runs" in lines
    assert "op-0, op-1: noise of 1.5 to 20 mA" in lines_of(
        [result(operation=f"op-{n}", warnings=(f"noise of {value} mA",)) for n, value in enumerate((20, 1.5))])


def test_what_is_of_three_rows_that_are_all_names_none():
    rows = [result(operation=f"op-{n}", warnings=("too short",)) for n in range(3)]
    assert "all 3 rows: too short" in lines_of(rows)


@pytest.mark.parametrize("n_letters", range(1, 40))
def test_a_share_stays_with_its_name(n_letters):
    names = [f"{'x' * n_letters}", "channel gain", "supply", "decoupling", "z"]
    parts = tuple(Contribution(name, "B", "rectangular", 1.0, "1", 1.0) for name in names)
    printed = text([result(operation="ecdsa-p256.verify", budget={"energy": parts})], "desk-3", False)
    for share in (f"{'x' * n_letters} 20 %", "channel gain 20 %", "supply 20 %", "decoupling 20 %"):
        assert share in printed


@pytest.mark.parametrize("duration_s", [191.3e-6, 2.4345678])
@pytest.mark.parametrize("name", ["sha256", "aes-128-ctr", "aes-128-ctr.encrypt", "ecdsa-p256.verify"])
def test_no_clock_is_parted_from_its_unit_beside_wide_values(name, duration_s):
    settings = {"operation": name, "duration_max_s": duration_s, **spread("skewed", 9.2e-6, 9.2101e-6, 9.22e-6)}
    rows = [result(**settings, **SET), result(**settings, **{**SET, "clock_hz": 8_000_000}, bytes=1024)]
    printed = text(rows, "desk-3", False)
    assert max(len(line) for line in printed.splitlines()) <= 80
    assert printed.count("MHz") == printed.count("24 MHz") + printed.count("8 MHz") >= 8
