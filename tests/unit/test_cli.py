"""The command line: help, usage errors, exit status. No instrument is touched."""

import subprocess
import sys
import types

import pytest

import labctl
from labctl import cli
from labctl.errors import ConfigError, DeviceStable, EnvironmentFault


def run(capsys, *arguments):
    status = cli.run(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_help_names_every_command(capsys):
    status, out, _ = run(capsys, "--help")
    assert status == 0
    for name in cli.COMMANDS:
        assert name in out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_each_command_has_help(capsys, name):
    status, out, _ = run(capsys, name, "--help")
    assert status == 0
    assert "Usage: labctl" in out


def test_help_imports_nothing_heavy():
    heavy = "numpy numba scipy h5py pyvisa serial matplotlib unicorn pydantic rich"
    code = (
        "import sys\nfrom labctl.cli import run\nrun(['--help'])\n"
        f"found = [m for m in {heavy!r}.split() if m in sys.modules]\nassert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["measrue"], "Did you mean 'measure'"),
        (["measure", "--shunt", "0"], "more than zero"),
        (["measure", "--shunt", "-1.3"], "more than zero"),
        (["measure", "--shunt", "nan"], "1.3 ohm"),
        (["measure", "--shunt", "a few"], "1.3 ohm"),
        (["measure", "--shunt", "1,3"], "behind a point"),
        (["measure", "--shunt", "1.3 V"], "1.3 ohm"),
        (["measure", "--supply", "5 ohm"], "3.3 V"),
        (["measure", "--runs", "0"], "1<=x<=1000"),
        (["measure", "--iterations", "0"], "1<=x<=1000000"),
        (["measure", "--iterations", "4294967290"], "1<=x<=1000000"),  # beyond what the firmware's parser takes
        (["measure", "--bench", "no-such.toml"], "does not exist"),
        (["measure", "--shunt", "1.3 kohm"], "would drop"),
        (["measure", "--shunt", "1.3", "--board", "stm32vldiscover"], "stm32vldiscovery"),
    ],
)
def test_usage_errors_exit_2_and_say_what_to_do(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert words in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("x"), 2),
        (EnvironmentFault("x"), 3),
        (DeviceStable("x"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_each_kind_of_fault_has_its_exit_status(capsys, monkeypatch, error, status):
    def fail(**_):
        raise error

    monkeypatch.setattr(cli.cli, "main", fail)
    assert run(capsys, "measure")[0] == status


def test_instrument_faults_exit_1(capsys, monkeypatch):
    from instruments.errors import LinkLost

    def fail(**_):
        raise LinkLost("scope: gone")

    monkeypatch.setattr(cli.cli, "main", fail)
    assert run(capsys, "measure")[0] == 1


def test_another_instruments_package_is_noticed(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "instruments", types.ModuleType("instruments"))
    with pytest.raises(EnvironmentFault, match="InstrumentKit"):
        labctl.check_instruments_package()
    status, _, err = run(capsys, "--help")
    assert status == 3
    assert "virtual environment" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["measure"], "interrupted: the instruments were left safe; captures finished before are kept\n"),
        (["campaign", "run", "x"], "interrupted: the instruments were left safe; captures finished before are kept\n"),
        (["bench", "check"], "interrupted: the instruments were left safe\n"),
        (["published", "--measure"], "interrupted: captures finished before are kept\n"),
        (["firmware", "build"], "interrupted\n"),
        (["memory"], "interrupted\n"),
        (["campaign", "plan", "x"], "interrupted\n"),
    ],
)
def test_an_interrupted_command_says_only_what_it_had_to_do_with(capsys, monkeypatch, arguments, said):
    def pressed(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.cli, "main", pressed)
    assert run(capsys, *arguments) == (130, "", said)
