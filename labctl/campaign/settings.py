"""What may not change once a campaign began, beside its items: its name and seed, its benches, its firmware."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labctl.campaign import ready, scrub
from labctl.campaign.attempt import Station
from labctl.campaign.journal import Journal
from labctl.campaign.model import Campaign
from labctl.campaign.plan import Plan
from labctl.campaign.planfile import BenchSection
from labctl.errors import ConfigError

# Facts of a bench that an edited plan may add to: which items that concerns is told by the items.
_MAY_CHANGE = ("name", "boards")


def changed(began: Campaign, plan: Plan) -> tuple[str, ...]:
    """Say what is another now than the list of the campaign says it was, a sentence each.

    Whatever the folder's plan says by now. Of a bench whose file is not at hand, what the plan says is compared.
    """
    pairs = [("[campaign] name", began.name, plan.campaign.name), ("[campaign] seed", began.seed, plan.campaign.seed)]
    kept = {str(bench["name"]): bench for bench in began.benches}
    for section in plan.benches:
        if section.name in kept:
            before, now = _flat(kept[section.name]), _flat(_facts(plan, section))
            # Where all is at hand, what there is no more was changed too; what labctl did not keep yet was not.
            compared = [key for key in before if key not in _MAY_CHANGE and (key in now or not ready.withheld(section))]
            pairs += [(_named(section, key), before[key], now.get(key)) for key in compared]
    return tuple(dict.fromkeys(_sentence(what, old, new) for what, old, new in pairs if old != new))


def check_firmware(journal: Journal, stations: Sequence[Station]) -> None:
    """Raise ConfigError where an image is another build than the one that the campaign was measured with so far."""
    before: dict[str, str] = {}
    for event in journal.events:
        images = event.facts.get("images")
        before = {**(images if isinstance(images, Mapping) else {}), **before}  # the first counts
    now = {name: build for station in stations for name, build in station.builds().items()}
    others = [f"  {name}: build {before[name]} when the campaign began and {build} now"
              for name, build in now.items() if before.get(name, build) != build]
    if others:
        raise ConfigError("\n".join([
            "the firmware is another than the campaign was measured with:", *others,
            "put its sources back, and the compiler, or begin a new campaign: labctl campaign run",
        ]))


def _facts(plan: Plan, section: BenchSection) -> Mapping[str, Any]:
    if ready.withheld(section):
        facts: dict[str, Any] = {"headline": plan.campaign.power}
        given = {("shunt", "resistance_ohm"): section.shunt_ohm, ("supply", "voltage_v"): section.supply_v}
        return facts | {table: {key: value} for (table, key), value in given.items() if value is not None}
    return scrub.facts(ready.facts(plan, section))


def _flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Give facts of a bench without tables inside, and lists as they are read back."""
    flat: dict[str, Any] = {}
    for key, value in facts.items():
        inner = value.items() if isinstance(value, Mapping) else ()
        flat |= {f"{key} {name}": one for name, one in inner} if inner else {key: value}
    return flat


def _named(section: BenchSection, key: str) -> str:
    return "[campaign] power" if key == "headline" else f"bench {section.name}: {key}"


def _sentence(what: str, before: Any, now: Any) -> str:
    return f"{what} was {_shown(before)} when the campaign began and is {_shown(now)} now"


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return _all(map(_shown, value))
    return "nothing" if value is None else str(value)


def _all(words: Iterable[str]) -> str:
    return " and ".join(words) or "nothing"
