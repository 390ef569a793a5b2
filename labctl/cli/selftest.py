"""``labctl selftest``: what the bench resolves, and what is wrong with its wiring."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labctl.cli.options import Quantity, Tolerance, json_option, shunt_option
from labctl.cli.terminal import page_console

if TYPE_CHECKING:
    from labctl.analysis.finding import Finding

SCHEMA = "labctl.selftest/1"


@click.command()
@shunt_option
@click.option("--supply", "supply_v", type=Quantity("V"), help="Voltage of the shunt's node [default: the board's].")
@click.option("--bench", "bench_path", type=click.Path(path_type=Path), help="Bench file [default: ./bench.toml].")
@click.option("--board", help="Board [default: the bench file's, or stm32vldiscovery].")
@click.option("--load", "load_ohm", type=Quantity("ohm"), help="Known load at hand, e.g. 330ohm.")
@click.option("--load-tolerance", "load_tolerance_ratio", type=Tolerance(), default="0.1%", show_default=True,
              help="How far the load may be off.")
@click.option("--pulse", "pulse_s", type=Quantity("s"), help="Length of the pulses of a generator at hand, e.g. 1ms.")
@click.option("--pulse-tolerance", "pulse_tolerance_ratio", type=Tolerance(), default="1 ppm", show_default=True,
              help="How far the pulses' length may be off.")
@click.option("--without-fixture", is_flag=True, help="Test with the DUT alone.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Errors of the emulated bench.")
@json_option
def command(
    shunt_ohm: float | None,
    supply_v: float | None,
    bench_path: Path | None,
    board: str | None,
    load_ohm: float | None,
    load_tolerance_ratio: float,
    pulse_s: float | None,
    pulse_tolerance_ratio: float,
    without_fixture: bool,
    seed: int,
    as_json: bool,
) -> int:
    """Test the bench: wiring, offset, gain, noise, time constant, delay, and the shortest operation it resolves.

    First with the DUT alone, then with a known load and a pulse generator in its place, as far as --load and --pulse
    say that they are at hand. The emulated bench has both. Exit status 1 where a fault was found.
    """

    from labctl.analysis.finding import any_fault
    from labctl.bench import find_bench_file, open_bench
    from labctl.cli.output import Output
    from labctl.report.findings import heading, lay_out, strict, summarize, to_json
    from labctl.selftest import Selftest, at_hand

    if without_fixture and (load_ohm is not None or pulse_s is not None):
        raise click.UsageError("--without-fixture leaves load and pulse out: name none, or leave it out")
    file = find_bench_file(bench_path)
    console = page_console(quiet=as_json)
    findings: list[Finding] = []
    with (
        Output(quiet=as_json) as output,
        open_bench(
            file,
            board_name=board,
            overrides=lambda f: f.with_values(shunt_ohm=shunt_ohm, supply_v=supply_v),
            ask=output.ask,
            seed=seed,
        ) as bench,
    ):
        request = at_hand(
            bench, load_ohm, load_tolerance_ratio, pulse_s, pulse_tolerance_ratio, without_fixture=without_fixture
        )
        test = Selftest(bench, request, output.progress)
        facts = bench.describe()
        seed_text = f"seed {seed}" if bench.simulation is not None else ""
        with output.paused():
            console.print(heading("Self-test", bench.name, bench.emulated, seed_text))
        for text in lay_out(_kept(test.run(), findings)):
            with output.paused():
                console.print(text)
    console.print(summarize(findings))
    if as_json:
        numbers = {name: strict(value) for name, value in test.numbers.items()}
        document = {"schema": SCHEMA, "bench": facts, "findings": to_json(findings), "numbers": numbers}
        click.echo(json.dumps(document, allow_nan=False))
    return 1 if any_fault(findings) else 0


def _kept(findings: Iterator[Finding], into: list[Finding]) -> Iterator[Finding]:
    for finding in findings:
        into.append(finding)
        yield finding
