"""The folder of a campaign: made whole or not at all, opened, extended, and held by one runner at a time."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labctl.boards import clock_text
from labctl.campaign import document, journal, scrub
from labctl.campaign.model import SCHEMA_CAMPAIGN, Campaign, Item
from labctl.errors import BusyFault, FileFault
from labctl.model import Operation
from labctl.store.atomic import explained, new_file, sync_folder
from labctl.store.schema import file_part
from labctl.userfile import read_regular

CAMPAIGN = "campaign.json"
PLAN = "plan.toml"
CAPTURES = "captures"
FAILED = f"{CAPTURES}/failed"
LOCK = ".lock"

_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{8}\.tmp", re.DOTALL)
_NAME_MAX = 120
# More than the list of 100 000 items comes to; and than what is said of a process or an item.
N_BYTES_MAX = 1 << 28
_N_SMALL = 1 << 16
_PID_MAX = 1 << 22  # of Linux (proc(5), pid_max)


@dataclass(frozen=True)
class Holder:
    """The process that holds a campaign."""

    pid: int
    since_utc: str


@dataclass(frozen=True)
class Now:
    """The item that a bench has in work."""

    bench: str
    item: int
    attempt: int
    since_utc: str
    text: str = ""


class CampaignFolder:
    """One campaign on the disk: `path` is its folder, `campaign` what it is to take."""

    def __init__(self, path: Path, campaign: Campaign) -> None:
        self.path = path
        self.campaign = campaign

    def capture_path(self, item: Item, failed_attempt: int | None = None) -> Path:
        """Give the place of an item's capture, or of that which a failed attempt took."""
        return self.path / capture_name(item, failed_attempt)

    def extend(self, items: tuple[Item, ...], schedule: tuple[int, ...], plan_text: str) -> None:
        """Put a longer list in place of the old one, whose items it begins with.

        The plan is replaced before the list: killed in between, the same plan gives the same list again. Raises
        ValueError where an item of the old list is missing or changed, DiskFull, EnvironmentFault.
        """
        if tuple(items[: len(self.campaign.items)]) != self.campaign.items:
            raise ValueError("a campaign's list only grows: an item of the old one is missing, or is another now")
        campaign = dataclasses.replace(self.campaign, items=tuple(items), schedule=tuple(schedule))
        _replace(self.path / PLAN, plan_text.encode())
        _replace(self.path / CAMPAIGN, to_text(campaign))
        self.campaign = campaign

    @contextmanager
    def lock(self, since_utc: str) -> Iterator[None]:
        """Hold the campaign for the length of the block. What a process that died held is free.

        Raises BusyFault, naming the process and since when, where another one holds it.
        """
        path = self.path / LOCK
        with explained(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BusyFault(_who_holds(self.path)) from error
            with explained(path):
                os.ftruncate(descriptor, 0)
                text = json.dumps({"pid": os.getpid(), "since_utc": since_utc, "start": _start_of(os.getpid())})
                os.pwrite(descriptor, text.encode(), 0)
            try:
                yield
            finally:
                with suppress(OSError):
                    os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def show_now(self, now: Now) -> None:
        """Tell other terminals what a bench has in work; not fsynced, for it is worth nothing after a crash."""
        path = self._now_path(now.bench)
        temporary = path.with_name(f"{path.name}.tmp")
        with explained(path):
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            try:
                os.write(descriptor, json.dumps(dataclasses.asdict(now), sort_keys=True).encode())
            finally:
                os.close(descriptor)
            os.replace(temporary, path)

    def clear_now(self, bench: str) -> None:
        """Tell that a bench has nothing in work."""
        with suppress(OSError):
            self._now_path(bench).unlink(missing_ok=True)

    def now(self) -> tuple[Now, ...]:
        """Read what each bench has in work; empty where no process holds the campaign."""
        return read_now(self.path) if holder(self.path) is not None else ()

    def _now_path(self, bench: str) -> Path:
        return self.path / f".now-{file_part(bench)}.json"


def capture_name(item: Item, failed_attempt: int | None = None) -> str:
    """Name the capture of an item inside its folder, by its number and what it measures alone."""
    operation = item.operation
    parts = [f"{item.number:04d}", item.board, operation.name]
    parts += [str(operation.bytes)] if operation.bytes is not None else []
    plain = Operation(operation.name)
    parts += [operation.implementation] if operation.implementation != plain.implementation else []
    parts += [operation.profile] if operation.profile != plain.profile else []
    parts += [clock_text(operation.clock_hz).replace(" ", "")] if operation.clock_hz is not None else []
    parts += [operation.variant] if operation.variant else []
    name = "-".join(file_part(part) for part in parts)[:_NAME_MAX]
    if failed_attempt is None:
        return f"{CAPTURES}/{name}.h5"
    return f"{FAILED}/{name}-attempt{failed_attempt}.h5"


def create(out: Path, plan_text: str, campaign: Campaign) -> CampaignFolder:
    """Make the folder of a campaign: under a name of its own, complete and fsynced, then renamed to `out`.

    An empty folder is taken as it is. Facts of benches lose what names a place (`scrub.facts`). Raises FileFault where
    there is something at `out`, DiskFull, EnvironmentFault.
    """
    campaign = dataclasses.replace(campaign, benches=tuple(scrub.facts(bench) for bench in campaign.benches))
    with new_folder(out) as temporary:
        for name, data in _first_files(plan_text, campaign).items():
            write_file(temporary / name, data)
    return CampaignFolder(out, campaign)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Give a folder of another name beside `out`, with those for captures in it; at the block's end it becomes `out`.

    When the block raises, or the process dies, there is nothing at `out`; what it left goes with the next one. Raises
    FileFault where there is something at `out` but an empty folder, DiskFull, EnvironmentFault.
    """
    with explained(out):
        if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
            raise FileExistsError(str(out))
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(out.parent)
        temporary, descriptor = _create_locked(out)
    try:
        with explained(out):
            for name in (CAPTURES, FAILED):
                os.mkdir(temporary / name)
        yield temporary
        with explained(out):
            for folder in (FAILED, CAPTURES, "."):
                sync_folder(temporary / folder)
            try:
                os.rename(temporary, out)
            except OSError as error:
                # Whoever else came first has put something there.
                raise FileExistsError(str(out)) if out.exists() and any(out.iterdir()) else error from error
            sync_folder(out.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """Write a new file and have it on the disk. Raises DiskFull, EnvironmentFault."""
    with explained(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_campaign(path: Path) -> CampaignFolder:
    """Open the folder of a campaign. Raises FileFault where it is none, or was written by a newer labctl."""
    return CampaignFolder(path, from_text(campaign_bytes(path), str(path / CAMPAIGN)))


def campaign_bytes(path: Path) -> bytes:
    """Read the list of a campaign's folder. Raises FileFault where it is none."""
    if not os.path.lexists(path / CAMPAIGN):
        reason = f"it holds no {CAMPAIGN}" if path.is_dir() else "there is no such folder"
        raise FileFault(f"{path} is no campaign: {reason}; give the folder that `labctl campaign run` named")
    return read_regular(path / CAMPAIGN, N_BYTES_MAX)


def to_text(campaign: Campaign) -> bytes:
    """Write a campaign as JSON."""
    fields = {"schema": SCHEMA_CAMPAIGN, **dataclasses.asdict(campaign)}
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False, indent=1)
    return text.encode("utf-8", "backslashreplace")


def from_text(data: bytes, where: str) -> Campaign:
    """Read a campaign back. Raises FileFault where it is none, or was written by a newer labctl."""
    try:
        return document.campaign_of(document.parse(data))
    except FileFault as fault:
        raise FileFault(f"{where} {fault}") from fault
    except ValueError as error:
        raise FileFault(f"{where} is damaged, or of a newer labctl ({error}): read it with the labctl that wrote it, "
                        "or put the file back from a copy") from error


def holder(path: Path) -> Holder | None:
    """Tell which living process holds a campaign, without touching its lock."""
    try:
        told = document.parse(read_regular(path / LOCK, _N_SMALL))
        start = told.pop("start")
        found: Holder = document.built(Holder, told)
    except (FileFault, ValueError, LookupError, TypeError, AttributeError):
        return None
    return found if 0 < found.pid < _PID_MAX and _start_of(found.pid) == start else None


def read_now(path: Path) -> tuple[Now, ...]:
    """Read what each bench has, or had when its runner died, in work."""
    found = []
    for file in sorted(path.glob(".now-*.json")):
        with suppress(FileFault, ValueError):  # taken away meanwhile
            found.append(document.built(Now, document.parse(read_regular(file, _N_SMALL))))
    return tuple(found)


def bench_files(campaign: Campaign) -> dict[str, bytes]:
    """Give the files that hold the facts of each bench, by name."""
    return {f"bench-{file_part(str(bench['name']))}.toml": _toml(bench).encode() for bench in campaign.benches}


def _first_files(plan_text: str, campaign: Campaign) -> dict[str, bytes]:
    return {**bench_files(campaign), PLAN: plan_text.encode(), journal.NAME: b"", CAMPAIGN: to_text(campaign)}


def _toml(facts: Mapping[str, Any]) -> str:
    """Write facts of a bench as TOML: plain values first, then each table. What is not known is left out."""
    lines = [f"{key} = {_literal(value)}" for key, value in facts.items() if not isinstance(value, Mapping | None)]
    for name, table in facts.items():
        if isinstance(table, Mapping):
            lines += ["", f"[{name}]", *(f"{key} = {_literal(one)}" for key, one in table.items() if one is not None)]
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    from labctl.benchtext import literal

    return "[" + ", ".join(map(_literal, value)) + "]" if isinstance(value, list | tuple) else literal(value)


def _replace(path: Path, data: bytes) -> None:
    with new_file(path, overwrite=True) as sink:
        sink.write(data)


def _create_locked(out: Path) -> tuple[Path, int]:
    """Make a folder beside `out`; the lock on it tells others that its maker is alive."""
    while True:
        temporary = out.with_name(f".{out.name}.{secrets.token_hex(4)}.tmp")
        temporary.mkdir()
        try:
            descriptor = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # taken for a leftover in the instant before it was locked
            continue
        with suppress(OSError):  # some network disks lock no folders; there leftovers stay
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if temporary.exists():
            return temporary, descriptor
        os.close(descriptor)


def _remove_leftovers(parent: Path) -> None:
    """Remove what makers of folders left that died: a living one holds a lock on its own."""
    for name in os.listdir(parent):
        path = parent / name
        if not _TEMPORARY.fullmatch(name) or not path.is_dir() or path.is_symlink():
            continue
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if all(is_ours(one) for one in os.listdir(path)):
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


def is_ours(name: str) -> bool:
    """Tell whether a name at the top of a campaign's folder is one that is kept there for good."""
    return name in (PLAN, journal.NAME, CAMPAIGN, CAPTURES) or (name.startswith("bench-") and name.endswith(".toml"))


def _who_holds(path: Path) -> str:
    by = holder(path)
    who = f"process {by.pid} since {by.since_utc}" if by is not None else "another process"
    return f"{path} is being worked on by {who}: wait for its end, or stop that process first"


def _start_of(pid: int) -> str | None:
    """Give when a process began, in the kernel's ticks, so that a number used again is told; None where it is gone.

    Field 22 of /proc/PID/stat (proc(5)); without /proc, that the process exists must do.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()[19]
    except OSError:
        if os.path.exists("/proc/self/stat"):
            return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return ""
    return ""
