"""Values that a file gives as floats: the converter's step behind them, and what the budget makes of it."""

import math

import numpy as np
import pytest

from instruments.record import Accuracy, Channel, Identity, Record
from labctl.analysis.checks import warn_of_chain
from labctl.analysis.grid import code_step
from labctl.analysis.power import measure_windows
from labctl.analysis.uncertainty import shared_inputs
from labctl.model import Shunt, Supply, Window, Wiring

WIRING = Wiring(Shunt(1.3, decoupling_f=0.0), Supply(3.3), shunt_channel="CH1")


def channel(values, name="CH1", scale=1.0):
    return Channel(name, np.atleast_2d(values), scale, 0.0, accuracy=Accuracy(0.0, 0.0, 0.0, "sheet"))


def drawn(n=5000, spread=6.0):
    return np.random.default_rng(4).normal(0, spread, n).round()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("step", "pedestal"), [(0.03125, -0.4), (0.08, 1.2), (1.3e-5, 0.0132)])
def test_a_converters_step_is_found_in_its_values(dtype, step, pedestal):
    values = (pedestal + step * drawn()).astype(dtype)
    values[[5, 700]] = np.nan
    assert code_step(channel(values)) == pytest.approx(step, rel=1e-3)


def test_text_of_five_digits_still_shows_the_step():
    values = np.array([float(f"{v:.4e}") for v in 0.5 + 0.0201 * drawn()])
    assert code_step(channel(values)) == pytest.approx(0.0201, rel=1e-3)


def test_a_code_that_is_never_seen_does_not_widen_the_step():
    # Steps of 1, 2, 2 and 3 codes, in any order of their frequency.
    values = np.tile([0.0, 0.02, 0.04, 0.05, 0.08], 100)
    assert code_step(channel(values)) == pytest.approx(0.01, rel=1e-9)


@pytest.mark.parametrize("values", [
    np.random.default_rng(1).normal(0, 1, 5000),
    np.repeat(np.random.default_rng(1).normal(0, 1, 500), 10),
    np.repeat(np.random.default_rng(1).normal(0, 1, 12), 50),
    np.linspace(0, 1, 101),
    np.full(1000, 0.3),
    np.full(1000, np.nan),
    np.sin(np.arange(5000.0)),
])
def test_values_on_no_grid_tell_nothing(values):
    assert math.isnan(code_step(channel(values)))


def test_integers_are_codes():
    assert code_step(channel(np.arange(100, dtype=np.int16))) == 1.0


def measured(values, wiring=WIRING, **more):
    channels = {"CH1": channel(values), **more}
    record = Record(channels, 1e-6, np.zeros(1), Identity("a", "b", "c", "d"))
    return measure_windows(record, wiring, [Window(0, 999.5, 1999.5)])


def still(step, level):
    """Give one level in the window, with the neighbours that tell the step outside."""
    return step * np.repeat([level - 1, level, level + 2], 1000)


def test_undithered_values_of_a_file_bring_their_quantisation():
    measurement = measured(still(2e-3, 6))
    standards = {i.name: i.standard for i in shared_inputs(measurement, None, WIRING, None)}
    assert standards["quantisation CH1"] == pytest.approx(2e-3 / math.sqrt(12), rel=1e-9)
    dithered = measured(2e-3 * (6 + drawn(3000, 2.0)))
    assert "quantisation CH1" not in {i.name for i in shared_inputs(dithered, None, WIRING, None)}
    smooth = measured(13e-3 + 1e-7 * np.random.default_rng(1).normal(0, 1, 3000))
    assert "quantisation CH1" not in {i.name for i in shared_inputs(smooth, None, WIRING, None)}


def warned(measurement):
    warnings = []
    warn_of_chain(warnings, measurement, None)
    return " ".join(warnings)


def test_a_mean_of_a_few_steps_is_warned_of():
    assert "the mean current spans 6.0 codes" in warned(measured(still(2e-3, 6)))
    assert "codes of the converter" not in warned(measured(still(2e-3, 60)))


def test_two_ends_read_with_eight_bits_are_warned_of():
    wiring = Wiring(Shunt(1.3, wiring="two-channel", decoupling_f=0.0), Supply(3.3), shunt_high_channel="CH1",
                    shunt_low_channel="CH2")
    eight = {"CH2": channel(still(16e-3, 205), "CH2")}
    assert "two single-ended channels of eight bits: one code is 0.016 V" in warned(
        measured(still(16e-3, 206), wiring, **eight))
    twelve = {"CH2": channel(still(1e-3, 3287), "CH2")}
    assert "two single-ended" not in warned(measured(still(1e-3, 3300), wiring, **twelve))
