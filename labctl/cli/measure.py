"""``labctl measure``: measure operations on a board and print their energy."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labctl.cli.options import Quantity, Temperature, json_option, power_option, shunt_option
from labctl.errors import ConfigError

if TYPE_CHECKING:
    from labctl.model import Operation

DEFAULT_OPERATIONS = ("aes-128-ctr", "sha256", "ecdsa-p256.sign", "ecdsa-p256.verify")


@click.command()
@shunt_option
@click.option("--supply", "supply_v", type=Quantity("V"), help="Voltage of the shunt's node [default: the board's].")
@click.option("--bench", "bench_path", type=click.Path(path_type=Path), help="Bench file [default: ./bench.toml].")
@click.option("--board", help="Board [default: the bench file's, or stm32vldiscovery].")
@click.option(
    "--op", "operations", multiple=True, help=f"Operation, repeatable [default: {', '.join(DEFAULT_OPERATIONS)}]."
)
@click.option("--runs", type=click.IntRange(1, 1000), default=20, show_default=True, help="Windows per operation.")
@click.option("--bytes", "n_bytes", type=click.IntRange(1), help="Message size [default: 64].")
@click.option("--iterations", type=click.IntRange(1), default=1, show_default=True, help="Repeats inside a window.")
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
    board: str | None,
    operations: tuple[str, ...],
    runs: int,
    n_bytes: int | None,
    iterations: int,
    zero: Path | None,
    calibrations: tuple[Path, ...],
    temperature_degc: float | None,
    seed: int,
    out: Path | None,
    power: str,
    as_json: bool,
) -> int:
    """Measure operations on a board and print duration, power and energy, each with its uncertainty.

    Without a bench file the emulated bench is used: nothing it prints was measured on silicon.
    """
    from labctl.bench import find_bench_file, open_bench
    from labctl.benchfile import BenchFile
    from labctl.cli.output import Output, Report
    from labctl.dated import check_resistance, read_dated
    from labctl.measure import Plan, measure

    file = find_bench_file(bench_path)
    if zero is not None and not zero.is_file():
        raise ConfigError(f"--zero {zero} is no file: name a capture")
    plan = Plan(
        operations=operations_of(operations, n_bytes, n_runs=runs, n_iterations=iterations),
        out=out or Path("captures") / datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ"),
        zero=zero,
        calibrations=calibrations,
        temperature_degc=temperature_degc,
    )
    # What the files alone can tell is said before anything is switched on.
    dated = read_dated(plan.calibrations, plan.zero)

    def overrides(found: BenchFile) -> BenchFile:
        found = found.with_values(shunt_ohm=shunt_ohm, supply_v=supply_v)
        check_resistance(dated, found.shunt.resistance_ohm)
        return found

    report = Report(power=power, figures=True)
    n_complete = n_shown = 0
    try:
        with (
            Output(quiet=as_json) as output,
            open_bench(
                file,
                board_name=board,
                overrides=overrides,
                ask=output.ask,
                seed=seed,
            ) as bench,
        ):
            for path in measure(bench, plan, output.progress):
                n_complete += 1
                report.add(path)
                n_shown += 1
    except BaseException:
        if n_shown:
            click.echo(f"{n_shown} capture(s) are complete in {plan.out}: labctl analyze {plan.out}", err=True)
        if n_complete > n_shown:
            click.echo(f"the capture that gives no number is kept in {plan.out}", err=True)
        raise
    report.print(as_json=as_json)
    return 0


def operations_of(
    names: tuple[str, ...], n_bytes: int | None, *, n_runs: int, n_iterations: int = 1
) -> tuple[Operation, ...]:
    """Turn what --op and --bytes say into operations; without --op the usual ones. Raises ConfigError."""
    from labctl.dut import DEFAULT_BYTES
    from labctl.model import Operation

    names = names or DEFAULT_OPERATIONS
    if n_bytes is not None and not any(name in DEFAULT_BYTES for name in names):
        raise ConfigError(f"--bytes is for {', '.join(DEFAULT_BYTES)}; the operations asked take no message")
    return tuple(
        Operation(
            name,
            bytes=(n_bytes or DEFAULT_BYTES[name]) if name in DEFAULT_BYTES else None,
            n_runs=n_runs,
            n_iterations=n_iterations,
        )
        for name in names
    )
