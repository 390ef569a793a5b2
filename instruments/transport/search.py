"""Search for instruments through PyVISA-py, and ask who is at an address: both bounded in time, whatever hangs.

PyVISA's own list asks each kind of resource after the other, and one that fails hides all others; it lists what has
left and misses what is there (pyvisa issues 477 and 583, pyvisa-py issue 257). So each kind is asked by itself. An
instrument at a raw socket announces itself nowhere and is never found.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

from instruments.record import Identity
from instruments.transport.link import Deadline
from instruments.transport.scpi import parse_identity

IDENTITY_QUERY = "*IDN?"
BAUD_HZ = 115200


def search(timeout_s: float, kinds: dict[str, Callable[[], list[str]]] | None = None) -> tuple[list[str], list[str]]:
    """Return the VISA resources that are found, and a sentence on each kind that could not be searched.

    Serial ports are no part of it. `kinds` maps the name of a kind to what lists its resources, by default PyVISA-py's:
    on the network by a broadcast for VXI-11 and, with zeroconf, by mDNS for HiSLIP; USB with pyusb and libusb.
    """
    kinds = _kinds() if kinds is None else kinds
    found: dict[str, list[str]] = {}
    failed: dict[str, str] = {}

    def look(name: str, list_resources: Callable[[], list[str]]) -> None:
        try:
            found[name] = list(list_resources())
        except Exception as error:  # noqa: BLE001 - what a kind of resource of the library raises is its own affair
            failed[name] = f"{name} could not be searched ({error})"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on packages that are missing, and on sockets that the library leaves open
        in_parallel([(look, (name, call)) for name, call in kinds.items()], timeout_s)
    late = f"could not be searched within {timeout_s:g} s"
    faults = [failed.get(name, f"{name} {late}") for name in kinds if name not in found]
    return [one for name in kinds for one in found.get(name, ())], faults


def ask(resource: str, timeout_s: float) -> Identity:
    """Ask who is at a VISA resource. Raises InstrumentTimeout, LinkLost, OutOfRange, BadData.

    The error queue is left alone, and nothing is cleared: whoever works with the instrument next finds it as it was.
    """
    from instruments.transport.visa import VisaLink

    deadline = Deadline(timeout_s)
    link = VisaLink(resource, timeout_s)
    try:
        return parse_identity(link.query(IDENTITY_QUERY, max(deadline.remaining_s, 0.0)), resource)
    finally:
        link.close()


def ask_serial(port: str, timeout_s: float) -> Identity:
    """Ask who is at a serial port, at 115200 baud. Raises as `ask` does."""
    from instruments.transport.serial import SerialLink

    deadline = Deadline(timeout_s)
    link = SerialLink(port, BAUD_HZ)
    try:
        link.write(f"{IDENTITY_QUERY}\n".encode(), max(deadline.remaining_s, 0.0))
        reply = link.read_until(b"\n", max(deadline.remaining_s, 0.0))
        return parse_identity(reply.decode("ascii", "replace").strip(), port)
    finally:
        link.close()


def in_parallel(calls: list[tuple[Callable[..., Any], tuple[Any, ...]]], timeout_s: float) -> None:
    """Call each in a thread of its own and return when all have ended, or the time is over; then they are left behind.

    A call that hangs in the system hangs on, and ends with the process at the latest.
    """
    deadline = Deadline(timeout_s)
    threads = [threading.Thread(target=call, args=arguments, daemon=True) for call, arguments in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(deadline.remaining_s, 0.0))


def _kinds() -> dict[str, Callable[[], list[str]]]:
    """Map each kind of instrument that PyVISA-py can list here, serial ports left out, to what lists it."""
    from pyvisa.constants import InterfaceType
    from pyvisa_py.highlevel import PyVisaLibrary  # noqa: F401 - registers the kinds
    from pyvisa_py.sessions import Session

    return {
        f"{interface.name.upper()} {kind}": session.list_resources
        for (interface, kind), session in Session.iter_valid_session_classes()
        if kind == "INSTR" and interface is not InterfaceType.asrl
    }
