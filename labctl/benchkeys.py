"""Every key of the bench file, once: what it means, the option that sets it, its default and its choices.

Read by what checks the file, writes it, asks for it and offers it on the command line; so it imports nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass

# How the text of a key is read: a quantity in a unit of labctl.units, a tolerance, a channel, a factor, a word.
OHM, VOLT, FARAD, RATIO, CHANNEL, FACTOR, SWITCH, WORD = "ohm", "V", "F", "ratio", "channel", "factor", "switch", "word"


@dataclass(frozen=True)
class Key:
    """One key of one table.

    `text` is for a person. `default` and `example` are as one would type them: what holds where nothing is said, and
    what could be said where nothing holds. A key with `asked` False has an option and a line in the file, but
    `labctl bench new` does not ask for it.
    """

    section: str
    name: str
    option: str
    kind: str
    text: str
    default: str = ""
    example: str = ""
    choices: tuple[str, ...] = ()
    asked: bool = True

    @property
    def id(self) -> tuple[str, str]:
        """Return table and key."""
        return self.section, self.name


# In the order in which a person is asked: what a later default or check needs comes first.
KEYS = (
    Key("bench", "name", "--name", WORD, "Name of the bench; every output carries it.", "bench"),
    Key("dut", "board", "--board", WORD, "The board under test."),
    Key(
        "supply", "node", "--node", WORD,
        "Where the shunt sits: at the MCU's supply pin (mcu) or in the board's input (board).",
        "mcu", choices=("mcu", "board"),
    ),
    Key("supply", "voltage_v", "--supply", VOLT, "Voltage of that node; left out, the board's own.", example="3.3 V"),
    Key("supply", "tolerance_ratio", "--supply-tolerance", RATIO, "How far that voltage may be off.", "1 %"),
    Key(
        "supply", "sensed", "--sensed", WORD,
        "Where that voltage holds: before the shunt (source) or behind it (dut).",
        "source", choices=("source", "dut"),
    ),
    Key("shunt", "resistance_ohm", "--shunt", OHM, "Resistance of the shunt, as printed on it.", example="1.3 ohm"),
    Key("shunt", "tolerance_ratio", "--shunt-tolerance", RATIO, "Tolerance of the shunt.", "1 %"),
    Key(
        "shunt", "wiring", "--wiring", WORD,
        "How the shunt is seen: in the ground return (low-side), in the supply by a differential probe "
        "(high-side-differential), or in the supply by a channel at each end (two-channel).",
        "low-side", choices=("low-side", "high-side-differential", "two-channel"),
    ),
    Key(
        "shunt", "decoupling_f", "--decoupling", FARAD,
        "Capacitors between shunt and core, all together; left out, unknown.", example="4.7 uF",
    ),
    Key(
        "shunt", "decoupling_tolerance_ratio", "--decoupling-tolerance", RATIO,
        "Tolerance of these capacitors.", "20 %", asked=False,
    ),
    Key("scope", "driver", "--driver", WORD, "Driver of the oscilloscope."),
    Key(
        "scope", "resource", "--resource", WORD, "VISA address of the oscilloscope.",
        example="TCPIP::192.168.1.20::5025::SOCKET",
    ),
    Key("scope", "shunt_channel", "--shunt-channel", CHANNEL, "Channel that sees the shunt.", "1"),
    Key(
        "scope", "shunt_high_channel", "--shunt-high-channel", CHANNEL,
        "With two-channel wiring: channel at the supply's end of the shunt.", example="1",
    ),
    Key(
        "scope", "shunt_low_channel", "--shunt-low-channel", CHANNEL,
        "With two-channel wiring: channel at the DUT's end of the shunt.", example="3",
    ),
    Key(
        "scope", "supply_channel", "--supply-channel", CHANNEL,
        "Channel that sees the supply's voltage; left out, it is not measured.", example="3", asked=False,
    ),
    Key("scope", "trigger_channel", "--trigger-channel", CHANNEL, "Channel that sees the trigger pin.", "2"),
    Key(
        "scope", "trigger_edge", "--trigger-edge", WORD,
        "Edge with which an operation begins; falling where something inverts the pin.",
        "rising", choices=("rising", "falling"),
    ),
    Key(
        "scope", "shunt_probe_ratio", "--probe", FACTOR,
        "What the probe at the shunt divides by: 1, 10 for a 10:1 probe, or a differential probe's factor.", "1",
    ),
    Key(
        "scope", "trigger_probe_ratio", "--trigger-probe", FACTOR,
        "What the probe at the trigger pin divides by.", "1", asked=False,
    ),
    Key(
        "scope", "shunt_bandwidth_limit", "--bandwidth-limit/--no-bandwidth-limit", SWITCH,
        "Whether the scope limits the shunt channel's bandwidth: less noise, slower edges.", "true", asked=False,
    ),
    Key("dut", "port", "--port", WORD, "Serial port of the board.", example="/dev/ttyUSB0"),
    Key(
        "dut", "power", "--power", WORD,
        "What switches the DUT's supply: you, when asked (manual), or the VISA address of a SCPI supply.",
        "manual",
    ),
)

SECTIONS = {
    "bench": "How the bench is called.",
    "supply": "The node that the shunt sits in.",
    "shunt": "The resistor that the current is read across.",
    "scope": "The oscilloscope, and which channel sees what.",
    "dut": "The board under test, its serial port and its supply's switch.",
}


def key_of(section: str, name: str) -> Key:
    """Return one key of the table."""
    return next(key for key in KEYS if key.id == (section, name))
