"""Every fault of the wiring named by the right finding, on the emulated bench with its DUT."""

import contextlib
from dataclasses import replace

import pytest

from labctl import boards
from labctl.analysis.finding import FAULT, LEFT_OUT, OK, WARNING
from labctl.bench import open_bench
from labctl.checkup import check_bench
from labctl.errors import NobodyThere
from labctl.simulation import Simulation

BOARD = "stm32vldiscovery"
PARTS = ("scope", "DUT")
SIGNALS = ("trigger", "supply", "supply switch", "shunt", "zero", "windows", "timer")


@pytest.fixture(scope="module")
def simulation(elf):
    world = Simulation(boards.load(BOARD), seed=3)
    world.start(world.bench_file())
    yield world
    world.stop()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr("labctl.checkup.trigger.WAIT_S", 0.5)


def nobody(sentence):
    raise AssertionError(sentence)


@contextlib.contextmanager
def bench_of(simulation, *, ask=nobody, faults=None, **tables):
    """Open a bench whose file differs from the world; `tables` are changes by section."""
    file = simulation.addressed(simulation.bench_file())
    file = file.model_copy(
        update={name: getattr(file, name).model_copy(update=changes) for name, changes in tables.items()}
    )
    simulation.ask(cmd="faults", faults=faults or {})
    with open_bench(file, board_name=None, overrides=lambda f: f, ask=ask) as bench:
        yield bench


def look(bench):
    """Check a bench; give findings by name, each said once."""
    findings = list(check_bench(bench))
    by_name = {f.name: f for f in findings}
    assert len(by_name) == len(findings)
    return by_name


def statuses(found):
    return {name: f.status for name, f in found.items()}


def test_a_healthy_bench(simulation):
    with bench_of(simulation) as bench:
        found = look(bench)
    assert statuses(found) == dict.fromkeys((*PARTS, *SIGNALS), OK)
    assert "EMULATED" in found["scope"].text
    assert BOARD in found["DUT"].text
    draws = simulation.ask(cmd="draws")["draws"]
    # The pin's level, and the crystal against the time base, as the world has them.
    assert found["supply"].value == pytest.approx(draws["pin_level_v"], abs=1.3 * found["supply"].expanded)
    apart = 1 / (1 + draws["crystal_ratio"]) / (1 + draws["timebase_ratio"]) - 1
    assert found["timer"].value == pytest.approx(apart, abs=found["timer"].expanded)


@pytest.mark.parametrize(
    ("faults", "name", "words", "left_out"),
    [
        ({"trigger": "disconnected"}, "trigger", ["never moves", "PC6"], {"supply", "windows", "timer"}),
        ({"trigger": "stuck-high"}, "trigger", ["stuck high"], {"supply", "windows", "timer"}),
        ({"trigger": "inverted"}, "trigger", ["inverted", '"falling"'], {"windows", "timer"}),
        ({"trigger": "extra-edge"}, "trigger", ["extra edges"], {"windows", "timer"}),
        ({"shunt": "reversed"}, "shunt", ["reads negative: swap the leads"], set()),
        ({"shunt": "disconnected"}, "shunt", ["reads nothing"], set()),
        ({"shunt": "bypassed"}, "shunt", ["far less", "bypasses"], set()),
        ({"wires": "swapped"}, "wires", ["swapped", "CH1", "CH2"], set(SIGNALS)),
    ],
    ids=lambda value: ",".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_each_fault_is_named_once(simulation, faults, name, words, left_out):
    with bench_of(simulation, faults=faults) as bench:
        found = look(bench)
    assert {n for n, s in statuses(found).items() if s == FAULT} == {name}
    for word in words:
        assert word in found[name].text
    assert {n for n, s in statuses(found).items() if s == LEFT_OUT} == left_out


def test_two_faults_are_both_named(simulation):
    with bench_of(simulation, faults={"trigger": "disconnected", "shunt": "reversed"}) as bench:
        found = look(bench)
    assert {n for n, s in statuses(found).items() if s == FAULT} == {"trigger", "shunt"}


def test_an_inverted_trigger_that_the_file_knows_of(simulation):
    with bench_of(simulation, faults={"trigger": "inverted"}, scope={"trigger_edge": "falling"}) as bench:
        assert set(statuses(look(bench)).values()) == {OK}


@pytest.mark.parametrize(
    ("tables", "name", "words"),
    [
        ({"shunt": {"resistance_ohm": 13.0}}, "shunt", ["far less", "resistance_ohm"]),
        ({"shunt": {"resistance_ohm": 1.3e-3}}, "shunt", ["far more", "unit"]),
        ({"supply": {"voltage_v": 5.0}}, "supply", ["5.00 V is stated", "voltage_v"]),
        ({"scope": {"supply_channel": 3}}, "supply", ["CH3", "supply's channel"]),
        ({"scope": {"trigger_channel": 4}}, "trigger", ["never moves", "CH2 switches by"]),
        ({"scope": {"shunt_channel": 4}}, "shunt", ["reads nothing"]),
        ({"scope": {"shunt_channel": 2, "trigger_channel": 1}}, "wires", ["swapped"]),
        ({"scope": {"trigger_channel": 7}}, "scope", ["CH7", "CH1, CH2, CH3, CH4"]),
    ],
    ids=lambda value: ",".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_a_file_that_is_wrong(simulation, tables, name, words):
    with bench_of(simulation, **tables) as bench:
        found = look(bench)
    assert {n for n, s in statuses(found).items() if s == FAULT} == {name}
    for word in words:
        assert word in found[name].text


class WrongProbe:
    """A recorder one of whose channels has a probe that divides `factor` times more than the bench file says."""

    def __init__(self, scope, name, factor):
        self._scope, self._name, self._factor = scope, name, factor

    def __getattr__(self, attribute):
        return getattr(self._scope, attribute)

    def configure(self, settings):
        """Ask for as much more at the tip as the probe divides."""
        channels = tuple(
            replace(c, range_v=c.range_v * self._factor, offset_v=c.offset_v * self._factor,
                    probe_ratio=c.probe_ratio * self._factor) if c.name == self._name else c
            for c in settings.channels
        )
        trigger = settings.trigger
        if trigger is not None and trigger.source == self._name:
            trigger = replace(trigger, level_v=trigger.level_v * self._factor)
        return self._scope.configure(replace(settings, channels=channels, trigger=trigger))

    def fetch(self):
        """Give the readings as much smaller."""
        record = self._scope.fetch()
        channels = {
            name: self._smaller(c) if name == self._name else c for name, c in record.channels.items()
        }
        return replace(record, channels=channels)


    def _smaller(self, channel):
        accuracy, factor = channel.accuracy, self._factor
        return replace(
            channel,
            scale=channel.scale / factor,
            offset=channel.offset / factor,
            accuracy=replace(
                accuracy, offset_limit=accuracy.offset_limit / factor, noise_rms=accuracy.noise_rms / factor
            ),
        )


@pytest.mark.parametrize(
    ("channel", "factor", "name", "words"),
    [
        ("CH2", 10.0, "trigger", ["too small", "330 mV", "trigger_probe_ratio", "10 would fit"]),
        ("CH2", 0.1, "trigger", ["too large", "trigger_probe_ratio", "or more"]),
        ("CH1", 10.0, "shunt", ["far less", "shunt_probe_ratio"]),
        ("CH1", 0.1, "shunt", ["far more", "shunt_probe_ratio"]),
    ],
)
def test_a_probe_that_is_not_what_the_file_says(simulation, channel, factor, name, words):
    with bench_of(simulation) as bench:
        bench.scope = WrongProbe(bench.scope, channel, factor)
        found = look(bench)
    assert {n for n, s in statuses(found).items() if s == FAULT} == {name}
    for word in words:
        assert word in found[name].text


def test_a_switch_that_switches_nothing(simulation):
    class Idle:
        def set_output(self, on):
            pass

    with bench_of(simulation) as bench:
        bench.switch = Idle()
        found = look(bench)
    assert found["supply switch"].status == FAULT
    assert "[dut] power" in found["supply switch"].text
    assert found["shunt"].status == found["zero"].status == LEFT_OUT


def test_a_person_switches_the_supply(simulation):
    from instruments.registry import open_driver

    switch = open_driver("scpi-switch", simulation.addresses["power"])
    asked = []

    def person(sentence):
        asked.append(sentence)
        switch.set_output(sentence.endswith("on"))

    try:
        with bench_of(simulation, ask=person, dut={"power": "manual"}) as bench:
            found = look(bench)
    finally:
        switch.set_output(True)
        switch.close()
    assert set(statuses(found).values()) == {OK}
    assert "by hand" in found["supply switch"].text
    assert [sentence.rsplit(" ", 1)[1] for sentence in asked] == ["off", "on"]


def test_nobody_is_there_to_switch(simulation):
    def away(sentence):
        raise NobodyThere(sentence)

    with bench_of(simulation, ask=away, dut={"power": "manual"}) as bench:
        found = look(bench)
    left_out = {name for name, status in statuses(found).items() if status == LEFT_OUT}
    assert left_out == {"supply switch", "shunt", "zero"}
    assert all("[dut] power" in found[name].text for name in left_out)
    assert {status for name, status in statuses(found).items() if name not in left_out} == {OK}


def test_two_channels_at_the_supply_cannot_tell(simulation):
    """Neither channel of the emulated bench sees the supply: what counts is that nothing is judged wrongly."""
    scope = {"shunt_high_channel": 1, "shunt_low_channel": 3, "shunt_channel": 1}
    with bench_of(simulation, shunt={"wiring": "two-channel"}, scope=scope) as bench:
        findings = list(check_bench(bench))
    shunt = next(f for f in findings if f.name == "shunt")
    assert shunt.status in (OK, WARNING)


def test_a_dut_that_falls_silent(simulation, monkeypatch):
    monkeypatch.setattr("labctl.bench.DUT_TIMEOUT_S", 1.0)
    with bench_of(simulation) as bench:
        simulation.ask(cmd="faults", faults={"dut": {"silent": True}})
        found = look(bench)
    assert found["scope"].status == OK
    assert found["DUT"].status == FAULT
    assert all(found[name].status == LEFT_OUT and "DUT" in found[name].text for name in SIGNALS)


def test_a_scope_that_falls_silent(simulation, monkeypatch):
    monkeypatch.setattr("labctl.bench.OPEN_TIMEOUT_S", 1.0)
    with bench_of(simulation) as bench:
        simulation.ask(cmd="faults", faults={"scope": {"silent": True}})
        found = look(bench)
    assert found["scope"].status == FAULT
    assert all(found[name].status == LEFT_OUT for name in ("DUT", *SIGNALS))


def test_signals_alone(simulation):
    with bench_of(simulation) as bench:
        assert [f.name for f in check_bench(bench, parts=False)] == list(SIGNALS)
