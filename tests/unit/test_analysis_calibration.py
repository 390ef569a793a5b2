"""Which calibration holds for a record, and whether one does more good than harm."""

import dataclasses
import math

import numpy as np
import pytest

from instruments.record import Accuracy, Channel, Identity, Record
from labctl.analysis import keys
from labctl.analysis.benefit import drawback, value_expanded, warn_of_calibrations
from labctl.analysis.calibration import check_calibration, check_numbers, check_shunt, in_force, same_settings
from labctl.analysis.uncertainty import rectangular
from labctl.errors import ConfigError
from labctl.model import Calibration, Capture, Contribution, Shunt, Supply, Wiring

WHO = Identity("V", "DSO", "S1", "1")
BENCH = "desk, DSO S1"
WIRING = Wiring(Shunt(1.3), Supply(3.3), shunt_channel="CH1", trigger_channel="CH2")
ACCURACY = Accuracy(0.02, 3e-3, 3e-4, "sheet")


def channel(name="CH1", scale=1e-4, offset=-0.01, unit="V", **settings):
    settings = {"probe_ratio": 1.0, "bandwidth_limit": True, **settings}
    return Channel(name, np.zeros((1, 10), np.uint8), scale, offset, unit, settings=settings, accuracy=ACCURACY)


def record(*channels, timebase_ratio=10e-6):
    return Record({c.name: c for c in channels}, 1e-9, np.zeros(1), WHO, timebase_ratio=timebase_ratio)


def part(name, effect, distribution="rectangular"):
    return Contribution(name, "B", distribution, abs(effect), "1", effect)


SLIGHT = Contribution("slight", "B", "rectangular", 1e-12, "1", 1e-12)


def calibration(kind="gain", parts=(SLIGHT,), value=None, **more):
    if value is None:
        value = {"gain": 1.0, "deskew": 1e-9, "timebase": 1e-6, "zero": 0.0}[kind]
    held = {
        "gain": {"CH1": keys.settings(channel())},
        "deskew": {"CH1": {"probe_ratio": 1.0, "bandwidth_limit": True}, "CH2": {}},
    }
    given = {
        "channels": held.get(kind, {}),
        "shunt_ohm": 1.3 if kind == "gain" else None,
        "utc": "2026-11-30T12:00:00Z",
        "valid_until_utc": "2026-12-30T12:00:00Z",
        **more,
    }
    return Calibration(kind, value, "1", tuple(parts), WHO, BENCH, "by hand", **given)


class TestWhichHolds:
    def test_its_own_instrument_within_its_time(self):
        for utc in ("2026-11-30T12:00:00Z", "2026-12-30T12:00:00Z", None):
            check_calibration(calibration(), WHO, utc)

    @pytest.mark.parametrize(
        ("who", "utc", "message"),
        [
            (dataclasses.replace(WHO, serial="S2"), None, "belongs to DSO S1, but the readings come from DSO S2"),
            (WHO, "2026-12-30T12:00:01Z", "was valid until 2026-12-30T12:00:00Z: calibrate again"),
            (WHO, "2026-11-30T11:59:59Z", "was taken after the readings"),
        ],
    )
    def test_refused(self, who, utc, message):
        with pytest.raises(ConfigError, match=message):
            check_calibration(calibration(), who, utc)

    def test_another_shunt_is_refused(self):
        check_shunt(calibration(), 1.3)
        check_shunt(calibration("timebase"), 2.0)  # knows nothing of a shunt
        with pytest.raises(ConfigError, match=r"with a shunt of 1\.3 ohm, the bench has 1\.31 ohm"):
            check_shunt(calibration(), 1.31)

    @pytest.mark.parametrize(
        ("other", "same"),
        [
            (channel(), True),
            (channel(scale=1e-4 * (1 + 1e-9)), True),
            (channel(offset=-0.01 + 1e-7), True),  # a thousandth of a code
            (channel(scale=2e-4), False),
            (channel(offset=-0.0101), False),
            (channel(unit="A"), False),
            (channel(probe_ratio=10.0), False),
            (channel(bandwidth_limit=False), False),
        ],
    )
    def test_settings(self, other, same):
        assert same_settings(other, keys.settings(channel())) is same

    def test_by_kind(self):
        gain, timebase = calibration(), calibration("timebase")
        assert in_force([gain, timebase], WHO, WIRING, [channel()]) == {"gain": gain, "timebase": timebase}

    def test_two_of_a_kind_are_refused(self):
        with pytest.raises(ConfigError, match="two gain calibrations"):
            in_force([calibration(), calibration()], WHO, WIRING, [channel()])

    @pytest.mark.parametrize(
        ("wiring", "channels", "message"),
        [
            (WIRING, [channel(), channel("CH3")], "for a shunt seen by one channel"),
            (WIRING, [channel(unit="A")], "for a shunt seen by one channel"),
            (dataclasses.replace(WIRING, shunt=Shunt(2.0)), [channel()], "of 1.3 ohm, the bench has 2 ohm"),
            (WIRING, [channel(scale=2e-4)], "at another channel, range, offset or probe than CH1 has now"),
            (WIRING, [channel("CH3")], "at another channel, range, offset or probe than CH3 has now"),
        ],
    )
    def test_a_gain_for_other_settings_is_refused(self, wiring, channels, message):
        with pytest.raises(ConfigError, match=message):
            in_force([calibration()], WHO, wiring, channels)

    @pytest.mark.parametrize(
        ("wiring", "channels", "message"),
        [
            (dataclasses.replace(WIRING, trigger_channel="CH4"), [channel()], "is for CH1 and CH2, but shunt and"),
            (WIRING, [channel("CH3")], "are on CH3 and CH2"),
            (WIRING, [channel(bandwidth_limit=False)], "another probe or bandwidth limit than CH1 has now"),
            (WIRING, [channel(probe_ratio=10.0)], "another probe or bandwidth limit"),
        ],
    )
    def test_a_deskew_of_other_channels_is_refused(self, wiring, channels, message):
        with pytest.raises(ConfigError, match=message):
            in_force([calibration("deskew")], WHO, wiring, channels)

    def test_a_deskew_holds_at_any_range(self):
        deskew = calibration("deskew")
        assert in_force([deskew], WHO, WIRING, [channel(scale=7e-3, offset=1.0)]) == {"deskew": deskew}


class TestBenefit:
    def test_the_contributions_of_a_gain_are_ratios_of_it(self):
        # One rectangle of half-width 1 %: 95 % of it lie within 0.95 %.
        gain = calibration(value=1.2, parts=[part("supply", rectangular(0.01))])
        assert value_expanded(gain)[0] == pytest.approx(1.2 * 0.95e-2, rel=2e-3)
        timebase = calibration("timebase", value=5e-6, parts=[part("pulse", rectangular(1e-6))])
        assert value_expanded(timebase)[0] == pytest.approx(0.95e-6, rel=2e-3)

    def gain(self, supply):
        return calibration(parts=[part("load", rectangular(1e-3)), part("supply", rectangular(supply))])

    def wiring(self, supply):
        return dataclasses.replace(WIRING, supply=Supply(3.3, supply))

    def test_a_good_load_helps(self):
        # Energy: 2 u(V) = 1.15 % with it; u(V), gain 2 %, shunt 1 % make 1.41 % without.
        assert drawback(self.gain(0.01), self.wiring(0.01), record(channel())) == ""

    def test_a_supply_that_counts_twice_can_do_harm(self):
        text = drawback(self.gain(0.02), self.wiring(0.02), record(channel()))
        # Standard uncertainties: 2 x 2 %/sqrt 3 with 0.1 %/sqrt 3 beside it; 2 %, 2 % and 1 %, over sqrt 3.
        assert math.hypot(4, 0.1) / math.sqrt(3) == pytest.approx(2.31, abs=0.005)
        assert math.hypot(2, 2, 1) / math.sqrt(3) == pytest.approx(1.73, abs=0.005)
        assert "is 2.3 % with it, the supply counting twice, and 1.7 % by" in text

    def test_a_meter_does_without_the_supply(self):
        meter = calibration(parts=[part("meter", rectangular(1e-3))])
        assert drawback(meter, self.wiring(0.05), record(channel())) == ""

    def test_what_is_not_known_is_not_judged(self):
        unknown = dataclasses.replace(channel(), accuracy=None)
        assert drawback(self.gain(0.05), self.wiring(0.05), record(unknown)) == ""
        crystal = calibration("timebase", [part("crystal", rectangular(50e-6))])
        assert drawback(crystal, WIRING, record(channel(), timebase_ratio=None)) == ""

    def test_a_crystal_worse_than_the_scope(self):
        crystal = calibration("timebase", [part("crystal", rectangular(50e-6))])
        # 50 and 10 over the square root of 3.
        assert "known to 29 ppm (standard uncertainty) with it, and to 5.8 ppm" in drawback(
            crystal, WIRING, record(channel())
        )
        pulse = calibration("timebase", [part("pulse", rectangular(1e-6))])
        assert drawback(pulse, WIRING, record(channel())) == ""

    def test_a_deskew_by_slow_edges(self):
        slow = calibration("deskew", [part("edge shape", rectangular(30e-9))])
        assert "known to 17.3 ns (standard uncertainty) with it, and to 11.5 ns" in drawback(
            slow, WIRING, record(channel())
        )
        quick = calibration("deskew", [part("edge shape", rectangular(1e-9))])
        assert drawback(quick, WIRING, record(channel())) == ""

    @pytest.mark.parametrize(("now", "warned"), [(None, 0), (28.0, 0), (28.1, 1), (18.0, 0), (17.9, 1)])
    def test_temperatures(self, now, warned):
        facts = {} if now is None else {"temperature_degc": now}
        capture = Capture(
            {"series": record(channel())}, WIRING, provenance=facts,
            calibrations=(calibration("timebase", temperature_degc=23.0), calibration("deskew")),
        )
        warnings = []
        warn_of_calibrations(warnings, capture)
        assert len(warnings) == warned
        if warned:
            assert f"was taken at 23 °C and the runs at {now:g} °C" in warnings[0]

    def test_one_that_does_harm_is_not_applied_silently(self):
        crystal = calibration("timebase", [part("crystal", rectangular(50e-6))])
        warnings = []
        warn_of_calibrations(warnings, Capture({"series": record(channel())}, WIRING, calibrations=(crystal,)))
        assert len(warnings) == 1
        assert "the timebase calibration of 2026-11-30T12:00:00Z, applied all the same, does harm" in warnings[0]


@pytest.mark.parametrize(("kind", "value"), [("gain", 0.0), ("gain", math.nan), ("gain", 1e300), ("gain", -1.0),
                                             ("timebase", -1.0), ("timebase", math.nan), ("deskew", 1.0),
                                             ("foo", 1.0)])
def test_a_value_that_cannot_be_is_refused(kind, value):
    part = Contribution("load", "B", "rectangular", 1e-3, "1", 1e-3)
    with pytest.raises(ConfigError, match="cannot be: calibrate again"):
        check_numbers(_made(kind, value, part))


@pytest.mark.parametrize("change", [{"standard": 0.0}, {"standard": -1.0}, {"standard": math.nan}, {"effect": math.nan},
                                    {"degrees_of_freedom": 0.0}, {"degrees_of_freedom": math.nan}])
def test_a_budget_that_cannot_be_is_refused(change):
    part = Contribution("load", "A", "normal", 1e-3, "1", 1e-3, 9.0)
    check_numbers(_made("gain", 0.98, part))
    with pytest.raises(ConfigError, match="cannot be: calibrate again"):
        check_numbers(_made("gain", 0.98, dataclasses.replace(part, **change)))
    with pytest.raises(ConfigError, match="cannot be: calibrate again"):
        check_numbers(_made("gain", 0.98))


def _made(kind, value, *parts):
    return Calibration(kind, value, "1", parts, WHO, BENCH, "made up",
                       "2026-11-01T00:00:00Z", "2027-11-01T00:00:00Z")


def test_boards_of_a_bench_share_its_shunt_and_no_supply():
    """Supply, decoupling and delay go with the board, the shunt with the bench, gain and time base with the scope."""
    facts = {"name": "emulated", "seed": 1}
    one, other = (keys.Keys.of({**facts, "board": board}, WHO) for board in ("stm32f4discovery", "stm32f7discovery"))
    shunt, supply = Shunt(1.3, decoupling_f=4.7e-6), Supply(3.3)
    for name in (lambda k: k.supply(supply), lambda k: k.decoupling(shunt), lambda k: k.skew("CH1")):
        assert name(one) != name(other)
    assert one.shunt(shunt) == other.shunt(shunt) != ""
    elsewhere = keys.Keys.of({**facts, "seed": 2, "board": "stm32f4discovery"}, WHO)
    assert elsewhere.shunt(shunt) != one.shunt(shunt)
    assert one.shunt(Shunt(1.3, 0.02)) != one.shunt(shunt)
    assert one.gain(channel()) == other.gain(channel())
    assert one.timebase() == other.timebase()
    # A capture from before benches had a board keeps its name.
    assert keys.bench(facts, WHO) == "emulated seed 1, DSO S1"
