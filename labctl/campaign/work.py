"""What the work on a bench is made of: who measures, who is told, how patient it is, and how it ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labctl.campaign.hooks import Hook
from labctl.campaign.model import Attempt, Item
from labctl.model import Capture


class Measurer(ABC):
    """What takes the captures of one bench."""

    @abstractmethod
    def measure(self, item: Item, attempt: int) -> Capture:
        """Take an item's capture; `attempt` counts from 1. Raises what goes wrong."""

    def facts(self) -> Mapping[str, Any]:
        """Tell what the journal keeps of what is measured with."""
        return {}

    def recover(self, item: Item) -> None:  # noqa: B027 - where nothing is to be done, nothing is
        """Bring the bench back before a new attempt, after a power cycle. Raises while an instrument is away."""

    def make_safe(self) -> None:  # noqa: B027
        """Switch the outputs off."""


class Show:
    """Told what happens, to show it to somebody; this one shows nothing.

    What it is told names addresses as they are: it is for the operator, and kept nowhere.
    """

    def counted(self, n_items: int, n_done: int, n_failed: int) -> None:
        """How far the campaign is before the first attempt."""

    def began(self, item: Item, attempt: int) -> None:
        """An attempt began."""

    def stage(self, text: str) -> None:
        """What is being done within an attempt."""

    def ended(self, item: Item, attempt: Attempt) -> None:
        """An attempt ended."""

    def note(self, text: str) -> None:
        """What somebody should know."""


@dataclass(frozen=True)
class Policy:
    """How items are taken: the attempts at each, the pause before the second (doubled each time), what is too much.

    `wait_s` is how long a new attempt waits for an instrument that is away; `power` the headline power of results;
    `secrets` are texts that nothing kept may hold, and what stands for each.
    """

    n_attempts: int = 3
    backoff_s: float = 2.0
    wait_s: float = 600.0
    power: str = "dut"
    current_limit_a: float | None = None
    failure_hook: Hook | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    retry_failed: bool = False


@dataclass(frozen=True)
class Ending:
    """How the work on one bench ended: `kind` is complete, budget, interrupted, safety or lost; `text` says why."""

    kind: str
    text: str = ""
