"""What this machine has of what labctl uses, and how to mend what is not right: nothing is opened, sent or changed."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from instruments.errors import DriverUnavailable
from instruments.registry import DriverInfo, list_drivers
from labctl import benchlock, boards, ports
from labctl.benchfile import BenchFile
from labctl.errors import BusyFault, ConfigError, EnvironmentFault
from labctl.firmware import COMPILER, PACKAGES, ROOT, default_image
from labctl.flash import REMEDIES
from labctl.images import row_of
from labctl.ports import SerialPort, UsbInstrument
from labctl.report.firmware import FirmwareRow
from labctl.units import size_text

OK, MISSING, WRONG = "ok", "missing", "wrong"
FREE_MIN_BYTES = 200_000_000
_RUN_TIMEOUT_S = 10.0
_APT = "apt-get install --no-install-recommends "
_PIP = "python -m pip install "
# adjtimex(2): what it returns, and the size of its structure, of which only `modes`, the first number, is set: to none.
_TIME_ERROR, _TIMEX_BYTES = 5, 256


@dataclass(frozen=True)
class Check:
    """One thing looked at: `status` is "ok", "missing" or "wrong".

    `text` says what was seen and what it is for, `command` brings what is missing, "" where no command does. `needed`
    tells whether the bench in force cannot do without it.
    """

    area: str
    name: str
    status: str
    text: str
    command: str = ""
    needed: bool = False

    @property
    def keeps_bench_from_working(self) -> bool:
        """Tell whether the bench in force cannot work because of this."""
        return self.needed and self.status != OK


@dataclass(frozen=True)
class Tool:
    """One program, under the names that it may have, and `what` it is for.

    `companion` is a command that prints where a file lies which the program cannot do without: its last word names it.
    """

    name: str
    programs: tuple[str, ...]
    what: str
    command: str
    companion: tuple[str, ...] = ()


TOOLS = (
    Tool("make", ("make",), "builds the firmware", _APT + PACKAGES["make"]),
    Tool(COMPILER, (COMPILER,), "builds the firmware", _APT + PACKAGES[COMPILER],
         companion=(COMPILER, "-print-file-name=nano.specs")),
    Tool("openocd", ("openocd",), "flashes the boards", REMEDIES["openocd"]),
    Tool("st-flash", ("st-flash",), "flashes ST's boards in openocd's place", REMEDIES["st-flash"]),
    Tool("sigrok-cli", ("sigrok-cli",), "records by logic analysers of many makers", _APT + "sigrok-cli"),
    Tool("chromium", ("chromium", "chromium-headless-shell", "google-chrome"),
         "tests the web pages of `labctl serve`", _APT + "chromium"),
    Tool("TeX", ("pdflatex", "lualatex", "xelatex"), "sets the tables of `labctl table --format tex`",
         _APT + "texlive-latex-recommended texlive-science", companion=("kpsewhich", "siunitx.sty")),
)


class Host:
    """This machine, as far as it is asked."""

    def version(self, distribution: str) -> str:
        """Return the version of an installed distribution, "" where it is not."""
        try:
            return version(distribution)
        except PackageNotFoundError:
            return ""

    def import_fault(self, module: str) -> str:
        """Say what importing a module raises, "" where nothing."""
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with an installation
            return str(error) or type(error).__name__
        return ""

    def library(self, name: str) -> str:
        """Return the file of a shared library, "" where there is none."""
        return ctypes.util.find_library(name) or ""

    def program(self, name: str) -> str:
        """Return where a program lies, "" where it is not in PATH."""
        return shutil.which(name) or ""

    def run(self, command: Sequence[str]) -> tuple[int | None, str]:
        """Run a program and return its exit status, None where it does not end or start, and its first line."""
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace",
                                  timeout=_RUN_TIMEOUT_S, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            return None, str(error)
        return done.returncode, next(iter((done.stdout + done.stderr).strip().splitlines()), "")

    def free_bytes(self, folder: Path) -> int:
        """Return how much more a folder can hold."""
        about = os.statvfs(folder)
        return about.f_bavail * about.f_frsize

    def may_write(self, folder: Path) -> bool:
        """Tell whether files can be made in a folder."""
        return os.access(folder, os.W_OK | os.X_OK)

    def clock_is_right(self) -> bool | None:
        """Tell whether something keeps the clock right; None where the system does not tell."""
        try:
            state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
        except (OSError, AttributeError):
            return None
        return None if state < 0 else state != _TIME_ERROR

    def serial_ports(self) -> tuple[SerialPort, ...]:
        """List the serial ports."""
        return ports.serial_ports()

    def usb_instruments(self) -> tuple[UsbInstrument, ...]:
        """List the USB instruments that are plugged in."""
        return ports.usb_instruments()

    def forbidden(self, path: str) -> str:
        """Say how to get the right to use a device file."""
        return ports.forbidden(path)

    def drivers(self) -> list[DriverInfo]:
        """List the drivers. Raises DriverUnavailable."""
        return list_drivers()

    def lock_fault(self) -> str:
        """Say what keeps benches from being locked, "" where nothing."""
        try:
            with benchlock.hold_addresses("doctor"):
                return ""
        except BusyFault:  # another doctor looks at this very moment
            return ""
        except EnvironmentFault as error:
            return str(error)

    def image(self, board: str) -> FirmwareRow:
        """Tell of a board's usual image what is known."""
        return row_of(default_image(board))


def examine(file: BenchFile | None, path: Path | None, fault: str = "", host: Host | None = None) -> list[Check]:
    """Look at everything; `file` is the bench in force, None for the emulated one, `fault` what is wrong with it."""
    host = host or Host()
    tools = _tools(host)
    bench = _bench(host, file, path, fault, tools)
    return [*_back_ends(host, file), *_permissions(host), *tools, *_machine(host), *bench]


def _back_ends(host: Host, file: BenchFile | None) -> list[Check]:
    usb = file is not None and any(one.upper().startswith("USB") for one in benchlock.addresses(file))
    checks = []
    for name, module, what in (
        ("pyvisa-py", "instruments.transport.visa", "speaks VISA to instruments"),
        ("pyserial", "serial", "opens the serial ports of boards and meters"),
    ):
        found, failed = host.version(name), host.import_fault(module)
        status = MISSING if not found else WRONG if failed else OK
        text = f"it {what}, and is not installed" if not found else f"{found}; {failed or what}"
        command = "" if status == OK else f"{_PIP}--editable {shlex.quote(str(ROOT))}"
        checks.append(Check("back ends", name, status, text, command, needed=True))
    for name, what, needed in (
        ("pyusb", "speaks to USB instruments", usb),
        ("zeroconf", "finds HiSLIP instruments by mDNS", False),
        ("psutil", "finds VXI-11 instruments on each of several networks", False),
    ):
        found = host.version(name)
        checks.append(Check("back ends", name, OK if found else MISSING, f"{found}; {what}" if found else what,
                            "" if found else _PIP + name, needed))
    library = host.library("usb-1.0")
    checks.append(Check("back ends", "libusb", OK if library else MISSING, f"{library}; carries pyusb" if library else
                        "carries pyusb", "" if library else _APT + "libusb-1.0-0", usb))
    return checks


def _permissions(host: Host) -> list[Check]:
    checks = []
    for name, nodes, more in (
        ("serial ports", [port.device for port in host.serial_ports()], ""),
        ("USB instruments", [one.node for one in host.usb_instruments()], "; or add the rule in docs/devices.md"),
    ):
        refused = [f"{node}: {remedy}{more}" for node in nodes if (remedy := host.forbidden(node))]
        text = "; ".join(refused) or (f"you may use {', '.join(nodes)}" if nodes else "none is plugged in")
        checks.append(Check("permissions", name, WRONG if refused else OK, text))
    fault = host.lock_fault()
    text = fault or "a bench in use can be told from one that is free"
    return [*checks, Check("permissions", "locks", WRONG if fault else OK, text, needed=True)]


def _tools(host: Host) -> list[Check]:
    """Let every tool tell its version, all at once: one alone may take a second."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda tool: _tool(host, tool), TOOLS))


def _tool(host: Host, tool: Tool) -> Check:
    place = next(filter(None, map(host.program, tool.programs)), "")
    if not place:
        return Check("tools", tool.name, MISSING, tool.what, tool.command)
    status, line = host.run([place, "--version"])
    if status != 0:
        return Check("tools", tool.name, WRONG, f"{place} does not run ({line}); it {tool.what}", tool.command)
    if tool.companion:
        wanted = tool.companion[-1].rpartition("=")[2]
        status, found = host.run(tool.companion)
        # A file that is not found is given back by its bare name, or not at all.
        if status != 0 or not found or found == wanted:
            return Check("tools", tool.name, WRONG, f"{place} does not find {wanted}; it {tool.what}", tool.command)
    return Check("tools", tool.name, OK, f"{line}; {tool.what}")


def _machine(host: Host) -> list[Check]:
    folder = Path.cwd()
    free_bytes = host.free_bytes(folder)
    if not host.may_write(folder):
        disk = Check("machine", "disk", WRONG, "nothing can be written in this folder: go to another", needed=True)
    elif free_bytes < FREE_MIN_BYTES:
        text = f"{size_text(free_bytes)} free in this folder, too little for captures: make room"
        disk = Check("machine", "disk", WRONG, text, needed=True)
    else:
        disk = Check("machine", "disk", OK, f"{size_text(free_bytes)} free in this folder")
    right = host.clock_is_right()
    if right:
        return [disk, Check("machine", "clock", OK, "something keeps it right")]
    said = "the system does not tell whether it is right" if right is None else "the system says it is not kept right"
    text = f"{said}; captures and calibrations carry its date"
    return [disk, Check("machine", "clock", MISSING if right is None else WRONG, text, "timedatectl set-ntp true")]


def _bench(host: Host, file: BenchFile | None, path: Path | None, fault: str, tools: Sequence[Check]) -> list[Check]:
    if fault:
        return [Check("bench", "bench file", WRONG, fault, needed=True)]
    text = f"{path}: bench {file.bench.name}" if file is not None else "none, so the emulated bench is used"
    used = () if file is None else (file.recorder.driver, *_switches(file))
    checks = [Check("bench", "bench file", OK, text), *_drivers(host, used)]
    for board in (boards.DEFAULT,) if file is None else dict.fromkeys(dut.board for dut in file.duts):
        can_build = all(one.status == OK for one in tools if one.name in PACKAGES)
        checks.append(_image(host, board, needed=file is None and not can_build))
    if file is not None:
        places = [("meter" if file.meter else "scope", file.recorder.resource), *((d.board, d.port) for d in file.duts)]
        devices = [(name, port) for name, address in places if (port := benchlock.device_of(address)) is not None]
        checks += [_port(host, f"port of {name}", port) for name, port in devices]
    return checks


def _switches(file: BenchFile) -> tuple[str, ...]:
    return ("scpi-switch",) if any(dut.power not in ("manual", "meter") for dut in file.duts) else ()


def _drivers(host: Host, used: Sequence[str]) -> list[Check]:
    """Look at the drivers that the bench names, and at those of others that lack something."""
    try:
        known = {info.name: info for info in host.drivers()}
    except DriverUnavailable as error:
        return [Check("bench", "drivers", WRONG, str(error), needed=True)]
    checks = []
    for name in dict.fromkeys((*used, *(name for name, info in known.items() if not info.available))):
        info = known.get(name)
        if info is None:
            text = f"no driver is called so; known are {', '.join(sorted(known))}"
            checks.append(Check("bench", f"driver {name}", MISSING, text, needed=True))
            continue
        text = info.summary if info.available else info.reason
        status = OK if info.available else MISSING
        checks.append(Check("bench", f"driver {name}", status, text, info.install, name in used))
    return checks


def _image(host: Host, board: str, *, needed: bool) -> Check:
    name = f"firmware of {board}"
    try:
        row = host.image(board)
    except ConfigError as error:
        return Check("bench", name, WRONG, str(error), needed=True)
    command = f"labctl firmware build --board {board}"
    if not row.built:
        return Check("bench", name, MISSING, f"{row.path} is not built", command, needed)
    if row.remark:
        return Check("bench", name, WRONG, row.remark, command, needed)
    if row.out_of_date:
        return Check("bench", name, WRONG, f"{row.path} is older than its sources", command)
    return Check("bench", name, OK, row.path)


def _port(host: Host, name: str, port: str) -> Check:
    if not os.path.exists(port):
        text = f"there is no {port}: plug it in, or correct the bench file"
        return Check("bench", name, MISSING, text, needed=True)
    if remedy := host.forbidden(port):
        return Check("bench", name, WRONG, f"you may not use {port}: {remedy}", needed=True)
    return Check("bench", name, OK, port, needed=True)
