"""``labctl measure``: measure operations on boards and print their energy."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labctl.cli.options import (
    BOARDS_TEXT,
    OPERATIONS_TEXT,
    Quantity,
    Temperature,
    fitting_boards,
    json_option,
    power_option,
    shunt_option,
    sizes_option,
)
from labctl.errors import ConfigError

if TYPE_CHECKING:
    from labctl.simulation import Emulation


def _emulation(scope: str | None, transport: str | None, meter: str | None, shunt_ohm: float | None) -> Emulation:
    """Put together what the emulated bench measures with. Raises ConfigError for what excludes each other."""
    from labctl.simulation import USUAL, Emulation

    if meter is not None:
        beside = {"--scope": scope, "--transport": transport, "--shunt": shunt_ohm}
        if named := [option for option, value in beside.items() if value is not None]:
            raise ConfigError(f"--meter measures the current itself, so {' and '.join(named)} has no place beside it")
        return Emulation(meter=meter)
    if scope is None and transport is None:
        return USUAL
    return Emulation(scope or USUAL.scope, transport or USUAL.transport)


@click.command()
@shunt_option
@click.option("--supply", "supply_v", type=Quantity("V"), help="Voltage of the shunt's node [default: the board's].")
@click.option("--bench", "bench_path", type=click.Path(path_type=Path), help="Bench file [default: ./bench.toml].")
@click.option("--scope", type=click.Choice(["infiniivision", "dho800"]), help="Oscilloscope of the emulated bench "
              "[default: infiniivision].")
@click.option("--transport", type=click.Choice(["socket", "hislip", "vxi11"]), help="How that is reached [default: "
              "socket].")
@click.option("--meter", type=click.Choice(["n6705", "ppk2", "energytrace"]), help="Measure by this meter on the "
              "emulated bench, without a shunt.")
@click.option("--board", "boards", multiple=True, help=f"{BOARDS_TEXT} [default: the bench "
              "file's, or stm32vldiscovery].")
@click.option("--op", "names", multiple=True, metavar="NAME", help=f"{OPERATIONS_TEXT} "
              "[default: aes-128-ctr, sha256, ecdsa-p256.sign, ecdsa-p256.verify].")
@sizes_option
@click.option("--impl", "implementations", multiple=True, metavar="NAME",
              help="Who computes: mbedtls, portable [default: the firmware's usual].")
@click.option("--profile", "profiles", multiple=True, type=click.Choice(["Os", "O2", "O3", "O0"]),
              help="Compiler's optimisation [default: Os].")
@click.option("--clock", "clocks_hz", multiple=True, type=Quantity("Hz"), help="Core clock, e.g. 8MHz [default: the "
              "board's first].")
@click.option("--variant", "variants", multiple=True, metavar="KEY=VALUE,…", help="key=inside, piece=N, offset=N, "
              "tables=ram, workspace=static, ecp=plain, some of them, or plain [default: plain].")
@click.option("--runs", type=click.IntRange(1, 1000), default=20, show_default=True, help="Windows per operation.")
@click.option("--iterations", type=click.IntRange(1, 1_000_000), default=1, show_default=True,
              help="Repeats inside a window.")
@click.option(
    "--zero",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Apply the zero reading of this capture.",
)
@click.option(
    "--calibration",
    "calibrations",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Apply what labctl calibrate found, repeatable.",
)
@click.option("--temperature", "temperature_degc", type=Temperature(), help="In °C; stored.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Errors of the emulated bench.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for what is taken [default: captures/DATE].")
@power_option
@json_option
def command(
    shunt_ohm: float | None,
    supply_v: float | None,
    bench_path: Path | None,
    scope: str | None,
    transport: str | None,
    meter: str | None,
    boards: tuple[str, ...],
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    implementations: tuple[str, ...],
    profiles: tuple[str, ...],
    clocks_hz: tuple[float, ...],
    variants: tuple[str, ...],
    runs: int,
    iterations: int,
    zero: Path | None,
    calibrations: tuple[Path, ...],
    temperature_degc: float | None,
    seed: int,
    out: Path | None,
    power: str,
    as_json: bool,
) -> int:
    """Measure operations on boards and print duration, power and energy, each with its uncertainty.

    --board, --op, --bytes, --impl, --profile, --clock and --variant may be repeated: every combination is a row. What a
    board or its firmware has not is named, and ends with status 4 where other rows are there.

    Without a bench file the emulated bench is used: nothing it prints was measured on silicon.
    """
    from labctl.bench import find_bench_file
    from labctl.benchfile import BenchFile
    from labctl.cli.output import Output, Report
    from labctl.combinations import Choice
    from labctl.dated import check_resistance, read_dated
    from labctl.measure import Plan
    from labctl.simulation import USUAL
    from labctl.survey import Survey, survey

    emulation = _emulation(scope, transport, meter, shunt_ohm)
    # Who names an instrument of the emulated bench means that bench, whatever file lies about.
    file = find_bench_file(bench_path) if emulation is USUAL or bench_path is not None else None
    if file is not None and emulation is not USUAL:
        raise ConfigError("--scope, --transport and --meter choose an instrument of the emulated bench; with --bench "
                          "the file says what measures: leave one of them out")
    if zero is not None and not zero.is_file():
        raise ConfigError(f"--zero {zero} is no file: name a capture")
    plan = Plan(
        operations=(),
        out=out or Path("captures") / datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ"),
        zero=zero,
        calibrations=calibrations,
        temperature_degc=temperature_degc,
    )
    listed = tuple(dut.board for dut in file.duts) if file is not None else None
    boards = fitting_boards(boards, listed)
    choice = Choice(boards, names, implementations, profiles, clocks_hz, variants, sizes, runs, iterations)
    # What the files alone can tell is said before anything is switched on.
    dated = read_dated(plan.calibrations, plan.zero)

    def overrides(found: BenchFile) -> BenchFile:
        found = found.with_values(shunt_ohm=shunt_ohm, supply_v=supply_v)
        if found.shunt is not None:
            check_resistance(dated, found.shunt.resistance_ohm)
        return found

    report = Report(power=power, figures=True)
    n_complete = n_shown = 0
    try:
        with Output(quiet=as_json, lines=True) as output:
            wanted = Survey(choice, plan, file, overrides, output.ask, seed, output.note, emulation)
            for path in survey(wanted, output.progress, report.lack):
                n_complete += 1
                report.add_or_lack(path)
                n_shown += 1
    except BaseException:
        if n_shown:
            click.echo(f"{n_shown} capture(s) are complete in {plan.out}: labctl analyze {plan.out}", err=True)
        if n_complete > n_shown:
            click.echo(f"the capture that gives no number is kept in {plan.out}", err=True)
        raise
    if report.paths or not as_json:
        report.print(as_json=as_json)
    return report.exit_status()
