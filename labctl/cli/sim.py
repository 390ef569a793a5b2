"""``labctl sim``: run the emulated bench for other programs to talk to."""

from __future__ import annotations

import contextlib
import json

import click

from labctl.cli.options import Quantity, Tolerance, json_option, shunt_option

control_option = click.option(
    "--control", required=True, envvar="LABCTL_CONTROL", show_envvar=True, metavar="HOST:PORT",
    help="Control address that `labctl sim start` printed.",
)


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
    from labctl.report.text import EMULATED
    from labctl.simulation import Simulation

    simulation = Simulation(boards.load(board), seed)
    file = simulation.bench_file().with_values(shunt_ohm=shunt_ohm)
    try:
        simulation.start(file)
        if as_json:
            click.echo(json.dumps(simulation.addresses))
        else:
            click.echo(f"Bench {EMULATED}; board {board}, seed {seed}")
            click.echo(f"  scope   {simulation.addresses['scope']}")
            click.echo(f"  DUT     {simulation.addresses['dut']}")
            click.echo(f"  power   {simulation.addresses['power']}")
            click.echo(f"  control {simulation.addresses['control']}")
            click.echo("`labctl sim connect` and `labctl sim fault` take the control address with --control,")
            click.echo("or from the environment's LABCTL_CONTROL. Ctrl-C stops it.")
        simulation.wait()
    except KeyboardInterrupt:
        interrupts.reset()  # this is how it is meant to end
    finally:
        simulation.stop()
    return 0


@command.command()
@click.argument("what", type=click.Choice(["dut", "load", "pulsed-load", "pulse"]))
@control_option
@click.option("--load", "load_ohm", type=Quantity("ohm"), help="The load [default: 330 ohm].")
@click.option("--load-tolerance", "load_tolerance_ratio", type=Tolerance(), help="Its tolerance [default: 0.1 %].")
@click.option("--pulse", "pulse_s", type=Quantity("s"), help="Width of the pulse [default: 1 ms].")
@click.option("--period", "period_s", type=Quantity("s"), help="From pulse to pulse, at least [default: 2 ms].")
@click.option(
    "--pulse-tolerance", "pulse_tolerance_ratio", type=Tolerance(), help="The generator's tolerance [default: 1 ppm]."
)
@click.option(
    "--meter-tolerance", "meter_tolerance_ratio", type=Tolerance(), help="The meter's tolerance [default: 0.1 %]."
)
def connect(what: str, control: str, **given: float | None) -> int:
    """Connect a known load or a pulse generator in the DUT's place, or the DUT again.

    Load: a resistor behind the shunt, with a reference meter in series, whose reading is printed. Pulsed load: the
    same, switched by the generator. Pulse: the generator's output on the shunt's and on the trigger's channel. The
    generator runs by itself.
    """
    from labctl.simulation import Control, connecting
    from labctl.units import quantity

    with contextlib.closing(Control(control)) as simulator:
        fixture = {name: value for name, value in given.items() if value is not None}
        simulator.tell(**connecting(what, fixture), runs=True)
        meter = simulator.tell(cmd="meter") if what == "load" else None
    click.echo(f"emulated bench: {what} connected")
    if meter is not None:
        # The supply may well be off now; a calibration switches it on once the load is connected.
        click.echo(f"the meter in series with it reads {quantity(meter['powered_a'], 'A', 5)} while the supply is on")
    return 0


@command.command()
@control_option
@click.option("--trigger", metavar="FAULT", help="disconnected, inverted, stuck-high or extra-edge.")
@click.option("--shunt", metavar="FAULT", help="reversed, disconnected or bypassed (by another ground).")
@click.option("--wires", metavar="FAULT", help="swapped: shunt and trigger on each other's channel.")
@click.option("--clear", is_flag=True, help="Take every fault away.")
def fault(control: str, trigger: str | None, shunt: str | None, wires: str | None, clear: bool) -> int:
    """Wire the emulated bench wrong, to see what a command says; what is not named is wired right."""
    from labctl.simulation import Control

    faults = {name: word for name, word in (("trigger", trigger), ("shunt", shunt), ("wires", wires)) if word}
    if bool(faults) == clear:
        raise click.UsageError("name a fault (--trigger, --shunt, --wires), or --clear alone")
    with contextlib.closing(Control(control)) as simulator:
        simulator.tell(cmd="faults", faults=faults)
    listed = ", ".join(f"{name} {word}" for name, word in faults.items())
    click.echo(f"emulated bench: {listed or 'no fault'}")
    return 0
