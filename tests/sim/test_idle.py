"""The sleep modes of a board, end to end: the intervals hold the world's truth, and the energy is that of the stop."""

import json

import pytest

from labctl import boards

NAMES = ["idle", "idle.stop", "idle.lpstop"]


@pytest.mark.parametrize("name", ["stm32vldiscovery", "stm32f0discovery"])
def test_each_sleep_mode_is_measured_with_its_wake_up(labctl, tmp_path, name):
    options = [option for operation in NAMES for option in ("--op", operation)]
    done = labctl("measure", "--board", name, "--shunt", "1.3", *options, "--runs", "5", "--json", cwd=tmp_path)
    rows = {row["operation"]: row for row in json.loads(done.stdout)["results"]}
    assert list(rows) == NAMES
    for row in rows.values():
        assert row["n_refused"] == row["n_clipped"] == 0
        # One seed in twenty may lie outside 95 %; none lies outside twice that.
        assert abs(row["energy_mean_j"] - row["truth_energy_j"]) < 2 * row["energy_expanded_j"], row["operation"]
        assert abs(row["duration_mean_s"] - row["truth_duration_s"]) < 2 * row["duration_expanded_s"]
        assert not any("disagree" in sentence or "cut" in sentence for sentence in row["warnings"]), row["warnings"]
    assert all(rows[operation]["cycles_mean"] is None for operation in NAMES[1:])
    # A millisecond of stop, then crystal and PLL start while the core waits for them on HSI.
    board = boards.load(name)
    rcc = board["emulation"]["peripherals"]["rcc"]
    start_s = rcc.get("hse_start_s", 0.0) + rcc["pll_start_s"]
    hsi_a = board["emulation"]["currents_by_clock_a"]["run"][board["clocks_hz"].index(rcc["hsi_hz"])]
    for operation in NAMES[1:]:
        stop_a = board["emulation"]["stop_modes"][operation.removeprefix("idle.")]["current_a"]
        charge_c = 1e-3 * stop_a + start_s * hsi_a
        row = rows[operation]
        assert row["truth_duration_s"] == pytest.approx(1e-3 + start_s, abs=200e-6)
        # Beside these the alarm is set up at full clock: up to four periods of 25 us.
        most_c = charge_c + 100e-6 * board["emulation"]["currents_a"]["run"]
        supply_v = board["supply"]["node_mcu_v"]
        assert 0.9 * charge_c * supply_v < row["truth_energy_j"] < 1.2 * most_c * supply_v
