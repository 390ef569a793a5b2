"""One attempt at one item: open its bench, have the right firmware there, take the capture."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from labctl import flash, measure
from labctl.bench import Bench, open_bench
from labctl.benchfile import BenchFile
from labctl.campaign.model import Item
from labctl.campaign.work import Measurer
from labctl.errors import DeviceStable, FileFault, NobodyThere, Unsupported
from labctl.firmware import Image, mismatch
from labctl.firmware_image import read_manifest
from labctl.model import Capture

Stage = Callable[[str], None]


@dataclass(frozen=True)
class Station:
    """A bench of a campaign, made ready: `file` is None for an emulated one, which `seed` draws.

    Whoever opens it holds its locks (`benchlock`) already.
    `images` tells the firmware of each item by its number, or why there is none. `faults` gives what goes wrong on an
    emulated bench in an attempt at an item.
    """

    name: str
    file: BenchFile | None
    seed: int
    overrides: Callable[[BenchFile], BenchFile] = lambda file: file
    images: Mapping[int, Image | Unsupported] = field(default_factory=dict)
    zero: Path | None = None
    calibrations: tuple[Path, ...] = ()
    temperature_degc: float | None = None
    faults: Callable[[Item, int], Mapping[str, Any]] = lambda *_: {}

    def builds(self) -> dict[str, str]:
        """Tell the build of every image that is there, by board and folder: the identity of its content."""
        there = {image for image in self.images.values() if isinstance(image, Image) and image.built}
        found: dict[str, str] = {}
        for image in there:
            with contextlib.suppress(FileFault):  # its items fail with the reason
                found[f"{image.board}/{image.folder}"] = read_manifest(image.path)["build"]
        return found


class BenchMeasurer(Measurer):
    """Takes captures on a bench that is opened anew for each attempt: an emulated one is a new simulator each time."""

    def __init__(self, station: Station, stage: Stage = lambda *_: None) -> None:
        self._station = station
        self._stage = stage

    def facts(self) -> dict[str, Any]:
        """Tell which builds of the firmware are measured."""
        return {"images": self._station.builds()}

    def measure(self, item: Item, attempt: int) -> Capture:
        """Take an item's capture. Raises Unsupported where no image of the firmware has it."""
        with opened(self._station, item, self._stage, self._station.faults(item, attempt)) as bench:
            return take(bench, self._station, item, self._stage)

    def recover(self, item: Item) -> None:
        """See that the scope is there, and switch the DUT's supply off; the new attempt switches it on."""
        file = self._station.file
        if file is None:
            return  # the next attempt has a new simulator
        from instruments.registry import open_driver
        from labctl.bench import OPEN_TIMEOUT_S, switch_off

        recorder = file.recorder
        with contextlib.closing(open_driver(recorder.driver, recorder.resource, timeout_s=OPEN_TIMEOUT_S)) as found:
            found.identify()
        switch_off(file, file.for_board(item.board).dut.power)

    def make_safe(self) -> None:
        """Switch off the supply of every board that has a switch."""
        file = self._station.file
        if file is not None:
            from labctl.bench import switch_off

            for power in dict.fromkeys(dut.power for dut in file.duts):
                switch_off(file, power)


@contextlib.contextmanager
def opened(
    station: Station, item: Item, stage: Stage = lambda *_: None, faults: Mapping[str, Any] | None = None
) -> Iterator[Bench]:
    """Open a station's bench for an item, with the firmware that the item asks for; `faults` are of an emulated one.

    Raises Unsupported where there is none, what opening raises, and what flashing does.
    """
    image = station.images[item.number]
    if isinstance(image, Unsupported):
        raise image
    stage("opening the bench")
    with open_bench(
        station.file,
        board_name=item.board,
        overrides=station.overrides,
        ask=_nobody,
        seed=station.seed,
        stream=stream_of(item.key),
        clock_hz=item.operation.clock_hz,
        elf=image.path if station.file is None else None,
        faults=faults,
        lock=False,
    ) as bench:
        if bench.simulation is None and (other := _other_firmware(bench, item)):
            stage(f"flashing {image.board} {image.folder}, for its firmware is {other}")
            flash.flash(flash.plan(image), quiet=True)
            if other := _other_firmware(bench, item):
                raise DeviceStable(f"the firmware of {item.board} was flashed and is still {other}")
        yield bench


def take(bench: Bench, station: Station, item: Item, stage: Stage = lambda *_: None) -> Capture:
    """Take an item's capture on its opened bench. Raises what measuring does."""
    plan = measure.Plan(
        (item.operation,),
        zero=station.zero,
        calibrations=station.calibrations,
        temperature_degc=station.temperature_degc,
        n_warmup=item.n_warmup,
    )
    (capture,) = measure.take(bench, plan, lambda text, *_: stage(text))
    return capture


def stream_of(key: str) -> int:
    """Return what an emulated bench draws for an item, from the item's key alone: 63 bits of its SHA-256."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 1


def _other_firmware(bench: Bench, item: Item) -> str:
    """Say how the firmware on a DUT differs from what an item asks for; "" where it does not."""
    try:
        bench.dut.hello()
    except DeviceStable:
        return "another than labctl's of this board and version"
    if other := mismatch(bench.board, bench.dut.manifest(), item.operation):
        return f"built with {other}"
    return "" if item.operation.name in bench.dut.list_operations() else f"without {item.operation.name}"


def _nobody(sentence: str) -> NoReturn:
    raise NobodyThere(f"{sentence}: but a campaign runs without anybody")
