"""``labctl published``: what others published, and results beside it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import click

from labctl.cli.options import json_option
from labctl.cli.terminal import page_console
from labctl.errors import ConfigError
from labctl.operations import BYTES_MAX, BYTES_MIN


@click.command()
@click.argument("files", nargs=-1, metavar="[CAPTURE|FOLDER|MEMORY.json]…",
                type=click.Path(exists=True, path_type=Path))
@click.option("--board", help="Rows of this board or chip, or pattern such as 'stm32f*'.")
@click.option("--op", "operation", metavar="NAME", help="Rows of this operation, or pattern; labctl's name or the "
              "publication's.")
@click.option("--measure", "measured", is_flag=True, help="Measure on the emulated bench what can stand beside them.")
@click.option("--profile", "profiles", multiple=True, type=click.Choice(["Os", "O2", "O3", "O0"]),
              help="With --measure: compiler's optimisation [default: Os].")
@click.option("--variant", "variants", multiple=True, metavar="KEY=VALUE,…",
              help="With --measure: as of labctl measure, e.g. ecp=plain [default: plain].")
@click.option("--bytes", "sizes", multiple=True, type=click.IntRange(BYTES_MIN, BYTES_MAX),
              help="With --measure: message size where none was published [default: 64].")
@click.option("--out", type=click.Path(path_type=Path), help="With --measure: folder for the captures [default: "
              "captures/DATE].")
@json_option
def command(
    files: tuple[Path, ...],
    board: str | None,
    operation: str | None,
    measured: bool,
    profiles: tuple[str, ...],
    variants: tuple[str, ...],
    sizes: tuple[int, ...],
    out: Path | None,
    as_json: bool,
) -> int:
    """Print what others published, and with captures, or --measure, the results and their ratio beside it.

    A folder stands for the captures in it, or where it has none of its own (captures/) in its folders. A file that
    `labctl memory --json` printed is taken, too, for the memory tables.
    """
    from labctl.published.compare import chosen, compare
    from labctl.report import published as report

    tables = chosen(board, operation)
    if not measured and (profiles or variants or sizes or out):
        raise ConfigError("--profile, --variant, --bytes and --out go with --measure")
    if files and measured:
        raise ConfigError("results come from files or from --measure, not from both: labctl published FOLDER")
    found: list[Any] = []
    status = 0
    if measured:
        from labctl.publishedsurvey import Quick

        folder = out or Path("captures") / datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        found, status = _measure(tables, Quick(folder, profiles, variants, sizes), as_json)
    elif files:
        found, status = _read(files)
    pairs = compare(tables, found)
    if as_json:
        click.echo(json.dumps(report.to_json(tables, pairs), allow_nan=False))
        return status
    _print(report.render_beside(tables, pairs) if files or measured else report.render(tables))
    return status


def _read(files: tuple[Path, ...]) -> tuple[list[Any], int]:
    from labctl.cli.analyze import each_file
    from labctl.publishedsurvey import read_found

    paths = [path for one in files for path in (_captures(one) if one.is_dir() else [one])]
    found: list[Any] = []
    status = each_file(paths, lambda path: found.extend(read_found(path)))
    return found, status


def _captures(folder: Path) -> list[Path]:
    """List the captures in a folder, or where it holds folders of measurements, in all of these."""
    found = sorted(folder.glob("*.h5")) or sorted(folder.glob("*/*.h5"))
    if not found:
        raise ConfigError(
            f"{folder} holds no captures (*.h5), nor do the folders in it; name a folder that `labctl measure` wrote, "
            "or files"
        )
    return found


def _measure(tables: list[Any], quick: Any, as_json: bool) -> tuple[list[Any], int]:
    from labctl.cli.output import EXIT_PARTIAL, Output
    from labctl.model import MissingRow
    from labctl.publishedsurvey import measure_published, read_found
    from labctl.report.labels import missing_sentences

    missing: list[MissingRow] = []
    found: list[Any] = []
    with Output(quiet=as_json, lines=True) as output:
        for path in measure_published(tables, quick, output.progress, missing.append, output.note):
            found += read_found(path)
    for sentence in missing_sentences(missing):
        click.echo(f"labctl: {sentence}", err=True)
    if missing and not found:
        raise missing[0].error
    click.echo(f"captures in {quick.out}", err=True)
    return found, EXIT_PARTIAL if missing else 0


def _print(page: Any) -> None:

    page_console().print(page)
