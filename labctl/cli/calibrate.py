"""``labctl calibrate``: compare the bench with a known current, pulse or clock, and keep what was found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labctl.cli.options import Quantity, Temperature, Tolerance, json_option, shunt_option

if TYPE_CHECKING:
    from labctl.bench import Bench, Fixture
    from labctl.model import Operation

_DAYS = {"min": 60.0, "h": 3600.0, "d": 86400.0}


READ = "read"


class Meter(click.ParamType[Any]):
    """What a meter reads, in ampere, or `READ`: to be read once the load is connected."""

    name = "A"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the text. Fails with what was expected and an example."""
        if value == READ:
            return READ
        number = Quantity("A").convert(value, param, ctx)
        if not number > 0:
            self.fail(f"{value!r}: a meter's reading must be more than zero", param, ctx)
        return number


class Validity(click.ParamType[float]):
    """How long a calibration holds: ``8h``, ``30d``, ``90min``; gives seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the text. Fails with an example."""
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(min|h|d)", str(value).strip())
        if match is None or not 0 < float(match[1]) * _DAYS[match[2]] <= 3660 * _DAYS["d"]:
            self.fail(f"{value!r} is no validity: a number of minutes, hours or days, for example '8h' or '30d'",
                      param, ctx)
        return float(match[1]) * _DAYS[match[2]]


def _bench_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what every calibration takes."""
    options = (
        shunt_option,
        click.option("--supply", "supply_v", type=Quantity("V"), help="Voltage of the shunt's node."),
        click.option("--bench", "bench_path", type=click.Path(path_type=Path), help="Bench file."),
        click.option("--board", help="Board [default: the bench file's, or stm32vldiscovery]."),
        click.option("--seed", type=click.IntRange(0), default=1, show_default=True,
                     help="Errors of the emulated bench."),
        click.option("--out", type=click.Path(path_type=Path), default=Path("calibration"), show_default=True,
                     help="Folder for what is found."),
        click.option("--valid", "valid_s", type=Validity(),
                     help="How long it holds, e.g. 90min [default: zero 8h, gain and timebase 30d, deskew 365d]."),
        click.option("--temperature", "temperature_degc", type=Temperature(), help="In °C; stored."),
        json_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def _operation_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the operations that choose range and offset."""
    function = click.option("--bytes", "n_bytes", type=click.IntRange(1), help="Message size [default: 64].")(function)
    return click.option("--op", "operations", multiple=True,
                        help="Operation to calibrate for, repeatable [default: as labctl measure, as far as the "
                        "board's image holds them].")(function)


_force = click.option("--force", is_flag=True, help="Store it even where it does more harm than good.")


@click.group()
def command() -> None:
    """Compare the bench with a known current, pulse or clock, and keep what was found for later measurements.

    Each calibration is a file; `labctl measure --calibration FILE` applies it. zero and gain hold for the range and
    offset that a measurement of the same operations takes.
    """


@command.command(short_help="What the shunt's channel reads with the DUT unpowered.")
@_operation_options
@_bench_options
def zero(**given: Any) -> int:
    """Read the shunt's channel with the DUT unpowered."""
    from labctl.calibrate import calibrate_zero

    return _calibrate("zero", given, calibrate_zero)


@command.command(short_help="The current read against a known load or a meter.")
@click.option("--load", "load_ohm", type=Quantity("ohm"), help="Known resistor to put in the DUT's place, e.g. 330ohm.")
@click.option("--load-tolerance", "load_tolerance_ratio", type=Tolerance(), default="0.1%", show_default=True,
              help="How well the load is known.")
@click.option("--meter", type=Meter(), is_flag=False, flag_value=READ, metavar="[A]",
              help="A reference meter is in series with the load: what it reads, e.g. 9.957mA, or nothing to be asked "
                   "once it is connected. The emulated bench reads its own.")
@click.option("--meter-tolerance", "meter_tolerance_ratio", type=Tolerance(), default="0.1%", show_default=True,
              help="How well the meter is known.")
@_operation_options
@_force
@_bench_options
def gain(
    load_ohm: float | None,
    load_tolerance_ratio: float,
    meter: Any,
    meter_tolerance_ratio: float,
    **given: Any,
) -> int:
    """Compare the current that is read with that of a known load, or of a reference meter.

    With --meter the meter's current counts, and neither the load nor the supply's voltage; --load then tells which
    load is connected (330 ohm).
    """
    from labctl.bench import Fixture
    from labctl.calibrate import MeterReading, calibrate_gain

    reference: Any
    if meter is not None:
        reference = MeterReading(None if meter == READ else meter, meter_tolerance_ratio, load_ohm)
    elif load_ohm is not None:
        reference = Fixture(load_ohm=load_ohm, load_tolerance_ratio=load_tolerance_ratio)
    else:
        raise click.UsageError("name the known load (--load 330ohm), or a reference meter in series with it (--meter)")
    return _calibrate("gain", given, lambda bench, *rest: calibrate_gain(bench, rest[0], reference, rest[1]))


def _positive(value: float, option: str) -> float:
    if not value > 0:
        raise click.UsageError(f"{option} {value:g}: it must be more than zero")
    return value


def _pulse_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what the generator gives."""
    function = click.option("--period", "period_s", type=Quantity("s"),
                            help="From pulse to pulse [default: twice the pulse].")(function)
    return click.option("--pulse", "pulse_s", type=Quantity("s"), default="1ms", show_default=True,
                        help="Length of the generator's pulse.")(function)


def _pulses(pulse_s: float, period_s: float | None, **more: float) -> Fixture:
    from labctl.bench import Fixture

    _positive(pulse_s, "--pulse")
    period_s = 2 * pulse_s if period_s is None else period_s
    if period_s <= pulse_s:
        raise click.UsageError(f"--period {period_s:g} s must be longer than the pulse of {pulse_s:g} s")
    return Fixture(pulse_s=pulse_s, period_s=period_s, **more)


@command.command(short_help="Delay between the shunt's channel and the trigger's.")
@_pulse_options
@_force
@_bench_options
def deskew(pulse_s: float, period_s: float | None, **given: Any) -> int:
    """Measure how much later the shunt's channel shows an edge than the trigger's, with one pulse on both."""
    from labctl.calibrate import calibrate_deskew

    fixture = _pulses(pulse_s, period_s)
    return _calibrate("deskew", given, lambda bench, *rest: calibrate_deskew(bench, rest[0], fixture, rest[1]))


@command.command(short_help="The scope's time against a known pulse or a crystal.")
@click.option("--against", type=click.Choice(["pulse", "crystal"]), default="pulse", show_default=True,
              help="A known pulse, or the DUT's crystal.")
@_pulse_options
@click.option("--pulse-tolerance", "tolerance_ratio", type=Tolerance(), default="1ppm", show_default=True,
              help="How well the pulse is known.")
@_force
@_bench_options
def timebase(against: str, pulse_s: float, period_s: float | None, tolerance_ratio: float, **given: Any) -> int:
    """Compare the scope's time with that of a known pulse, or of the DUT's crystal."""
    from labctl.calibrate import calibrate_timebase

    fixture = None
    if against == "pulse":
        fixture = _pulses(pulse_s, period_s, pulse_tolerance_ratio=tolerance_ratio)
    return _calibrate("timebase", given, lambda bench, *rest: calibrate_timebase(bench, rest[0], fixture, rest[1]))


@command.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def show(files: tuple[Path, ...], as_json: bool) -> int:
    """Print calibrations from their files."""
    _print(list(files), as_json=as_json)
    return 0


def _calibrate(kind: str, given: dict[str, Any], action: Callable[..., Path]) -> int:
    from labctl.bench import find_bench_file, open_bench
    from labctl.calibrate import VALID_S, Request
    from labctl.cli.output import Output

    file = find_bench_file(given["bench_path"])
    operations = _operations(given)
    with (
        Output(quiet=given["as_json"]) as output,
        open_bench(
            file,
            board_name=given["board"],
            overrides=lambda f: f.with_values(shunt_ohm=given["shunt_ohm"], supply_v=given["supply_v"]),
            ask=output.ask,
            seed=given["seed"],
        ) as bench,
    ):
        if "operations" in given and not given["operations"]:
            given["operations"] = _held(bench)
            operations = _operations(given)
        request = Request(
            operations=operations,
            out=given["out"],
            valid_s=given["valid_s"] or VALID_S[kind],
            temperature_degc=given["temperature_degc"],
            force=given.get("force", False),
        )
        path = action(bench, request, output.progress)
    _print([path], as_json=given["as_json"])
    if not given["as_json"]:
        from labctl.report.calibration import apply_text

        click.echo(apply_text(str(path), _repeated(given)))
    return 0


def _operations(given: dict[str, Any]) -> tuple[Operation, ...]:
    from labctl.combinations import operations_of

    return operations_of(given.get("operations", ()), given.get("n_bytes"), n_runs=1)


def _held(bench: Bench) -> tuple[str, ...]:
    """Name those of the usual operations that the DUT's image holds, where it does not hold all of them."""
    from labctl.operations import DEFAULT

    bench.dut.hello()
    known = bench.dut.list_operations()
    held = tuple(name for name in DEFAULT if name in known)
    return held if len(held) < len(DEFAULT) else ()


def _repeated(given: dict[str, Any]) -> list[tuple[str, str]]:
    """Give again, for the measurement, the options that say which bench and which operations were calibrated."""
    context = click.get_current_context()
    options = []
    for name, option, text in (
        ("shunt_ohm", "--shunt", "{!r}ohm"), ("supply_v", "--supply", "{!r}V"), ("bench_path", "--bench", "{}"),
        ("board", "--board", "{}"), ("seed", "--seed", "{}"), ("n_bytes", "--bytes", "{}"),
    ):
        typed = context.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT)
        if typed and given.get(name) is not None:
            options.append((option, text.format(given[name])))
    return [*options, *(("--op", operation) for operation in given.get("operations", ()))]


def _print(paths: list[Path], *, as_json: bool) -> None:
    from labctl.dated import read_calibration
    from labctl.report.calibration import Stored, render, to_json_document
    from labctl.store import open_capture

    found = []
    for path in paths:
        calibration = read_calibration(path)
        with open_capture(path) as capture:
            facts = capture.provenance
            (record, *_) = capture.records.values()
            settings = {name: channel.settings for name, channel in record.channels.items()}
            found.append(Stored(str(path), calibration, facts["bench"], tuple(facts.get("remarks", ())), settings))
    if as_json:
        click.echo(json.dumps(to_json_document(found), allow_nan=False))
        return
    click.echo("\n\n".join(render(stored) for stored in found))
