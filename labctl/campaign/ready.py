"""Make the benches of a campaign ready: files, firmware, who answers, wiring, and room on the disk."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from labctl import boards
from labctl.analysis.finding import FAULT, WARNING
from labctl.bench import find_bench_file
from labctl.benchfile import BenchFile
from labctl.campaign import scrub
from labctl.campaign.attempt import Station, opened
from labctl.campaign.items import fits_fault
from labctl.campaign.journal import size_and_crc32
from labctl.campaign.model import Item
from labctl.campaign.plan import Plan
from labctl.campaign.planfile import BenchSection
from labctl.checkup import check_bench
from labctl.dated import check_resistance, read_dated
from labctl.errors import ConfigError, DeviceStable, DiskFull, EnvironmentFault, FileFault, Unsupported
from labctl.firmware import Image, ensure, image_for
from labctl.firmware_source import stale_sentence
from labctl.simulation import Simulation
from labctl.units import size_text

Stage = Callable[[str], None]
# A shorter word of a hook's command would be found in every other sentence.
_SECRET_MIN = 8


def with_bench(plan: Plan, bench_file: Path | None) -> Plan:
    """Put a bench file in the place of that of the plan's only bench; None leaves the plan as it is.

    Raises ConfigError where the plan has several benches.
    """
    if bench_file is None:
        return plan
    if len(plan.benches) > 1:
        raise ConfigError("--bench names one bench file, and the plan has several benches: name the files in the plan")
    section = plan.benches[0].model_copy(update={"file": str(bench_file.absolute())})
    return dataclasses.replace(plan, benches=(section,))


def stations(plan: Plan, items: Sequence[Item], stage: Stage = lambda *_: None) -> list[Station]:
    """Give each bench of the plan that has items to take, with the firmware of each item, built where it is missing.

    An image that does not fit its board costs its items later, with the reason. Raises ConfigError for what a file
    says wrong, EnvironmentFault where firmware that an emulated bench needs cannot be built.
    """
    found = []
    for section in plan.benches:
        own = [item for item in items if item.bench == section.name]
        if own:
            found.append(_station(plan, section, own, stage))
    return found


def check(station: Station, items: Sequence[Item], stage: Stage, note: Stage) -> None:
    """Look at a bench before the first item: its firmware, who answers, and on a real one how every board is wired.

    Raises ConfigError where a person would have to put one board in the place of another, or to switch its supply,
    DeviceStable for a fault that is found, and what opening the bench and flashing raise.
    """
    _check_places(station, items)
    images = dict.fromkeys(station.images[item.number] for item in items)
    for sentence in (stale_sentence(image) for image in images if isinstance(image, Image)):
        if sentence:
            note(sentence)
    firsts: dict[str, Item] = {}
    for item in items:
        if isinstance(station.images[item.number], Image):
            firsts.setdefault(item.board, item)
    for item in list(firsts.values())[: 1 if station.file is None else None]:
        stage(f"checking bench {station.name} with {item.board}")
        with opened(station, item, stage) as bench:
            bench.scope.identify()
            bench.dut.hello()
            if bench.simulation is not None:
                continue  # nothing of it can be wired wrongly
            if bench.switch is None and station.zero is None:
                raise ConfigError(
                    f"bench {station.name}: [dut] power is \"manual\", and nobody is there at night to switch it for "
                    "the zero reading: name the supply's switch there, or an earlier zero reading (zero) in the plan"
                )
            for finding in check_bench(bench, lambda text, *_: stage(text), parts=False):
                if finding.status == FAULT:
                    raise DeviceStable(
                        f"bench {station.name} with {item.board}, {finding.name}: {finding.text}. Look at it alone: "
                        "labctl bench check"
                    )
                if finding.status == WARNING:
                    note(f"bench {station.name} with {item.board}, {finding.name}: {finding.text}")


def _check_places(station: Station, items: Sequence[Item]) -> None:
    """Raise ConfigError where a board of the plan has no place of its own on a real bench."""
    if station.file is None:
        return
    there = [dut.board for dut in station.file.duts]
    for item in items:
        if item.board not in there:
            raise ConfigError(
                f"bench {station.name} has a place for {' and '.join(there)}, and the plan has {item.board} on it: "
                "nobody puts one board in the place of another at night. List both as [[dut]] in the bench file"
            )


def check_room(folder: Path, n_bytes: int, disk_bytes: int | None) -> None:
    """Raise DiskFull where what is still to be stored does not fit; with a budget of disk no more than this is."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    about = os.statvfs(place)
    free_bytes = about.f_bavail * about.f_frsize
    needed_bytes = n_bytes if disk_bytes is None else min(n_bytes, disk_bytes)
    if needed_bytes > free_bytes:
        raise DiskFull(
            f"the campaign takes about {size_text(needed_bytes)} more, and where {folder} lies there are "
            f"{size_text(free_bytes)} free: make room, choose another place, or say how much it may take "
            "([budget] disk)"
        )


def facts(plan: Plan, section: BenchSection) -> dict[str, Any]:
    """Tell of a bench what its campaign's folder keeps: no addresses, and of files size and CRC-32 alone.

    Raises ConfigError where a file is not named, FileFault where one cannot be read.
    """
    file, overrides = _file(plan, section)
    emulated = file is None
    if file is None:
        file = Simulation(boards.load(section.boards[0]), plan.bench_seed(section.name)).bench_file()
    values = overrides(file).model_dump()
    tables = {name: values[name] for name in ("supply", "shunt", "scope", "meter") if values[name] is not None}
    seed = {"seed": plan.bench_seed(section.name)} if emulated else {}
    readings = {
        "zero_reading": None if section.zero is None else _content(plan.path_of(section.zero)),
        "calibration_readings": sorted(_content(plan.path_of(name)) for name in section.calibrations),
    }
    return {
        "name": section.name, "emulated": emulated, "boards": list(section.boards), "headline": plan.campaign.power,
        **seed, **readings, **tables,
    }


def _content(path: Path) -> str:
    """Tell a file's content from another's, without its name."""
    try:
        size, crc32 = size_and_crc32(path)
    except OSError as error:
        raise FileFault(f"{path} cannot be read ({error.strerror}): correct its name in the plan") from error
    return f"{size} bytes with CRC-32 {crc32}"


def withheld(section: BenchSection) -> list[str]:
    """List what of a bench was given when its campaign began, is not kept in the folder, and is not given now."""
    return [key for key in section.withheld if not getattr(section, key)]


def secrets(plan: Plan, found: Sequence[Station]) -> dict[str, str]:
    """List what no text may hold, and what stands for it: addresses and long words of hooks, addresses, files."""
    hidden: dict[str, str] = {}
    for hook in (plan.hooks.finish, plan.hooks.failure):
        words = [hook] if isinstance(hook, str) else hook or []
        for word in words:
            if len(word) >= _SECRET_MIN:
                hidden |= scrub.secrets_of(word, scrub.SECRET)
    for section in plan.benches:
        files = {section.file: "the bench file", section.zero: "the zero reading"}
        for name, mark in (files | dict.fromkeys(section.calibrations, "the calibration")).items():
            if name and "." in name:  # another may be any word
                hidden |= {name: mark, str(plan.path_of(name)): mark}
    for file in (station.file for station in found if station.file is not None):
        hidden |= scrub.secrets_of(file.recorder.resource, "the meter" if file.meter else "the oscilloscope")
        for dut in file.duts:
            hidden |= scrub.secrets_of(dut.port, "the DUT")
            if dut.power not in ("manual", "meter"):
                hidden |= scrub.secrets_of(dut.power, "the supply's switch")
    return hidden


def _station(plan: Plan, section: BenchSection, items: Sequence[Item], stage: Stage) -> Station:
    file, overrides = _file(plan, section)
    zero = None if section.zero is None else plan.path_of(section.zero)
    calibrations = tuple(map(plan.path_of, section.calibrations))
    dated = read_dated(calibrations, zero)

    def checked(of: BenchFile) -> BenchFile:
        of = overrides(of)
        if of.shunt is not None:
            check_resistance(dated, of.shunt.resistance_ohm)
        return of

    return Station(
        section.name, file, plan.bench_seed(section.name), checked,
        images=_images(items, file is None, stage), zero=zero, calibrations=calibrations,
        temperature_degc=plan.campaign.temperature_degc,
        faults=lambda item, attempt: _faults(plan, item, attempt),
    )


def _file(plan: Plan, section: BenchSection) -> tuple[BenchFile | None, Callable[[BenchFile], BenchFile]]:
    """Read a bench's file, None for an emulated one; give what the plan says in place of the file beside it."""

    def overrides(of: BenchFile) -> BenchFile:
        return of.with_values(shunt_ohm=section.shunt_ohm, supply_v=section.supply_v)

    if missing := withheld(section):
        raise ConfigError(
            f"the campaign's folder does not keep {' and '.join(missing)} of bench {section.name}, which name this "
            "machine's files: give the plan that it was begun with (--plan FILE)"
        )
    return (None if section.file is None else find_bench_file(plan.path_of(section.file))), overrides


def _images(items: Sequence[Item], emulated: bool, stage: Stage) -> dict[int, Image | Unsupported]:
    """Choose and build the image of each item; where one does not fit its board the next smaller one."""
    unfit: dict[Image, Unsupported] = {}
    ready: set[Image] = set()
    found: dict[int, Image | Unsupported] = {}
    for item in items:
        found[item.number] = _image(item, ready, unfit, emulated, stage)
    return found


def _image(
    item: Item, ready: set[Image], unfit: dict[Image, Unsupported], emulated: bool, stage: Stage
) -> Image | Unsupported:
    reason: Unsupported | None = None
    while True:
        try:
            image = image_for(boards.load(item.board), item.operation, unfit)
        except Unsupported as error:
            return reason or error
        if image in ready:
            return image
        try:
            ensure(image, lambda text, *_: stage(text))
        except Unsupported as error:
            unfit[image] = reason = error
            continue
        except EnvironmentFault:
            # A real board may have the right firmware already; where it has not, flashing says what is missing.
            if emulated:
                raise
        ready.add(image)
        return image


def _faults(plan: Plan, item: Item, attempt: int) -> dict[str, Any]:
    """Give what is to go wrong, on an emulated bench, in an attempt at an item."""
    told: dict[str, Any] = {}
    for fault in plan.faults:
        if attempt in fault.attempts and fits_fault(fault, item):
            told |= fault.faults | ({} if fault.kill is None else {"kill": fault.kill})
    return told
