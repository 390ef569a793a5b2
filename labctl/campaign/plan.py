"""The plan of a campaign: read from a TOML file, checked, every error with its file, line and key."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from labctl import boards
from labctl.benchtext import literal
from labctl.campaign import conflicts
from labctl.campaign.planfaults import PlanFault, Problem, entry, explained, others
from labctl.campaign.planfile import (
    HOOKS,
    WITHHELD,
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
from labctl.tomlsource import Place, Source, parse, read, shown

# What stands in for what no plan can do without, where that in the file cannot be read: factors that fit any others.
_ANY_FACTORS = {"boards": list(boards.names()), "operations": ["*"]}
_STANDING_IN = {"campaign": {"name": "unnamed"}, "factors": _ANY_FACTORS}


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

    @property
    def withholds(self) -> bool:
        """Tell whether a campaign's folder keeps less than this plan: it leaves out hooks and files."""
        tables = [(self.hooks, HOOKS), *((bench, WITHHELD) for bench in self.benches)]
        return any(getattr(table, key) for table, keys in tables for key in keys)

    def path_of(self, name: str) -> Path:
        """Return where a file that the plan names lies: relative to the plan's own folder."""
        return self.folder / Path(name).expanduser()


def load_plan(path: Path) -> Plan:
    """Read and check a plan file; the files that it names must be there.

    Raises ConfigError; PlanFault, which is one, with every problem.
    """
    source = read(path)
    plan, told, misleads = _checked(source, path.parent)
    told += others(_missing_files(plan), told)
    if told:
        raise PlanFault(source, told, None if misleads else plan)
    return plan


def parse_plan(text: str, where: str) -> Plan:
    """Check the text of a plan; files that it names are not looked for. Raises as `load_plan` does."""
    source = Source(where, text.removeprefix("\ufeff"))
    plan, told, misleads = _checked(source, Path(where).parent)
    if told:
        raise PlanFault(source, told, None if misleads else plan)
    return plan


def to_toml(plan: Plan) -> str:
    """Write a plan as a campaign's folder keeps it: every key spelled out, without hooks, files and addresses.

    `parse_plan` reads it back; what was left out of the hooks or a bench is named in their key `withheld`.
    """
    tables: list[tuple[str, BaseModel | None]] = [
        ("[campaign]", plan.campaign), ("[factors]", plan.factors), *(("[[exclude]]", one) for one in plan.exclude),
        ("[baselines]", plan.baselines), ("[reference]", plan.reference), ("[budget]", plan.budget),
        ("[limits]", plan.limits), ("[hooks]", _without_hooks(plan.hooks)),
        *(("[[benches]]", _without_files(bench, plan)) for bench in plan.benches),
        *(("[[faults]]", one) for one in plan.faults),
    ]
    texts = [(head, _keys(table)) for head, table in tables if table is not None]
    return "\n".join("\n".join([head, *keys, ""]) for head, keys in texts if keys)


def _checked(source: Source, folder: Path) -> tuple[Plan, list[Problem], bool]:
    """Give a plan, or what of it can be looked at; what is wrong; and whether the plan's items would mislead then."""
    data = parse(source)
    try:
        file, told = PlanFile.model_validate(data), []
    except ValidationError as error:
        told = [explained(dict(problem)) for problem in error.errors()]
        file = _rest(data, {entry(place) for place, _ in told})
    faulty = {entry(place) for place, _ in told}
    has_factors = ("factors",) not in faulty
    found = [*conflicts.within_tables(file), *(conflicts.with_factors(file) if has_factors else ())]
    told += others(found, told)
    benches = file.benches or (file.bench or BenchSection(),)
    plan = Plan(
        file.campaign, file.factors, file.exclude, file.baselines, file.reference, file.budget, file.limits,
        file.hooks, _with_boards(benches, file.factors.boards), file.faults, source, folder,
    )
    misleads = any(place[0] == "factors" for place in faulty) or any(
        place[0] in ("factors", "bench", "benches") for place, _ in found
    )
    return plan, told, misleads


def _rest(data: Mapping[str, Any], faulty: set[Place]) -> PlanFile:
    """Read what is left of a plan without its faulty tables; others must not look wrong for that."""
    names = {place[0] for place in faulty}
    left = {name: value for name, value in data.items() if (name,) not in faulty}
    if "factors" in left:
        sound = {key: value for key, value in left["factors"].items() if ("factors", key) not in faulty}
        left["factors"] = {**_ANY_FACTORS, **sound}
    for name in ("exclude", "faults"):
        if name not in names or name not in left:
            continue
        left[name] = [{} if (name, number) in faulty else one for number, one in enumerate(left[name])]
    if names & {"bench", "benches"}:
        left = {name: value for name, value in left.items() if name not in ("bench", "benches", "faults")}
        left["bench"] = {"withheld": ["file"]}  # whatever was said of it: a bench that may have anything
    return PlanFile.model_validate({**_STANDING_IN, **left})


def _with_boards(benches: tuple[BenchSection, ...], names: tuple[str, ...]) -> tuple[BenchSection, ...]:
    """Put every board on the only bench where nothing else is said."""
    if len(benches) == 1 and not benches[0].boards:
        return (benches[0].model_copy(update={"boards": names}),)
    return benches


def _missing_files(plan: Plan) -> Iterator[Problem]:
    for number, bench in enumerate(plan.benches):
        for key, names in (("file", [bench.file]), ("zero", [bench.zero]), ("calibrations", bench.calibrations)):
            for name in names:
                if name is not None and not plan.path_of(name).is_file():
                    place = _bench_place(plan.source, number, key)
                    yield place, f"= {shown(name)} is no file: seen from the plan, {plan.path_of(name)}"


def _bench_place(source: Source, number: int, key: str) -> Place:
    many: Place = ("benches", number)
    return (*many, key) if source.line(many) is not None else ("bench", key)


def _without_files(bench: BenchSection, plan: Plan) -> BenchSection:
    """Leave out of a bench what names files, and the boards where it has them all."""
    given = [key for key in ("file", "zero", "calibrations") if getattr(bench, key)]
    withheld = tuple(dict.fromkeys([*bench.withheld, *given]))
    names = () if bench.boards == plan.factors.boards else bench.boards
    gone: dict[str, Any] = {"file": None, "zero": None, "calibrations": ()}
    return bench.model_copy(update={**gone, "withheld": withheld, "boards": names})


def _without_hooks(hooks: HooksSection) -> HooksSection:
    given = [key for key in HOOKS if getattr(hooks, key)]
    withheld = tuple(dict.fromkeys([*hooks.withheld, *given]))
    return hooks.model_copy(update={**dict.fromkeys(HOOKS), "withheld": withheld})


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
