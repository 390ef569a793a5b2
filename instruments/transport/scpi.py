"""Talk SCPI over a link: every command's error queue is read, every setting is read back.

Source: SCPI-1999, volume 1, section 4.2 (short form: the capitals of a keyword) and volume 2, section 21.8 (error
queue, first in, first out, ended by code 0). Queues are about 30 entries deep (Keysight InfiniiVision 4000 X-Series
Programmer's Guide p. 1570), so draining is bounded.
"""

from __future__ import annotations

from instruments.errors import BadData, InstrumentError, InstrumentTimeout, Rejected
from instruments.record import Identity
from instruments.transport.link import QUERY_TIMEOUT_S, Link

ERROR_QUERY = ":SYSTem:ERRor?"
ERROR_QUEUE_MAX = 32
IDENTITY_FIELDS = 4


class Scpi:
    """One instrument's command language over its link."""

    def __init__(self, link: Link, timeout_s: float = QUERY_TIMEOUT_S) -> None:
        self.link = link
        self.timeout_s = timeout_s

    def query(self, query: str, timeout_s: float | None = None) -> str:
        """Return the reply line. A time-out carries the error queue, where the instrument still gives it."""
        try:
            return self.link.query(query, self.timeout_s if timeout_s is None else timeout_s)
        except InstrumentTimeout as error:
            # An unknown query is answered by silence; only the queue tells that from a slow instrument.
            raise InstrumentTimeout(f"{error}; {self._post_mortem(str(error))}") from error

    def number(self, query: str) -> float:
        """Return the reply as a number. Raises BadData."""
        reply = self.query(query)
        try:
            return float(reply)
        except ValueError as error:
            raise BadData(f"{self.link.resource}: {query} answered {reply!r} where a number was expected") from error

    def command(self, command: str) -> None:
        """Send a command and read the error queue. Raises Rejected with the command and what the queue held."""
        self.link.write(command)
        self.complain(command)

    def complain(self, command: str) -> None:
        """Raise Rejected if the error queue holds anything, naming the command that preceded it."""
        if found := self.errors():
            raise Rejected(f"{self.link.resource} refused {command}: {'; '.join(found)}")

    def set(self, header: str, value: str | int | float | bool, where: str = "") -> str:
        """Set, read the error queue, read the setting back, and return the reply.

        A word, switch or count must come back as it was sent, else Rejected; a float may be rounded by the
        instrument and is for the caller to judge. `where` is a channel list, such as (@1).
        """
        text = _written(value)
        self.command(f"{header} {text},{where}" if where else f"{header} {text}")
        reply = self.query(f"{header}? {where}".rstrip())
        if isinstance(value, bool):
            kept = reply.upper() in (("1", "ON") if value else ("0", "OFF"))
        elif isinstance(value, int):
            kept = _is_number(reply) and float(reply) == value
        elif isinstance(value, float):
            kept = _is_number(reply)
        else:
            kept = reply.upper() in (short_form(value), value.upper())
        if not kept:
            raise Rejected(f"{self.link.resource}: {header} was set to {text} but reads back {reply!r}")
        return reply

    def errors(self) -> list[str]:
        """Empty the error queue and return its entries, oldest first. Raises BadData."""
        found: list[str] = []
        for _ in range(ERROR_QUEUE_MAX):
            entry = self.link.query(ERROR_QUERY, self.timeout_s)
            code = entry.split(",", 1)[0]
            if not _is_number(code):
                raise BadData(f"{self.link.resource}: {ERROR_QUERY} answered {entry!r}; expected a code and a text")
            if float(code) == 0:
                return found
            found.append(entry)
        raise BadData(f"{self.link.resource}: {ERROR_QUERY} did not end within {ERROR_QUEUE_MAX} entries: {found[-1]}")

    def identity(self, timeout_s: float | None = None) -> Identity:
        """Return the four fields of ``*IDN?`` (IEEE 488.2-1992, section 10.14). Raises BadData."""
        return parse_identity(self.query("*IDN?", timeout_s), self.link.resource)

    def _post_mortem(self, reason: str) -> str:
        """Read the error queue after a time-out, and leave the link tainted as the time-out left it."""
        try:
            self.link.clear()
            found = self.errors()
        except InstrumentError:
            return "its error queue does not answer either"
        finally:
            self.link.taint(reason)
        return f"error queue: {'; '.join(found)}" if found else "its error queue is empty"


def parse_identity(reply: str, resource: str) -> Identity:
    """Read the reply to ``*IDN?`` (IEEE 488.2-1992, section 10.14). Raises BadData."""
    fields = [field.strip() for field in reply.split(",")]
    if len(fields) != IDENTITY_FIELDS:
        raise BadData(f"{resource}: *IDN? answered {reply!r}; expected vendor,model,serial,firmware")
    vendor, model, serial, firmware = fields
    return Identity(vendor, model, serial, firmware, resource)


def short_form(word: str) -> str:
    """Return the short form of a keyword written with its short form in capitals (ONEMeg -> ONEM)."""
    return "".join(letter for letter in word if not letter.islower())


def _written(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return f"{value:.9G}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
