"""The plan of a campaign: read from a TOML file, checked, every error with its file, line and key."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from inspect import isclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from labctl import boards
from labctl.benchtext import literal
from labctl.campaign.planfile import (
    BaselinesSection,
    BenchSection,
    BudgetSection,
    CampaignSection,
    ExcludeSection,
    FactorsSection,
    FaultSection,
    HooksSection,
    LimitsSection,
    PlanFile,
    ReferenceSection,
)
from labctl.errors import ConfigError
from labctl.operations import NAMES, select, takes_message
from labctl.tomlsource import Place, Source, nearest, parse, read, shown

_MINIMAL = {
    "campaign": 'it names the campaign, for example name = "night-1"',
    "factors": 'it says what is measured, for example boards = ["stm32vldiscovery"] and operations = ["sha256"]',
}
_N_PROBLEMS = 20


@dataclass(frozen=True)
class Plan:
    """What is to be measured, how, on which benches. `benches` holds at least one; every board is on one of them."""

    campaign: CampaignSection
    factors: FactorsSection
    exclude: tuple[ExcludeSection, ...]
    baselines: BaselinesSection | None
    reference: ReferenceSection | None
    budget: BudgetSection
    limits: LimitsSection
    hooks: HooksSection
    benches: tuple[BenchSection, ...]
    faults: tuple[FaultSection, ...]
    source: Source = field(default=Source("the plan"), compare=False, repr=False)
    folder: Path = field(default=Path(), compare=False)

    def bench_of(self, board: str) -> BenchSection:
        """Return the bench that a board of the plan is on."""
        return next(bench for bench in self.benches if board in bench.boards)

    def bench_seed(self, name: str) -> int:
        """Return what an emulated bench draws from: the campaign's seed for the first, one of its own for others."""
        if name == self.benches[0].name:
            return self.campaign.seed
        return zlib.crc32(f"{self.campaign.seed} {name}".encode())

    def path_of(self, name: str) -> Path:
        """Return where a file that the plan names lies: relative to the plan's own folder."""
        return self.folder / Path(name).expanduser()


def load_plan(path: Path) -> Plan:
    """Read and check a plan file; the files that it names must be there. Raises ConfigError."""
    source = read(path)
    plan = _checked(source, path.parent)
    for number, bench in enumerate(plan.benches):
        for key, names in (("file", [bench.file]), ("zero", [bench.zero]), ("calibrations", bench.calibrations)):
            for name in names:
                if name is not None and not plan.path_of(name).is_file():
                    place = _bench_place(source, number, key)
                    raise source.fault(place, f"= {shown(name)} is no file: seen from the plan, {plan.path_of(name)}")
    return plan


def parse_plan(text: str, where: str) -> Plan:
    """Check the text of a plan; files that it names are not looked for. Raises ConfigError, one line a problem."""
    return _checked(Source(where, text.removeprefix("\ufeff")), Path(where).parent)


def to_toml(plan: Plan) -> str:
    """Write a plan as a campaign's folder keeps it: every key spelled out, without hooks, files and addresses.

    `parse_plan` reads it back; what was left out of a bench is named in its key `withheld`.
    """
    tables: list[tuple[str, BaseModel | None]] = [
        ("[campaign]", plan.campaign), ("[factors]", plan.factors), *(("[[exclude]]", one) for one in plan.exclude),
        ("[baselines]", plan.baselines), ("[reference]", plan.reference), ("[budget]", plan.budget),
        ("[limits]", plan.limits), *(("[[benches]]", _without_files(bench, plan)) for bench in plan.benches),
        *(("[[faults]]", one) for one in plan.faults),
    ]
    texts = [(head, _keys(table)) for head, table in tables if table is not None]
    return "\n".join("\n".join([head, *keys, ""]) for head, keys in texts if keys)


def _checked(source: Source, folder: Path) -> Plan:
    try:
        file = PlanFile.model_validate(parse(source))
    except ValidationError as error:
        problems = [_explain(source, dict(problem)) for problem in error.errors()]
        more = [f"and {len(problems) - _N_PROBLEMS} more"] if len(problems) > _N_PROBLEMS else []
        raise ConfigError("\n".join(problems[:_N_PROBLEMS] + more)) from error
    problems = list(dict.fromkeys(source.sentence(place, text) for place, text in _conflicts(file)))
    if problems:
        raise ConfigError("\n".join(problems))
    benches = file.benches or (file.bench or BenchSection(),)
    return Plan(
        file.campaign, file.factors, file.exclude, file.baselines, file.reference, file.budget, file.limits,
        file.hooks, _with_boards(benches, file.factors.boards), file.faults, source, folder,
    )


def _with_boards(benches: tuple[BenchSection, ...], names: tuple[str, ...]) -> tuple[BenchSection, ...]:
    """Put every board on the only bench where nothing else is said."""
    if len(benches) == 1 and not benches[0].boards:
        return (benches[0].model_copy(update={"boards": names}),)
    return benches


def _conflicts(file: PlanFile) -> Iterator[tuple[Place, str]]:
    """Yield what is wrong between keys that are each valid by themselves."""
    yield from _bench_conflicts(file)
    yield from _operation_conflicts(file)
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


def _bench_conflicts(file: PlanFile) -> Iterator[tuple[Place, str]]:
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


def _operation_conflicts(file: PlanFile) -> Iterator[tuple[Place, str]]:
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
            yield place, f"= {pattern!r} fits no operation; {nearest(pattern.strip('*?'), known)}"
            continue
        # A board with firmware of its own may have others.
        if every_emulated and found[0] not in known:
            yield place, f"= {pattern!r} is no operation; {nearest(pattern, known)}"
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


def _bench_place(source: Source, number: int, key: str) -> Place:
    many: Place = ("benches", number)
    return (*many, key) if source.line(many) is not None else ("bench", key)


def _explain(source: Source, problem: Mapping[str, Any]) -> str:
    """Turn a problem that pydantic found into a sentence."""
    place: Place = problem["loc"]
    kind, value = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        return source.sentence(place, _unknown(place))
    if kind == "missing":
        hint = _MINIMAL.get(str(place[0]), "") if len(place) == 1 else ""
        return source.sentence(place, f"is missing{': ' if hint else ''}{hint}")
    if kind in ("model_type", "model_attributes_type", "tuple_type"):
        return source.sentence(place, _no_table(place, kind, value))
    if kind == "value_error":
        return source.sentence(place, problem["msg"].removeprefix("Value error, "))
    return source.sentence(place, f"= {shown(value)}: {problem['msg']}")


def _unknown(place: Place) -> str:
    """Say what a key that nobody knows may be meant to be."""
    key, table = str(place[-1]), _table_of(place[:-1])
    known = _names(table)
    if key in known:
        return "has no table inside"
    if len(place) > 1 and key in PlanFile.model_fields:
        return f"is a table of its own: write [{key}] on a line by itself"
    elsewhere = [name for name, other in _tables().items() if key in _names(other)] if len(place) > 1 else []
    home = f"; it belongs into [{elsewhere[0]}]" if elsewhere else f"; {nearest(key, known, 'its keys')}"
    return f"is not a key of the plan{home}" if len(place) > 1 else f"is no table of the plan; {nearest(key, known)}"


def _no_table(place: Place, kind: str, value: Any) -> str:
    name = place[0]
    if kind == "tuple_type":
        return f"is a list of tables: write each as [[{name}]]"
    if isinstance(value, list):
        return f"is there once: write [{name}] with single brackets"
    return f"= {shown(value)} must be a table: write [{name}] on a line of its own"


def _tables() -> dict[str, type[BaseModel]]:
    return {name: _table_of((name,)) for name in PlanFile.model_fields}


def _table_of(place: Place) -> type[BaseModel]:
    if not place:
        return PlanFile
    annotation: Any = PlanFile.model_fields[str(place[0])].annotation
    return next(one for one in (annotation, *get_args(annotation)) if isclass(one) and issubclass(one, BaseModel))


def _names(table: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in table.model_fields.items()]


def _without_files(bench: BenchSection, plan: Plan) -> BenchSection:
    """Leave out of a bench what names files, and the boards where it has them all."""
    given = [key for key in ("file", "zero", "calibrations") if getattr(bench, key)]
    withheld = tuple(dict.fromkeys([*bench.withheld, *given]))
    names = () if bench.boards == plan.factors.boards else bench.boards
    gone: dict[str, Any] = {"file": None, "zero": None, "calibrations": ()}
    return bench.model_copy(update={**gone, "withheld": withheld, "boards": names})


def _keys(table: BaseModel) -> list[str]:
    """Spell the keys of a table that hold something."""
    values = table.model_dump(by_alias=True)
    return [f"{key} = {_literal(value)}" for key, value in values.items() if value is not None and value != ()]


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)} = {_literal(one)}" for key, one in value.items()) + "}"
    return literal(value) if isinstance(value, bool | int | float | str) else value.isoformat()
