"""The pages and JSON rows of memory, and the command on files."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from labctl.cli import run
from labctl.errors import EnvironmentFault
from labctl.memory.callgraph import Unresolved
from labctl.memory.row import ImageRow, MemoryRow, StackBound
from labctl.model import Operation
from labctl.report import memory as report

from .memory_elf import ALLOC, EXECUTE, WRITE, Part, make_elf

FLASH, RAM = 0x0800_0000, 0x2000_0000


def row(name: str = "sha256", n_bytes: int | None = 64, board: str = "stm32vldiscovery", *, on_heap: bool = True,
        unresolved: tuple[Unresolved, ...] = ()) -> MemoryRow:
    return MemoryRow(
        board=board, operation=Operation(name, bytes=n_bytes, clock_hz=24_000_000), image=f"op-{name}",
        flash_bytes=13_107, ram_bytes=82, image_flash_bytes=20_000, image_ram_bytes=400, null_flash_bytes=6_893,
        null_ram_bytes=318, stack_reserved_bytes=2816, heap_reserved_bytes=1024,
        marks={"stack_peak_bytes": 819, "heap_peak_bytes": 100, "heap_held_bytes": 20, "state_bytes": 4,
               "buffer_bytes": 64},
        null_marks={"stack_peak_bytes": 232, "heap_peak_bytes": 0, "heap_held_bytes": 0, "state_bytes": 0,
                    "buffer_bytes": 0},
        bound=StackBound(900, 668, unresolved, 3, ("series_run", "lib/a.c:step")), workspace_on_heap=on_heap,
        board_flash_bytes=131_072, board_ram_bytes=8_192,
    )


def image(name: str = "all", board: str = "stm32vldiscovery") -> ImageRow:
    return ImageRow(board, name, "Os", 24_000_000, "", 71, 66_896, 592, 6_893, 318, 2816, 3840, 131_072, 8_192)


def page(rows: list[MemoryRow], images: list[ImageRow]) -> str:
    console = Console(file=io.StringIO(), width=80, highlight=False)
    console.print(report.render(rows, images, 5))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_ratios_are_of_the_boards_memory():
    (one,) = report.to_json_rows([row()])
    assert one["flash_ratio"] == 13_107 / 131_072
    assert one["ram_ratio"] == 82 / 8_192
    assert one["stack_bytes"] == 819
    assert one["stack_ratio"] == 819 / 8_192
    json.dumps(one, allow_nan=False)


def test_the_heap_holds_what_is_prepared_unless_that_is_static():
    on_heap, static = report.to_json_rows([row(), row(on_heap=False)])
    assert on_heap["heap_bytes"] == 100 + 20 + 4 + 64
    assert static["heap_bytes"] == 100 + 20


def test_unresolved_calls_are_counted_and_named():
    calls = (Unresolved("pointer", "build/lib/b.c:modp", "build/lib/b.c:1189:5"),)
    (one,) = report.to_json_rows([row(unresolved=calls)])
    assert one["stack_unresolved_calls"] == 1
    assert one["stack_unresolved"] == [{"what": "pointer", "function": "b.c:modp", "place": "b.c:1189:5"}]
    text = page([row(unresolved=calls)], [])
    assert "+ 1 call" in text
    assert "b.c:1189:5" in text


def test_without_a_call_graph_the_bound_is_null():
    lacking = row()
    object.__setattr__(lacking, "bound", None)
    (one,) = report.to_json_rows([lacking])
    assert one["stack_bound_bytes"] is None
    assert one["stack_unresolved_calls"] is None
    assert "not known" in page([lacking], [])


@pytest.mark.parametrize("names", [["sha256"], ["ecdh-curve25519.shared", "aes-256-gcm.decrypt"]])
def test_a_page_has_80_columns_and_says_emulated(names):
    many = tuple(Unresolved("pointer", f"build/lib/bignum.c:function_{n}", f"bignum.c:{n}:5") for n in range(20))
    boards = ("stm32vldiscovery", "launchxl-cc26x2r1")
    rows = [row(name, size, board, unresolved=many) for name in names for size in (64, 16384) for board in boards]
    text = page(rows, [image("all", board) for board in boards])
    assert max(map(len, text.splitlines())) <= 80
    assert "emulated" in text


@pytest.fixture
def elf(tmp_path):
    path = tmp_path / "a rather long name of a program of somebody else.elf"
    symbols = [(f"a_function_with_quite_a_long_name_of_its_own_{n}", FLASH + 10 * n, 10, 1) for n in range(30)]
    path.write_bytes(make_elf([
        Part(".text", FLASH, 1000, ALLOC | EXECUTE), Part(".data", RAM, 40, ALLOC | WRITE, load=FLASH + 1000),
        Part(".bss", RAM + 40, 300, ALLOC | WRITE, None), Part(".stack", RAM + 340, 2048, ALLOC | WRITE, None),
    ], symbols))
    return path


def test_a_file_as_json(elf, capsys):
    assert run(["memory", str(elf), "--board", "stm32vldiscovery", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "labctl.memory/1"
    file = document["file"]
    assert (file["flash_bytes"], file["ram_bytes"], file["reserved_bytes"]) == (1040, 340, {"stack": 2048})
    assert file["flash_ratio"] == 1040 / 131_072
    assert len(file["symbols"]) == 30


def test_a_file_as_a_page(elf, capsys):
    assert run(["memory", str(elf), "--top", "5"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "and 25 more symbols" in text
    assert "No section sets room aside for heap" in text


def test_a_program_that_does_not_fit_is_told_by_how_much(tmp_path, capsys):
    path = tmp_path / "big.elf"
    path.write_bytes(make_elf([Part(".text", FLASH, 131_072 + 24, ALLOC | EXECUTE)]))
    assert run(["memory", str(path), "--board", "stm32vldiscovery"]) == 4
    out = " ".join(capsys.readouterr().out.split())
    assert "100.02 % of stm32vldiscovery, 24 bytes more than it has" in out
    assert run(["memory", str(path), "--board", "stm32vldiscovery", "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["file"]["fits"] is False
    assert run(["memory", str(path)]) == 0  # no board, nothing to fit


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(65_536, "100 %"), (65_488, "99.9 %"), (65_520, "99.98 %"), (65_535, "99.998 %"), (67_371, "103 %"),
     (65_544, "100.01 %"), (64_420, "98 %"), (424, "0.65 %"), (0, "0 %")],
)
def test_a_share_is_the_whole_only_where_it_is(n_bytes, text):
    """Of 64 KiB, by division: 65488 is 99.927 %, 65520 99.976 %, 65535 99.9985 %, 67371 102.80 %, 65544 100.012 %."""
    assert report.share(n_bytes, 65_536) == text


@pytest.mark.parametrize(("options", "words"), [
    (["--op", "sha256", "--bytes", "16384"], "16384 B is more than all the RAM of stm32vldiscovery, 8192 B"),
    (["--op", "aes-128-cbc", "--bytes", "17"], "multiples of 16 bytes, not 17"),
    (["--op", "sha256", "--bytes", "15"], "16<=x<=16384"),
])
def test_an_impossible_size_is_refused_before_anything_is_built(monkeypatch, capsys, options, words):
    monkeypatch.setattr("labctl.memorysurvey.ensure", lambda *_: pytest.fail("something was built"))
    assert run(["memory", *options]) == 2
    said = capsys.readouterr()
    assert words in said.err and not said.out


@pytest.mark.parametrize("arguments", [
    ["--map", "a.map"],
    ["FILE", "--op", "sha256"],
    ["FILE", "--board", "stm32vldiscovery", "--board", "stm32f4discovery"],
    ["FILE", "--board", "nothing"],
    ["--op", "nothing-*"],
    ["--board", "nothing"],
])
def test_what_does_not_go_together_is_a_wrong_use(elf, capsys, arguments):
    assert run(["memory", *(str(elf) if word == "FILE" else word for word in arguments)]) == 2
    assert capsys.readouterr().out == ""


def test_without_a_compiler_and_an_image_the_remedy_is_named(tmp_path, monkeypatch):
    from labctl import firmware
    from labctl.combinations import Choice
    from labctl.memorysurvey import survey_memory

    monkeypatch.setattr(firmware, "BUILD", tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(EnvironmentFault, match="no arm-none-eabi-gcc to build it: run `make firmware`"):
        survey_memory(Choice(names=("sha256",)))
