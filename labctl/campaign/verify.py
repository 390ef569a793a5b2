"""Check a campaign, in its folder or packed: every capture that the journal speaks of, and what else lies there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from labctl.campaign import folder, journal
from labctl.campaign.model import Attempt, Campaign, Item
from labctl.campaign.recheck import SET_ASIDE
from labctl.campaign.source import TAKE_AGAIN, Source, check_sound, open_source
from labctl.campaign.verifyplan import capture_faults, plan_findings
from labctl.errors import FileFault
from labctl.store import open_capture, verify_capture

Progress = Callable[[str, int, int], None]

# What is kept in a campaign's folder for no longer than a runner works, or can be made again.
_PASSING = re.compile(r"\.lock|\.now-.*|tables(/.*)?", re.DOTALL)


@dataclass(frozen=True)
class Report:
    """What was found: `n_captures` checked, of `n_bytes`; faults, which no campaign should have; and other findings.

    `damaged` are the captures that are missing or are not what was stored, and can be taken again. `n_failed` items
    have no result.
    """

    n_captures: int
    n_bytes: int
    faults: tuple[str, ...]
    notes: tuple[str, ...]
    damaged: tuple[str, ...] = ()
    n_failed: int = 0


def verify(path: Path, progress: Progress = lambda *_: None) -> Report:
    """Check a campaign's folder, or the file that `pack` made of one, and change nothing.

    Of each capture that the journal acknowledges: that it is there, the CRC-32 of its file, the CRC of every dataset,
    and that it belongs to its item and bench. Of the rest: that the plan comes to the list, that the schedule has every
    item, the facts of the benches, and every member of a pack. What a crash leaves is no fault: the end of a line, a
    capture without its line. Raises FileFault where `path` is no campaign at all.
    """
    with open_source(path) as source:
        return _Check(source, progress).run()


class _Check:
    def __init__(self, source: Source, progress: Progress) -> None:
        self._source = source
        self._progress = progress
        self._faults: list[str] = []
        self._notes: list[str] = []
        self._damaged: list[str] = []

    def run(self) -> Report:
        campaign, noted = self._source.campaign, self._source.journal
        self._check_journal(noted)
        self._check_attempts(campaign, noted.attempts)
        acknowledged = journal.acknowledged(noted)
        items = {item.number: item for item in campaign.items}
        names = self._source.names()
        self._check_names(names, acknowledged, campaign)
        self._check_files(names)
        for finding in plan_findings(self._source, names):
            (self._faults if finding.is_fault else self._notes).append(finding.text)
        n_bytes = 0
        for done, (name, attempt) in enumerate(acknowledged.items()):
            self._progress(name, done, len(acknowledged))
            n_bytes += attempt.capture_bytes
            if attempt.item in items:
                self._check_capture(name, attempt, items[attempt.item])
        return Report(
            len(acknowledged), n_bytes, tuple(self._faults), tuple(self._notes), tuple(self._damaged),
            self._source.state().n_failed,
        )

    def _check_files(self, names: Sequence[str]) -> None:
        """Read every file that is no capture: those of a pack have a CRC each."""
        for name in names:
            if folder.is_ours(name):
                try:
                    self._source.read(name)
                except FileFault as fault:
                    self._faults.append(str(fault))
        self._notes += [f"{name} is no part of the campaign" for name in self._source.strays()]

    def _check_journal(self, noted: journal.Journal) -> None:
        for number in noted.broken:
            self._faults.append(f"{journal.NAME}, line {number} is damaged: what it spoke of is not known")
        if noted.n_torn:
            lines = "line was" if noted.n_torn == 1 else "lines were"
            self._notes.append(f"{noted.n_torn} {lines} cut off in {journal.NAME} by a crash; nothing that was done is "
                               "lost")

    def _check_attempts(self, campaign: Campaign, attempts: Sequence[Attempt]) -> None:
        items = {item.number: item for item in campaign.items}
        for attempt in attempts:
            item = items.get(attempt.item)
            what = f"the journal's attempt {attempt.number} at item {attempt.item}"
            if item is None:
                self._faults.append(f"{what} is at no item of {folder.CAMPAIGN}")
                continue
            if item.key != attempt.key:
                self._faults.append(f"{what} is of {attempt.key}, but that item is {item.key}")
            done = attempt.state == "done"
            place = folder.capture_name(item, None if done else attempt.number)
            if attempt.capture != place and (done or attempt.capture):
                self._faults.append(f"{what} names the capture {attempt.capture or 'none'}, but its place is {place}")

    def _check_names(self, names: Sequence[str], acknowledged: dict[str, Attempt], campaign: Campaign) -> None:
        wanted = {folder.PLAN, *folder.bench_files(campaign)}
        for name in sorted(wanted - set(names)):
            self._faults.append(f"{name} is missing")
        for name in names:
            if name in acknowledged or folder.is_ours(name) or _PASSING.fullmatch(name):
                continue
            if name.endswith(".tmp"):
                self._notes.append(f"{name} is being written, or left over from a crash: the next capture removes it")
            elif SET_ASIDE.fullmatch(name):
                self._notes.append(f"{name} was in the way of a new capture and is kept; no result counts it")
            elif name.startswith(f"{folder.CAPTURES}/") and name.endswith(".h5"):
                self._notes.append(f"{name} has no line in the journal: its item is in work, or is taken again")
            else:
                self._notes.append(f"{name} is no part of the campaign")

    def _check_capture(self, name: str, attempt: Attempt, item: Item) -> None:
        found: list[str] = []
        try:
            with self._source.place(name) as path:
                try:
                    check_sound(path, attempt, again=True)
                except FileFault as fault:
                    found.append(str(fault).removesuffix(f": {TAKE_AGAIN}"))
                    self._damaged.append(name)
                if path.is_file():
                    found += self._problems(name, path, item)
        except (FileFault, OSError) as fault:
            found.append(str(fault).removesuffix(f": {TAKE_AGAIN}"))
        self._faults += dict.fromkeys(found)

    def _problems(self, name: str, path: Path, item: Item) -> list[str]:
        problems = [problem.replace(str(path), name) for problem in verify_capture(path)]
        problems += self._source.problems(name)
        if problems:
            return [f"{name}: {problem}".replace(f"{name}: {name}", name) for problem in problems]
        benches = {str(bench["name"]): dict(bench) for bench in self._source.campaign.benches}
        with open_capture(path) as capture:
            others = capture_faults(capture, item, benches.get(item.bench, {}))
        return [f"{name} does not belong to item {item.number}: it holds {', '.join(others)}"] if others else []
