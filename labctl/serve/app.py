"""The pages and the data behind their charts. Everything is read; nothing is kept but what was analysed."""

from __future__ import annotations

import importlib.util
import json
import secrets
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import bottle

from instruments.record import Identity
from labctl.campaign.journal import damage
from labctl.campaign.statuspage import came_to, named, pace
from labctl.campaign.watch import Sight
from labctl.errors import EnvironmentFault, FileFault, LabctlError
from labctl.report.tables.remarks import EMULATED
from labctl.report.tables.render import render as render_table
from labctl.report.tables.row import Row
from labctl.report.tables.sheet import Layout
from labctl.serve import charts
from labctl.serve.pages import render
from labctl.serve.shelf import Book, Shelf
from labctl.serve.tables import sheets

_STATIC = Path(__file__).parent / "static"
# So many are listed on a page.
_N_LATEST, _N_FAILURES, _N_ITEMS = 8, 50, 1000
_N_COLUMNS_MAX = 4000
_TABLES = {
    "csv": "text/csv", "json": "application/json", "md": "text/markdown", "tex": "text/x-tex", "html": "text/html",
}
_ROLES = ("item", "baseline", "reference")


def plotting_library() -> Path:
    """Find the plotting library's JavaScript, which lies in its Python package. Raises EnvironmentFault."""
    spec = importlib.util.find_spec("plotly")
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(place) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path
    raise EnvironmentFault("the plotting library is missing: install labctl again, or `pip install plotly`")


class Site:
    """The pages of a shelf, as a WSGI application under `app`."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        # Tells the sights of this server from those of one before, which counted from 1 too.
        self._begun = secrets.token_hex(4)
        self._static = {path.name: path.parent for path in _STATIC.iterdir()}
        self._static["plotly.min.js"] = plotting_library().parent
        self.app = bottle.Bottle()
        self.app.default_error_handler = _error_page
        of, routes = "/c/<key>", self.app.get
        routes("/", callback=self.list)
        routes("/static/<name>", callback=self.static)
        for path, page in (
            ("/", self.live), ("/live", self.live_part), ("/items", self.items), ("/items/<number:int>", self.item),
            ("/items/<number:int>/waveform.json", self.waveform), ("/items/<number:int>/runs.json", self.runs),
            ("/statistics", self.statistics), ("/statistics.json", self.statistics_data),
            ("/drift", self.drift), ("/drift.json", self.drift_data),
            ("/results", self.results), ("/results.<format>", self.results_file),
        ):
            routes(of + path, callback=self._with_book(page))

    def _with_book(self, page: Callable[..., Any]) -> Callable[..., Any]:
        """Find the campaign that an address names, and see how it stands."""

        @wraps(page)
        def callback(key: str, **more: Any) -> Any:
            book = self._shelf.book(key)
            if book is None:
                raise bottle.HTTPError(404, "There is no campaign of this name here.")
            try:
                return page(book, book.look(), **more)
            except (LabctlError, OSError) as error:
                raise bottle.HTTPError(404 if isinstance(error, FileFault) else 500, str(error)) from error

        return callback

    def list(self) -> str:
        """Show all campaigns."""
        found, lost = [], []
        for book in self._shelf.books():
            try:
                found.append((book, book.look()))
            except (LabctlError, OSError) as error:  # whatever is odd about one folder, the others are shown
                lost.append(str(error))
        return render("list", title="Campaigns", book=None, books=found, lost=lost, scripts=["live.js"])

    def static(self, name: str) -> Any:
        """Give one of our own files, or the plotting library."""
        if name not in self._static:
            raise bottle.HTTPError(404, "There is no such file here.")
        answer = bottle.static_file(name, root=str(self._static[name]))
        answer.set_header("Cache-Control", "private, max-age=3600" if name == "plotly.min.js" else "no-cache")
        return answer

    def live(self, book: Book, sight: Sight) -> str:
        """Show how a campaign stands."""
        return self._page("live", book, sight, scripts=["plotly.min.js", "charts.js", "live.js"], **self._stand(sight))

    def live_part(self, book: Book, sight: Sight) -> Any:
        """Give what changes on the page of a campaign at work; nothing where it is as `since` says."""
        stand = self._stand(sight)
        if bottle.request.query.get("since") == stand["number"]:
            return bottle.HTTPResponse(status=204)
        return render("livepart", book=book, sight=sight, **stand)

    def _stand(self, sight: Sight) -> dict[str, Any]:
        state, operations = sight.state, {item.number: item for item in sight.campaign.items}
        latest = sight.latest(_N_LATEST)
        return {
            "number": f"{self._begun}-{sight.number}",
            "pace": pace(state),
            "damage": damage(state.broken),
            "running": [(one, named(operations.get(one.item), one.item)) for one in state.running],
            "latest": [(one, named(operations.get(one.item), one.item), came_to(one)) for one in latest],
            "failures": [(one, named(one.item, one.item.number)) for one in state.failures[:_N_FAILURES]],
            "last_item": latest[0].item if latest else None,
        }

    def items(self, book: Book, sight: Sight) -> str:
        """List the items, of one board, operation or state where these are asked for."""
        asked = {name: bottle.request.query.getunicode(name) or "" for name in ("board", "operation", "state")}
        found = [
            one for one in sight.state.items
            if asked["board"] in ("", one.item.board) and asked["operation"] in ("", one.item.operation.name)
            and asked["state"] in ("", one.state)
        ]
        shown = [
            (one, named(one.item, one.item.number), came_to(one.last) if one.last is not None else "")
            for one in found[:_N_ITEMS]
        ]
        return self._page("items", book, sight, shown=shown, n_found=len(found), asked=asked)

    def item(self, book: Book, sight: Sight, number: int) -> str:
        """Show one item: its attempts, its waveform with its windows, and its runs."""
        from labctl.serve.waveforms import instrument

        status = next((one for one in sight.state.items if one.item.number == number), None)
        if status is None:
            raise bottle.HTTPError(404, "The campaign has no such item.")
        capture, reason = None, ""
        identity: Identity | None = None
        try:
            capture = book.capture(sight, number)
            identity = None if capture is None else instrument(capture)
        except LabctlError as error:
            reason = str(error).replace(f"{book.path.resolve()}/", "").replace(f"{book.path}/", "")
            capture = None
        return self._page(
            "item", book, sight, status=status, name=named(status.item, number), capture=capture, identity=identity,
            reason=reason, attempts=[(one, came_to(one)) for one in sight.attempts if one.item == number],
            scripts=["plotly.min.js", "charts.js"],
        )

    def waveform(self, book: Book, sight: Sight, number: int) -> str:
        """Give a span of a waveform."""
        from labctl.serve.waveforms import outline

        query = bottle.request.query
        try:
            start, stop = float(query.get("start") or 0), query.get("stop")
            segment, n_columns = int(query.get("segment") or 0), int(query.get("columns") or 1000)
            end = float(stop) if stop else None
            if not (abs(start) < 1e12 and abs(end or 0) < 1e12 and 0 < n_columns <= _N_COLUMNS_MAX):
                raise ValueError
            return _json(outline(self._capture(book, sight, number), segment, start, end, n_columns))
        except (ValueError, IndexError) as error:
            raise bottle.HTTPError(400, f"This is no span of the waveform. {error}".strip()) from error

    def runs(self, book: Book, sight: Sight, number: int) -> str:
        """Give windows and energies of an item's runs."""
        from labctl.serve.waveforms import runs

        return _json(runs(self._capture(book, sight, number)))

    def _capture(self, book: Book, sight: Sight, number: int) -> Path:
        capture = book.capture(sight, number)
        if capture is None:
            raise bottle.HTTPError(404, "The item has no capture.")
        return capture

    def statistics(self, book: Book, sight: Sight) -> str:
        """Show results with their intervals, and the spread of the runs."""
        return self._page("statistics", book, sight, **self._asked(), scripts=["plotly.min.js", "charts.js"])

    def statistics_data(self, book: Book, sight: Sight) -> str:
        """Give them."""
        asked = self._asked()
        return _json(charts.statistics(sight, asked["quantity"], asked["board"], asked["operation"]))

    def drift(self, book: Book, sight: Sight) -> str:
        """Show how baselines and references drift."""
        return self._page("drift", book, sight, **self._asked("power"), scripts=["plotly.min.js", "charts.js"])

    def drift_data(self, book: Book, sight: Sight) -> str:
        """Give that."""
        return _json(charts.drift(sight, self._asked("power")["quantity"]))

    def _asked(self, usual: str = "energy") -> dict[str, str]:
        asked = {name: bottle.request.query.getunicode(name) or "" for name in ("quantity", "board", "operation")}
        asked["quantity"] = asked["quantity"] or usual
        if asked["quantity"] not in charts.QUANTITIES:
            raise bottle.HTTPError(400, f"Quantities are {', '.join(charts.QUANTITIES)}.")
        return asked

    def results(self, book: Book, sight: Sight) -> str:
        """Show the results as `labctl table` does."""
        rows = book.tables.rows(sight)
        if rows is None:
            bottle.response.set_header("Refresh", "2")
            return self._page("analysing", book, sight, progress=book.tables.progress)
        role = self._role()
        return self._page("results", book, sight, role=role, roles=_ROLES, **sheets(rows, _layout(role)))

    def results_file(self, book: Book, sight: Sight, format: str) -> str:
        """Give the file that `labctl table` writes."""
        if format not in _TABLES:
            raise bottle.HTTPError(404, f"Tables are {', '.join(_TABLES)}.")
        rows: list[Row] | None = book.tables.rows(sight)
        if rows is None:
            raise bottle.HTTPError(
                503, f"Captures are still being analysed ({book.tables.progress}): try again in a moment.",
                headers={"Retry-After": "2"},
            )
        bottle.response.content_type = f"{_TABLES[format]}; charset=utf-8"
        bottle.response.set_header("Content-Disposition", f'attachment; filename="{book.key}.{format}"')
        return render_table(rows, format, _layout(self._role()))

    def _role(self) -> str:
        role = bottle.request.query.get("role") or _ROLES[0]
        if role not in _ROLES:
            raise bottle.HTTPError(400, f"Roles are {', '.join(_ROLES)}.")
        return role

    def _page(self, page: str, book: Book, sight: Sight, **values: Any) -> str:
        return render(
            page, title=sight.state.name, book=book, sight=sight, emulated=EMULATED if sight.emulated else "",
            quantities=charts.QUANTITIES, **{"scripts": [], **values},
        )


def _layout(role: str) -> Layout:
    return Layout(roles=(role,))


def _json(document: dict[str, Any]) -> str:
    bottle.response.content_type = "application/json"
    return json.dumps(document, allow_nan=False)


def _error_page(error: bottle.HTTPError) -> str:
    error.content_type = "text/html; charset=utf-8"
    said = error.body if error.status_code < 500 or not error.exception else "Something went wrong in the server."
    return render("error", title=error.status_line, book=None, said=str(said), scripts=[])
