"""``labctl firmware``: which images of the firmware there are, build them, flash them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from labctl.cli.options import BOARDS_TEXT, Quantity, fitting_boards, json_option
from labctl.cli.terminal import page_console

_PROFILES = click.Choice(["Os", "O2", "O3", "O0"])


@click.group()
def command() -> None:
    """List, build and flash the firmware that is measured, and list its operations."""


def _settings(*, multiple: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options that name images."""
    options = [
        click.option("--profile", "profiles", multiple=multiple, type=_PROFILES,
                     help="Compiler's optimisation [default: Os]."),
        click.option("--clock", "clocks_hz", multiple=multiple, type=Quantity("Hz"),
                     help="Core clock, e.g. 8MHz [default: the board's first]."),
        click.option("--image", "names", multiple=multiple, metavar="NAME",
                     help="all, symmetric, aes, others, ecc, null or op-OPERATION; labctl firmware list names those of "
                          "each board [default: its usual]."),
        click.option("--variant", "variants", multiple=multiple, metavar="KEY=VALUE,…",
                     help="tables=ram, workspace=static, ecp=plain, some of them [default: plain]."),
    ]

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


@command.command("list")
@click.option("--board", "names", multiple=True, help=f"{BOARDS_TEXT} [default: all].")
@click.option("--all", "whole", is_flag=True, help="Images of one operation alone too.")
@json_option
def list_(names: tuple[str, ...], whole: bool, as_json: bool) -> None:
    """List boards, their clocks and images, and what of them is built."""
    from labctl import boards
    from labctl.firmware import PROFILES, list_images
    from labctl.images import row_of
    from labctl.report import firmware as report

    chosen = [boards.load(name) for name in fitting_boards(names) or boards.names()]
    rows = [row_of(image) for board in chosen for image in list_images(board["name"])]
    if as_json:
        document = {"schema": report.SCHEMA, "profiles": PROFILES, "boards": report.boards_to_json(chosen)}
        click.echo(json.dumps(document | {"images": report.to_json(rows)}, allow_nan=False))
    else:
        _print(report.render_boards(chosen, PROFILES), "", report.render(rows, whole=whole))


@command.command()
@click.option("--board", "names", multiple=True, help=f"{BOARDS_TEXT} [default: all].")
@json_option
def operations(names: tuple[str, ...], as_json: bool) -> None:
    """List the operations: what each does, its message and variants, and the images that hold it."""
    from labctl import boards
    from labctl.images import operation_rows
    from labctl.report import firmware as report

    rows = operation_rows(fitting_boards(names) or boards.names())
    if as_json:
        document = {"schema": report.SCHEMA, "operations": report.operations_to_json(rows)}
        click.echo(json.dumps(document, allow_nan=False))
    else:
        _print(report.render_operations(rows))


@command.command()
@click.option("--board", "boards", multiple=True, help=f"{BOARDS_TEXT} [default: stm32vldiscovery; with --all every "
              "one].")
@_settings(multiple=True)
@click.option("--tables", type=click.Choice(["flash", "ram"]), help="Short for --variant tables=ram.")
@click.option("--workspace", type=click.Choice(["heap", "static"]), help="Short for --variant workspace=static.")
@click.option("--all", "everything", is_flag=True, help="Every profile, clock and usual image that is not chosen.")
@json_option
def build(tables: str | None, workspace: str | None, as_json: bool, **given: Any) -> int:
    """Build images; the same sources, compiler and settings give the same bytes.

    Options may be repeated: every combination is built. What does not fit a board is named with the bytes missing, a
    clock that one of the boards has not too; status 4 where others were built.
    """
    from labctl.cli.output import EXIT_PARTIAL, Output
    from labctl.errors import LabctlError
    from labctl.firmware import Image
    from labctl.images import Wanted, build_all, choose, left_out, row_of
    from labctl.report import firmware as report

    more = {"tables": tables, "workspace": workspace}
    shorthand = [f"{key}={value}" for key, value in more.items() if value is not None]
    given["variants"] = tuple(",".join([*filter(None, [text]), *shorthand])
                              for text in given["variants"] or ("",))
    given["boards"] = fitting_boards(given["boards"])
    wanted = Wanted(**given)
    images, unmet = choose(wanted), left_out(wanted)
    refused: list[tuple[Image, LabctlError]] = []
    with Output(quiet=as_json, lines=True) as output:
        done = build_all(images, output.progress, lambda image, error: refused.append((image, error)))
    if refused and not done:
        raise refused[0][1]
    rows = [row_of(image) for image in done]
    if as_json:
        document: dict[str, Any] = {"schema": report.SCHEMA, "images": report.to_json(rows)}
        if refused:
            document["missing"] = [
                row | {"reason": str(error)}
                for row, (_, error) in zip(report.to_json([row_of(i) for i, _ in refused]), refused, strict=True)
            ]
        click.echo(json.dumps(document, allow_nan=False))
    else:
        _print(report.render(rows, whole=True))
        for row in rows:
            click.echo(row.path)
    for reason in (*unmet, *(error for _, error in refused)):
        click.echo(f"labctl: not built: {reason}", err=True)
    return EXIT_PARTIAL if refused or unmet else 0


@command.command()
@click.option("--board", required=True, help="Board that is connected.")
@_settings(multiple=False)
@click.option("--tool", help="openocd, st-flash or uniflash [default: the board's usual].")
@click.option("--dry-run", is_flag=True, help="Show the commands and run nothing.")
def flash(
    board: str,
    profiles: str | None,
    clocks_hz: float | None,
    names: str | None,
    variants: str | None,
    tool: str | None,
    dry_run: bool,
) -> None:
    """Write an image to a board's flash, and show the command that does it.

    An image that is missing is built first. Where a board's operations are in several images, --image says which; the
    first is the usual. For a tool that reads a .bin file, --dry-run shows the command that makes it, too.
    """
    from labctl.cli.output import Output
    from labctl.errors import EnvironmentFault
    from labctl.firmware import ensure
    from labctl.flash import flash as write
    from labctl.flash import plan
    from labctl.images import Wanted, choose_one

    def some(value: Any) -> tuple[Any, ...]:
        return () if value is None else (value,)

    image, choice = choose_one(Wanted((board,), some(names), some(profiles), some(clocks_hz), some(variants)))
    flashing = plan(image, tool)
    if choice:
        click.echo(f"labctl: image {image.name} of {', '.join(choice)} (--image names another)", err=True)
    if dry_run:
        click.echo("\n".join(filter(None, (flashing.binary_text, flashing.text))))
        for remark in (flashing.lacking, "" if image.built else f"{image.path} is not built yet: labctl firmware "
                       f"build {image.options}"):
            if remark:
                click.echo(f"labctl: {remark}", err=True)
        return
    if flashing.lacking:
        raise EnvironmentFault(flashing.lacking)
    with Output(quiet=False) as output:
        ensure(image, output.progress)
    click.echo(flashing.text)
    sys.stdout.flush()  # before what the tool says
    write(flashing)
    click.echo(f"{image.board} holds {image.path}")


def _print(*parts: Any) -> None:

    console = page_console()
    for part in parts:
        console.print(part)
