"""``labctl table``: results of campaigns and captures as a table for a report."""

from __future__ import annotations

from pathlib import Path

import click

from labctl.errors import ConfigError

_FORMATS = ("csv", "md", "tex", "html", "json")


@click.command()
@click.argument("places", metavar="DIR…", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--format", "format_name", type=click.Choice(_FORMATS), help="Format [default: by the name of --out, "
              "else a table for the terminal].")
@click.option("--columns", multiple=True, metavar="NAME,…", help="Columns, in this order, e.g. operation,energy,power.")
@click.option("--matrix", metavar="QUANTITY", default="", help="One quantity as a matrix, e.g. energy: operations "
              "down, boards across.")
@click.option("--across", metavar="NAME", help="What is across in a matrix, e.g. bytes or profile [default: board].")
@click.option("--group-by", multiple=True, metavar="NAME,…", help="A table for each value, e.g. board.")
@click.option("--sort", multiple=True, metavar="NAME,…", help="Order, e.g. -energy: from the greatest down.")
@click.option("--units", multiple=True, metavar="QUANTITY=UNIT,…", help="E.g. energy=uJ,power=mW, or auto [default: "
              "auto; in CSV and JSON SI without prefixes].")
@click.option("--where", multiple=True, metavar="NAME=PATTERN", help="Rows that fit, e.g. 'board=stm32*'; repeatable.")
@click.option("--role", "roles", multiple=True, type=click.Choice(["item", "baseline", "reference"]),
              help="What the plan took it for; repeatable [default: item].")
@click.option("--complete", is_flag=True, help="Leave out items without a result.")
@click.option("--captures", is_flag=True, help="Name the captures behind each row.")
@click.option("--power", type=click.Choice(["dut", "supply"]),
              help="Headline power: what the DUT draws, or what the supply gives (shunt included) [default: that of a "
              "campaign's plan, else dut].")
@click.option("--dialect", type=click.Choice(["comma", "semicolon"]), default="comma", show_default=True,
              help="Of CSV; semicolon has decimal commas.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write instead of stdout.")
def command(
    places: tuple[Path, ...],
    format_name: str | None,
    columns: tuple[str, ...],
    matrix: str,
    across: str | None,
    group_by: tuple[str, ...],
    sort: tuple[str, ...],
    units: tuple[str, ...],
    where: tuple[str, ...],
    roles: tuple[str, ...],
    complete: bool,
    captures: bool,
    power: str | None,
    dialect: str,
    out: Path | None,
) -> int:
    """Make a table of energy, power, current, duration, fluctuation, throughput, cycles and memory for a report.

    DIR is a campaign's folder or its pack, a folder of captures, or a capture; several make one table. A file that
    `labctl memory --json` printed puts the operations' own flash, RAM and stack in the place of their images'.
    """
    from labctl.campaign.results import load_rows
    from labctl.cli.output import EXIT_PARTIAL, Output
    from labctl.report.tables.choose import chosen, unfitting
    from labctl.report.tables.columns import read_units
    from labctl.report.tables.render import render
    from labctl.report.tables.row import FAILED, PENDING
    from labctl.report.tables.sheet import Layout
    from labctl.report.text import counted

    if across and not matrix:
        raise ConfigError("--across goes with --matrix QUANTITY")
    format_name = format_name or _format_of(out)
    if dialect != "comma" and format_name != "csv":
        raise ConfigError("--dialect is for --format csv")
    layout = Layout(
        columns=_names(columns), group_by=_names(group_by), sort=_names(sort), units=read_units(units), where=where,
        roles=roles or ("item",), complete=complete, captures=captures, matrix=matrix, across=across or "board",
    )
    with Output(quiet=False) as output:
        rows = load_rows(places, power, output.progress, output.note)
    wanted = chosen(rows, where, layout.roles)
    if not wanted:
        raise ConfigError(
            unfitting(rows, where) or f"none of {len(rows)} rows is of role {' or '.join(layout.roles)} and fits "
            "--where: leave some of that out"
        )
    text = render(rows, format_name or "text", layout, dialect)
    _write(text, out, as_bytes=format_name is not None)
    n_failed, n_pending = (sum(row.state == state for row in wanted) for state in (FAILED, PENDING))
    missing = [f"{n} {what}" for n, what in ((n_failed, "failed"), (n_pending, "are not measured yet")) if n]
    if missing:
        click.echo(f"labctl: of {counted(len(wanted), 'row')}, {' and '.join(missing)}", err=True)
    return EXIT_PARTIAL if n_failed else 0


def _format_of(out: Path | None) -> str | None:
    suffix = out.suffix.removeprefix(".").lower() if out is not None else ""
    return suffix if suffix in _FORMATS else None


def _names(options: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for option in options for name in option.split(",") if name.strip())


def _write(text: str, out: Path | None, *, as_bytes: bool) -> None:
    """Write to a file, whole or not at all, or to stdout: formats in UTF-8, whatever the terminal has."""
    from labctl.cli.output import reader_may_leave
    from labctl.store.atomic import new_file

    data = text.encode("utf-8", "backslashreplace")
    if out is not None:
        with new_file(out, overwrite=True) as sink:
            sink.write(data)
    else:
        with reader_may_leave():
            click.echo(data if as_bytes else text, nl=False)
