"""Bound the stack from what the compiler tells of each function: its frame, and whom it calls.

gcc -fcallgraph-info=su writes a .ci file beside each object: nodes with the frame of -fstack-usage, and an edge for
each call (GCC 12 manual, "Developer Options"). What it cannot tell is counted: a call through a pointer, a function
that no file describes, a frame whose size depends on data, and how deep a recursion goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from labctl.errors import FileFault

INDIRECT = "__indirect_call"
_NODE = re.compile(r'node: \{ title: "(?P<title>[^"]*)" label: "(?P<label>[^"]*)"(?P<external>[^}]*ellipse)?')
_EDGE = re.compile(r'edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"(?: label: "([^"]*)")?')
_FRAME = re.compile(r"(\d+) bytes \(([a-z,]+)\)")


@dataclass(frozen=True)
class Call:
    """A call site: `target` is a function's title, or INDIRECT; `place` is file:line:column."""

    target: str
    place: str


@dataclass(frozen=True)
class Function:
    """A function: its frame, return address and saved registers included, and its call sites.

    `title` is its name, for a static one with its source file before it: "bench/series.c:iterate". `bounded` says that
    the frame is no greater whatever the data.
    """

    title: str
    frame_bytes: int
    calls: tuple[Call, ...] = ()
    place: str = ""
    bounded: bool = True

    @property
    def name(self) -> str:
        """Return its name as the program's symbols have it."""
        return self.title.rpartition(":")[2]


Graph = Mapping[str, Function]


@dataclass(frozen=True, order=True)
class Unresolved:
    """What a bound does not cover. `what` is "pointer", "recursion", "unknown function" or "variable frame"."""

    what: str
    function: str
    place: str


@dataclass(frozen=True)
class Bound:
    """The deepest path of a call tree; a true bound only where nothing is unresolved. `path` begins at the root."""

    stack_bytes: int
    path: tuple[str, ...]
    unresolved: tuple[Unresolved, ...] = field(default=())


def read_callgraph(paths: Iterable[Path]) -> dict[str, Function]:
    """Join the .ci files of all objects of a program.

    A title that several files describe (an inline function of a header) takes the greatest frame and all calls.
    Raises FileFault for what cannot be read or is no such file.
    """
    graph: dict[str, Function] = {}
    for path in paths:
        for function in _read(path):
            other = graph.get(function.title)
            if other is not None:
                function = replace(  # noqa: PLW2901
                    function,
                    frame_bytes=max(function.frame_bytes, other.frame_bytes),
                    calls=tuple(dict.fromkeys((*other.calls, *function.calls))),
                    bounded=function.bounded and other.bounded,
                )
            graph[function.title] = function
    return graph


def _read(path: Path) -> Iterator[Function]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FileFault(f"{path} cannot be read ({error.strerror or error}): build with -fcallgraph-info=su") from error
    if not text.startswith("graph: {"):
        raise FileFault(f"{path} is no call graph of gcc: build with -fcallgraph-info=su")
    calls: dict[str, list[Call]] = {}
    for source, target, place in _EDGE.findall(text):
        calls.setdefault(source, []).append(Call(target, place))
    for match in _NODE.finditer(text):
        if match["external"] is not None:
            continue
        frame = _FRAME.search(match["label"])
        if frame is None:
            raise FileFault(f"{path} tells no frame of {match['title']}: build with -fcallgraph-info=su")
        place = match["label"].split("\\n")[1] if "\\n" in match["label"] else ""
        yield Function(
            match["title"], int(frame[1]), tuple(calls.get(match["title"], ())), place, frame[2] != "dynamic"
        )


# Finds a function by its title; None where nothing is known of it.
Find = Callable[[str], Function | None]


def complete(find: Find, root: str) -> dict[str, Function]:
    """Take a root and all that it reaches, as far as something is known of it."""
    reached: dict[str, Function] = {}
    waiting = [root]
    while waiting:
        title = waiting.pop()
        if title in reached or title == INDIRECT:
            continue
        function = find(title)
        if function is not None:
            reached[title] = function
            waiting += [call.target for call in function.calls]
    return reached


def bound(graph: Graph, root: str) -> Bound:
    """Find the deepest path from a root, and all below it that no number stands for.

    Functions that call one another in a circle are taken once each, all on the path, and the calls that close the
    circle are unresolved. Raises KeyError for an unknown root.
    """
    reached = complete(graph.get, root)
    if root not in reached:
        raise KeyError(root)
    unresolved: set[Unresolved] = set()
    depth: dict[str, tuple[int, tuple[str, ...]]] = {}
    # Circles come before whoever calls into them, so that depths below are known.
    for circle in _circles(reached, root):
        members = set(circle)
        below: tuple[int, tuple[str, ...]] = (0, ())
        for title in circle:
            function = reached[title]
            if not function.bounded:
                unresolved.add(Unresolved("variable frame", function.title, function.place))
            for call in function.calls:
                if call.target in members:
                    unresolved.add(Unresolved("recursion", function.title, call.place))
                elif call.target == INDIRECT:
                    unresolved.add(Unresolved("pointer", function.title, call.place))
                elif call.target not in reached:
                    unresolved.add(Unresolved("unknown function", call.target, call.place))
                else:
                    below = max(below, depth[call.target], key=lambda one: one[0])
        total = sum(reached[title].frame_bytes for title in circle) + below[0]
        for title in circle:
            others = tuple(other for other in circle if other != title)
            depth[title] = (total, (title, *others, *below[1]))
    return Bound(*depth[root], tuple(sorted(unresolved)))


def above(graph: Graph, root: str, target: str) -> int | None:
    """Return the most that all callers of `target` together have on the stack, from a root down to it, itself not
    included; None where no direct calls lead there."""
    leading = _leading_to(complete(graph.get, root), target)
    if root not in leading:
        return None
    cut = {
        title: replace(function, calls=tuple(c for c in function.calls if c.target in leading and c.target != target))
        for title, function in leading.items() if title != target
    }
    return 0 if root == target else bound(cut, root).stack_bytes


def _leading_to(graph: Graph, target: str) -> dict[str, Function]:
    callers: dict[str, list[str]] = {}
    for title, function in graph.items():
        for call in function.calls:
            callers.setdefault(call.target, []).append(title)
    leading: dict[str, Function] = {}
    waiting = [target] if target in graph else []
    while waiting:
        title = waiting.pop()
        if title not in leading:
            leading[title] = graph[title]
            waiting += callers.get(title, [])
    return leading


def _circles(graph: Graph, root: str) -> list[list[str]]:
    """Group functions that call one another in a circle, callees first (Tarjan 1972, without recursion).

    A function outside any circle is a group of its own.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    groups: list[list[str]] = []
    work: list[tuple[str, Iterator[str]]] = []

    def enter(title: str) -> None:
        index[title] = low[title] = len(index)
        stack.append(title)
        on_stack.add(title)
        work.append((title, iter([call.target for call in graph[title].calls if call.target in graph])))

    enter(root)
    while work:
        title, targets = work[-1]
        target = next(targets, None)
        if target is None:
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[title])
            if low[title] == index[title]:
                cut = stack.index(title)
                groups.append(stack[cut:])
                on_stack -= set(stack[cut:])
                del stack[cut:]
        elif target not in index:
            enter(target)
        elif target in on_stack:
            low[title] = min(low[title], index[target])
    return groups
