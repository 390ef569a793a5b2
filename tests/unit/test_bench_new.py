"""`labctl bench new`: what it writes is what was asked, and where it cannot be, nothing is written."""

import contextlib
import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import tomllib
import typing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labctl import cli
from labctl.benchfile import BenchFile, default_of, is_required, parse_bench, section_type
from labctl.benchkeys import KEYS, SECTIONS
from labctl.benchnew import Draft, read
from labctl.benchtext import render
from labctl.errors import ConfigError

NEEDED = ("--shunt", "1.3", "--resource", "TCPIP::scope::5025::SOCKET", "--port", "/dev/ttyUSB0")
BOARD = "stm32vldiscovery"


def bench_new(capsys, *arguments):
    status = cli.run(["bench", "new", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def written(path: Path) -> BenchFile:
    return parse_bench(tomllib.loads(path.read_text(encoding="utf-8")), str(path))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # nobody is at the keyboard
    return tmp_path


# --- the table of keys -----------------------------------------------------------------------------------------------


def test_every_key_of_the_bench_file_is_in_the_table_once():
    # `labctl bench new` makes benches with an oscilloscope; [meter] is written by hand.
    fields = {(s, n) for s in BenchFile.model_fields if s != "meter" for n in section_type(s).model_fields}
    assert [key.id for key in KEYS] == list(dict.fromkeys(key.id for key in KEYS))
    assert {key.id for key in KEYS} == fields
    assert list(SECTIONS) == [s for s in BenchFile.model_fields if s != "meter"]
    assert len({key.option for key in KEYS}) == len(KEYS)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.option)
def test_the_table_says_the_default_choices_and_an_example_that_hold(key):
    if is_required(*key.id):
        assert key.default == ""
    elif key.default:
        assert read(key, key.default) == default_of(*key.id)
    else:
        assert default_of(*key.id) is None
    if key.example:
        read(key, key.example)
    annotation = section_type(key.section).model_fields[key.name].annotation
    assert key.choices == (typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else ())


# --- the text --------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=30).filter(str.strip)
RATIOS = st.floats(0, 1, exclude_max=True)
PROBES = st.floats(min_value=0, exclude_min=True, allow_infinity=False, allow_nan=False)
CHANNELS = st.permutations(range(1, 9))


@st.composite
def bench_files(draw):
    channels = draw(CHANNELS)
    wiring = draw(st.sampled_from(["low-side", "high-side-differential", "two-channel"]))
    two = wiring == "two-channel"
    return parse_bench(
        {
            "bench": {"name": draw(TEXTS)},
            "supply": {
                "node": draw(st.sampled_from(["mcu", "board"])),
                "voltage_v": draw(st.none() | st.floats(1e-3, 1e3)),
                "tolerance_ratio": draw(RATIOS),
                "sensed": draw(st.sampled_from(["source", "dut"])),
            },
            "shunt": {
                "resistance_ohm": draw(st.floats(1e-6, 1e6)),
                "tolerance_ratio": draw(RATIOS),
                "wiring": wiring,
                "decoupling_f": draw(st.none() | st.just(0.0) | st.floats(1e-13, 1e-2)),
                "decoupling_tolerance_ratio": draw(RATIOS),
            },
            "scope": {
                "driver": draw(TEXTS),
                "resource": draw(TEXTS),
                "shunt_channel": draw(st.sampled_from([1, channels[0]])) if two else channels[0],
                "shunt_high_channel": channels[1] if two else draw(st.none() | st.just(channels[1])),
                "shunt_low_channel": channels[2] if two else None,
                "supply_channel": draw(st.none() | st.just(channels[3])),
                "trigger_channel": channels[4],
                "trigger_edge": draw(st.sampled_from(["rising", "falling"])),
                "shunt_probe_ratio": draw(PROBES),
                "trigger_probe_ratio": draw(PROBES),
                "shunt_bandwidth_limit": draw(st.booleans()),
            },
            "dut": {"board": BOARD, "port": draw(TEXTS), "power": draw(TEXTS)},
        },
        "drawn",
    )


@given(bench_files())
def test_the_text_parses_to_the_very_same_bench(file):
    assert parse_bench(tomllib.loads(render(file)), "written").model_dump() == file.model_dump()


def plain(**scope):
    return parse_bench(
        {
            "shunt": {"resistance_ohm": 1.3},
            "scope": {"driver": "keysight-infiniivision", "resource": "r", **scope},
            "dut": {"board": BOARD, "port": "p"},
        },
        "plain",
    )


def test_every_key_has_its_line_and_its_comment_within_80_columns():
    lines = render(plain()).splitlines()
    assert max(map(len, lines)) <= 80
    for key in KEYS:
        numbers = [i for i, line in enumerate(lines) if re.match(rf"#?{key.name} = ", line)]
        assert numbers, key.name
        assert all(lines[i - 1].startswith("# ") for i in numbers)
    for key in (key for key in KEYS if is_required(*key.id)):
        assert any(line.startswith(f"{key.name} = ") for line in lines)


def test_a_key_taken_from_behind_its_mark_holds():
    text = re.sub(r"^#(\w+ = )", r"\1", render(plain()), flags=re.MULTILINE)
    assert not re.search(r"^#\w+ =", text, flags=re.MULTILINE)
    file = parse_bench(tomllib.loads(text), "all in force")
    for key in KEYS:
        value = getattr(getattr(file, key.section), key.name)
        assert value is not None
        if not is_required(*key.id) and default_of(*key.id) is not None:
            assert value == default_of(*key.id)


# --- options, nobody at the keyboard ---------------------------------------------------------------------------------


def test_options_become_the_file(capsys, folder):
    status, out, err = bench_new(
        capsys, "--out", "desk.toml", "--name", 'desk "3" µ', "--board", BOARD, "--node", "board", "--supply", "5V",
        "--supply-tolerance", "0.5 %", "--sensed", "dut", "--shunt", "500 mohm", "--shunt-tolerance", "1000 ppm",
        "--wiring", "high-side-differential", "--decoupling", "4.7 uF", "--driver", "keysight-infiniivision",
        "--resource", r"USB::1\2", "--shunt-channel", "CH3", "--trigger-channel", "4", "--trigger-edge", "falling",
        "--probe", "10:1", "--port", "/dev/serial/by-id/usb-FTDI", "--power", "TCPIP::supply::5025::SOCKET",
        "--no-bandwidth-limit",
    )  # fmt: skip
    assert status == 0, err
    assert "desk.toml" in out
    assert "labctl bench check --bench desk.toml" in out
    file = written(folder / "desk.toml")
    assert file.bench.name == 'desk "3" µ'
    assert file.supply.model_dump() == {
        "node": "board", "voltage_v": 5.0, "tolerance_ratio": 0.005, "sensed": "dut",
    }  # fmt: skip
    assert file.shunt.model_dump() == {
        "resistance_ohm": 0.5, "tolerance_ratio": 0.001, "wiring": "high-side-differential",
        "decoupling_f": 4.7e-6, "decoupling_tolerance_ratio": 0.2,
    }  # fmt: skip
    assert file.scope.resource == r"USB::1\2"
    assert (file.scope.shunt_channel, file.scope.trigger_channel, file.scope.trigger_edge) == (3, 4, "falling")
    assert (file.scope.shunt_probe_ratio, file.scope.trigger_probe_ratio) == (10.0, 1.0)
    assert file.scope.shunt_bandwidth_limit is False
    assert (file.dut.port, file.dut.power) == ("/dev/serial/by-id/usb-FTDI", "TCPIP::supply::5025::SOCKET")


def test_what_is_left_out_takes_its_default(capsys, folder):
    assert bench_new(capsys, *NEEDED)[0] == 0
    text = (folder / "bench.toml").read_text()
    assert written(folder / "bench.toml") == plain(resource="TCPIP::scope::5025::SOCKET").model_copy(
        update={"dut": written(folder / "bench.toml").dut}
    )
    assert "#voltage_v = 3.3\n" in text  # UM0919: the MCU's rail
    assert "#decoupling_f = " in text


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=TEXTS, resource=TEXTS, port=TEXTS, ohm=st.floats(1e-6, 80), decoupling_f=st.floats(1e-13, 1e-2))
def test_any_answer_comes_back(folder, name, resource, port, ohm, decoupling_f):
    status = cli.run(
        ["bench", "new", "--force", f"--name={name}", f"--resource={resource}", f"--port={port}", f"--shunt={ohm!r}",
         f"--decoupling={decoupling_f!r} F"]
    )  # fmt: skip
    assert status == 0
    file = written(folder / "bench.toml")
    assert (file.bench.name, file.scope.resource, file.dut.port) == (name.strip(), resource.strip(), port.strip())
    assert (file.shunt.resistance_ohm, file.shunt.decoupling_f) == (ohm, decoupling_f)


@pytest.mark.parametrize("options", [("--supply", "3.6 V"), ("--node", "board", "--supply", "5 V")])
def test_a_supply_that_the_node_takes(capsys, folder, options):
    assert bench_new(capsys, *NEEDED, *options)[0] == 0
    assert written(folder / "bench.toml").supply.voltage_v in (3.6, 5.0)


def test_everything_missing_is_named_at_once(capsys, folder):
    status, out, err = bench_new(capsys)
    assert status == 2
    assert all(option in err for option in ("--shunt", "--resource", "--port"))
    assert not any(option in err for option in ("--name", "--board", "--driver", "--power", "--shunt-channel"))
    assert max(map(len, err.splitlines())) <= 80
    status, out, err = bench_new(capsys, *NEEDED, "--wiring", "two-channel")
    assert status == 2
    assert "--shunt-high-channel" in err
    assert "--shunt-low-channel" in err
    assert out == ""
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shunt", "1.3 kohm"], ["--shunt", "would drop", "1.3 ohm"]),
        (["--shunt", "200"], ["--shunt", "would leave"]),
        (["--shunt", "1.3 V"], ["--shunt", "1.3 ohm"]),
        (["--shunt", "nan"], ["--shunt", "1.3 ohm"]),
        (["--shunt", "0"], ["--shunt", "greater than 0"]),
        (["--shunt-tolerance", "100 %"], ["--shunt-tolerance", "less than 100 %"]),
        (["--shunt-tolerance", "1"], ["'1' would be 100 %", "write for example '1 %' or 0.01"]),
        (["--supply", "9 V"], ["--supply", "9.00 V at the MCU's supply pin", "3.60 V", "STM32F100RB", "3.30 V"]),
        (["--supply", "3.61"], ["--supply", "more than the 3.60 V"]),  # data sheet DocID16455, p. 1
        (["--supply", "33 V"], ["--supply", "nothing that stm32vldiscovery runs on"]),
        (["--supply", "3,3"], ["--supply", "point"]),
        (["--decoupling", "4.7"], ["--decoupling", "plausible"]),
        (["--board", "stm32vldiscover"], ["--board", "did you mean 'stm32vldiscovery'"]),
        (["--driver", "scpi-switch"], ["--driver", "keysight-infiniivision"]),
        (["--wiring", "lowside"], ["--wiring", "did you mean 'low-side'"]),
        (["--shunt-channel", "2", "--trigger-channel", "2"], ["--trigger-channel", "both 2"]),
        (["--shunt-channel", "2"], ["both 2"]),
        (["--shunt-channel", "9"], ["--shunt-channel", "9 is no channel: a whole number from 1 to 8"]),
        (["--shunt-channel", "one"], ["--shunt-channel", "number"]),
        (["--probe", "0"], ["--probe", "greater than 0"]),
        (["--probe", "ten"], ["--probe", "10"]),
        (["--probe", "inf"], ["--probe", "10"]),
        (["--name", " "], ["--name", "empty"]),
        (["--name", "two\nlines"], ["--name", "line break"]),
        (["--name", "half \udcff"], ["--name", "half a character"]),
        (["--shunt-high-channel", "3"], ["--shunt-high-channel", "no effect", "low-side"]),
        (["--wiring", "two-channel", "--shunt-channel", "3"], ["--shunt-channel", "no effect"]),
    ],
)
def test_what_cannot_be_is_refused_and_named(capsys, folder, arguments, words):
    status, out, err = bench_new(capsys, *NEEDED, *arguments)
    assert status == 2
    for word in words:
        assert word in err
    assert out == ""
    assert list(folder.iterdir()) == []


def test_an_existing_file_is_kept_unless_forced(capsys, folder):
    path = folder / "bench.toml"
    path.write_text("mine\n")
    status, _, err = bench_new(capsys, *NEEDED)
    assert status == 2
    assert "--force" in err
    assert "--out" in err
    assert path.read_text() == "mine\n"
    assert bench_new(capsys, *NEEDED, "--force")[0] == 0
    assert written(path).shunt.resistance_ohm == 1.3
    assert list(folder.iterdir()) == [path]


def test_a_file_that_comes_up_meanwhile_is_kept(capsys, folder, monkeypatch):
    def late(file):
        (folder / "bench.toml").write_text("theirs\n")
        return "ours\n"

    monkeypatch.setattr("labctl.benchtext.render", late)
    assert bench_new(capsys, *NEEDED)[0] == 2
    assert (folder / "bench.toml").read_text() == "theirs\n"
    assert len(list(folder.iterdir())) == 1


def test_a_link_stays_a_link(capsys, folder):
    (folder / "real.toml").write_text("")
    (folder / "bench.toml").symlink_to("real.toml")
    assert bench_new(capsys, *NEEDED, "--force")[0] == 0
    assert (folder / "bench.toml").is_symlink()
    assert written(folder / "real.toml").dut.port == "/dev/ttyUSB0"


def test_what_is_no_file_is_left_alone(capsys, folder):
    (folder / "taken").mkdir()
    os.mkfifo(folder / "pipe")
    for name in ("taken", "pipe", os.devnull):
        status, _, err = bench_new(capsys, *NEEDED, "--force", "--out", name)
        assert status == 2
        assert "--out" in err
    status, _, err = bench_new(capsys, *NEEDED, "--out", "nowhere/bench.toml")
    assert status == 3
    assert "create it" in err


# --- a draft ---------------------------------------------------------------------------------------------------------


def answer_all(draft: Draft, answers: dict[str, str]) -> list[str]:
    asked = []
    while (key := draft.next_key()) is not None:
        asked.append(key.option)
        draft.set(key, read(key, answers[key.option]) if key.option in answers else draft.proposal(key)[0])
    return asked


def test_proposals_never_collide_whatever_was_answered_before():
    draft = Draft()
    answers = {"--shunt": "1", "--resource": "r", "--port": "p", "--wiring": "two-channel", "--shunt-high-channel": "2"}
    asked = answer_all(draft, answers)
    file = draft.finish()
    assert file.scope.shunt_high_channel == 2
    assert len({file.scope.shunt_high_channel, file.scope.shunt_low_channel, file.scope.trigger_channel}) == 3
    assert "--shunt-channel" not in asked
    assert asked == [key.option for key in KEYS if key.option in asked]


def test_a_refused_answer_changes_nothing():
    draft = Draft()
    by_option = {key.option: key for key in KEYS}
    draft.set(by_option["--board"], BOARD)
    draft.set(by_option["--shunt-channel"], 2)
    before = dict(draft.values)
    for option, value in (("--trigger-channel", 2), ("--shunt", 1300.0), ("--supply", 33.0)):
        with pytest.raises(ConfigError):
            draft.set(by_option[option], value)
        assert draft.values == before


# --- a person at a terminal ------------------------------------------------------------------------------------------

LIMIT_S = 60.0
# Only the terminal that controls a process turns Ctrl-C into its signal.
AS_A_TERMINALS_PROCESS = (
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from labctl.cli import main; main()"
)


class Terminal:
    """The command on a pseudo-terminal of 80 columns; what it shows is kept in `seen`."""

    def __init__(self, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        # Ctrl-C makes a terminal forget what was not read yet, right after the signal: words in between would be lost.
        modes = termios.tcgetattr(slave)
        modes[3] |= termios.NOFLSH
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        self._process = subprocess.Popen(
            [sys.executable, "-c", AS_A_TERMINALS_PROCESS, "bench", "new", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""
        self._from = 0

    def expect(self, text: str) -> str:
        """Wait until a text was shown beyond what was waited for before; return what came up to it."""
        start = self._from
        deadline = time.monotonic() + LIMIT_S
        while text not in self.seen[start:]:
            assert time.monotonic() < deadline, self.seen
            assert self._read(), f"{text!r} never came:\n{self.seen}"
        self._from = self.seen.index(text, start) + len(text)
        return self.seen[start : self._from]

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def answer(self, prompt: str, text: str = "") -> str:
        shown = self.expect(prompt)
        self.type(text + "\n")
        return shown

    def end(self) -> int:
        while self._read():
            pass
        os.close(self._master)
        return self._process.wait(timeout=LIMIT_S)

    def end_by(self, key: str) -> int:
        """Press a key until the command ends: what comes while a prompt sets the terminal up is lost."""
        for _ in range(6):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                self.type(key)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=LIMIT_S / 6)
                break
        return self.end()

    def _read(self) -> bool:
        if not select.select([self._master], [], [], LIMIT_S)[0]:
            return False
        with contextlib.suppress(OSError):  # a terminal that nobody holds any more
            data = os.read(self._master, 1 << 16)
            self.seen += data.decode().replace("\r\n", "\n")
            return bool(data)
        return False


def test_a_person_is_asked_and_corrected_at_once(folder):
    terminal = Terminal("--wiring", "low-side")
    terminal.answer("name [bench]: ", "desk-3")
    assert BOARD in terminal.answer(f"board [{BOARD}]: ", "stm32")
    terminal.expect("known")
    terminal.answer(f"board [{BOARD}]: ")
    terminal.answer("node [mcu]: ")
    terminal.answer("supply [the board's 3.3 V]: ", "3300 mV")
    terminal.answer("supply-tolerance [1 %]: ", "0.5%")
    terminal.answer("sensed [source]: ")
    terminal.answer("shunt: ")
    terminal.expect("an answer is needed")
    terminal.answer("shunt: ", "1.3 kohm")
    terminal.expect("would drop")
    terminal.answer("shunt: ", "1.3 ohm")
    terminal.answer("shunt-tolerance [1 %]: ")
    terminal.answer("decoupling [unknown]: ")
    terminal.answer("driver [keysight-infiniivision]: ")
    terminal.answer("resource: ", "TCPIP::scope::5025::SOCKET")
    terminal.answer("shunt-channel [1]: ", "2")
    terminal.answer("trigger-channel [1]: ", "2")
    terminal.expect("both 2")
    terminal.answer("trigger-channel [1]: ")
    terminal.answer("trigger-edge [rising]: ")
    terminal.answer("probe [1]: ", "10:1")
    terminal.answer("\nport", "/dev/ttyUSB7")
    terminal.answer("power [manual]: ")
    assert terminal.end() == 0
    assert "bench check" in terminal.seen
    assert "wiring [" not in terminal.seen  # it was given
    assert max(map(len, terminal.seen.splitlines())) <= 80
    file = written(folder / "bench.toml")
    assert (file.bench.name, file.shunt.resistance_ohm, file.shunt.decoupling_f) == ("desk-3", 1.3, None)
    assert (file.supply.voltage_v, file.supply.tolerance_ratio) == (3.3, 0.005)
    assert (file.scope.shunt_channel, file.scope.trigger_channel, file.scope.shunt_probe_ratio) == (2, 1, 10.0)
    assert file.dut.port == "/dev/ttyUSB7"


@pytest.mark.parametrize(("key", "status", "word"), [("\x03", 130, "interrupted"), ("\x04", 2, "input ended")])
def test_ctrl_c_and_end_of_input_write_nothing(folder, key, status, word):
    terminal = Terminal()
    terminal.answer("name [bench]: ")
    terminal.expect(f"board [{BOARD}]: ")
    assert terminal.end_by(key) == status
    assert word in terminal.seen
    assert "Traceback" not in terminal.seen
    assert list(folder.iterdir()) == []


def test_a_file_that_exists_is_said_before_the_first_question(folder):
    (folder / "bench.toml").write_text("mine\n")
    terminal = Terminal()
    assert terminal.end() == 2
    assert "--force" in terminal.seen
    assert "name [" not in terminal.seen
