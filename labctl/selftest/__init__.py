"""The self-test: a bench looked at with its DUT, then with a known load and a known pulse in the DUT's place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from labctl.analysis.finding import LEFT_OUT, Finding
from labctl.analysis.reference import tell_shortest
from labctl.analysis.resolution import Limit, edges_limit, noise_limit, samples_limit, tau_limit
from labctl.bench import Bench, Fixture
from labctl.calibrate.reference import reference_current
from labctl.checkup import Checkup
from labctl.checkup.stages import Stages, stop_quietly
from labctl.errors import ConfigError, NobodyThere
from labctl.selftest.fixtures import compare_load, compare_pulse, compare_step
from labctl.selftest.floor import look_at_floor
from labctl.selftest.known import Known
from labctl.series import tau_s
from labctl.units import quantity

__all__ = ["Request", "Selftest", "at_hand"]

Progress = Callable[[str, int, int], None]
Compare = Callable[[Bench, Known, Fixture], Iterator[Finding]]

_N_STEPS = 9
_NOBODY = "nobody is at the keyboard to put load and pulses in the DUT's place: run it from a terminal"
_NEEDED = {
    "gain": "a known load in the DUT's place, a resistor of about 330 ohm and 0.1 %: --load 330ohm",
    "time constant": "a known load that a pulse generator switches: --load 330ohm --pulse 1ms",
    "latency": "a known load that a pulse generator switches: --load 330ohm --pulse 1ms",
    "time base": "a pulse generator whose times are better known than the oscilloscope's: --pulse 1ms",
}


@dataclass(frozen=True)
class Request:
    """What is at hand: `fixture` describes load and generator, the flags say which of them may be asked for."""

    fixture: Fixture = field(default_factory=Fixture)
    has_load: bool = True
    has_pulse: bool = True


def at_hand(
    bench: Bench,
    load_ohm: float | None,
    load_tolerance_ratio: float,
    pulse_s: float | None,
    pulse_tolerance_ratio: float,
    *,
    without_fixture: bool = False,
) -> Request:
    """Say what a self-test may ask for: what was named, and on an emulated bench of our own whatever was not.

    Raises ConfigError for a load that draws more than the board can, which shunt and supply need not bear.
    """
    usual = Fixture()
    fixture = Fixture(
        load_ohm=load_ohm or usual.load_ohm,
        load_tolerance_ratio=load_tolerance_ratio,
        pulse_s=pulse_s or usual.pulse_s,
        period_s=2 * (pulse_s or usual.pulse_s),
        pulse_tolerance_ratio=pulse_tolerance_ratio,
    )
    supply = bench.board["supply"]
    current_a = reference_current(bench, fixture).current_a
    if current_a > supply["current_max_a"]:
        raise ConfigError(
            f"a load of {quantity(fixture.load_ohm, 'ohm')} would draw {quantity(current_a, 'A')}, and "
            f"{bench.board['name']} draws {quantity(supply['current_max_a'], 'A')} at most: use a larger one, such as "
            "330 ohm"
        )
    built_in = bench.simulation is not None and not without_fixture
    return Request(fixture, built_in or load_ohm is not None, built_in or pulse_s is not None)


class Selftest:
    """One self-test; `numbers` holds what it measured, in SI base units, None for what was left out."""

    def __init__(self, bench: Bench, request: Request, progress: Progress = lambda *_: None) -> None:
        self._bench = bench
        self._request = request
        self._stages = Stages()
        self._checkup = Checkup(bench, self._stages, lambda text, done, _: progress(text, done, _N_STEPS))
        self._progress = progress
        self._known = Known()
        self._connected = "dut"

    @property
    def numbers(self) -> dict[str, float | None]:
        """Give what was measured."""
        return self._known.numbers

    def run(self) -> Iterator[Finding]:
        """Test, and give finding after finding; the DUT is back in its place at the end.

        What needs a person is left out where nobody is there. Raises EnvironmentFault.
        """
        bench, request, known, seen = self._bench, self._request, self._known, self._checkup.seen
        with contextlib.ExitStack() as stack:
            stack.callback(stop_quietly, bench)
            yield from self._checkup.parts()
            yield from self._checkup.signals()
            yield from self._stage(
                "the noise floor", ("offset", "noise", "effective bits"),
                lambda: look_at_floor(bench, seen, known, request.fixture), ("wires", "supply switch"),
            )
            # A shunt that reads too much or too little is told more of by the load; one that reads nothing is not.
            shunt = () if seen.reads else ("shunt",)
            floor = ("offset", *shunt, "wires", "supply switch")
            yield from self._stage(
                "the known load", ("gain",), lambda: self._with("load", compare_load), floor, request.has_load
            )
            yield from self._stage(
                "the load switched by pulses", ("time constant", "latency"),
                lambda: self._with("pulsed-load", compare_step), (*floor, "trigger", "gain"),
                request.has_load and request.has_pulse,
            )
            yield from self._stage(
                "the known pulse", ("time base",), lambda: self._with("pulse", compare_pulse), ("wires", "trigger"),
                request.has_pulse,
            )
            if self._connected != "dut" and not {"scope", "DUT"} & set(self._stages.faulty):
                yield from self._stage("the DUT, back in its place", (), lambda: self._with("dut", None))
            yield self._shortest()

    def _stage(
        self, text: str, names: tuple[str, ...], look: Callable[[], Iterator[Finding]], needs: tuple[str, ...] = (),
        at_hand: bool = True,
    ) -> Iterator[Finding]:
        self._progress(f"looking at {text}", self._stages.n_run, _N_STEPS)
        if at_hand:
            yield from self._stages.run(names, look, needs)
            return
        for name in names:
            yield Finding(name, LEFT_OUT, f"needs {_NEEDED[name]}")

    def _with(self, what: str, compare: Compare | None) -> Iterator[Finding]:
        """Connect something in the DUT's place, and compare. Raises NobodyThere."""
        if self._stages.unattended:
            raise NobodyThere(_NOBODY)
        try:
            self._bench.connect(what, self._request.fixture)
        except NobodyThere as error:
            raise NobodyThere(_NOBODY) from error
        self._connected = what
        if compare is not None:
            yield from compare(self._bench, self._known, self._request.fixture)

    def _shortest(self) -> Finding:
        """Tell what limits the shortest operation, and how."""
        known, clock = self._known, self._checkup.seen.clock
        limits: list[Limit] = []
        lacking: list[str] = []
        current_a = clock.current_a if clock is not None and clock.current_a is not None else known.current_a
        if clock is None:
            lacking.append("the finest sampling")
        else:
            limits += [samples_limit(clock.dt_min_s), edges_limit(clock.dt_min_s)]
        if known.noise_a is None or current_a is None:
            lacking.append("the noise of a current")
        else:
            limits.append(noise_limit(known.noise_a, current_a))
        stated_s = tau_s(self._bench)
        if known.tau_s is not None:
            limits.append(tau_limit(known.tau_s))
        elif stated_s:
            limits.append(tau_limit(stated_s))
        else:
            lacking.append("the time constant of shunt and decoupling")
        for limit in limits:
            known.numbers[f"shortest_{limit.name}_s"] = limit.duration_s
        if clock is None or not limits:
            return Finding("shortest operation", LEFT_OUT, f"not known: {', '.join(lacking)}")
        found = tell_shortest(limits, lacking)
        known.numbers["shortest_s"] = found.value
        return found
