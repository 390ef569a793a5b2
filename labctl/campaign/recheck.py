"""What a resume looks for in a campaign's folder before it goes on: captures that are damaged, or not acknowledged.

Nothing is removed: what lies in the way of a new capture is kept among those of failed attempts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from labctl.campaign import journal
from labctl.campaign.folder import FAILED, CampaignFolder
from labctl.campaign.journal import Journal
from labctl.campaign.model import Attempt, Item
from labctl.campaign.source import check_sound, place_of
from labctl.campaign.state import state_of
from labctl.errors import FileFault
from labctl.store.atomic import explained, sync_folder

Tell = Callable[[str], None]

DAMAGED, UNACKNOWLEDGED = "damaged", "unacknowledged"
# What is kept is named so, as seen from the campaign's folder.
SET_ASIDE = re.compile(rf"{FAILED}/.*-({DAMAGED}|{UNACKNOWLEDGED})[0-9]*\.h5", re.DOTALL)


def take_damaged_again(folder: CampaignFolder, past: Journal, now_utc: str, stage: Tell, note: Tell) -> None:
    """Have the items taken again whose captures are not the files that were stored, or are gone.

    Size and CRC-32 of every capture are compared with the journal, which then has a failed attempt of each such item.
    Raises DiskFull, EnvironmentFault where the folder cannot be written.
    """
    done = [one for one in state_of(folder.campaign, past).items if one.state == "done" and one.last is not None]
    n_again = 0
    for number, status in enumerate(done, 1):
        stage(f"checking capture {number} of {len(done)}")
        assert status.last is not None
        if _sound(folder.path, status.last):
            continue
        place = folder.capture_path(status.item)
        found = "is not the file that was stored" if place.exists() else "is missing"
        kept = f", and is kept as {_set_aside(folder.path, place, DAMAGED)}" if place.exists() else ""
        journal.append(folder.path, Attempt(
            item=status.item.number, key=status.item.key, number=status.n_attempts + 1, state="failed", final=False,
            begun_utc=now_utc, ended_utc=now_utc, elapsed_s=0.0, failure="transient",
            error=f"{place.relative_to(folder.path).as_posix()} {found}{kept}: its item is taken again",
        ))
        n_again += 1
    if n_again:
        items = "an item that was done is" if n_again == 1 else f"{n_again} items that were done are"
        note(f"{items} taken again: the capture is damaged or gone")


def keep_unacknowledged(folder: CampaignFolder, past: Journal, left: Sequence[Item], note: Tell) -> None:
    """Say where the journal is damaged, and keep what items that are to be taken have: a lost line may speak of it.

    Without damage such a file is what a crash left, and is replaced.
    """
    if not past.broken:
        return
    note(journal.damage(past.broken))
    known = journal.acknowledged(past)
    kept = []
    for item in left:
        place = folder.capture_path(item)
        for file in (place, *sorted((folder.path / FAILED).glob(f"{place.stem}-attempt*.h5"))):
            if file.exists() and file.relative_to(folder.path).as_posix() not in known:
                kept.append(_set_aside(folder.path, file, UNACKNOWLEDGED))
    if kept:
        files = "a capture" if len(kept) == 1 else f"{len(kept)} captures"
        note(f"{files} that no line speaks of, but of items that are taken now, can be found as {kept[0]}"
             + (" and so on" if len(kept) > 1 else ""))


def _sound(root: Path, attempt: Attempt) -> bool:
    try:
        check_sound(place_of(root, attempt.capture), attempt, again=True)
    except FileFault:
        return False
    return True


def _set_aside(root: Path, file: Path, why: str) -> str:
    """Move a capture among those of failed attempts, to a name that is free; give it as seen from the folder."""
    number, target = 1, root / FAILED / f"{file.stem}-{why}.h5"
    while os.path.lexists(target):
        number += 1
        target = target.with_name(f"{file.stem}-{why}{number}.h5")
    with explained(target):
        target.parent.mkdir(exist_ok=True)
        os.rename(file, target)
        sync_folder(target.parent)
        sync_folder(file.parent)
    return target.relative_to(root).as_posix()
