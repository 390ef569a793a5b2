"""Where a command prints pages: the terminal's width, 80 columns elsewhere; what a person wrote is never markup."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 80


def page_console(*, quiet: bool = False, to_stderr: bool = False) -> Console:
    """Make a console that prints text as it is: brackets such as "[exclude]" and ":name:" mean nothing in it."""
    from rich.console import Console

    stream = sys.stderr if to_stderr else sys.stdout
    return Console(
        stderr=to_stderr, markup=False, emoji=False, highlight=False, quiet=quiet,
        width=None if stream.isatty() else WIDTH,
    )
