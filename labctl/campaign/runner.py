"""Work through the items of one bench: attempts, failures, budgets, the store. What measures is handed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from instruments.errors import SafetyStop
from labctl import __version__
from labctl.analysis.result import analyze
from labctl.campaign import hooks, journal
from labctl.campaign.budget import Budget, Clocks, Tally, taken_bytes
from labctl.campaign.failures import classify, text_of
from labctl.campaign.folder import CampaignFolder, Now
from labctl.campaign.journal import Journal
from labctl.campaign.model import Attempt, Item
from labctl.campaign.pace import End, Pace
from labctl.campaign.state import ItemStatus, state_of
from labctl.campaign.work import Ending, Measurer, Policy, Show
from labctl.errors import DiskFull
from labctl.interrupts import Wish
from labctl.model import Capture, Result
from labctl.report.table import headline, to_json_rows
from labctl.units import quantity, time_text

# How often, at most, an instrument that is away is looked for.
AWAY_POLL_MIN_S, AWAY_POLL_MAX_S = 0.5, 60.0


@dataclass(frozen=True)
class _Outcome:
    """What an attempt came to, before it is stored."""

    capture: Capture | None = None
    row: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    error: str = ""


def run(
    folder: CampaignFolder,
    measurer: Measurer,
    bench: str,
    policy: Policy | None = None,
    *,
    budget: Budget | None = None,
    tally: Tally | None = None,
    show: Show | None = None,
    wish: Wish | None = None,
    clocks: Clocks | None = None,
) -> Ending:
    """Take every item of a bench that is not at its end, in the order of the schedule, and say how that ended.

    `tally` counts the disk that is taken for the budget, of this bench alone where none is given.
    The folder's lock is held by the caller. Raises EnvironmentFault where the folder cannot be written for another
    reason than a full disk, KeyboardInterrupt at once; what the journal says is done stays done.
    """
    policy, show, clocks = policy or Policy(), show or Show(), clocks or Clocks()
    past = journal.read(folder.path)
    tally = tally or Tally((bench,), taken_bytes(past))
    pace = Pace(folder, bench, policy.secrets, budget or Budget(), tally, show, wish or Wish(), clocks)
    return _Runner(folder, measurer, bench, policy, pace, show, clocks).run(past)


class _Runner:
    def __init__(
        self,
        folder: CampaignFolder,
        measurer: Measurer,
        bench: str,
        policy: Policy,
        pace: Pace,
        show: Show,
        clocks: Clocks,
    ) -> None:
        self._folder = folder
        self._measurer = measurer
        self._bench = bench
        self._policy = policy
        self._pace = pace
        self._show = show
        self._clocks = clocks

    def run(self, past: Journal) -> Ending:
        """Work through what a journal leaves."""
        left = self._left({one.item.number: one for one in state_of(self._folder.campaign, past).items})
        ending = Ending("interrupted", "stopped at once")
        facts = {"n_left": len(left), "software": f"labctl {__version__}", **self._measurer.facts()}
        self._pace.event("begin", f"{len(left)} items to take", **facts)
        try:
            for status in left:
                self._pace.go_on()
                self._take(status)
            ending = Ending("complete")
        except End as end:
            ending = end.ending
        finally:
            self._folder.clear_now(self._bench)
            self._pace.event("end", ending.text, ended=ending.kind)
        return ending

    def _left(self, states: Mapping[int, ItemStatus]) -> list[ItemStatus]:
        """List the items of this bench that are to be taken, in the order of the schedule."""
        wanted = ("pending", "failed") if self._policy.retry_failed else ("pending",)
        found = [states[number] for number in self._folder.campaign.schedule]
        return [one for one in found if one.item.bench == self._bench and one.state in wanted]

    def _take(self, status: ItemStatus) -> None:
        """Try one item until it is done, or for the last time."""
        item, n_before = status.item, status.n_attempts
        # Attempts of an earlier run count, unless they were the last; one there is in any case.
        n_counted = n_before if status.state == "pending" else 0
        last = n_before + max(1, self._policy.n_attempts - n_counted)
        for number in range(n_before + 1, last + 1):
            if number > n_before + 1:
                self._pace.wait(self._policy.backoff_s * 2.0 ** (number - n_before - 2))
            if number > 1:
                self._recover(item)
            attempt = self._attempt(item, number, last)
            if attempt.failure == "safety":
                raise End("safety", attempt.error)
            if attempt.final:
                return
            self._pace.go_on()

    def _attempt(self, item: Item, number: int, last: int) -> Attempt:
        """Try an item once, and store what came of it."""
        begun_utc, begun_s = self._clocks.utc_text(), self._at_work_s()
        self._pace.with_room(lambda: self._folder.show_now(Now(self._bench, item.number, number, begun_utc)))
        self._show.began(item, number)
        outcome = self._pace.with_room(lambda: self._outcome(item, number))
        if outcome.failure == "safety":
            self._make_safe()
        done = not outcome.failure
        path = self._folder.capture_path(item, None if done else number)
        size, crc32 = (0, "") if outcome.capture is None else self._pace.store(path, outcome.capture)
        attempt = Attempt(
            item=item.number,
            key=item.key,
            number=number,
            state="done" if done else "failed",
            final=done or outcome.failure != "transient" or number >= last,
            begun_utc=begun_utc,
            ended_utc=self._clocks.utc_text(),
            elapsed_s=round(self._at_work_s() - begun_s, 3),
            failure=outcome.failure,
            error=outcome.error,
            capture=path.relative_to(self._folder.path).as_posix() if size else "",
            capture_bytes=size,
            capture_crc32=crc32,
            row=outcome.row,
        )
        self._pace.note(attempt)
        self._show.ended(item, attempt)
        if attempt.final and not done:
            self._call_hook(item, attempt)
        return attempt

    def _at_work_s(self) -> float:
        return self._clocks.monotonic_s() - self._pace.paused_s

    def _outcome(self, item: Item, number: int) -> _Outcome:
        """Measure and analyse. Raises DiskFull, which costs no attempt."""
        capture, row = None, {}
        try:
            capture = self._measurer.measure(item, number)
            result = analyze(capture, self._policy.power)
            row = _row(result, capture, self._policy.power)
            self._check_current(result)
        except Exception as error:
            failure = classify(error)
            if failure == "disk":
                raise DiskFull(text_of(error)) from error
            return _Outcome(capture, row, failure, text_of(error))
        return _Outcome(capture, row)

    def _check_current(self, result: Result) -> None:
        limit_a = self._policy.current_limit_a
        if limit_a is not None and result.current_max_a > limit_a:
            raise SafetyStop(
                f"the DUT drew {quantity(result.current_max_a, 'A')}, and the plan's limit is "
                f"{quantity(limit_a, 'A')}: look at the board before you go on"
            )

    def _recover(self, item: Item) -> None:
        """Bring the bench back for a new attempt; wait for an instrument that is away."""
        begun_s, pause_s, away = self._clocks.monotonic_s(), max(self._policy.backoff_s, AWAY_POLL_MIN_S), False
        while True:
            self._show.stage("bringing the bench back")
            try:
                self._measurer.recover(item)
                break
            except Exception as error:
                if classify(error) != "transient":
                    break  # the attempt meets it again, and says so
                text = text_of(error)
                left_s = self._policy.wait_s - (self._clocks.monotonic_s() - begun_s)
                if left_s <= 0:
                    span = time_text(self._policy.wait_s)
                    raise End("lost", f"the bench did not come back within {span}: {text}") from error
            if not away:
                self._show.note(f"{text}. Waiting for it, at most {time_text(self._policy.wait_s)}")
                self._pace.event("pause", text)
                away = True
            self._pace.wait(min(pause_s, left_s))
            pause_s = min(2 * pause_s, AWAY_POLL_MAX_S)
        if away:
            self._pace.event("go-on", "the bench is back")

    def _make_safe(self) -> None:
        try:
            self._measurer.make_safe()
        except Exception as error:  # noqa: BLE001 - the end comes all the same, and this is said
            self._show.note(f"the outputs could not be switched off: {text_of(error)}")

    def _call_hook(self, item: Item, attempt: Attempt) -> None:
        if self._policy.failure_hook is not None:
            told = _failure(self._folder.campaign.name, item, attempt) | {"error": self._pace.scrubbed(attempt.error)}
            hooks.report("failure", self._policy.failure_hook, told, self._show.note, self._pace.event)


def _failure(campaign: str, item: Item, attempt: Attempt) -> dict[str, Any]:
    """Make what the hook on failure is told, but for the error."""
    operation = item.operation
    return {
        "event": "failure", "campaign": campaign, "bench": item.bench, "item": item.number, "key": item.key,
        "board": item.board, "operation": operation.name, "bytes": operation.bytes, "attempts": attempt.number,
        "failure": attempt.failure,
    }


def _row(result: Result, capture: Capture, power: str) -> dict[str, Any]:
    """Make the row of a result as the journal keeps it."""
    row = to_json_rows([result], None, [headline(capture.truth, power)])[0]
    del row["captures"]
    return row
