"""Bounds of the stack: call graphs of known frames, and what the compiler makes of a small program."""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from labctl.errors import FileFault
from labctl.memory import machine
from labctl.memory.callgraph import INDIRECT, Call, Function, Unresolved, above, bound, read_callgraph
from labctl.memory.calltree import CallTree
from labctl.memory.elf import read_program
from labctl.memory.mapfile import read_map

GCC = shutil.which("arm-none-eabi-gcc")
needs_gcc = pytest.mark.skipif(GCC is None, reason="arm-none-eabi-gcc is not installed")


def graph_of(frames: dict[str, int], calls: dict[str, list[str]]) -> dict[str, Function]:
    return {
        name: Function(name, frame, tuple(Call(to, f"{name}.c:{n}:1") for n, to in enumerate(calls.get(name, []))))
        for name, frame in frames.items()
    }


def test_the_deepest_path_is_taken():
    graph = graph_of({"a": 8, "b": 16, "c": 100, "d": 4}, {"a": ["b", "d"], "b": ["c"], "d": []})
    found = bound(graph, "a")
    assert (found.stack_bytes, found.path, found.unresolved) == (124, ("a", "b", "c"), ())


def test_a_call_through_a_pointer_is_counted_and_not_hidden():
    found = bound(graph_of({"a": 8, "b": 16}, {"a": ["b", INDIRECT], "b": [INDIRECT]}), "a")
    assert found.stack_bytes == 24
    assert [(one.what, one.function) for one in found.unresolved] == [("pointer", "a"), ("pointer", "b")]


def test_two_calls_through_pointers_on_two_lines_are_two():
    assert len(bound(graph_of({"a": 8}, {"a": [INDIRECT, INDIRECT]}), "a").unresolved) == 2


def test_recursion_is_counted_and_taken_once():
    found = bound(graph_of({"a": 8, "b": 16, "c": 32, "d": 4}, {"a": ["b"], "b": ["c"], "c": ["b", "d"]}), "a")
    assert found.stack_bytes == 8 + 16 + 32 + 4
    assert {one.function for one in found.unresolved if one.what == "recursion"} == {"b", "c"}


def test_a_function_that_calls_itself():
    found = bound(graph_of({"a": 8}, {"a": ["a"]}), "a")
    assert (found.stack_bytes, [one.what for one in found.unresolved]) == (8, ["recursion"])


def test_a_function_that_nothing_describes_is_named():
    found = bound(graph_of({"a": 8}, {"a": ["memcpy"]}), "a")
    assert found.unresolved == (Unresolved("unknown function", "memcpy", "a.c:0:1"),)


def test_a_frame_that_depends_on_data_is_counted():
    found = bound({"a": Function("a", 8, (), "a.c:3:5", bounded=False)}, "a")
    assert found.unresolved == (Unresolved("variable frame", "a", "a.c:3:5"),)


def test_what_the_root_does_not_reach_is_left_out():
    graph = graph_of({"a": 8, "other": 1000}, {"other": [INDIRECT, "a"]})
    assert (bound(graph, "a").stack_bytes, bound(graph, "a").unresolved) == (8, ())


def test_callers_above_a_function():
    graph = graph_of({"reset": 8, "main": 24, "by": 100, "target": 1000, "off": 5000},
                     {"reset": ["main"], "main": ["by", "target", "off"], "by": ["target"]})
    assert above(graph, "reset", "target") == 8 + 24 + 100
    assert above(graph, "reset", "reset") == 0
    assert above(graph, "target", "main") is None


def test_a_long_chain_needs_no_recursion_here():
    names = [f"f{n}" for n in range(5000)]
    graph = graph_of(dict.fromkeys(names, 8), {a: [b] for a, b in itertools.pairwise(names)})
    assert bound(graph, "f0").stack_bytes == 40000


def test_random_graphs_without_circles_agree_with_every_path_tried():
    rng = random.Random(4)
    for _ in range(50):
        names = [str(n) for n in range(9)]
        calls = {a: [b for b in names[n + 1 :] if rng.random() < 0.35] for n, a in enumerate(names)}
        frames = {name: rng.randrange(0, 200, 8) for name in names}

        def deepest(name: str, calls=calls, frames=frames) -> int:
            return frames[name] + max((deepest(other, calls, frames) for other in calls[name]), default=0)

        assert bound(graph_of(frames, calls), "0").stack_bytes == deepest("0")


def test_random_graphs_with_circles_bound_every_path_that_repeats_nothing():
    rng = random.Random(5)
    for _ in range(50):
        names = [str(n) for n in range(6)]
        calls = {a: [b for b in names if rng.random() < 0.3] for a in names}
        frames = {name: rng.randrange(0, 200, 8) for name in names}

        def deepest(name: str, seen: frozenset[str] = frozenset(), calls=calls, frames=frames) -> int:
            seen |= {name}
            return frames[name] + max(
                (deepest(other, seen, calls, frames) for other in calls[name] if other not in seen), default=0)

        found = bound(graph_of(frames, calls), "0")
        assert found.stack_bytes >= deepest("0")

        def closes(name: str, on_path: tuple[str, ...], calls=calls) -> bool:
            return any(other in (*on_path, name) or closes(other, (*on_path, name), calls) for other in calls[name])

        assert bool(found.unresolved) == closes("0", ())


CI = """graph: { title: "a.c"
node: { title: "a" label: "a\\na.c:1:5\\n24 bytes (static)" }
node: { title: "b" label: "b\\nb.h:1:5" shape : ellipse }
edge: { sourcename: "a" targetname: "b" label: "a.c:2:9" }
node: { title: "__indirect_call" label: "Indirect Call Placeholder" shape : ellipse }
edge: { sourcename: "a" targetname: "__indirect_call" label: "a.c:3:9" }
node: { title: "a.c:v" label: "v\\na.c:7:5\\n16 bytes (dynamic)" }
node: { title: "a.c:w" label: "w\\na.c:9:5\\n32 bytes (dynamic,bounded)" }
}
"""


def test_a_file_as_gcc_writes_it(tmp_path):
    (tmp_path / "a.ci").write_text(CI)
    graph = read_callgraph([tmp_path / "a.ci"])
    assert graph == {
        "a": Function("a", 24, (Call("b", "a.c:2:9"), Call(INDIRECT, "a.c:3:9")), "a.c:1:5"),
        "a.c:v": Function("a.c:v", 16, (), "a.c:7:5", bounded=False),
        "a.c:w": Function("a.c:w", 32, (), "a.c:9:5"),
    }
    assert graph["a.c:w"].name == "w"


def test_a_title_in_two_files_takes_the_greater_frame_and_all_calls(tmp_path):
    (tmp_path / "a.ci").write_text(CI)
    (tmp_path / "b.ci").write_text(CI.replace("24 bytes", "40 bytes").replace("a.c:2:9", "a.c:5:9"))
    found = read_callgraph([tmp_path / "a.ci", tmp_path / "b.ci"])["a"]
    assert found.frame_bytes == 40
    assert {call.place for call in found.calls} == {"a.c:2:9", "a.c:3:9", "a.c:5:9"}


@pytest.mark.parametrize("text", ["", "digraph {}", CI.replace("24 bytes (static)", "none")])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "a.ci").write_text(text)
    with pytest.raises(FileFault, match="-fcallgraph-info=su"):
        read_callgraph([tmp_path / "a.ci"])


PROGRAM = """
struct table { int (*act)(int); int (*other)(int); };
extern volatile int sink;
volatile int sink;
int leaf(int n);
int deep(int n);
int again(int n);
__attribute__((noinline)) int leaf(int n) { volatile char room[64]; room[n & 63] = 1; return room[n & 31]; }
__attribute__((noinline)) int deep(int n) { volatile char room[400]; room[n] = 1; return leaf(room[n + 1]) + sink; }
__attribute__((noinline)) int again(int n) {
    volatile char room[40];
    room[n & 31] = 1;
    return n ? again(n - 1) + room[0] : 0;
}
static const struct table table = {deep, leaf};
const struct table *volatile used = &table;
int by_table(int n);
__attribute__((noinline)) int by_table(int n) { return used->act(n) + 1; }
int by_argument(int (*act)(int), int n);
__attribute__((noinline)) int by_argument(int (*act)(int), int n) { return act(n) + 1; }
struct changing { int (*set)(int); } changing = {leaf};
int by_variable(int n);
__attribute__((noinline)) int by_variable(int n) { return changing.set(n) + 1; }
long long divided(long long a, long long b);
__attribute__((noinline)) long long divided(long long a, long long b) { return a / b + 1; }
void _start(void);
void _start(void) { changing.set = deep; sink = by_table(1) + by_argument(deep, 2) + by_variable(3) + again(4)
                    + (int)divided(sink, sink); for (;;) {} }
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> CallTree:
    """The program above, as a call tree."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "p.c").write_text(PROGRAM)
    flags = ["-mcpu=cortex-m3", "-mthumb", "-Os", "-g", "-ffunction-sections"]
    compiler = [str(GCC), *flags, "-fstack-usage", "-fcallgraph-info=su"]
    subprocess.run([*compiler, "-c", "p.c", "-o", "p.o"], cwd=folder, check=True)
    subprocess.run([str(GCC), *flags, "-nostartfiles", "--specs=nano.specs", "-Wl,-Map=p.map", "p.o", "-o", "p.elf"],
                   cwd=folder, check=True, capture_output=True)
    return CallTree.of(read_program(folder / "p.elf"), read_map(folder / "p.map"), folder)


def frames(tree: CallTree) -> dict[str, int]:
    """What -fstack-usage says, read from its own file."""
    lines = (Path(tree.folder) / "p.su").read_text().splitlines()
    return {line.split("\t")[0].rsplit(":", 1)[1]: int(line.split("\t")[1]) for line in lines}


@needs_gcc
def test_frames_hold_at_least_the_arrays(tree):
    of = frames(tree)
    assert of["leaf"] >= 64
    assert of["deep"] >= 400


@needs_gcc
def test_a_constant_table_is_followed(tree):
    of = frames(tree)
    reached = tree.reach("by_table")
    found = bound(reached, "by_table")
    assert found.unresolved == ()
    assert found.stack_bytes == of["by_table"] + of["deep"] + of["leaf"]
    assert tree.n_followed(reached) == 1


@needs_gcc
@pytest.mark.parametrize("name", ["by_argument", "by_variable"])
def test_an_argument_and_a_table_that_can_be_written_are_not(tree, name):
    found = bound(tree.reach(name), name)
    assert [one.what for one in found.unresolved] == ["pointer"]
    assert found.stack_bytes == frames(tree)[name]


@needs_gcc
def test_recursion_in_compiled_code(tree):
    found = bound(tree.reach("again"), "again")
    assert [one.what for one in found.unresolved] == ["recursion"]
    assert found.stack_bytes == frames(tree)["again"]


@needs_gcc
def test_what_the_compilers_library_needs_is_read_from_its_code(tree):
    found = bound(tree.reach("divided"), "divided")
    assert [one.what for one in found.unresolved] == []
    assert found.path[:2] == ("divided", "__aeabi_ldivmod")
    assert found.stack_bytes > frames(tree)["divided"] + 16


@needs_gcc
def test_frames_read_from_machine_code_are_those_of_the_compiler(tree):
    of = frames(tree)
    read = {name: machine.describe(tree.program, name) for name in of}
    assert {name: one.frame_bytes for name, one in read.items() if one} == of


@needs_gcc
def test_calls_read_from_machine_code(tree):
    found = machine.describe(tree.program, "by_argument")
    assert found is not None
    assert [call.target for call in found.calls] == [INDIRECT]
    again = machine.describe(tree.program, "again")
    assert again is not None
    assert [call.target for call in again.calls] == ["again"]


@needs_gcc
def test_a_stack_pointer_that_data_move_is_no_bound(tmp_path):
    (tmp_path / "v.c").write_text(
        "void use(volatile char *);\n__attribute__((noipa)) void use(volatile char *p) { p[0] = 1; }\n"
        "void grow(int n);\n__attribute__((noipa)) void grow(int n) { volatile char room[n]; use(room); }\n"
        "void _start(void);\nvoid _start(void) { grow(3); for (;;) {} }\n"
    )
    subprocess.run([str(GCC), "-mcpu=cortex-m3", "-mthumb", "-O1", "-nostdlib", "v.c", "-o", "v.elf"], cwd=tmp_path,
                   check=True, capture_output=True)
    found = machine.describe(read_program(tmp_path / "v.elf"), "grow")
    assert found is not None
    assert not found.bounded
