"""The command line: one module a command, loaded when it is used, so that help stays quick."""

from __future__ import annotations

import importlib
import sys

import click

from labctl import __version__, check_instruments_package
from labctl.errors import LabctlError

COMMANDS = {
    "measure": "Measure operations on a board and print their energy.",
    "analyze": "Recompute every number from captures, or analyse files of a scope.",
    "sim": "Run the emulated bench for other programs.",
}
EXIT_DEVICE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class LazyGroup(click.Group):
    """A group that imports a command's module only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        return importlib.import_module(f"labctl.cli.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where one is misspelt."""
        import difflib

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" Commands: {', '.join(COMMANDS)}."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="labctl")
def cli() -> None:
    """Measure what a cryptographic operation costs on a microcontroller.

    Without a bench file and without hardware, `labctl measure --shunt 1.3` runs real firmware on an emulated bench.
    """


def main() -> None:
    """Run the command line; turn every expected fault into one message and its exit status."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit status (0 done, 1 device, 2 usage, 3 environment, 130 interrupted)."""
    try:
        check_instruments_package()
        result = cli.main(args=arguments, prog_name="labctl", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted: the instruments were left safe; captures finished before are kept", err=True)
        return EXIT_INTERRUPTED
    except LabctlError as error:
        click.echo(f"labctl: {error}", err=True)
        return error.exit_status
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_DEVICE
    except Exception as error:
        from instruments.errors import InstrumentError

        if isinstance(error, InstrumentError):
            click.echo(f"labctl: {error}", err=True)
            return EXIT_DEVICE
        raise
