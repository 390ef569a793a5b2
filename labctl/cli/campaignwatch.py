"""``labctl campaign watch``: a campaign at work, seen from another terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labctl.cli.terminal import page_console

if TYPE_CHECKING:
    from rich.console import Group

    from labctl.campaign.watch import Matrix, Sight

_LOOK_S = 1.0
_N_LAST, _N_FAILED = 3, 5
# What is said of a state in colour is said in words too.
_STYLES = {"failed": "bold red", "running": "bold cyan", "done": "green", "part": "yellow", "pending": "dim"}


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--once", is_flag=True, help="Show how it stands now, and end.")
def watch(folder: Path, once: bool) -> int:
    """Watch the campaign in DIR: how far it is, each board and operation, the last results and what failed.

    The run is not disturbed. Ends by itself when nobody works on the campaign any more; Ctrl-C leaves before.
    """
    from rich.live import Live

    from labctl import interrupts
    from labctl.campaign.changes import n_to_add
    from labctl.campaign.source import open_source
    from labctl.campaign.statuspage import to_add
    from labctl.campaign.watch import Watcher

    watcher = Watcher(folder)
    console = page_console()
    sight = watcher.look()
    try:
        if sight.is_at_work and not once:
            with Live(_page(sight), console=console, auto_refresh=False, transient=True) as live:
                while sight.is_at_work:
                    time.sleep(_LOOK_S)
                    sight = watcher.look()
                    live.update(_page(sight), refresh=True)
    except KeyboardInterrupt:  # who has seen enough has interrupted nothing
        interrupts.reset()
    if console.is_terminal:
        console.print(_page(sight))
    else:  # a table is padded with blanks, which a file does not need
        with console.capture() as shown:
            console.print(_page(sight))
        click.echo("\n".join(line.rstrip() for line in shown.get().splitlines()))
    if not sight.is_at_work:
        with open_source(folder) as source:
            for line in to_add(n_to_add(source)):
                click.echo(line)
    return 0


def _page(sight: Sight) -> Group:
    """Lay out what is seen: what matters first, for a low terminal cuts the end off."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from labctl.campaign.statuspage import render
    from labctl.report.text import printable

    state = sight.state
    title = f"{printable(state.name)}: {printable(sight.phase)}"
    parts: list[Any] = [Text(title, style="bold", overflow="fold")]
    bar = Table.grid()
    bar.add_row(ProgressBar(total=max(1, state.n_items), completed=state.n_done + state.n_failed, width=60))
    parts.append(bar)
    parts += [Text(line) for line in render(sight.campaign, state, _N_FAILED)]
    latest = [Text(line) for line in _latest(sight)]
    return Group(*parts, *latest, Text(), _table(sight.matrix))


def _latest(sight: Sight) -> list[str]:
    """List the results before the last, which is on the page already."""
    from labctl.campaign.statuspage import came_to, listed, named
    from labctl.report.text import printable

    items = {item.number: item for item in sight.campaign.items}
    before = [one for one in sight.latest(_N_LAST + 1) if one != sight.state.last][:_N_LAST]
    return listed("Before that", [printable(f"{named(items.get(one.item), one.item)}: {came_to(one)}")
                                  for one in before])


def _table(matrix: Matrix) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from labctl.report.text import printable

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("operation", overflow="fold")
    for board in matrix.boards:
        table.add_column(Text(printable(board)), overflow="fold")
    for operation in matrix.operations:
        cells = [matrix.cells.get((board, operation)) for board in matrix.boards]
        texts = [Text("") if cell is None else Text(cell.text, style=_STYLES[cell.state]) for cell in cells]
        table.add_row(Text(printable(operation)), *texts)
    return table
