"""Figures: what is drawn is computed here from closed forms; that something is drawn is read from the PNG."""

import errno
import os
import struct
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from instruments.record import Channel, Identity, Record
from labctl.errors import EnvironmentFault
from labctl.model import Capture, Result, Run, Shunt, Supply, Wiring
from labctl.report import figure
from labctl.report.figure import waveform_figure
from labctl.report.waveform import Waveform, headline_energies, waveform_of
from labctl.store import atomic

SCALE, OFFSET, SHUNT_OHM = 0.25e-3, -4e-3, 2.0
ONE = {"shunt_channel": "CH1", "supply": Supply(3.3)}


def channel(codes: np.ndarray, name: str = "CH1", unit: str = "V") -> Channel:
    return Channel(name, codes, SCALE, OFFSET, unit)


def record(*channels: Channel, dt_s: float | None = 1e-6) -> Record:
    n_segments = channels[0].codes.shape[0]
    return Record({c.name: c for c in channels}, dt_s, np.arange(n_segments) * 1.0, Identity("", "", "", ""))


def run(segment: int, energy_j: float = 1e-6, duration_s: float = 50e-6) -> Run:
    start_s = segment * 1.0 + 20e-6
    powers = (5e-3, 5e-3, 4e-3, 6e-3, 1e-4)
    return Run(
        segment,
        start_s,
        start_s + duration_s,
        duration_s,
        50.0,
        0,
        10e-3,
        9e-3,
        11e-3,
        *powers,
        energy_j,
        energy_j,
        1e-6,
    )


def result(runs: tuple[Run, ...]) -> Result:
    return Result(
        **{"board": "b", "operation": "sha256", "bytes": 64, "implementation": "mbedtls", "n_runs": len(runs)},
        **{"n_iterations": 1, "n_refused": 0, "n_clipped": 0, "duration_mean_s": 50e-6, "duration_std_s": 0.0},
        **{"duration_se_s": 0.0, "duration_max_s": 50e-6, "duration_expanded_s": 1e-9, "current_mean_a": 10e-3},
        **{"current_max_a": 11e-3, "power_mean_w": 5e-3, "power_supply_mean_w": 5e-3, "power_std_w": 0.0},
        **{"power_ripple_w": 1e-4, "power_min_w": 4e-3, "power_max_w": 6e-3, "power_expanded_w": 1e-4},
        **{"energy_mean_j": 1e-6, "energy_net_idle_j": None, "energy_std_j": 0.0, "energy_se_j": 0.0},
        **{"energy_expanded_j": 1e-8, "coverage_factor": 2.0, "charge_mean_c": 1e-6, "cycles_mean": None, "runs": runs},
    )


def capture(*channels: Channel, dt_s: float | None = 1e-6, **wiring) -> Capture:
    bench = {"bench": {"name": "emulated", "emulated": True}}
    return Capture({"series": record(*channels, dt_s=dt_s)}, Wiring(**wiring), provenance=bench)


def png_size(path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.float32])
def test_the_envelope_keeps_every_peak_and_the_mean(dtype):
    codes = (np.arange(10_000) % 100).astype(dtype).reshape(1, -1)
    waveform = Waveform((channel(codes),), (2.0,), 1.0, "A", "current")
    positions, low, mean, high = waveform.envelope(0, 0, 10_000, 50)
    # 50 stretches of 200 samples, each holding two whole ramps of 0 to 99: min 0, mean 49.5, max 99.
    assert np.array_equal(positions, np.arange(50) * 200 + 99.5)
    assert np.array_equal(low, np.full(50, 1.0))
    assert np.array_equal(mean, np.full(50, 2 * 49.5 + 1))
    assert np.array_equal(high, np.full(50, 2 * 99.0 + 1))


def test_the_envelope_of_a_few_samples_is_the_samples():
    waveform = Waveform((channel(np.array([[3, 1, 4, 1, 5]], np.uint8)),), (1.0,), 0.0, "A", "current")
    positions, low, mean, high = waveform.envelope(0, 1, 4, 100)
    assert positions.tolist() == [1.0, 2.0, 3.0]
    assert low.tolist() == mean.tolist() == high.tolist() == [1.0, 4.0, 1.0]


def test_a_long_record_is_reduced_in_blocks():
    class Lazy:
        shape = (1, 5_000_000)
        largest = 0

        def __getitem__(self, key):
            _, part = key
            Lazy.largest = max(Lazy.largest, part.stop - part.start)
            return np.full(part.stop - part.start, 7, np.int16)

    _, low, mean, high = Waveform((channel(Lazy()),), (1.0,), 0.0, "A", "current").envelope(0, 0, 5_000_000, 1600)
    assert (len(low), set(low), set(mean), set(high)) == (1600, {7.0}, {7.0}, {7.0})
    assert Lazy.largest <= 1 << 20


def test_an_inverting_channel_keeps_least_below_most():
    waveform = Waveform((channel(np.array([[3, 1, 4, 1]], np.uint8)),), (-1.0,), 0.0, "A", "current")
    _, low, mean, high = waveform.envelope(0, 0, 4, 1)
    assert (low.tolist(), mean.tolist(), high.tolist()) == ([-4.0], [-2.25], [-1.0])


def mean_current_a(wired: Capture) -> float:
    waveform = waveform_of(wired)
    assert (waveform.unit, waveform.label) == ("A", "current")
    _, _, mean, _ = waveform.envelope(0, 0, 8, 1)
    return float(mean[0])


def with_zero(wired: Capture, *channels: Channel) -> Capture:
    return replace(wired, records={**wired.records, "zero": record(*channels)})


def test_codes_become_the_current_through_the_shunt_less_the_zero():
    wired = capture(channel(np.full((1, 10), 96, np.uint8)), shunt=Shunt(SHUNT_OHM), **ONE)
    # 96 * 0.25 mV - 4 mV = 20 mV over 2 ohm.
    assert mean_current_a(wired) == pytest.approx(10e-3)
    zero = channel(np.full((1, 10), 20, np.uint8))  # reads 1 mV
    assert mean_current_a(with_zero(wired, zero)) == pytest.approx(9.5e-3)


def test_a_zero_reading_of_another_range_is_left_out():
    wired = capture(channel(np.full((1, 10), 96, np.uint8)), shunt=Shunt(SHUNT_OHM), **ONE)
    other = replace(channel(np.full((1, 10), 20, np.uint8)), scale=4 * SCALE)
    assert mean_current_a(with_zero(wired, other)) == pytest.approx(10e-3)


def test_two_channels_give_the_current_of_their_difference_less_both_zeros():
    high, low = channel(np.full((1, 8), 200, np.uint8)), channel(np.full((1, 8), 100, np.uint8), "CH2")
    wired = capture(high, low, shunt=Shunt(SHUNT_OHM), supply=Supply(3.3), shunt_high_channel="CH1",
                    shunt_low_channel="CH2")
    assert mean_current_a(wired) == pytest.approx(100 * SCALE / SHUNT_OHM)
    zeros = channel(np.full((1, 8), 30, np.uint8)), channel(np.full((1, 8), 26, np.uint8), "CH2")
    assert mean_current_a(with_zero(wired, *zeros)) == pytest.approx(96 * SCALE / SHUNT_OHM)


def test_a_channel_in_ampere_or_without_a_shunt_is_drawn_as_it_is():
    ampere = waveform_of(capture(channel(np.zeros((1, 4), np.uint8), unit="A"), **ONE))
    assert (ampere.unit, ampere.slopes, ampere.offset) == ("A", (SCALE,), OFFSET)
    volt = waveform_of(capture(channel(np.zeros((1, 4), np.uint8)), supply=Supply(3.3)))
    assert (volt.unit, volt.slopes, volt.label) == ("V", (SCALE,), "CH1")


def test_the_energies_drawn_are_those_of_the_headline():
    runs = (replace(run(0), energy_supply_j=2e-6), replace(run(1), energy_supply_j=3e-6))
    assert headline_energies(replace(result(runs), power_supply_mean_w=6e-3)) == [1e-6, 1e-6]
    assert headline_energies(replace(result(runs), power_mean_w=6e-3, power_supply_mean_w=6e-3)) == [2e-6, 3e-6]


def texts_of(monkeypatch, *arguments) -> str:
    """Draw a figure, and give all that is written in it."""
    drawn = []
    monkeypatch.setattr(figure, "Figure", lambda *given, **named: drawn.append(Figure(*given, **named)) or drawn[-1])
    waveform_figure(*arguments)
    found = [text.get_text() for text in drawn[0].findobj(Text)]
    return "\n".join(found)


def test_the_figure_says_what_its_marks_mean(tmp_path, monkeypatch):
    wired = capture(channel(np.zeros((3, 100), np.uint8)), shunt=Shunt(SHUNT_OHM), **ONE)
    written = texts_of(monkeypatch, wired, result((run(0), run(1), run(2))), tmp_path / "a.png")
    for sentence in (
        "least to most", "mean", "window, the trigger's own time included", "the window's mean current",
        "segment (time between segments not shown)", "run 2 of 3, that of median energy",
    ):
        assert sentence in written.splitlines()


def test_a_single_run_is_no_median(tmp_path, monkeypatch):
    wired = capture(channel(np.zeros((1, 100), np.uint8)), shunt=Shunt(SHUNT_OHM), **ONE)
    written = texts_of(monkeypatch, wired, result((run(0),)), tmp_path / "a.png")
    assert "run 1 of 1" in written.splitlines()


def test_titles_stay_over_their_axes(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(figure, "Figure", lambda *given, **named: drawn.append(Figure(*given, **named)) or drawn[-1])
    wired = capture(channel(np.zeros((3, 100), np.uint8)), shunt=Shunt(SHUNT_OHM), **ONE)
    for expanded_s in (1e-8, 1e-12):
        long = replace(result((run(0), run(1))), duration_mean_s=1.003379e-3, duration_expanded_s=expanded_s)
        waveform_figure(wired, long, tmp_path / "a.png")
        for axes in drawn[-1].axes:
            assert axes.title.get_window_extent().width <= axes.get_window_extent().width


def test_a_picture_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path, monkeypatch):
    wired = capture(channel(np.zeros((1, 100), np.uint8)), shunt=Shunt(SHUNT_OHM), **ONE)
    (tmp_path / "a.png").mkdir()
    with pytest.raises(EnvironmentFault, match=r"cannot write .*a\.png: Is a directory"):
        waveform_figure(wired, result((run(0),)), tmp_path / "a.png")
    with pytest.raises(EnvironmentFault, match=r"cannot write .*none/a\.png: its folder does not exist"):
        waveform_figure(wired, result((run(0),)), tmp_path / "none" / "a.png")
    (tmp_path / "b.png").write_bytes(b"an older picture")
    real = os.pwrite

    def full(descriptor, data, place):
        if place:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:100], place)

    monkeypatch.setattr(atomic.os, "pwrite", full)
    with pytest.raises(EnvironmentFault, match=r"cannot write .*b\.png: the disk is full"):
        waveform_figure(wired, result((run(0),)), tmp_path / "b.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.png"]
    assert (tmp_path / "b.png").read_bytes() == b"an older picture"


@pytest.mark.parametrize("n_segments", [1, 20, 70])
def test_a_picture_is_written(tmp_path, n_segments):
    codes = np.zeros((n_segments, 100), np.uint8)
    codes[:, 20:70] = 90
    wired = capture(channel(codes), shunt=Shunt(SHUNT_OHM), **ONE)
    runs = tuple(run(segment, 1e-6 + 1e-9 * segment) for segment in range(n_segments))
    path = tmp_path / "a.png"
    waveform_figure(wired, result(runs), path)
    assert png_size(path) == (1056, 748)


@pytest.mark.parametrize("runs", [(), (run(0),), (run(0), run(0))])
def test_flat_signals_equal_runs_and_unknown_rates_still_give_a_picture(tmp_path, runs):
    path = tmp_path / "a.png"
    for dt_s in (1e-6, None):
        flat = capture(channel(np.zeros((1, 100), np.uint8)), dt_s=dt_s)
        waveform_figure(flat, result(runs), path)
        assert png_size(path) == (1056, 748)


def test_no_global_drawing_state_is_made():
    code = "import sys, labctl.report.figure; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
