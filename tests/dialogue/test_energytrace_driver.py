"""The EnergyTrace driver and the command of its recorder: what it is started with, and what it does wrong."""

import shlex
import sys
import time

import numpy as np
import pytest

from instruments.drivers.ti_energytrace import TiEnergyTrace
from instruments.errors import BadData, DriverUnavailable, InstrumentTimeout, LinkLost, OutOfRange, Rejected
from instruments.protocols import AcquisitionSettings, ChannelSettings, CurrentSettings, Recorder, TriggerSettings

# Prints its own arguments into a file, then a line a millisecond of log: 2 mA at 3 V, 0.1 uJ a count, 60 counts a ms.
RECORDER = """
import sys, time
open({told!r}, "w").write(" ".join(sys.argv[1:]))
for k in range({n}):
    print(k * 1000, 2000000, 3000, k * 60, flush=True)
    if k == {stall}:
        time.sleep(60)
{end}
"""
I1 = (CurrentSettings("I1"),)


@pytest.fixture
def recorder(tmp_path):
    opened = []

    def start(n=3000, stall=-1, end="", script=None):
        path = tmp_path / "recorder.py"
        told = str(tmp_path / "told")
        path.write_text(script if script is not None else RECORDER.format(told=told, n=n, stall=stall, end=end))
        meter = TiEnergyTrace.open(shlex.join([sys.executable, str(path)]))
        opened.append(meter)
        return meter

    yield start
    for meter in opened:
        meter.close()


def stretch(span_s=1.0):
    return AcquisitionSettings(I1, None, span_s, 0.0)


def test_a_log_is_recorded_and_its_energy_counted(recorder, tmp_path):
    meter = recorder()
    assert isinstance(meter, Recorder)
    granted = meter.configure(stretch(1.5))
    assert granted.rate_hz == pytest.approx(1000)
    meter.arm()
    assert meter.wait(10.0) == 1
    record = meter.fetch()
    # Seconds asked of the recorder: the span, rounded up, and two to spare.
    assert (tmp_path / "told").read_text() == "4"
    assert record.n_samples == 1501
    assert record.dt_s == pytest.approx(1e-3)
    assert record.granted["averages"] is True
    energy = record.channels["E1"].codes[0]
    np.testing.assert_allclose(energy, 6e-6 * np.arange(1501), rtol=1e-6)
    assert record.channels["I1"].unit == "A"
    assert record.channels["I1"].accuracy.gain_ratio == 0.02
    assert record.channels["I1"].accuracy.offset_limit == 500e-9


def test_it_can_record_again(recorder):
    meter = recorder()
    for _ in range(2):
        meter.configure(stretch(0.5))
        meter.arm()
        meter.wait(10.0)
        assert meter.fetch().n_samples == 501


@pytest.mark.parametrize(
    "settings",
    [
        AcquisitionSettings((CurrentSettings("I2"),), None, 1.0, 0.0),
        AcquisitionSettings((ChannelSettings("I1", 1.0),), None, 1.0, 0.0),
        AcquisitionSettings((CurrentSettings("V1"),), None, 1.0, 0.0),
        AcquisitionSettings(I1, TriggerSettings("D0", 1.0), 1.0, 0.0),
        AcquisitionSettings(I1, None, 1.0, 0.0, n_segments=2),
        AcquisitionSettings(I1, None, 1.0, 0.5),
        AcquisitionSettings(I1, None, 0.0, 0.0),
        AcquisitionSettings(I1, None, float("nan"), 0.0),
        AcquisitionSettings(I1, None, 4000.0, 0.0),
        AcquisitionSettings(I1, None, 1.0, 0.0, rate_hz=10e3),
    ],
)
def test_what_it_cannot_do_starts_nothing(recorder, tmp_path, settings):
    meter = recorder()
    with pytest.raises(OutOfRange):
        meter.configure(settings)
    assert not (tmp_path / "told").exists()
    with pytest.raises(Rejected, match="configure"):
        meter.arm()


def test_nothing_is_fetched_before_it_was_recorded(recorder):
    meter = recorder()
    meter.configure(stretch())
    with pytest.raises(Rejected, match="arm"):
        meter.wait(1.0)
    with pytest.raises(Rejected, match="nothing is recorded"):
        meter.fetch()


def test_a_recorder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(DriverUnavailable, match="no-such-recorder"):
        TiEnergyTrace.open("no-such-recorder --fast")
    with pytest.raises(OutOfRange, match="command"):
        TiEnergyTrace.open("  ")


@pytest.mark.parametrize(
    ("script", "raised", "words"),
    [
        ("import sys; sys.exit(3)", LinkLost, "ended with status 3"),
        ("import time; time.sleep(60)", InstrumentTimeout, "printed nothing within"),
    ],
)
def test_a_recorder_that_does_not_begin(recorder, script, raised, words):
    meter = recorder(script=script)
    meter.configure(stretch())
    with pytest.raises(raised, match=words):
        meter.arm(timeout_s=1.0)


def test_a_recorder_that_ends_early_or_stalls_is_told_and_the_next_works(recorder):
    meter = recorder(n=300, end="sys.exit(5)")
    meter.configure(stretch())
    meter.arm()
    with pytest.raises(LinkLost, match=r"ended with status 5, 0.299 of 1 s are recorded"):
        meter.wait(10.0)
    meter = recorder(stall=200)
    meter.configure(stretch())
    meter.arm()
    begun_s = time.monotonic()
    with pytest.raises(InstrumentTimeout, match=r"0.2 of 1 s are recorded after 0.5 s"):
        meter.wait(0.5)
    assert time.monotonic() - begun_s < 30
    meter = recorder()
    meter.configure(stretch(0.2))
    meter.arm()
    meter.wait(10.0)
    assert meter.fetch().n_samples == 201


def test_lines_that_are_none_are_refused_with_what_came(recorder):
    meter = recorder(script="for k in range(3000): print(k * 1000, 2000000, 3000 if k != 7 else 'x', k * 60)")
    meter.configure(stretch())
    meter.arm()
    meter.wait(10.0)
    with pytest.raises(BadData, match="7000 2000000 x 420"):
        meter.fetch()
