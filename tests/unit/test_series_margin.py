"""What lies beside a window: recorded by the scope, and slept by the DUT, which cannot sleep for ever."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from labctl.dut import PAUSE_MAX_S
from labctl.model import Operation
from labctl.series import take_series


class Reached(Exception):
    """The series was prepared."""


@pytest.mark.parametrize(
    ("name", "duration_s", "margin_s"),
    # 15 % of the window; of a minute it would be 9 s, and the pauses half as long again more than the DUT has. Beside a
    # stop mode, whose length is not foretold so well, 40 %.
    [
        ("ecdsa-p256", 1.0, 0.15),
        ("ecdsa-p256", 40.0, 6.0),
        ("ecdsa-p256", 60.0, pytest.approx(10 / 1.5, rel=1e-4)),
        ("ecdsa-p256", 300.0, pytest.approx(10 / 1.5, rel=1e-4)),
        ("idle.stop", 1.0, 0.4),
        ("idle", 1.0, 0.15),
    ],
)
def test_beside_a_long_window_lies_what_the_dut_can_pause(name, duration_s, margin_s):
    asked = prepared(name, duration_s)
    acquisition = asked["acquisition"]
    assert acquisition.pre_s == margin_s
    assert acquisition.span_s == pytest.approx(duration_s + 2 * acquisition.pre_s)
    # Two pauses lie between windows, two margins of the record: the DUT's silence is the longer.
    assert acquisition.pre_s < asked["pause_s"] <= PAUSE_MAX_S


def test_a_segment_longer_than_asked_ends_before_the_next_window():
    """A scope whose memory comes in steps records more than the span; the windows then lie that much further apart."""
    usual, longer = prepared("ecdsa-p256", 1.0), prepared("ecdsa-p256", 1.0, longer_s=0.5)
    assert 2 * (longer["pause_s"] - usual["pause_s"]) == pytest.approx(0.5)
    assert prepared("ecdsa-p256", 1.0, longer_s=100.0)["pause_s"] == PAUSE_MAX_S


def prepared(name, duration_s, longer_s=0.0):
    """Return what a series asks of a scope that grants `longer_s` more, and of the DUT."""
    asked = {}

    def configure(settings):
        asked["acquisition"] = settings
        return replace(settings, span_s=settings.span_s + longer_s)

    def prepare(operation, pause_s):
        asked["pause_s"] = pause_s
        raise Reached

    shunt = SimpleNamespace(resistance_ohm=1.3, decoupling_f=None)
    bench = SimpleNamespace(
        scope=SimpleNamespace(capabilities=lambda: SimpleNamespace(segments_max=1000), configure=configure),
        dut=SimpleNamespace(prepare=prepare),
        board={"pins": {"level_v": 3.0}},
        wiring=SimpleNamespace(trigger_channel="CH2", trigger_edge="rising", shunt=shunt),
        file=SimpleNamespace(oscilloscope=SimpleNamespace(trigger_probe_ratio=1.0)),
        simulation=None,
    )
    with pytest.raises(Reached):
        take_series(bench, Operation(name, n_runs=3), (), duration_s)
    return asked
