"""``labctl sim``: run the emulated bench for other programs to talk to."""

from __future__ import annotations

import json

import click

from labctl.cli.options import json_option, shunt_option


@click.group()
def command() -> None:
    """Run the emulated bench for other programs to talk to."""


@command.command()
@shunt_option
@click.option("--board", default="stm32vldiscovery", show_default=True, help="Board to emulate.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Errors of the emulated bench.")
@json_option
def start(shunt_ohm: float | None, board: str, seed: int, as_json: bool) -> int:
    """Start the emulated bench, print its addresses, and keep it running until Ctrl-C."""
    from labctl import boards, interrupts
    from labctl.simulation import Simulation

    simulation = Simulation(boards.load(board), seed)
    file = simulation.bench_file().with_values(shunt_ohm=shunt_ohm)
    try:
        simulation.start(file)
        if as_json:
            click.echo(json.dumps(simulation.addresses))
        else:
            click.echo(f"emulated bench, {board}, seed {seed}. Not silicon: its currents are a model.")
            click.echo(f"  scope   {simulation.addresses['scope']}")
            click.echo(f"  DUT     {simulation.addresses['dut']}")
            click.echo(f"  power   {simulation.addresses['power']}")
            click.echo("Ctrl-C stops it.")
        simulation.wait()
    except KeyboardInterrupt:
        interrupts.reset()  # this is how it is meant to end
    finally:
        simulation.stop()
    return 0
