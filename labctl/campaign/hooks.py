"""What is run, or which address is called, when a campaign ends or an item fails; it gets a JSON object."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

# A hook that hangs holds up the campaign by this long, and no longer.
TIMEOUT_S = 30.0
_N_SAID_BYTES = 4096

Hook = tuple[str, ...] | str


@dataclass(frozen=True)
class Trouble:
    """Why a hook did not work; `said` is the last line that its command wrote to stderr, which may hold anything."""

    text: str
    said: str = ""


def missing(hook: Hook | None) -> str:
    """Say what a hook needs that is not on this machine, "" where nothing is known to be missing."""
    if hook is None or isinstance(hook, str) or shutil.which(hook[0]):
        return ""
    return f"names the command {hook[0]!r}, and there is none of that name that can be run"


def call(hook: Hook, document: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> Trouble | None:
    """Run a command with the document on its stdin, or POST it to an address; give what went wrong, None if nothing.

    The command is in a session of its own, so that Ctrl-C is not meant for it. Its end is waited for, not that of what
    it leaves in the background; its output is dropped. Raises nothing but an interrupt.
    """
    try:
        data = json.dumps(document, allow_nan=False).encode()
        return _post(hook, data, timeout_s) if isinstance(hook, str) else _run(hook, data, timeout_s)
    except Exception as error:  # noqa: BLE001 - whatever a hook meets, the campaign goes on
        return Trouble(f"it cannot be called ({_reason(error)})")


def report(
    when: str,
    hook: Hook,
    document: Mapping[str, Any],
    note: Callable[[str], None],
    event: Callable[[str, str], None],
) -> None:
    """Call a hook; where it does not work, show it with `note`, and keep it with `event`: not what its command said."""
    if trouble := call(hook, document):
        text = f"the hook on {when} did not work: {trouble.text}"
        note(f"{text}: {trouble.said}" if trouble.said else text)
        event("hook", text)


def _run(command: tuple[str, ...], data: bytes, timeout_s: float) -> Trouble | None:
    # Files, not pipes: whoever inherits the end of a pipe keeps it open.
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as said:
        asked.write(data)
        asked.seek(0)
        try:
            process = subprocess.Popen(
                command, stdin=asked, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
            )
        except (OSError, ValueError) as error:
            return Trouble(f"the command cannot be run ({_reason(error)})")
        try:
            status = process.wait(timeout_s)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it started too
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                return Trouble(f"the command did not end within {timeout_s:g} s", _last_line(said))
            raise
        return Trouble(f"the command ended with status {status}", _last_line(said)) if status else None


def _last_line(said: IO[bytes]) -> str:
    said.seek(max(0, said.seek(0, os.SEEK_END) - _N_SAID_BYTES))
    return said.read().decode(errors="replace").strip().rpartition("\n")[2]


def _post(address: str, data: bytes, timeout_s: float) -> Trouble | None:
    """Call an address from a thread: what answers a byte at a time, or a name that is not found, never times out."""
    answers: list[Trouble | None] = []
    thread = threading.Thread(
        target=lambda: answers.append(_answer(address, data, timeout_s)), name="hook", daemon=True
    )
    thread.start()
    thread.join(timeout_s)
    return answers[0] if answers else Trouble(f"the address did not answer within {timeout_s:g} s")


def _answer(address: str, data: bytes, timeout_s: float) -> Trouble | None:
    import urllib.error
    import urllib.request

    try:
        request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(request, timeout=timeout_s):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        return Trouble(f"the address answered with status {error.code}")
    except Exception as error:  # noqa: BLE001 - in a thread nobody else would tell of it
        return Trouble(f"the address does not answer ({_reason(getattr(error, 'reason', error))})")


def _reason(error: Any) -> str:
    return str(getattr(error, "strerror", None) or error)
