"""What is reachable: instruments and serial ports, who each is, and which driver fits.

Nothing is sent to a serial port that nobody named: a board or a modem may take an identity query for something else. An
instrument that a bench in use holds is not asked either.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from pyvisa.constants import StatusCode

from instruments.errors import BadData, InstrumentError, InstrumentTimeout
from instruments.record import Identity
from instruments.registry import fitting, has_module
from instruments.transport.search import ask, ask_serial, in_parallel
from instruments.transport.search import search as search_visa
from labctl import benchlock, ports
from labctl.bench import EMULATED_SERIAL
from labctl.benchfile import BenchFile
from labctl.errors import BusyFault, EnvironmentFault
from labctl.ports import SerialPort, UsbInstrument

ANSWERS, TOLD, NOT_ASKED = "answers", "by USB id", "not asked"
# What cannot be used as it is.
SILENT, BUSY, FORBIDDEN, NO_LINK, ODD = "silent", "busy", "forbidden", "no link", "odd"
# Which a bench file may name for any supply, and which claims none.
_ANY_SUPPLY = "scpi-switch"
# A device whose system call hangs is left behind so much later than one that keeps its own deadline.
_GRACE_S = 0.5
_VISA_LOCKED = StatusCode.error_resource_locked
_STATUS_OF_ERRNO = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), FORBIDDEN),
    **dict.fromkeys((errno.EBUSY, errno.EAGAIN), BUSY),
}

Ask = Callable[[str, float], Identity]


@dataclass(frozen=True)
class Device:
    """One address and what is there.

    `found` says how it became known ("named", "bench", "USB", "serial", "search"), `role` what the bench file has it
    for, `bench_driver` which driver it names. `text` says what was seen and, where it cannot be used, what to do.
    `identity` is None where nobody told who it is; `drivers` are those that claim it.
    """

    resource: str
    found: tuple[str, ...]
    role: str = ""
    bench_driver: str = ""
    status: str = NOT_ASKED
    text: str = ""
    identity: Identity | None = None
    drivers: tuple[str, ...] = ()
    usb: tuple[int, int] | None = None

    @property
    def emulated(self) -> bool:
        """Tell whether what answers says that it is emulated."""
        who = self.identity
        return who is not None and any(one.startswith(EMULATED_SERIAL) for one in (who.vendor, who.serial))


@dataclass(frozen=True)
class Surroundings:
    """What this machine tells without anything being opened."""

    ports: tuple[SerialPort, ...] = ()
    usb: tuple[UsbInstrument, ...] = ()
    found: tuple[str, ...] = ()


def look_around(timeout_s: float) -> tuple[Surroundings, list[str]]:
    """Search this machine and its network; also say what could not be searched, and what would help."""
    found, faults = search_visa(timeout_s)
    serial = ports.serial_ports()
    usb = ports.usb_instruments()
    if not has_module("zeroconf"):
        faults.append("HiSLIP instruments are not found by mDNS without zeroconf: see labctl doctor")
    if not has_module("psutil"):
        faults.append("VXI-11 instruments are sought on the first network alone without psutil: see labctl doctor")
    return Surroundings(serial, usb, tuple(found)), faults


def identify(
    named: Iterable[str],
    file: BenchFile | None,
    around: Surroundings,
    timeout_s: float,
    ask_visa: Ask = ask,
    ask_port: Ask = ask_serial,
    holders: Callable[[list[str]], dict[str, str]] = ports.holders,
) -> list[Device]:
    """Ask everybody at once who they are, and return within the time: who has not answered then is silent.

    Those `named` are asked whatever they are, unless their USB numbers tell; what else was found is asked where it is a
    VISA resource.
    """
    inquiry = _Inquiry(around, timeout_s, ask_visa, ask_port)
    devices = _together(named, file, around)
    held = holders([port for one in devices if (port := _port(one))])
    results = [inquiry.untried(device, held) for device in devices]
    calls = [(inquiry.answer, (results, n)) for n, one in enumerate(results) if one.status == SILENT]
    in_parallel(calls, timeout_s + _GRACE_S)
    return [_with_drivers(device) for device in list(results)]


class _Inquiry:
    """One round of questions."""

    def __init__(self, around: Surroundings, timeout_s: float, ask_visa: Ask, ask_port: Ask) -> None:
        self._timeout_s = timeout_s
        self._ask_visa, self._ask_port = ask_visa, ask_port
        self._nodes = {_key(one.resource): one.node for one in around.usb}
        told = ports.instruments_at(around.ports)
        self._told = {os.path.realpath(device): identity for device, identity in told.items()}
        self._lock = threading.Lock()
        self._taken: dict[str, str] = {}

    def untried(self, device: Device, held: dict[str, str]) -> Device:
        """Say what is known of a device without asking; one that is to be asked is silent so far."""
        port, about = _port(device), f"{device.text}: " if device.text else ""
        if port is None:
            return self._untried_resource(device, about)
        if not os.path.exists(port):
            return replace(device, status=NO_LINK, text="there is no such port: is it plugged in?")
        if remedy := ports.forbidden(port):
            return replace(device, status=FORBIDDEN, text=f"{about}you may not use it: {remedy}")
        if port in held:
            return replace(device, status=BUSY, text=f"{about}{held[port]} has it open: end that first")
        with _locked(device) as fault:
            if fault:
                return replace(device, status=BUSY, text=fault)
        if port in self._told:
            return replace(device, status=TOLD, identity=self._told[port])
        if "named" in device.found:
            return self._silent(device)
        if device.role:
            return replace(device, text=f"{about}`labctl bench check` asks it in the board's own way")
        how = f"`labctl devices --resource {device.resource}` asks it"
        return replace(device, text=f"{about}nothing is sent to a serial port that nobody named; {how}")

    def answer(self, results: list[Device], number: int) -> None:
        """Ask one device who it is."""
        results[number] = self._asked(results[number])

    def _untried_resource(self, device: Device, about: str) -> Device:
        from pyvisa.rname import InvalidResourceName, parse_resource_name

        try:
            kind = parse_resource_name(device.resource).interface_type
        except InvalidResourceName:
            if device.role:
                return replace(device, text="`labctl bench check` asks it in its own way")
            expected = "a VISA resource, such as TCPIP::scope.lab::5025::SOCKET, or a serial port"
            return replace(device, status=ODD, text=f"this is no address; expected {expected}")
        node = self._nodes.get(_key(device.resource))
        if node is not None and (remedy := ports.forbidden(node)):
            text = f"{about}you may not use {node} ({remedy}): add the rule of udev that docs/devices.md shows"
            return replace(device, status=FORBIDDEN, text=text)
        if kind == "USB" and not has_module("usb"):
            text = f"{about}nothing here speaks to USB instruments: python -m pip install pyusb"
            return replace(device, status=NO_LINK, text=text)
        return self._silent(device)

    def _silent(self, device: Device) -> Device:
        text = (f"no answer within {self._timeout_s:g} s; some oscilloscopes need 15 s for their first: "
                f"ask again with --timeout {max(20.0, 2 * self._timeout_s):g}")
        return replace(device, status=SILENT, text=text)

    def _asked(self, device: Device) -> Device:
        if (other := self._claim(device.resource)) is not None:
            return replace(device, status=NOT_ASKED, text=f"the same as {other}")
        port = _port(device)
        with _locked(device) as fault:
            if fault:
                return replace(device, status=BUSY, text=fault)
            try:
                if port is None:
                    identity = self._ask_visa(device.resource, self._timeout_s)
                else:
                    identity = self._ask_port(port, self._timeout_s)
            except InstrumentTimeout:
                return device
            except InstrumentError as error:
                return replace(device, status=_status_of(error), text=str(error))
        return replace(device, status=ANSWERS, text="", identity=identity)

    def _claim(self, resource: str) -> str | None:
        """Claim an address; return by which other the same instrument is asked already, None where by none."""
        spellings = benchlock.spellings(resource)
        with self._lock:
            for spelling in spellings:
                if spelling in self._taken:
                    return self._taken[spelling]
            self._taken |= dict.fromkeys(spellings, resource)
        return None


def _together(named: Iterable[str], file: BenchFile | None, around: Surroundings) -> list[Device]:
    """List every address once, those that a person named first."""
    devices = [Device(resource, ("named",)) for resource in named]
    if file is not None:
        recorder, role = file.recorder, "meter" if file.meter else "scope"
        devices.append(Device(recorder.resource, ("bench",), role, recorder.driver))
        for dut in file.duts:
            devices.append(Device(dut.port, ("bench",), f"DUT {dut.board}"))
            if dut.power not in ("manual", "meter"):
                devices.append(Device(dut.power, ("bench",), f"supply of {dut.board}", _ANY_SUPPLY))
    devices += [Device(one.resource, ("USB",), text=one.text) for one in around.usb]
    devices += [Device(port.device, ("serial",), text=_about(port), usb=port.usb) for port in around.ports]
    devices += [Device(resource, ("search",)) for resource in around.found]
    merged: dict[str, Device] = {}
    for device in devices:
        key = _key(device.resource)
        first = merged.get(key)
        merged[key] = device if first is None else replace(
            first,
            found=tuple(dict.fromkeys((*first.found, *device.found))),
            role=first.role or device.role,
            bench_driver=first.bench_driver or device.bench_driver,
            text=first.text or device.text,
            usb=first.usb or device.usb,
        )
    return list(merged.values())


def _with_drivers(device: Device) -> Device:
    """Say who a device is and which drivers claim it."""
    who = device.identity
    if who is None:
        return device
    drivers = fitting(who)
    facts = [f"{who.vendor} {who.model}"]
    facts += [f"{what} {value}" for what, value in (("serial", who.serial), ("firmware", who.firmware)) if value]
    text = f"{', '.join(facts)}; " + (f"driver {' or '.join(drivers)}" if drivers else "no driver here claims it")
    if device.bench_driver and device.bench_driver not in (*drivers, _ANY_SUPPLY):
        text += f", but the bench file names {device.bench_driver}"
    return replace(device, drivers=drivers, text=text)


@contextlib.contextmanager
def _locked(device: Device) -> Iterator[str]:
    """Hold the lock of an address for the block; gives "", or what keeps it from being had: a bench in use."""
    with contextlib.ExitStack() as stack:
        fault = ""
        try:
            stack.enter_context(benchlock.hold_addresses(device.resource))
        except (BusyFault, EnvironmentFault) as error:
            fault = str(error)
        yield fault


def _status_of(error: InstrumentError) -> str:
    """Tell a device that is forbidden or busy by what the system said."""
    if isinstance(error, BadData):
        return ODD
    cause: BaseException | None = error
    while cause is not None:
        if getattr(cause, "error_code", None) == _VISA_LOCKED:
            return BUSY
        number = cause.errno if isinstance(cause, OSError) else None
        if number in _STATUS_OF_ERRNO:
            return _STATUS_OF_ERRNO[number]
        cause = cause.__cause__ or cause.__context__
    return NO_LINK


def _port(device: Device) -> str | None:
    """Give the device file of a serial port, None for anything else."""
    port = benchlock.device_of(device.resource)
    return None if port is None else os.path.realpath(port)


def _key(resource: str) -> str:
    """Give an address as everybody spells it, without asking for names of hosts."""
    device = benchlock.device_of(resource)
    return os.path.realpath(device) if device is not None else benchlock.in_full(resource)


def _about(port: SerialPort) -> str:
    """Say what the system tells of a port."""
    numbers = f"USB {port.usb[0]:04x}:{port.usb[1]:04x}" if port.usb else ""
    return ", ".join(filter(None, (port.text, numbers, f"serial {port.serial}" if port.serial else "")))
