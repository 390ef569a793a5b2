"""``labctl memory``: what operations, or any program, take of a board's flash and RAM."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labctl.cli.options import BOARDS_TEXT, OPERATIONS_TEXT, Quantity, fitting_boards, json_option, sizes_option
from labctl.cli.terminal import page_console
from labctl.errors import ConfigError

if TYPE_CHECKING:
    from labctl.combinations import Choice


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--map", "map_path", type=click.Path(path_type=Path), help="GNU ld's map of FILE: adds sums by object.")
@click.option("--board", "boards", multiple=True, help=f"{BOARDS_TEXT} [default: stm32vldiscovery]; with FILE, whose "
              "memory it is for.")
@click.option("--op", "names", multiple=True, metavar="NAME", help=f"{OPERATIONS_TEXT} "
              "[default: aes-128-ctr, sha256, ecdsa-p256.sign, ecdsa-p256.verify].")
@sizes_option
@click.option("--impl", "implementations", multiple=True, metavar="NAME", help="Who computes [default: the usual].")
@click.option("--profile", "profiles", multiple=True, type=click.Choice(["Os", "O2", "O3", "O0"]),
              help="Compiler's optimisation [default: Os].")
@click.option("--clock", "clocks_hz", multiple=True, type=Quantity("Hz"), help="Core clock [default: the board's "
              "first].")
@click.option("--variant", "variants", multiple=True, metavar="KEY=VALUE,…", help="As in labctl measure.")
@click.option("--top", "n_lines", type=click.IntRange(1), default=20, show_default=True,
              help="With FILE: how many symbols and objects to print.")
@json_option
def command(
    file: Path | None,
    map_path: Path | None,
    boards: tuple[str, ...],
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    implementations: tuple[str, ...],
    profiles: tuple[str, ...],
    clocks_hz: tuple[float, ...],
    variants: tuple[str, ...],
    n_lines: int,
    as_json: bool,
) -> int:
    """Print what operations take of flash, RAM, stack and heap, or the same of any program FILE (ELF).

    An image is built for each operation alone, compared with one that holds none, and run on the emulated bench.
    Options may be repeated: every combination is a row. Where rows are missing, or FILE does not fit --board, the
    status is 4.
    """
    from labctl.combinations import Choice

    choice = Choice(boards, names, implementations, profiles, clocks_hz, variants, sizes)
    if file is None:
        choice = replace(choice, boards=fitting_boards(boards))
        if map_path is not None:
            raise ConfigError("--map goes with the ELF file of the same link: labctl memory FILE.elf --map FILE.map")
        return _operations(choice, as_json)
    if choice != Choice(boards=boards) or len(boards) > 1:
        raise ConfigError(f"{file} is one program: beside it only --map, --top, --json and one --board have a meaning")
    return _file(file, map_path, boards, n_lines, as_json)


def _operations(choice: Choice, as_json: bool) -> int:
    from labctl.cli.output import EXIT_PARTIAL, Output
    from labctl.memory.row import SCHEMA
    from labctl.memorysurvey import N_RUNS, survey_memory
    from labctl.model import MissingRow
    from labctl.report.labels import missing_sentences, missing_to_json
    from labctl.report.memory import images_to_json, render, to_json_rows

    missing: list[MissingRow] = []
    with Output(quiet=as_json, lines=True) as output:
        found = survey_memory(choice, output.progress, missing.append)
    if missing and not found.rows:
        raise missing[0].error
    if as_json:
        document: dict[str, Any] = {"schema": SCHEMA, "emulated": True, "results": to_json_rows(found.rows)}
        document["images"] = images_to_json(found.images)
        if missing:
            document["missing"] = missing_to_json(missing)
        click.echo(json.dumps(document, allow_nan=False))
    else:
        _print(render(found.rows, found.images, N_RUNS))
    for sentence in missing_sentences(missing):
        click.echo(f"labctl: {sentence}", err=True)
    return EXIT_PARTIAL if missing else 0


def _file(file: Path, map_path: Path | None, names: tuple[str, ...], n_lines: int, as_json: bool) -> int:
    from labctl import boards
    from labctl.cli.output import EXIT_PARTIAL
    from labctl.memory.elf import read_program
    from labctl.memory.footprint import fits, footprint
    from labctl.memory.mapfile import by_object, read_map
    from labctl.memory.row import SCHEMA
    from labctl.report.program import render, to_json

    board = boards.load(names[0]) if names else None
    memory = None if board is None else board["memory"]
    program = read_program(file)
    totals = footprint(program, memory)
    objects = by_object(program, totals, read_map(map_path)) if map_path is not None else ()
    if as_json:
        document = {"schema": SCHEMA, "results": [], "file": to_json(program, totals, objects, memory)}
        click.echo(json.dumps(document, allow_nan=False))
    else:
        _print(render(program, totals, objects, board, n_lines))
    return EXIT_PARTIAL if memory is not None and not fits(totals, memory) else 0


def _print(page: Any) -> None:

    page_console().print(page)
