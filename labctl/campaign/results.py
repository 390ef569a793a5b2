"""The results of campaigns, folders of captures and single captures as rows of a table; analysed once, then kept.

What a journal acknowledges is read and analysed. Rows that were analysed are kept in `tables/` of the folder, by the
CRC-32 of the capture and by the labctl that analysed it; that file can be deleted, and a folder that cannot be written
does without.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from labctl.analysis.result import analyze
from labctl.campaign import journal
from labctl.campaign.folder import CAMPAIGN, PLAN
from labctl.campaign.model import Campaign
from labctl.campaign.pack import Pack
from labctl.campaign.plan import parse_plan
from labctl.campaign.rowcache import RowCache
from labctl.campaign.source import Source, open_source, place_of
from labctl.campaign.state import ItemStatus
from labctl.errors import CaptureError, ConfigError, FileFault
from labctl.memory.document import read_rows
from labctl.model import Capture, Operation, Result
from labctl.report.tables import render
from labctl.report.tables.columns import MEMORY
from labctl.report.tables.row import DONE, FAILED, Row, Value, arranged, bench_text
from labctl.report.tables.sheet import Layout

Progress = Callable[[str, int, int], None]
Note = Callable[[str], None]
# What of a row labctl memory knows by.
_SUBJECT = ("board", "operation", "bytes", "implementation", "profile", "clock_hz", "variant")


def campaign_table(folder: Path, format: str = "csv") -> str:
    """Make the table of a campaign, or of its pack, with all of it: items, baselines and references, done or not."""
    return render.render(load_rows([folder]), format, Layout(roles=()))


def load_rows(
    paths: Sequence[Path], power: str | None = None, progress: Progress = lambda *_: None, note: Note = lambda _: None
) -> list[Row]:
    """Load the rows of campaigns, packed or not, of captures, and of what `labctl memory --json` printed.

    `power`, "dut" or "supply", chooses the headline; without it a campaign's is that of its plan, of other captures the
    DUT's. A capture that gives no number is a failed row with the reason.
    `note` is told of a campaign whose journal is damaged.
    Raises FileFault for what is none of these.
    """
    memory: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    rows: list[Row] = []
    for path in paths:
        if path.suffix == ".json" and path.is_file():
            memory |= {_subject(row): row for row in _memory_rows(path)}
        elif (path / CAMPAIGN).is_file():
            rows += _campaign_rows(path, power, progress, note)
        elif path.is_file() and _is_pack(path):
            rows += _pack_rows(path, power, progress, note)
        else:
            rows += _capture_rows(path, power or "dut", progress)
    if memory and not rows:
        raise ConfigError("memory figures alone make no table here: name the folder of a campaign, or captures, too")
    return arranged(_with_memory(row, memory.get(_subject(asdict(row)))) for row in rows)


def _campaign_rows(path: Path, power: str | None, progress: Progress, note: Note) -> Iterator[Row]:
    with open_source(path) as source:
        headline = power or _headline(source)
        with RowCache(path, headline) as cache:
            for status in _statuses(source, progress, note):
                yield replace(_item_row(source.campaign, status, cache), power_of=headline)


def _headline(source: Source) -> str:
    """Give the headline power of a campaign's plan, the DUT's where that cannot be read any more."""
    try:
        return parse_plan(source.read(PLAN).decode(), PLAN).campaign.power
    except (FileFault, ConfigError, UnicodeDecodeError):
        return "dut"


def _statuses(source: Source, progress: Progress, note: Note) -> Iterator[ItemStatus]:
    """Give the items one by one, saying how far it is and what of the journal is damaged."""
    if damage := journal.damage(source.journal.broken):
        note(f"{source.where}: {damage}")
    items = source.state().items
    for number, status in enumerate(items):
        progress(f"{source.campaign.name}: {status.item.key}", number, len(items))
        yield status


def _is_pack(path: Path) -> bool:
    try:
        with Pack(path):
            return True
    except FileFault:
        return False


def _pack_rows(path: Path, power: str | None, progress: Progress, note: Note) -> Iterator[Row]:
    """Give the rows of a packed campaign, from one capture at a time made again in a folder that is removed."""
    with Pack(path) as packed, open_source(path) as source, tempfile.TemporaryDirectory() as place:
        headline = power or _headline(source)
        with RowCache(Path(place), headline, keep=False) as cache:
            for status in _statuses(source, progress, note):
                row = _packed_row(packed, source.campaign, status, Path(place), cache)
                yield replace(row, power_of=headline)


def _packed_row(packed: Pack, campaign: Campaign, status: ItemStatus, place: Path, cache: RowCache) -> Row:
    if status.state != DONE or status.last is None:
        return _item_row(campaign, status, cache)
    try:
        capture = place_of(place, status.last.capture)
        capture.parent.mkdir(parents=True, exist_ok=True)
        packed.rebuild(status.last.capture, capture)
    except FileFault as fault:
        return replace(_item_row(campaign, status, cache), state=FAILED, reason=_unpacked(fault, packed.path))
    row = _item_row(campaign, status, cache)
    capture.unlink()
    return row


def _unpacked(fault: FileFault, path: Path) -> str:
    """Say what is wrong in a pack without where it lies: a table depends on the data alone."""
    return str(fault).replace(f"{path} is", "the pack is")


def _item_row(campaign: Campaign, status: ItemStatus, cache: RowCache) -> Row:
    item, last = status.item, status.last
    row = _row_of(item.board, item.operation, campaign.bench_facts(item.bench))
    row = replace(row, role=item.role, repeat=item.repeat + 1)
    if status.state != DONE or last is None:
        return replace(row, state=status.state, reason=last.error if last is not None else "")
    found = cache.get(last.capture, _analysed, last) or row
    return replace(
        row, emulated=row.emulated if found.emulated is None else found.emulated, state=found.state,
        reason=found.reason, n_runs=found.n_runs, n_iterations=found.n_iterations, memory_of=found.memory_of,
        values=found.values, warnings=found.warnings, captures=(last.capture,),
    )


def _capture_rows(path: Path, power: str, progress: Progress) -> Iterator[Row]:
    """Give the rows of a folder of captures, or of one."""
    files = [path] if path.is_file() else sorted(path.glob("*.h5"))
    if not files:
        raise FileFault(f"{path} holds neither a campaign nor captures (*.h5); name a folder that does")
    with RowCache(path if path.is_dir() else path.parent, power, keep=path.is_dir()) as cache:
        for number, file in enumerate(files):
            progress(file.name, number, len(files))
            found = cache.get(file.name, _analysed)
            if found is not None:
                yield replace(found, captures=(file.name,), power_of=power)


def _analysed(capture: Capture, power: str) -> Row | None:
    """Make the row of a capture, a failed one where it gives no number; None for one that is no measurement."""
    if capture.provenance.get("what") == "calibration":
        return None
    operation = capture.operation or Operation("unknown")
    board = str(capture.board.get("name", ""))
    operation = replace(operation, clock_hz=operation.clock_hz or capture.board.get("clock_hz"))
    row = _row_of(board, operation, capture.provenance.get("bench", {}))
    try:
        result = analyze(capture, power)
    except (CaptureError, ConfigError) as error:
        return replace(row, state=FAILED, reason=str(error))
    return replace(
        row, n_runs=result.n_runs, n_iterations=result.n_iterations, warnings=result.warnings,
        values={**values_of(result), **_image_memory(capture.manifest)},
        memory_of="image" if _image_memory(capture.manifest) else "",
    )


def _row_of(board: str, operation: Operation, bench: Mapping[str, Any]) -> Row:
    """Give the coordinates of an operation on a board and a bench."""
    emulated = bench.get("emulated")
    return Row(
        board, operation.name, operation.bytes, operation.implementation, operation.profile, operation.clock_hz,
        operation.variant, bench=bench_text(bench), emulated=None if emulated is None else bool(emulated),
    )


def values_of(result: Result) -> dict[str, Value]:
    """Give the quantities of a result that are known, each with its expanded uncertainty.

    What follows from one uncertain number alone, the throughput from the duration for instance, has the relative
    uncertainty of that one. Spreads are over the mean unless that may as well be nothing. That within a run has
    no uncertainty: the decoupling blunts it by what its tolerance leaves open.
    """
    energy_j, duration_s, power_w = result.energy_mean_j, result.duration_mean_s, result.power_mean_w
    found: dict[str, tuple[float | None, float | None]] = {
        "energy": (energy_j, result.energy_expanded_j),
        "power": (power_w, result.power_expanded_w),
        "current": (result.current_mean_a, result.current_expanded_a),
        "duration": (duration_s, result.duration_expanded_s),
        "cycles": (result.cycles_mean, result.cycles_expanded),
        "energy_net_idle": (result.energy_net_idle_j, None),
        "current_max": (result.current_max_a, None),
        "duration_max": (result.duration_max_s, None),
    }
    if result.n_runs > 1 and abs(energy_j) > result.energy_expanded_j:
        found["fluctuation_between"] = _ratio(result.energy_std_j, result.energy_std_expanded_j, abs(energy_j))
    if result.power_ripple_w is not None and abs(power_w) > result.power_expanded_w:
        found["fluctuation_within"] = (result.power_ripple_w / abs(power_w), None)
    if result.bytes:
        rate = result.bytes / duration_s
        found["throughput"] = (rate, rate * result.duration_expanded_s / duration_s)
        found["energy_per_byte"] = _ratio(energy_j, result.energy_expanded_j, result.bytes)
        if result.cycles_mean is not None:
            found["cycles_per_byte"] = _ratio(result.cycles_mean, result.cycles_expanded, result.bytes)
    return {
        key: Value(float(number), float(expanded) if expanded is not None and math.isfinite(expanded) else None)
        for key, (number, expanded) in found.items() if number is not None and math.isfinite(number)
    }


def _ratio(number: float, expanded: float | None, over: float) -> tuple[float, float | None]:
    return number / over, None if expanded is None else expanded / over


def _image_memory(manifest: Mapping[str, Any]) -> dict[str, Value]:
    """Take the sizes of the image from its build manifest: flash, data and bss, and the room for the stack."""
    try:
        flash, data, bss, stack = (int(manifest[f"{key}_bytes"]) for key in ("flash", "data", "bss", "stack"))
    except (KeyError, TypeError, ValueError):
        return {}
    return {"flash": Value(float(flash)), "ram": Value(float(data + bss)), "stack": Value(float(stack))}


def _with_memory(row: Row, memory: Mapping[str, Any] | None) -> Row:
    """Put the operation's own figures, where labctl memory found some, in the place of its image's."""
    if memory is None:
        return row
    own = {key: Value(float(memory[f"{key}_bytes"])) for key in MEMORY}
    return replace(row, values={**row.values, **own}, memory_of="operation")


def _memory_rows(path: Path) -> list[Mapping[str, Any]]:
    rows, _ = read_rows(path)
    if any(key not in row for row in rows for key in _SUBJECT):
        raise FileFault(f"{path} is nothing that labctl memory --json printed: a row has not all of "
                        f"{', '.join(_SUBJECT)}")
    return rows


def _subject(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in _SUBJECT)
