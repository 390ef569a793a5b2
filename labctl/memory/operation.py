"""The static bound of an operation's stack in an image of labctl's firmware: from the reset down into its step.

The DUT's mark has painted the stack below its caller and tells how far the paint is gone (firmware/bench/stack.c), so
the bound that goes with it takes in all callers, and what the mark itself leaves unpainted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from labctl.errors import FileFault
from labctl.memory.callgraph import INDIRECT, Bound, Call, Function, above, bound
from labctl.memory.calltree import CallTree

# In firmware/bench: what begins, what holds the windows, what calls the step in them, what paints the stack.
_ROOT = "reset_handler"
_SERIES = ("series_prepare", "series_run")
_SERIES_FILE = "bench/series.c"
_ITERATE = "iterate"
_PAINT = "stack_paint"
# Words below its frame that stack_paint leaves alone (MARGIN_WORDS).
_UNPAINTED_BYTES = 64
_STEP_WORD = 3  # of struct operation: name, kind, tests, step
_WORD_BYTES = 4
_OTHER = "it is not this version's firmware"


@dataclass(frozen=True)
class OperationStack:
    """Bounds for one operation: `whole` with everything that called it, `step` for the measured part alone.

    `n_followed` call sites through pointers were followed by constant tables.
    """

    whole: Bound
    step: Bound
    n_followed: int


def operation_stack(tree: CallTree, operation: str) -> OperationStack:
    """Bound the stack of an operation. Raises FileFault where the program is not this version's firmware."""
    step = step_of(tree, operation)
    # Other calls through pointers in the series (arm, check, output) lie outside the windows.
    outside = {title for title, one in tree.compiled.items() if one.place.startswith(_SERIES_FILE)}
    reached = tree.reach(_ROOT, ignore_pointers=outside) | tree.reach(step)
    graph = _with_step(tree, reached, step)
    wholes = []
    for name in _SERIES:
        n_above = above(graph, _ROOT, name)
        if n_above is None:
            raise FileFault(f"{tree.program.path}: no calls lead from {_ROOT} to {name}: {_OTHER}")
        below = bound(graph, name)
        wholes.append(replace(below, stack_bytes=below.stack_bytes + n_above))
    whole = max(wholes, key=lambda one: one.stack_bytes)
    whole = replace(whole, unresolved=tuple(sorted({left for one in wholes for left in one.unresolved})))
    return OperationStack(whole, bound(graph, step), tree.n_followed(tree.reach(step)))


def step_of(tree: CallTree, operation: str) -> str:
    """Find the function that an operation measures, by its record in the program. Raises FileFault without one."""
    program = tree.program
    record = "op_" + operation.replace("-", "_").replace(".", "_")
    symbol = program.find(record, "OBJECT")
    if symbol is None:
        raise FileFault(f"{program.path} has no symbol {record}: it does not hold {operation}, or it is stripped")
    step = program.word_at(symbol.address + _STEP_WORD * _WORD_BYTES)
    title = None if step is None else tree.title_at(step & ~1)
    if title is None:
        raise FileFault(f"{program.path}: {record} names no function where its step should be: {_OTHER}")
    return title


def _with_step(tree: CallTree, graph: Mapping[str, Function], step: str) -> dict[str, Function]:
    """Let the loop of a window, in every copy of it, call the step; give the painting what it leaves unpainted."""
    changed = dict(graph)
    loops = [title for title in tree.titles(_ITERATE) if title in graph]
    if _PAINT not in graph or not loops:
        raise FileFault(f"{tree.program.path} has no {_PAINT if loops else _ITERATE}: {_OTHER}")
    changed[_PAINT] = replace(graph[_PAINT], frame_bytes=graph[_PAINT].frame_bytes + _UNPAINTED_BYTES)
    for title in loops:
        calls = tuple(call for call in graph[title].calls if call.target != INDIRECT)
        changed[title] = replace(graph[title], calls=(*calls, Call(step, graph[title].place)))
    return changed
