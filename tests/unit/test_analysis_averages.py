"""Windows of an instrument whose sample is the mean over the interval that ends with it."""

import numpy as np
import pytest

from instruments.record import Channel, Identity, Record
from labctl.analysis.power import measure_windows
from labctl.analysis.trigger import find_windows
from labctl.model import Supply, Wiring

DT_S = 10e-6
SUPPLY_V = 3.0
IDLE_A, BUSY_A = 2e-3, 8e-3
WIRING = Wiring(supply=Supply(SUPPLY_V), shunt_channel="I1", trigger_channel="D0", threshold=0.5, hysteresis=0.5)


def ramp(t_s, edges_s):
    """Integral of a level that is 1 inside the windows, up to each time."""
    rises, falls = edges_s[0::2], edges_s[1::2]
    return np.clip(t_s[:, None], rises, falls).sum(axis=1) - rises.sum()


def record_of(edges_s, n, digital=True):
    """What the meter gives: means of the current over each interval; the pin as logic, or as a mean voltage."""
    ends_s = np.arange(n) * DT_S
    inside = np.diff(ramp(np.concatenate([[-DT_S], ends_s]), edges_s)) / DT_S
    level = (np.searchsorted(edges_s, ends_s, side="right") % 2).astype(np.uint8) if digital else inside
    current = (IDLE_A + (BUSY_A - IDLE_A) * inside)[None]
    pin = Channel("D0", level[None], 1.0, 0.0, unit="" if digital else "V", kind="digital" if digital else "analog")
    return Record(
        {"I1": Channel("I1", current, 1.0, 0.0, unit="A"), "D0": pin}, DT_S, np.zeros(1),
        Identity("", "", "", ""), granted={"averages": True},
    )  # fmt: skip


@pytest.mark.parametrize("digital", [True, False])
@pytest.mark.parametrize("length", [25.0, 40.3, 200.7])
def test_a_flat_window_has_the_power_that_it_has_however_it_lies_between_samples(digital, length):
    phases = np.arange(40) / 40
    periods = np.ceil(length + 30)
    rises_s = (10 + periods * np.arange(40) + phases) * DT_S
    edges_s = np.stack([rises_s, rises_s + length * DT_S], axis=1).ravel()
    record = record_of(edges_s, int(40 * periods + 20), digital)
    windows, refused = find_windows(record, WIRING)
    assert len(windows) == 40
    assert not refused
    runs = measure_windows(record, WIRING, windows).runs
    # No sample with an edge in it is weighed: each run's power is exact, so that of its energy is its duration's error.
    np.testing.assert_allclose([run.power_w for run in runs], SUPPLY_V * BUSY_A, rtol=1e-9)
    durations_s = np.array([run.duration_s for run in runs])
    assert np.abs(durations_s - length * DT_S).max() <= DT_S * (1 + 1e-9)
    # Over all phases the error of two edges is none.
    assert durations_s.mean() == pytest.approx(length * DT_S, abs=0.03 * DT_S)
    energies_j = np.array([run.energy_j for run in runs])
    np.testing.assert_allclose(energies_j, SUPPLY_V * BUSY_A * durations_s, rtol=1e-9)
