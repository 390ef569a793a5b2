"""``labctl serve``: campaigns on a local web page."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("places", metavar="DIR…", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen on; any but this machine's own needs the token that is printed.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option("--token", envvar="LABCTL_TOKEN", help="What a reader must know [default: none on this machine's own "
              "address, else a new one], 16 signs or more of letters, digits and -_.~; LABCTL_TOKEN in the environment "
              "does the same.")
def command(places: tuple[Path, ...], host: str, port: int, token: str | None) -> int:
    """Show campaigns on a web page: progress, results, drift and waveforms, while they are at work and after.

    DIR is a campaign's folder, a folder of such folders, or a file that `labctl campaign pack` wrote. Nothing is
    changed; Ctrl-C ends it.
    """
    from labctl import interrupts
    from labctl.serve.server import choose_token, serve
    from labctl.serve.shelf import Shelf

    token = choose_token(host, token)
    try:
        with Shelf(places) as shelf:
            serve(shelf, host, port, token, lambda address: click.echo(_serving(address)))
    except KeyboardInterrupt:  # that is how a server ends
        pass
    interrupts.reset()
    return 0


def _serving(address: str) -> str:
    """Say where the pages are; a server on every address of this machine has none that a browser could open."""
    from labctl.serve.server import ANY_ADDRESS

    which = f"; {ANY_ADDRESS} is this machine's address or, for a browser on it, 127.0.0.1" * (ANY_ADDRESS in address)
    return f"Serving {address} (Ctrl-C ends it{which})"
