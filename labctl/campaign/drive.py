"""A campaign from its plan to its end: benches made ready, its folder made or opened, the work, and the last word."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labctl import __version__, benchlock, interrupts
from labctl.campaign import budget, hooks, journal, ready, recheck, runner, scrub, settings
from labctl.campaign.attempt import BenchMeasurer, Station
from labctl.campaign.budget import Clocks, Tally
from labctl.campaign.changes import compare, refuse
from labctl.campaign.estimate import estimate
from labctl.campaign.folder import CampaignFolder, create, open_campaign
from labctl.campaign.items import expansion, schedule
from labctl.campaign.journal import Journal
from labctl.campaign.model import Campaign, Event, Item
from labctl.campaign.plan import Plan, parse_plan, to_toml
from labctl.campaign.planfile import HOOKS
from labctl.campaign.state import State, state_of
from labctl.campaign.work import Ending, Policy, Show
from labctl.campaign.workers import Job, run_all
from labctl.errors import EnvironmentFault, FileFault

# In this order: what of several benches' ends is that of the campaign.
_GRAVEST = ("safety", "interrupted", "lost", "budget", "complete")
_STATUS = {"safety": 1, "interrupted": 130, "lost": 1, "budget": 4}
EXIT_NOT_ALL_DONE = 4


@dataclass(frozen=True)
class Options:
    """What the command line says beside the plan, which holds where nothing is said here; and the clocks to go by."""

    bench_file: Path | None = None
    until: datetime.time | None = None
    max_time_s: float | None = None
    wait_s: float = 600.0
    retry_failed: bool = False
    clocks: Clocks = field(default_factory=Clocks)


@dataclass(frozen=True)
class Summary:
    """How a campaign stands when the work on it ended."""

    path: Path
    ending: Ending
    state: State

    @property
    def exit_status(self) -> int:
        """Return 0 where all is done, 4 with failed items or a budget, 130 interrupted, 1 for what stopped it."""
        all_done = self.state.n_done == self.state.n_items
        return _STATUS.get(self.ending.kind, 0 if all_done else EXIT_NOT_ALL_DONE)


def begin(
    plan: Plan, out: Path, options: Options, show: Show, told: Callable[[], None] = lambda: None
) -> Summary:
    """Begin a campaign in a new folder and work through it. `told` is as for `interrupts.at_second`.

    Raises FileFault where there is something at `out`, and what making the benches ready raises.
    """
    if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
        raise FileFault(f"there is something at {out} already: go on with it (labctl campaign resume), or name another "
                        "folder with --out")
    plan = ready.with_bench(plan, options.bench_file)
    items = expansion(plan).items
    with _ready(plan, items, out, Journal((), ()), show) as stations:
        campaign = Campaign(
            name=plan.campaign.name,
            seed=plan.campaign.seed,
            items=items,
            schedule=tuple(schedule(plan, items)),
            benches=tuple(ready.facts(plan, section) for section in plan.benches),
            created_utc=options.clocks.utc_text(),
            software=f"labctl {__version__}",
        )
        folder = create(out, to_toml(plan), campaign)
        with folder.lock(options.clocks.utc_text()):
            return _work(folder, plan, stations, options, show, told)


def resume(
    path: Path, plan: Plan | None, options: Options, show: Show, told: Callable[[], None] = lambda: None
) -> Summary:
    """Go on with a campaign, by the plan in its folder or another, which may add to it.

    Raises ConfigError where the plan does more than add, or where bench or firmware are others than when the campaign
    began, BusyFault where another process works on it, FileFault.
    """
    with open_campaign(path).lock(options.clocks.utc_text()):
        folder = open_campaign(path)  # as it is now that nobody else can change it
        plan = ready.with_bench(_kept_plan(path) if plan is None else plan, options.bench_file)
        past = journal.read(path)
        _take_over(folder, plan, past, show)
        if options.retry_failed:
            recheck.take_damaged_again(folder, past, options.clocks.utc_text(), show.stage, show.note)
            past = journal.read(path)
        recheck.keep_unacknowledged(folder, past, _left(folder, past, options), show.note)
        with _ready(plan, _left(folder, past, options), path, past, show) as stations:
            return _work(folder, plan, stations, options, show, told)


def _kept_plan(path: Path) -> Plan:
    file = path / "plan.toml"
    try:
        return parse_plan(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise FileFault(f"{file} cannot be read ({error}): put the plan that it was begun with there") from error


def _take_over(folder: CampaignFolder, plan: Plan, past: Journal, show: Show) -> None:
    """Take the items that an edited plan adds, and its order for all that is left.

    Raises ConfigError where it changes other items or takes them away, or does not fit its benches.
    """
    campaign = folder.campaign
    changes = compare(campaign.items, expansion(plan).items)
    refuse(changes, settings.changed(campaign, plan))
    items = (*campaign.items, *changes.added)
    order = tuple(schedule(plan, items))
    if changes.added:
        show.note(f"{len(changes.added)} items are added to the campaign")
    elif order != campaign.schedule and state_of(campaign, past).n_pending:
        show.note(f"what is left is taken in another order than so far: {plan.campaign.order}")
    if changes.added or order != campaign.schedule:
        folder.extend(items, order, to_toml(plan))


def _left(folder: CampaignFolder, past: Journal, options: Options) -> list[Item]:
    wanted = ("pending", "failed") if options.retry_failed else ("pending",)
    return [one.item for one in state_of(folder.campaign, past).items if one.state in wanted]


@contextlib.contextmanager
def _ready(
    plan: Plan, left: Sequence[Item], place: Path, past: Journal, show: Show
) -> Iterator[list[Station]]:
    """Make the benches ready for what is left to be taken, and hold them; none where nothing is left.

    Raises BusyFault, naming the holder, where another process has one; ConfigError where the firmware is another now.
    """
    with contextlib.ExitStack() as stack:
        if left:
            _check_hooks(plan, show)
        ready.check_room(place, estimate(plan, left).disk_bytes, budget.left_bytes(plan.budget.disk_bytes, past))
        stations = ready.stations(plan, left, show.stage)
        settings.check_firmware(past, stations)
        for station in stations:
            if station.file is not None:
                stack.enter_context(benchlock.hold(station.file))
            ready.check(station, [item for item in left if item.bench == station.name], show.stage, show.note)
        yield stations


def _check_hooks(plan: Plan, show: Show) -> None:
    """Tell of hooks that are missing in the folder's plan. Raises ConfigError for a command that is not there."""
    for when in HOOKS:
        if lack := hooks.missing(getattr(plan.hooks, when)):
            raise plan.source.fault(("hooks", when), lack)
    gone = [when for when in plan.hooks.withheld if getattr(plan.hooks, when) is None]
    if gone:
        show.note(
            f"the campaign began with a hook on {' and '.join(gone)}, which its folder does not keep: nothing is "
            "called. Name the plan that has it (--plan FILE)"
        )


def _work(
    folder: CampaignFolder,
    plan: Plan,
    stations: Sequence[Station],
    options: Options,
    show: Show,
    told: Callable[[], None],
) -> Summary:
    """Let every bench work, say how it ended, and call the hook on finish."""
    clocks, section = options.clocks, plan.budget
    max_time_s = section.max_time_s if options.max_time_s is None else options.max_time_s
    limits = budget.make(clocks, options.until or section.until, max_time_s, section.disk_bytes)
    hidden = ready.secrets(plan, stations)
    policy = Policy(
        n_attempts=plan.campaign.n_attempts,
        backoff_s=plan.campaign.backoff_s,
        wait_s=options.wait_s,
        power=plan.campaign.power,
        current_limit_a=plan.limits.current_a,
        failure_hook=plan.hooks.failure,
        secrets=hidden,
        retry_failed=options.retry_failed,
    )

    def job(station: Station) -> Job:
        return lambda show, wish: runner.run(
            folder, BenchMeasurer(station, show.stage), station.name, policy, budget=limits, tally=tally, show=show,
            wish=wish, clocks=clocks,
        )

    noted = journal.read(folder.path)
    past = state_of(folder.campaign, noted)
    tally = Tally([station.name for station in stations], budget.taken_bytes(noted))
    show.counted(past.n_items, past.n_done, 0 if options.retry_failed else past.n_failed)
    names = ", ".join(one.name + ("" if one.file else " (emulated: currents are a model)") for one in stations)
    if stations:
        show.note(f"campaign {past.name}: {past.n_items} items in {folder.path}; bench {names}")
    endings: list[Ending] = []
    with interrupts.at_second(told) as wish:
        if stations:
            endings = list(run_all({station.name: job(station) for station in stations}, show, wish).values())
        ending = min(endings, key=lambda one: _GRAVEST.index(one.kind), default=Ending("complete"))
        summary = Summary(folder.path, ending, state_of(folder.campaign, journal.read(folder.path)))
        if stations:
            _call_hook(plan, summary, hidden, show, clocks)
    return summary


def _call_hook(plan: Plan, summary: Summary, hidden: Mapping[str, str], show: Show, clocks: Clocks) -> None:
    if plan.hooks.finish is None:
        return

    def kept(text: str) -> str:
        return scrub.scrub(scrub.within(text, summary.path), hidden)

    def event(kind: str, text: str) -> None:
        try:
            journal.append(summary.path, Event(kind, clocks.utc_text(), kept(text)))
        except EnvironmentFault as error:  # the work is done, and how it ended is told all the same
            show.note(str(error))

    state = summary.state
    document: dict[str, Any] = {
        "event": "finish", "campaign": state.name, "ended": summary.ending.kind, "text": kept(summary.ending.text),
        "items": state.n_items, "done": state.n_done, "failed": state.n_failed, "pending": state.n_pending,
        "elapsed_s": state.elapsed_s,
    }
    hooks.report("finish", plan.hooks.finish, document, show.note, event)
