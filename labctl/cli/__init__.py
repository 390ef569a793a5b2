"""The command line: one module a command, loaded when it is used, so that help stays quick."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import click

from labctl import __version__, check_instruments_package, interrupts
from labctl.errors import LabctlError

COMMANDS = {
    "measure": "Measure operations on a board and print their energy.",
    "doctor": "Check this machine: packages, permissions, tools, and how to mend each.",
    "devices": "List what is reachable, who it is and which driver fits.",
    "drivers": "List the drivers of instruments, and what each lacks.",
    "bench": "Write a bench file, and check it against what is connected.",
    "selftest": "Test what the bench resolves, and name what is wrong with its wiring.",
    "calibrate": "Compare the bench with a known current, pulse or clock.",
    "analyze": "Recompute every number from captures, or analyse files of a scope.",
    "budget": "Print what makes a result uncertain, line by line.",
    "coverage": "Judge on many emulated benches how often stated intervals hold the truth.",
    "firmware": "List, build and flash the firmware that is measured.",
    "campaign": "Plan, run, resume and watch a night's work.",
    "table": "Make tables of campaigns for a report.",
    "serve": "Show campaigns on a local web page.",
    "memory": "Print what operations, or any ELF file, take of flash and RAM.",
    "published": "Print what others published, and results beside it.",
    "sim": "Run the emulated bench for other programs.",
}
EXIT_DEVICE = 1
EXIT_USAGE = 2
EXIT_ENVIRONMENT = 3
EXIT_INTERRUPTED = 130
_TAKING = frozenset({"measure", "calibrate", "campaign run", "campaign resume"})
# What commands leave behind where they are interrupted.
_LEFT = (
    (_TAKING | {"bench", "selftest"}, "the instruments were left safe"),
    (_TAKING | {"published"}, "captures finished before are kept"),
)


class LazyGroup(click.Group):
    """A group that imports a command's module only to run it or to show its own help.

    `texts` says for each command what it does, `modules` where it lies, if not in labctl.cli under its own name as
    `command`: module and attribute.
    """

    def __init__(
        self, *args: Any, texts: Mapping[str, str], modules: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.texts = texts
        self.modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order a newcomer meets them."""
        return list(self.texts)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self.texts:
            return None
        module, attribute = self.modules.get(cmd_name, (cmd_name, "command"))
        return getattr(importlib.import_module(f"labctl.cli.{module}"), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.texts.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where one is misspelt."""
        import difflib

        if args and args[0] not in self.texts and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self.texts, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" Commands: {', '.join(self.texts)}."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, texts=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="labctl")
def cli() -> None:
    """Measure what a cryptographic operation costs on a microcontroller.

    Without a bench file and without hardware, `labctl measure --shunt 1.3` runs real firmware on an emulated bench.
    """


def main() -> None:
    """Run the command line; turn every expected fault into one message and its exit status."""
    sys.exit(run(sys.argv[1:]))


def _prepare_process() -> None:
    """Make signals and streams such that every end is an orderly one."""
    interrupts.reset()
    interrupts.install()
    # A background job of a script ignores SIGINT: there the other signals keep their own effect.
    heard = signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None)
    if heard and threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            signal.signal(getattr(signal, name), lambda *_: signal.raise_signal(signal.SIGINT))
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - lives as long as the process
        elif hasattr(stream, "reconfigure"):  # a terminal that cannot show µ or Ω shows a question mark
            stream.reconfigure(errors="replace")


def run(arguments: list[str]) -> int:
    """Run one command and return its exit status (0 done, 1 device, 2 usage, 3 environment, 130 interrupted)."""
    _prepare_process()
    try:
        check_instruments_package()
        result = cli.main(args=arguments, prog_name="labctl", standalone_mode=False)
        interrupts.check()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(file=shown)
        _say(shown.getvalue().rstrip("\n"))
        return EXIT_USAGE
    except (KeyboardInterrupt, click.Abort):
        return _interrupted(arguments)
    except LabctlError as error:
        _say(f"labctl: {error}")
        return error.exit_status
    except SystemExit:  # click and rich end so where the reader of our output has left
        return EXIT_ENVIRONMENT
    except Exception as error:
        try:
            interrupts.check()  # some libraries turn a KeyboardInterrupt into an error of their own
        except KeyboardInterrupt:
            return _interrupted(arguments)
        status = _status_of(error)
        if status is None:
            raise
        return status


def _interrupted(arguments: list[str]) -> int:
    """Say what is left behind: of instruments and captures only where the command has to do with them."""
    left = [text for names, text in _LEFT if {arguments[0], " ".join(arguments[:2])} & names]
    _say(f"interrupted: {'; '.join(left)}" if left else "interrupted")
    return EXIT_INTERRUPTED


def _say(text: str) -> None:
    with _stderr_that_may_break():
        click.echo(_fitted(text) if sys.stderr.isatty() else text, err=True)


def _fitted(text: str) -> str:
    """Break the lines of a message that are longer than the terminal is wide."""
    from labctl.report.text import N_COLUMNS, wrap

    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns or N_COLUMNS
    except OSError:
        width = N_COLUMNS
    lines = text.split("\n")
    return "\n".join(part for line in lines for part in ([line] if len(line) <= width else wrap(line, width)))


@contextlib.contextmanager
def _stderr_that_may_break() -> Iterator[None]:
    """Give stderr up where it is full or closed: the exit status must do, and stay what it is to the very end."""
    try:
        yield
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _status_of(error: Exception) -> int | None:
    """Say what an instrument's or the output's fault was and return its exit status; None for what nobody expected."""
    from instruments.errors import InstrumentError, OutOfRange

    if isinstance(error, InstrumentError):
        _say(f"labctl: {error}")
        return EXIT_USAGE if isinstance(error, OutOfRange) else EXIT_DEVICE
    if isinstance(error, OSError):
        # Whoever read our output has left, or its disk is full; nothing more can be said there, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not isinstance(error, BrokenPipeError):
            _say(f"labctl: {error}")
        return EXIT_ENVIRONMENT
    return None
