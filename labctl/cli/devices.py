"""``labctl devices``: what is reachable, who it is, and which driver fits."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labctl.cli.options import Quantity, json_option
from labctl.cli.terminal import page_console
from labctl.errors import ConfigError

if TYPE_CHECKING:
    from labctl.benchfile import BenchFile
    from labctl.devices import Device

SCHEMA = "labctl.devices/1"


@click.command()
@click.option("--resource", "named", multiple=True, metavar="ADDRESS",
              help="Ask who is at this VISA address or serial port, and search for nothing else; repeatable.")
@click.option("--bench", "bench_path", type=click.Path(path_type=Path), help="Bench file [default: ./bench.toml].")
@click.option("--timeout", "timeout_s", type=Quantity("s"), default=5.0, show_default=True,
              help="How long to search, and then to wait for all answers together.")
@json_option
def command(named: tuple[str, ...], bench_path: Path | None, timeout_s: float, as_json: bool) -> int:
    """List the instruments and serial ports that are found here, on USB and on the network, and those of the bench.

    Each VISA resource is asked who it is; nothing is sent to a serial port that is not named by --resource, and nothing
    to what a bench in use holds. Exit status 1 where an address that is named does not answer.
    """
    from labctl.devices import ANSWERS, TOLD, Surroundings, identify, look_around

    file: BenchFile | None = None
    around, faults = Surroundings(), list[str]()
    if not named or bench_path is not None:
        file, faults = _bench(bench_path)
    if not named:
        around, not_found = look_around(timeout_s)
        faults += not_found
    devices = identify(named, file, around, timeout_s)
    if as_json:
        document = {"schema": SCHEMA, "devices": [_to_json(one) for one in devices], "not_searched": faults}
        click.echo(json.dumps(document))
    else:
        _print(devices, faults)
    return int(any("named" in one.found and one.status not in (ANSWERS, TOLD) for one in devices))


def _bench(path: Path | None) -> tuple[BenchFile | None, list[str]]:
    """Read the bench file; one that is wrong hides no device, but raises ConfigError where a person named it."""
    from labctl.bench import find_bench_file

    try:
        return find_bench_file(path), []
    except ConfigError as error:
        if path is not None:
            raise
        return None, [f"the bench file is left out: {error}"]


def _print(devices: list[Device], faults: list[str]) -> None:
    from labctl.report.rows import render_row
    from labctl.report.text import EMULATED, Sentences, printable

    console = page_console()
    for device in devices:
        role = f" ({device.role})" if device.role else ""
        emulated = f". It is {EMULATED}" if device.emulated else ""
        console.print(render_row(device.status, f"{device.resource}{role}: {device.text}{emulated}"))
    if not devices:
        console.print("Nothing found.")
    console.print(Sentences([printable(f"{fault[:1].upper()}{fault[1:]}.") for fault in faults]))


def _to_json(device: Device) -> dict[str, Any]:
    who = device.identity
    return {
        "resource": device.resource,
        "found": list(device.found),
        "role": device.role or None,
        "bench_driver": device.bench_driver or None,
        "status": device.status,
        "text": device.text,
        "identity": {key: value for key, value in asdict(who).items() if key != "resource"} if who else None,
        "drivers": list(device.drivers),
        "usb": f"{device.usb[0]:04x}:{device.usb[1]:04x}" if device.usb else None,
        "emulated": device.emulated,
    }
