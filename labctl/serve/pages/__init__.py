"""Pages as templates (SimpleTemplate of bottle): every text that a template shows is escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bottle import SimpleTemplate

from labctl import __version__
from labctl.report.tables.html import shown

_FOLDER = Path(__file__).parent


class _Page(SimpleTemplate):
    """A template whose texts are escaped as those of tables are: control characters are taken out too."""

    def prepare(self, escape_func: Any = shown, noescape: bool = False, syntax: Any = None, **more: Any) -> None:
        super().prepare(escape_func, noescape, syntax, **more)


_PAGES = {path.stem: _Page(name=path.name, lookup=[str(_FOLDER)]) for path in sorted(_FOLDER.glob("*.tpl"))}


def render(page: str, /, **values: Any) -> str:
    """Fill in a page."""
    return str(_PAGES[page].render(version=__version__, query=_query, when=_when, **values))


def _query(**asked: str) -> str:
    """Spell what is asked for in an address."""
    return urlencode({name: value for name, value in asked.items() if value})


def _when(utc: str) -> str:
    """Print a time for a person, to the second."""
    return utc[:19].replace("T", " ")
