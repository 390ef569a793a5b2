"""A link that knows its conversation in advance: every exchange must come, in order, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from instruments.errors import InstrumentError, LinkLost


class DialogueLink:
    """Play the instrument's part of `steps`: pairs of (command, None | reply text | block bytes | exception).

    Use as a context manager: leaving it checks that nothing of the dialogue is left over.
    """

    def __init__(self, *steps: tuple[str, Any]) -> None:
        self.steps = list(steps)
        self.resource = "dialogue"
        self.tainted = False
        self.n_closed = 0
        self.n_reopened = 0

    def __enter__(self) -> DialogueLink:
        return self

    def __exit__(self, kind: type | None, *_: Any) -> None:
        if kind is None:
            assert not self.steps, f"never sent: {self.steps}"

    def _next(self, command: str) -> Any:
        if self.tainted or self.n_closed:
            raise LinkLost("tainted or closed")
        assert self.steps, f"unexpected: {command}"
        expected, reply = self.steps.pop(0)
        assert command == expected
        if isinstance(reply, BaseException):
            self.tainted = isinstance(reply, InstrumentError)
            raise reply
        return reply

    def write(self, command: str) -> None:
        assert self._next(command) is None, f"{command} should have been a query"

    def query(self, command: str, timeout_s: float = 1.0) -> str:
        assert timeout_s > 0
        reply = self._next(command)
        assert isinstance(reply, str), f"{command} should not have been a text query"
        return reply

    def query_block(self, command: str, timeout_s: float = 1.0, into: np.ndarray | None = None) -> np.ndarray:
        reply = self._next(command)
        assert isinstance(reply, bytes)
        assert into is not None
        assert into.flags.c_contiguous
        view = into[: len(reply)]
        view[:] = np.frombuffer(reply, np.uint8)
        return view

    def taint(self, reason: str) -> None:
        assert reason
        self.tainted = True

    def clear(self) -> None:
        self.tainted = False

    def reopen(self) -> None:
        self.tainted = False
        self.n_reopened += 1

    def close(self) -> None:
        self.n_closed += 1


@pytest.fixture
def dialogue() -> type[DialogueLink]:
    """Return the class of links that play a dialogue."""
    return DialogueLink
