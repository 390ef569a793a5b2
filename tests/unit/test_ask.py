"""What a person is asked: in 80 columns, commands whole, and what is typed comes back."""

import io
import sys

import pytest

from labctl.cli.output import Output
from labctl.errors import NobodyThere
from labctl.fixture import Fixture, connection_sentence, sim_command

BOARD = {"pins": {"level_v": 3.3}}
COMMAND = sim_command("pulsed-load", Fixture(load_ohm=220.0), "127.0.0.1:40123")
METERED = Fixture(meter_tolerance_ratio=1e-3)
SENTENCES = [
    *(connection_sentence(what, METERED, BOARD) for what in ("load", "pulsed-load", "pulse")),
    f"In another terminal, run `{COMMAND}`, where this is the control address that `labctl sim start` printed",
]


class Keyboard(io.StringIO):
    """Somebody who types."""

    def isatty(self):
        return True


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_question_is_wrapped_and_its_answer_returned(monkeypatch, capsys, sentence):
    monkeypatch.setattr(sys, "stdin", Keyboard("9.957mA\n"))
    with Output(quiet=False) as output:
        assert output.ask(sentence) == "9.957mA"
    shown = capsys.readouterr().err
    assert max(map(len, shown.splitlines())) <= 80
    assert " ".join(shown.split()).startswith(f"{sentence}, then press Enter")
    if COMMAND in sentence:
        assert COMMAND in shown


def test_nobody_is_told_what_was_to_be_done_and_no_option_that_may_not_be_there(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with Output(quiet=True) as output, pytest.raises(NobodyThere, match="Enter nothing: but nobody is at") as seen:
        output.ask("Enter nothing")
    assert "--" not in str(seen.value)
