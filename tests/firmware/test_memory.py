"""Bounds of the stack against the marks of real images, and frames read from machine code against the compiler's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from labctl.errors import FileFault
from labctl.memory import machine
from labctl.memory.calltree import CallTree
from labctl.memory.elf import Program, read_program
from labctl.memory.mapfile import read_map
from labctl.memory.operation import operation_stack, step_of

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(600)


def tree_of(elf: Path) -> CallTree:
    return CallTree.of(read_program(elf), read_map(elf.with_suffix(".map")), ROOT / "firmware")


# No call of these is left open.
RESOLVED = [
    ("stm32vldiscovery", "aes-128-ctr", "Os"), ("stm32vldiscovery", "sha512", "O0"), ("stm32vldiscovery", "sm3", "O3"),
    ("stm32vldiscovery", "aes-192-cbc.decrypt", "O2"), ("stm32f0discovery", "sm4-cbc", "Os"),
    ("stm32f4discovery", "sha256", "O2"),
]


@pytest.mark.parametrize(("board", "operation", "profile"), RESOLVED)
def test_the_mark_is_within_the_bound(build, emulate, board: str, operation: str, profile: str):
    elf = build(board, image=f"op-{operation}", profile=profile)
    device = emulate(elf, board)
    found = operation_stack(tree_of(elf), operation)
    assert found.whole.unresolved == ()
    for keys in ({}, {"key": "inside"}) if operation.startswith(("aes", "sm4")) else ({},):
        device.measured(operation, runs=3, **keys)
        assert device.memory()["stack_peak_bytes"] <= found.whole.stack_bytes
    # The empty operation needs what the callers do: the rest is the step's.
    device.measured("null", runs=3)
    assert found.step.stack_bytes < found.whole.stack_bytes
    assert device.memory()["stack_peak_bytes"] <= operation_stack(tree_of(elf), "null").whole.stack_bytes


def test_the_bound_of_a_digest_is_met_when_its_key_has_no_other_path(build, emulate):
    """SHA-256 always takes its deepest path: the bound is not only safe but what happens."""
    elf = build(image="op-sha256")
    device = emulate(elf)
    device.measured("sha256", runs=3)
    assert device.memory()["stack_peak_bytes"] == operation_stack(tree_of(elf), "sha256").whole.stack_bytes


@pytest.mark.parametrize("operation", ["ecdsa-p256.sign", "drbg"])
def test_calls_of_a_generator_handed_over_are_counted(build, operation: str):
    found = operation_stack(tree_of(build(image=f"op-{operation}")), operation)
    assert {one.what for one in found.whole.unresolved} == {"pointer"}


def test_frames_from_machine_code_are_never_less_than_the_compilers(build):
    elf = build(image="op-ecdsa-p256.sign")
    tree = tree_of(elf)
    compared = 0
    for title, function in tree.compiled.items():
        symbol = _only(tree.program, function.name)
        if symbol is None or tree.title_at(symbol) != title:
            continue
        read = machine.describe(tree.program, function.name)
        assert read is not None, title
        assert read.frame_bytes >= function.frame_bytes, title
        compared += 1
    assert compared > 100


def _only(program: Program, name: str) -> int | None:
    symbol = program.find(name)
    return None if symbol is None else symbol.address


def test_calls_from_machine_code_are_in_the_compilers_account(build):
    """What the machine code calls by name, the .ci files tell too: no call is overlooked."""
    tree = tree_of(build(image="op-sha256"))
    reached = tree.reach("reset_handler")
    for title in reached:
        read = machine.describe(tree.program, title.rpartition(":")[2])
        if title not in tree.compiled or read is None:
            continue
        told = {_target(tree, call.target) for call in tree.compiled[title].calls}
        assert {_target(tree, call.target) for call in read.calls} <= told, title


def _target(tree: CallTree, title: str) -> str:
    symbol = tree.program.find(title.rpartition(":")[2])
    return title if symbol is None else f"{symbol.address:#x}"


def test_an_operation_that_an_image_has_not_is_named(build: Callable[..., Path]):
    with pytest.raises(FileFault, match="has no symbol op_sha256"):
        step_of(tree_of(build(image="null")), "sha256")
