"""``labctl campaign``: a plan of many measurements, taken unattended."""

from __future__ import annotations

import click

from labctl.cli import LazyGroup

COMMANDS = {
    "plan": "Print what a plan comes to: items in order, what is left out, time and disk.",
    "run": "Begin a campaign and work through it.",
    "resume": "Go on with a campaign where it was left.",
    "status": "Say how far a campaign is, without disturbing it.",
    "watch": "Watch a campaign in the terminal.",
    "verify": "Check that every capture of a campaign is whole and readable.",
    "pack": "Put a campaign into one HDF5 file for the archive.",
    "unpack": "Make the folder again from such a file.",
    "export": "Write a campaign's results for other programs.",
}
_MODULES = {
    "plan": ("campaignplan", "plan"),
    "run": ("campaignrun", "run"),
    "resume": ("campaignrun", "resume"),
    "status": ("campaignfiles", "status"),
    "watch": ("campaignwatch", "watch"),
    "verify": ("campaignfiles", "verify"),
    "pack": ("campaignfiles", "pack"),
    "unpack": ("campaignfiles", "unpack"),
    "export": ("campaignfiles", "export"),
}


@click.group(cls=LazyGroup, texts=COMMANDS, modules=_MODULES)
def command() -> None:
    """Take many measurements unattended: a plan file says which, a folder keeps everything."""
