"""What can go wrong between an instrument and who talks to it: scripted, the same on every transport.

A fault is a small mapping, {"close_after_bytes": 100}; `PROFILES` has named ones, {"profile": "short-page"}, for what
users of such instruments have reported (docs/link-faults.md says which report). What an instrument says is changed
first, then the bytes of the transport that carries it, its own headers included.
"""

from __future__ import annotations

import math
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from instruments.sim.scpi import ErrorQueue, Instrument, Reply

_FLAG, _BYTES, _TIME = "true or false", "a number of bytes", "a time in seconds"
KINDS: dict[str, Any] = {
    # what the transport sends
    "silent": _FLAG, "fragment": _BYTES, "stall_after_bytes": _BYTES, "close_after_bytes": _BYTES,
    "vanish_after_bytes": _BYTES, "return_after_s": _TIME, "unplug_after_bytes": _BYTES, "replug_after_s": _TIME,
    # what the instrument says
    "line_end": ("extra", "missing", "late", "never"), "prefix": ("NUL", "text"), "length": (1, -1),
    "empty_block": (True, "indefinite"), "short_page": "a ratio from 0 to 1", "page_cap": _BYTES,
    "stale_reply": (True, "block"), "headers": _FLAG, "zero_increment": _FLAG, "opc": ("never", "at-once"),
    "interrupted": _FLAG, "busy_s": _TIME,
    # what it hears and remembers
    "arm": ("lost",), "index": ("stuck",), "queue": ("full", "endless"),
    # ends with the first thing that it spoils
    "once": _FLAG,
}  # fmt: skip

PROFILES: dict[str, dict[str, Any]] = {
    "fragments": {"fragment": 1},
    "line-end-missing": {"line_end": "missing"},
    "line-end-late": {"line_end": "late"},
    "line-end-extra": {"line_end": "extra"},
    "line-end-never": {"line_end": "never"},
    "stale-reply": {"stale_reply": True},
    "stale-block": {"stale_reply": "block"},
    "stall": {"stall_after_bytes": 5000},
    "stall-until-reopened": {"stall_after_bytes": 5000, "once": True},
    "closed-in-block": {"close_after_bytes": 5000, "once": True},
    "unplugged": {"unplug_after_bytes": 5000, "replug_after_s": 0.2},
    "silent": {"silent": True},
    "unknown-length": {"empty_block": "indefinite"},
    "no-data": {"empty_block": True},
    "text-before-block": {"prefix": "text"},
    "nul-before-block": {"prefix": "NUL"},
    "length-too-long": {"length": 1},
    "length-too-short": {"length": -1},
    "short-page": {"short_page": 0.5},
    "page-cap": {"page_cap": 1200},
    "headers-and-units": {"headers": True},
    "zero-increment": {"zero_increment": True},
    "opc-never": {"opc": "never"},
    "opc-at-once": {"opc": "at-once"},
    "lost-arm": {"arm": "lost"},
    "stuck-index": {"index": "stuck"},
    "full-queue": {"queue": "full"},
    "endless-queue": {"queue": "endless"},
    "query-interrupted": {"interrupted": True},
    "busy": {"busy_s": 0.2},
    "busy-too-long": {"busy_s": 10.0},
}

_LIMITS = ("vanish_after_bytes", "unplug_after_bytes", "close_after_bytes", "stall_after_bytes")
_BLOCK = re.compile(r"#([1-9])(\d+)")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(E[+-]?\d+)?")
_ARM = re.compile(
    r":?((SING(LE)?|RUN|DIG(ITIZE)?|INIT(IATE)?(:\w+)*)( .*)?|TRIG(GER)?:SWE(EP)? +SING(LE)?"
    r"|REC(ORD)?:(WREC(ORD)?:OPER(ATE)? +RUN|STAR(T)? +(1|ON)))",
    re.IGNORECASE,
)
_INDEX = re.compile(
    r":?(ACQ(UIRE)?:SEGM(ENTED)?:IND(EX)?|REC(ORD)?:(WREP(LAY)?:FCUR(RENT)?|CURR(ENT)?)) .*", re.IGNORECASE
)
_PREAMBLE = re.compile(r":?WAV(EFORM)?:PRE(AMBLE)?\?", re.IGNORECASE)
_INCREMENT = re.compile(r":?WAV(EFORM)?:XINC(REMENT)?\?", re.IGNORECASE)
_OPC = re.compile(r".*\*OPC\?", re.IGNORECASE)
_STALE_BLOCK = bytes(range(1, 256)) * 120


def check(fault: Mapping[str, Any], who: str) -> dict[str, Any]:
    """Return the fault with its profile's entries in the profile's place. Raises ValueError naming what is wrong."""
    entries = {name: value for name, value in fault.items() if name != "profile"}
    if (name := fault.get("profile")) is not None:
        if name not in PROFILES:
            raise ValueError(f"faults: {who} profile {name!r} is not one of {', '.join(PROFILES)}")
        entries = PROFILES[name] | entries
    for name, value in entries.items():
        if name not in KINDS:
            raise ValueError(f"faults: {who} {name!r} is not one of {', '.join(KINDS)}, profile")
        if not _fits(value, KINDS[name]):
            kind = KINDS[name] if isinstance(KINDS[name], str) else f"one of {', '.join(map(str, KINDS[name]))}"
            raise ValueError(f"faults: {who} {name} must be {kind}, not {value!r}")
    return entries


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(kind, tuple):
        return any(value == option and type(value) is type(option) for option in kind)
    if kind == _FLAG or isinstance(value, bool):
        return kind == _FLAG and isinstance(value, bool)
    if kind == _BYTES:
        return isinstance(value, int) and value >= 0
    return isinstance(value, int | float) and 0 <= value < math.inf


class LinkFault:
    """The fault in force on one instrument's transport; each of its clients has a `Line`.

    `vanish` and `come_back` make the instrument unreachable, and let it return. A fault with "once" ends with the
    first answer that it spoils, or, where it is one of the transport, with the connection that it struck.
    """

    def __init__(
        self, errors: ErrorQueue, vanish: Callable[[float | None], None], come_back: Callable[[], None]
    ) -> None:
        self._errors, self._vanish, self._come_back = errors, vanish, come_back
        self.entries: dict[str, Any] = {}
        self._limit_bytes: int | None = None
        self._struck: Line | None = None
        self._busy_until_s = 0.0

    def set(self, fault: Mapping[str, Any]) -> None:
        """Replace the fault; an empty one repairs. Raises ValueError."""
        self.entries = check(fault, "link")
        self._come_back()
        limit = 0 if self.entries.get("silent") else None
        self._limit_bytes = next((self.entries[name] for name in _LIMITS if name in self.entries), limit)
        self._struck = None
        self._busy_until_s = time.monotonic() + self.entries.get("busy_s", 0.0)
        if self.entries.get("queue") == "full":
            for _ in range(30):
                self._errors.push(-113)
        self._vanish_if_due()

    def spent(self) -> None:
        """Learn that an answer was spoiled."""
        if self.entries.get("once"):
            self.entries = {}

    def busy_s(self) -> float:
        """Return how long the instrument still answers nothing."""
        return max(0.0, self._busy_until_s - time.monotonic())

    def send(self, line: Line, connection: socket.socket, data: memoryview) -> None:
        """Send as much as the fault lets through, in the pieces that it makes of it."""
        step = self.entries.get("fragment") or len(data)
        while data:
            self._send(line, connection, data[:step])
            data = data[step:]

    def _send(self, line: Line, connection: socket.socket, data: memoryview) -> None:
        if self.entries.get("once") and self._struck not in (None, line):
            connection.sendall(data)
            return
        if self._limit_bytes is not None:
            data = data[: self._limit_bytes]
            self._limit_bytes -= len(data)
        connection.sendall(data)
        if self._limit_bytes == 0:
            self._struck = line
            if "close_after_bytes" in self.entries:
                connection.shutdown(socket.SHUT_RDWR)
        self._vanish_if_due()

    def _vanish_if_due(self) -> None:
        vanishes = "vanish_after_bytes" in self.entries or "unplug_after_bytes" in self.entries
        if vanishes and self._limit_bytes == 0:
            back_s = self.entries.get("return_after_s", self.entries.get("replug_after_s"))
            self._limit_bytes = None
            self._vanish(back_s)


class Line:
    """One client's way to an instrument and back, with what is wrong on it."""

    def __init__(self, fault: LinkFault, instrument: Instrument, connection: socket.socket) -> None:
        self._fault, self._instrument, self._connection = fault, instrument, connection
        self._held: list[Reply] = []
        self._after_block = False
        self._n_said = 0

    def sendall(self, data: memoryview) -> None:
        """Send what the transport makes of an answer."""
        self._fault.send(self, self._connection, data)

    def ask(self, message: str, is_gone: Callable[[], bool]) -> list[Reply]:
        """Let the instrument execute a message; return the pieces of what is said of its answer."""
        fault = self._fault.entries
        if fault.get("queue") == "endless":
            self._instrument.errors.push(-113)
        if self._is_deaf(fault, message):
            self._fault.spent()
            return []
        answer = self._instrument.execute(message, is_gone)
        if answer and (wait_s := self._fault.busy_s()):
            time.sleep(wait_s)
        if not fault or not answer:
            return answer
        said = self._spoiled(fault, message, answer)
        if said != answer:
            self._fault.spent()
        self._n_said += 1
        return said

    def _is_deaf(self, fault: Mapping[str, Any], message: str) -> bool:
        text = message.strip()
        interrupted = fault.get("interrupted") and self._after_block and "?" in text and not _OPC.fullmatch(text)
        self._after_block = False
        if interrupted:
            self._instrument.errors.push(-410)
            return True
        lost = fault.get("arm") == "lost" and _ARM.fullmatch(text)
        return bool(lost or (fault.get("index") == "stuck" and _INDEX.fullmatch(text)))

    def _spoiled(self, fault: Mapping[str, Any], message: str, answer: list[Reply]) -> list[Reply]:
        head = next((k for k, piece in enumerate(answer) if isinstance(piece, str) and _BLOCK.fullmatch(piece)), None)
        self._after_block = head is not None
        said = list(answer) if head is None else _spoiled_block(fault, answer, head)
        if head is None:
            said = _spoiled_text(fault, message.strip(), said)
        if fault.get("headers") and said:
            said = [f"{message.strip().rstrip('?')} ", *said]
        said = self._ended(fault, said, head is not None)
        if fault.get("stale_reply") is True:
            said, self._held = self._held, said
        elif fault.get("stale_reply") == "block" and self._n_said == 0:
            said = [_STALE_BLOCK, *said]
        return said

    def _ended(self, fault: Mapping[str, Any], said: list[Reply], is_block: bool) -> list[Reply]:
        end = fault.get("line_end")
        if not said or end is None:
            return said
        held, self._held = self._held, []
        if end == "extra":
            said = [*said, "\n"]
        elif end == "never" or is_block:
            said = said[:-1]
            self._held = ["\n"] if end == "late" else []
        return [*held, *said]


def _spoiled_text(fault: Mapping[str, Any], message: str, said: list[Reply]) -> list[Reply]:
    if _OPC.fullmatch(message) and "opc" in fault:
        return ["0", "\n"] if fault["opc"] == "at-once" else []
    if fault.get("zero_increment") and _INCREMENT.fullmatch(message):
        return ["+0.00000000E+000", "\n"]
    if fault.get("zero_increment") and _PREAMBLE.fullmatch(message):
        fields = str(said[0]).split(",")
        return [",".join([*fields[:4], "+0.00000000E+000", *fields[5:]]), "\n"]
    if fault.get("headers") and isinstance(said[0], str) and _NUMBER.fullmatch(said[0]):
        return [f"{said[0]}V", *said[1:]]
    return said


def _spoiled_block(fault: Mapping[str, Any], answer: Sequence[Reply], head: int) -> list[Reply]:
    """Change what an answer says whose piece `head` is a block's header, all after it but the line end its data."""
    header = str(answer[head])
    parts = [memoryview(p.encode("latin-1") if isinstance(p, str) else p).cast("B") for p in answer[head + 1 : -1]]
    n_bytes = n_sent = sum(part.nbytes for part in parts)
    if "short_page" in fault:
        n_sent = int(n_bytes * fault["short_page"])
    n_sent = min(n_sent, fault.get("page_cap", n_sent))
    if fault.get("empty_block") is True:
        n_sent = 0
    n_told = n_sent + fault.get("length", 0)
    if (n_sent, n_told) != (n_bytes, n_bytes):
        digits = int(header[1])
        header = f"#{digits}{n_told:0{digits}d}"
        parts = _first(parts, n_sent)
    if fault.get("empty_block") == "indefinite":
        header = "#0"
    before = {"NUL": "\x00", "text": "DATA,"}.get(fault.get("prefix", ""), "")
    return [*answer[:head], *([before] if before else []), header, *parts, answer[-1]]


def _first(parts: Sequence[memoryview], n_bytes: int) -> list[memoryview]:
    kept = []
    for part in parts:
        kept.append(part[:n_bytes])
        n_bytes -= kept[-1].nbytes
    return kept
