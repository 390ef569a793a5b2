"""What SCPI instruments have in common: headers, parameters, error queue, status registers. Strict.

Rules from the Keysight InfiniiVision 3000T X-Series Programmer's Guide (introduction, error messages, status
reporting) and IEEE 488.2: a keyword is its long or its short form and nothing between; a leading colon returns to the
root; after a semicolon a header continues in the subsystem of the one before; common commands leave that as it is;
answers of one message come back joined by semicolons. An unknown header is -113, and a query that failed says nothing.
The error queue is first in, first out and 30 long, the last place being for "Queue overflow" (4000 X-Series
Programmer's Guide p. 1570).
"""

from __future__ import annotations

import re
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

MESSAGES = {
    0: "No error",
    -102: "Syntax error",
    -104: "Data type error",
    -108: "Parameter not allowed",
    -109: "Missing parameter",
    -113: "Undefined header",
    -128: "Numeric data not allowed",
    -131: "Invalid suffix",
    -141: "Invalid character data",
    -200: "Execution error",
    -213: "Init ignored",
    -221: "Settings conflict",
    -222: "Data out of range",
    -224: "Illegal parameter value",
    -230: "Data corrupt or stale",
    -241: "Hardware missing",
    -256: "File name not found",
    -257: "File name error",
    -310: "System error",
    -350: "Queue overflow",
    -363: "Input buffer overrun",
    -410: "Query INTERRUPTED",
}
QUEUE_LENGTH = 30
# Standard Event Status Register (IEEE 488.2, 11.5.1): bit of each class of error, and operation complete.
ESR_COMMAND, ESR_EXECUTION, ESR_DEVICE, ESR_QUERY, ESR_OPC = 32, 16, 8, 4, 1

NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([a-zA-Z]*)")
MULTIPLIERS = {"V": 1.0, "MV": 1e-3, "UV": 1e-6, "S": 1.0, "MS": 1e-3, "US": 1e-6, "NS": 1e-9}

Reply = str | bytes | memoryview
Handler = Callable[..., "Reply | tuple[Reply, ...] | None"]


class ScpiError(Exception):
    """One entry for the error queue."""

    def __init__(self, code: int) -> None:
        super().__init__(code, MESSAGES[code])
        self.code = code


class ErrorQueue:
    """Errors in order of arrival, and the event status register that they set; `say` writes an entry."""

    def __init__(self, say: Callable[[int], str]) -> None:
        self._entries: deque[int] = deque()
        self._say = say
        self.esr = 0

    def push(self, code: int) -> None:
        """Add an error; the thirtieth place is for the overflow."""
        klass = -code // 100
        self.esr |= {1: ESR_COMMAND, 2: ESR_EXECUTION, 3: ESR_DEVICE, 4: ESR_QUERY}.get(klass, 0)
        if len(self._entries) >= QUEUE_LENGTH - 1:
            code = -350
        if len(self._entries) < QUEUE_LENGTH:
            self._entries.append(code)

    def pop(self) -> str:
        """Remove the oldest error and return it as the instrument says it."""
        return self._say(self._entries.popleft() if self._entries else 0)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self.esr = 0

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True)
class _Command:
    pattern: re.Pattern[str]
    handler: Handler
    takes_parameters: bool


def _keyword(text: str) -> str:
    """Return the expression for one keyword such as ``CHANnel<n>``: short or long form, and its number."""
    numbered = text.endswith("<n>")
    name = text.removesuffix("<n>")
    short = "".join(c for c in name if not c.islower())
    forms = short if short == name else f"(?:{short}|{name.upper()})"
    return forms + (r"(\d{1,9})" if numbered else "")


def _header(text: str) -> re.Pattern[str]:
    """Compile a header such as ``:TRIGger[:EDGE]:LEVel?``; brackets are optional nodes."""
    query = text.endswith("?")
    pattern = ""
    for optional, node in re.findall(r"(\[?):?([*\w<>]+)\]?", text.removesuffix("?")):
        part = ":" + (re.escape(node) if node.startswith("*") else _keyword(node))
        pattern += f"(?:{part})?" if optional else part
    return re.compile(pattern + (r"\?" if query else ""))


class Instrument:
    """Answer SCPI messages by a table of headers; thread-safe, one message at a time."""

    def __init__(self) -> None:
        self.errors = ErrorQueue(self.say_error)
        self.ese = 0
        self.sre = 0
        self._commands: list[_Command] = []
        self._found: dict[str, tuple[_Command, tuple[int, ...]]] = {}
        self._lock = threading.RLock()
        self._is_gone: Callable[[], bool] = lambda: False
        self.do("*CLS", self.clear_status)
        self.on("*ESR?", self._read_esr)
        self.on("*ESE", lambda p: setattr(self, "ese", integer(p, 0, 255)))
        self.on("*ESE?", lambda: self.say_integer(self.ese))
        self.on("*SRE", lambda p: setattr(self, "sre", integer(p, 0, 255)))
        self.on("*SRE?", lambda: self.say_integer(self.sre))
        self.on("*STB?", lambda: self.say_integer(self.status_byte()))
        self.do("*OPC", self.complete)
        self.on("*OPC?", lambda: str(int(self.is_complete())))
        self.do("*WAI", self.wait_complete)
        self.on(":SYSTem:ERRor[:NEXT]?", self.errors.pop)

    def on(self, header: str, handler: Handler) -> None:
        """Serve a header: ``handler(*numbers)`` answers a query, ``handler(*numbers, parameters)`` obeys a command."""
        self._commands.append(_Command(_header(header), handler, not header.endswith("?")))

    def ask(self, header: str, handler: Handler) -> None:
        """Serve a query that has parameters: ``handler(*numbers, parameters)`` answers it."""
        self._commands.append(_Command(_header(header), handler, True))

    def do(self, header: str, action: Callable[[], object]) -> None:
        """Let an action serve a command that takes no parameter."""

        def handler(parameters: list[str]) -> None:
            _none(parameters)
            action()

        self.on(header, handler)

    def complete(self) -> None:
        """Set the operation complete bit: nothing here is ever pending when a command is read."""
        self.errors.esr |= ESR_OPC

    def is_complete(self) -> bool:
        """Tell what *OPC? answers."""
        return True

    def wait_complete(self) -> None:
        """Do what *WAI waits for."""

    def say_integer(self, value: int) -> str:
        """Write an integer as the instrument does."""
        return f"{value:+d}"

    def say_error(self, code: int) -> str:
        """Write an entry of the error queue as the instrument does."""
        return f'{code:+d},"{MESSAGES[code]}"'

    def clear_status(self) -> None:
        """Clear error queue and event registers."""
        self.errors.clear()

    def status_byte(self) -> int:
        """Return the status byte without the bits that only a family has (IEEE 488.2, 11.2)."""
        return 32 if self.errors.esr & self.ese else 0

    def execute(self, message: str, is_gone: Callable[[], bool] = lambda: False) -> list[Reply]:
        """Execute one program message; return the pieces of its answer, empty where nothing is to be said.

        `is_gone` tells a command that takes its time whether the client still waits.
        """
        with self._lock:
            self._is_gone = is_gone
            answers: list[Reply] = []
            path = ""
            for unit in _split(message, ";"):
                text = unit.strip()
                if not text:
                    continue
                head, tail = [*text.split(None, 1), ""][:2]
                parameters = [p.strip() for p in _split(tail, ",")] if tail.strip() else []
                try:
                    head, path = _resolve(head.upper(), path)
                    command, numbers = self._find(head)
                    if command.takes_parameters:
                        reply = command.handler(*numbers, parameters)
                    else:
                        _none(parameters)
                        reply = command.handler(*numbers)
                except ScpiError as error:
                    self.errors.push(error.code)
                    continue
                except Exception:  # noqa: BLE001 - a fault of the simulator is the instrument's, and ends nothing
                    traceback.print_exc(file=sys.stderr)
                    self.errors.push(-310)
                    continue
                if reply is not None:
                    if answers:
                        answers.append(";")
                    answers += reply if isinstance(reply, tuple) else (reply,)
            return [*answers, "\n"] if answers else []

    def _find(self, head: str) -> tuple[_Command, tuple[int, ...]]:
        if head not in self._found:
            for command in self._commands:
                match = command.pattern.fullmatch(head)
                if match:
                    self._found[head] = command, tuple(int(g) for g in match.groups())
                    break
            else:
                raise ScpiError(-113)
        return self._found[head]

    def _read_esr(self) -> str:
        esr, self.errors.esr = self.errors.esr, 0
        return self.say_integer(esr)


def _split(text: str, separator: str) -> list[str]:
    """Split outside of quoted strings and of lists in parentheses."""
    if not any(c in text for c in "\"'("):
        return text.split(separator)
    return re.findall(rf"""(?:"[^"]*"|'[^']*'|\([^()]*\)|[^{separator}])+""", text)


def _resolve(head: str, path: str) -> tuple[str, str]:
    """Return the full header and the subsystem that a following header continues in."""
    if head.startswith("*") or head.startswith(":*"):
        return ":" + head.lstrip(":"), path
    full = head if head.startswith(":") else f"{path}:{head}"
    return full, full.rpartition(":")[0]


def _only(parameters: list[str]) -> str:
    if not parameters:
        raise ScpiError(-109)
    if len(parameters) > 1:
        raise ScpiError(-108)
    return parameters[0]


def _none(parameters: list[str]) -> None:
    if parameters:
        raise ScpiError(-108)


def number(parameters: list[str], units: str = "") -> float:
    """Read one decimal number whose suffix, if any, is one of `units` ("V", "S") with a multiplier."""
    match = NUMBER.fullmatch(_only(parameters))
    if not match:
        raise ScpiError(-104)
    value, suffix = float(match[1]), match[2].upper()
    if suffix and (suffix not in MULTIPLIERS or suffix[-1] != units):
        raise ScpiError(-131)
    return value * MULTIPLIERS.get(suffix, 1.0)


def integer(parameters: list[str], low: int, high: int) -> int:
    """Read one integer in [low, high]; decimal numbers are rounded (IEEE 488.2, 7.7.2.4)."""
    value = number(parameters)
    if not low - 0.5 <= value <= high + 0.5:  # infinity has no nearest integer
        raise ScpiError(-222)
    if not low <= (nearest := round(value)) <= high:
        raise ScpiError(-222)
    return nearest


def boolean(parameters: list[str]) -> bool:
    """Read ON, OFF, 1 or 0."""
    text = _only(parameters).upper()
    if text in ("ON", "1"):
        return True
    if text in ("OFF", "0"):
        return False
    raise ScpiError(-224 if NUMBER.fullmatch(text) else -141)


def choice(parameters: list[str], *options: str) -> str:
    """Read one of the words, long or short form; return its short form in capitals."""
    text = _only(parameters)
    for option in options:
        if re.fullmatch(_keyword(option), text.upper()):
            return "".join(c for c in option if not c.islower())
    raise ScpiError(-128 if NUMBER.fullmatch(text) else -141)


def nr3(value: float, digits: int = 5) -> str:
    """Write a number as InfiniiVision scopes do: signed mantissa, three digits of exponent."""
    mantissa, _, exponent = f"{value:+.{digits}E}".partition("E")
    return f"{mantissa}E{int(exponent):+04d}"


def block(parts: Iterable[Any], n_digits: int = 8) -> tuple[Reply, ...]:
    """Frame byte buffers as one definite-length block with so many digits of length (IEEE 488.2, 8.7.9)."""
    views = [memoryview(p).cast("B") for p in parts]
    return (f"#{n_digits}{sum(v.nbytes for v in views):0{n_digits}d}", *views)
