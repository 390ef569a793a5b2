"""Look at an opened bench with its DUT alone: who answers, trigger, shunt, supply, and the DUT's clock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from labctl.analysis.finding import Finding
from labctl.bench import Bench
from labctl.checkup.clock import look_at_clock
from labctl.checkup.parts import look_at_dut, look_at_scope
from labctl.checkup.shunt import look_at_shunt
from labctl.checkup.stages import Look, Seen, Stages, stop_quietly
from labctl.checkup.trigger import look_at_trigger

__all__ = ["Checkup", "Finding", "check_bench"]

Progress = Callable[[str, int, int], None]


class Checkup:
    """One pass over a bench: `stages` knows what is at fault so far, `seen` what else was learnt."""

    def __init__(self, bench: Bench, stages: Stages, progress: Progress = lambda *_: None) -> None:
        self.stages = stages
        self.seen = Seen()
        self._bench = bench
        self._progress = progress

    def parts(self) -> Iterator[Finding]:
        """Look at what answers: the oscilloscope with its channels, the DUT with its firmware."""
        yield from self._run("the oscilloscope", ("scope",), look_at_scope)
        yield from self._run("the DUT", ("DUT",), look_at_dut)

    def signals(self) -> Iterator[Finding]:
        """Look at what arrives: trigger, supply, shunt, and the DUT's clock by the oscilloscope's."""
        supply = self._bench.wiring.supply
        measured = supply is not None and supply.channel is not None
        by_pin, by_channel = ((), ("supply",)) if measured else (("supply",), ())
        yield from self._run("the trigger pin, while the DUT runs", ("trigger", *by_pin), look_at_trigger)
        yield from self._run(
            "the shunt, supply on and off", ("supply switch", "shunt", "zero", *by_channel), look_at_shunt, ("wires",)
        )
        yield from self._run("the DUT's timer", ("windows", "timer"), look_at_clock, ("wires", "trigger"))

    def _run(self, text: str, names: tuple[str, ...], look: Look, needs: tuple[str, ...] = ()) -> Iterator[Finding]:
        self._progress(f"looking at {text}", self.stages.n_run, 5)
        yield from self.stages.run(names, lambda: look(self._bench, self.seen), needs)


def check_bench(bench: Bench, progress: Progress = lambda *_: None, *, parts: bool = True) -> Iterator[Finding]:
    """Look at an opened bench with its DUT and give finding after finding; `parts` False leaves out who answers.

    The DUT's supply is switched off and on once. What needs a person is left out where nobody is there.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(stop_quietly, bench)
        checkup = Checkup(bench, Stages(), progress)
        if parts:
            yield from checkup.parts()
        yield from checkup.signals()
