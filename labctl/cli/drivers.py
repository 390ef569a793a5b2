"""``labctl drivers``: which drivers there are, what they drive, and what those that cannot be used lack."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from labctl.cli.options import json_option
from labctl.cli.terminal import page_console

SCHEMA = "labctl.drivers/1"


@click.command()
@json_option
def command(as_json: bool) -> int:
    """List the drivers of instruments, those of other packages included.

    The name is what a bench file says as `driver`. One that cannot be used says why, and what brings what it lacks.
    """
    from instruments.registry import list_drivers
    from labctl.report.rows import render_row

    drivers = list_drivers()
    if as_json:
        rows = [{**asdict(info), "kind": info.kind or None, "summary": info.summary or None} for info in drivers]
        click.echo(json.dumps({"schema": SCHEMA, "drivers": rows}))
        return 0
    console = page_console()
    for info in drivers:
        known = f"{info.name}, {info.kind}: {info.summary}" if info.kind else info.name
        text = known if info.available else f"{known}. {info.reason[:1].upper()}{info.reason[1:]}"
        console.print(render_row("ok" if info.available else "missing", text, info.install))
    return 0
