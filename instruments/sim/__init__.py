"""The emulated bench: one world, several instruments looking at it. Run it with ``python -m instruments.sim``.

Everything measured here is a model, never silicon. Nothing of the drivers is shared with it: both sides are written
from the manuals, separately, so that they cannot agree on a wrong guess.
"""
