"""What is run, or which address is called, when a campaign ends or an item fails; it gets a JSON object."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

# A hook that hangs holds up the campaign by this long, and no longer.
TIMEOUT_S = 30.0

Hook = tuple[str, ...] | str


def call(hook: Hook, document: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> str:
    """Run a command with the document on its stdin, or POST it to an address; return what went wrong, "" if nothing.

    The command is in a session of its own, so that Ctrl-C is not meant for it. Its output is dropped.
    """
    data = json.dumps(document, allow_nan=False).encode()
    return _post(hook, data, timeout_s) if isinstance(hook, str) else _run(hook, data, timeout_s)


def _run(command: tuple[str, ...], data: bytes, timeout_s: float) -> str:
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
    except (OSError, ValueError) as error:
        return f"the command cannot be run ({getattr(error, 'strerror', None) or error})"
    with process:
        try:
            complaint = process.communicate(data, timeout_s)[1].decode(errors="replace").strip().splitlines()
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it started too
            if isinstance(error, subprocess.TimeoutExpired):
                return f"the command did not end within {timeout_s:g} s"
            raise
    if process.returncode == 0:
        return ""
    return ": ".join([f"the command ended with status {process.returncode}", *complaint[-1:]])


def _post(address: str, data: bytes, timeout_s: float) -> str:
    import http.client
    import urllib.error
    import urllib.request

    request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=timeout_s):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"the address answered with status {error.code}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        return f"the address does not answer ({getattr(reason, 'strerror', None) or reason})"
