"""``labctl doctor``: what this machine has of what labctl uses, and how to mend what is not right."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labctl.cli.options import json_option
from labctl.cli.terminal import page_console
from labctl.errors import ConfigError, EnvironmentFault

if TYPE_CHECKING:
    from labctl.doctor import Check

SCHEMA = "labctl.doctor/1"


@click.command()
@click.option("--bench", "bench_path", type=click.Path(path_type=Path), help="Bench file [default: ./bench.toml].")
@json_option
def command(bench_path: Path | None, as_json: bool) -> int:
    """Check what this machine has: back ends, permissions, tools, disk, clock, bench file and firmware.

    Nothing is opened or changed. Exit status 0, or 3 where something is missing or wrong that the bench needs.
    """
    from labctl.bench import find_bench_file, locate_bench_file
    from labctl.doctor import examine

    path = locate_bench_file(bench_path)
    file, fault = None, ""
    try:
        file = find_bench_file(path) if path else None
    except ConfigError as error:
        fault = str(error)
    checks = examine(file, path, fault)
    if as_json:
        bench = {"name": file.bench.name if file else None, "file": str(path) if path else None}
        click.echo(json.dumps({"schema": SCHEMA, "bench": bench, "checks": [asdict(one) for one in checks]}))
    else:
        _print(checks)
    return EnvironmentFault.exit_status if any(one.keeps_bench_from_working for one in checks) else 0


def _print(checks: list[Check]) -> None:
    from labctl.doctor import MISSING, OK, WRONG
    from labctl.report.rows import render_row
    from labctl.report.text import Sentences

    console = page_console()
    for one in checks:
        spare = "; this bench does without" if one.status == MISSING and not one.needed else ""
        console.print(render_row(one.status, f"{one.name}: {one.text}{spare}", one.command))
    counts = Counter(one.status for one in checks)
    lacking = [one.name for one in checks if one.keeps_bench_from_working]
    needs = f"This bench needs: {', '.join(lacking)}." if lacking else "This bench has all it needs."
    counted = ", ".join(f"{counts[status]} {status}" for status in (OK, MISSING, WRONG))
    console.print(Sentences([f"{counted}. {needs}"]))
