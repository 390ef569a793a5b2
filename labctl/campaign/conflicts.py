"""What is wrong between keys of a plan that are each valid by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from labctl import boards
from labctl.campaign.planfaults import Problem
from labctl.campaign.planfile import BenchSection, PlanFile
from labctl.errors import ConfigError
from labctl.operations import NAMES, select, takes_message
from labctl.tomlsource import Place, nearest

_LISTED = "`labctl firmware operations` lists them"


def within_tables(file: PlanFile) -> Iterator[Problem]:
    """Yield what is wrong between keys of one table, and of tables other than [factors]."""
    for number, exclude in enumerate(file.exclude):
        if not exclude.model_fields_set:
            yield ("exclude", number), "is empty and would leave out everything: say what, or take it away"
    reference = file.reference
    if reference and reference.bytes is not None and not takes_message(reference.operation):
        yield ("reference", "bytes"), f"is given, and {reference.operation} has no message: take it away"
    has_emulated = any(bench.emulated for bench in file.benches or (file.bench or BenchSection(),))
    for number, fault in enumerate(file.faults):
        if (fault.item is None) == (fault.operation is None):
            yield ("faults", number), "needs either item, a number of `labctl campaign plan`, or operation, a pattern"
        if not fault.faults and fault.kill is None:
            yield ("faults", number), "says nothing that goes wrong: give dut, scope, trigger or kill"
        if not has_emulated:
            yield ("faults", number), "rehearses faults, and no bench of the plan is an emulated one: take it away"


def with_factors(file: PlanFile) -> Iterator[Problem]:
    """Yield what the factors have that nothing is or has, and what does not fit the benches."""
    yield from _bench_conflicts(file)
    yield from _operation_conflicts(file)


def _bench_conflicts(file: PlanFile) -> Iterator[Problem]:
    if file.bench is not None and file.benches:
        yield ("bench",), "and [[benches]] are both there: write one bench as [bench], several as [[benches]]"
        return
    several = len(file.benches) > 1
    named: dict[str, str] = {}
    names: set[str] = set()
    for number, bench in enumerate(file.benches or ((file.bench,) if file.bench else ())):
        place: Place = ("benches", number) if file.benches else ("bench",)
        if several and "name" not in bench.model_fields_set:
            yield place, "needs a name of its own where there are several"
        elif bench.name.casefold() in names:
            yield (*place, "name"), f"= {bench.name!r} is another bench's too: each needs its own"
        names.add(bench.name.casefold())
        if several and not bench.boards:
            yield place, "needs boards where there are several benches: those that are on this one"
        for index, board in enumerate(bench.boards):
            if board not in file.factors.boards:
                hint = nearest(board, file.factors.boards, "its boards")
                yield (*place, "boards", index), f"names {board!r}, which is not in [factors] boards; {hint}"
            elif board in named:
                yield (*place, "boards", index), f"names {board!r}, which is on {named[board]!r} already"
            named.setdefault(board, bench.name)
    if named:
        for index, board in enumerate(file.factors.boards):
            if board not in named:
                yield ("factors", "boards", index), f"names {board!r}, which is on no bench: add it to boards of one"


def _operation_conflicts(file: PlanFile) -> Iterator[Problem]:
    """Yield operations, sizes and clocks that nothing has."""
    factors = file.factors
    modes = [f"idle.{mode}" for board in factors.boards for mode in boards.load(board).get("idle_modes", ())]
    known = (*NAMES, *modes)
    every_emulated = all(bench.emulated for bench in file.benches or (file.bench or BenchSection(),))
    names: list[str] = []
    for index, pattern in enumerate(factors.operations):
        place = ("factors", "operations", index)
        try:
            found = select((pattern,), modes)
        except ConfigError:
            yield place, f"= {pattern!r} fits no operation; {nearest(pattern.strip('*?'), known, listed=_LISTED)}"
            continue
        # A board with firmware of its own may have others.
        if every_emulated and found[0] not in known:
            yield place, f"= {pattern!r} is no operation; {nearest(pattern, known, listed=_LISTED)}"
        names += found
    if factors.sizes and names and not any(map(takes_message, names)):
        yield ("factors", "bytes"), "is given, and none of the operations has a message: take it away"
    clocks_hz = dict.fromkeys(clock for board in factors.boards for clock in boards.load(board)["clocks_hz"])
    for index, clock_hz in enumerate(factors.clocks_hz):
        if clock_hz not in clocks_hz:
            yield ("factors", "clocks", index), (
                f"= {boards.clock_text(clock_hz)} is a clock of none of the boards, which have "
                f"{', '.join(map(boards.clock_text, clocks_hz))}"
            )
