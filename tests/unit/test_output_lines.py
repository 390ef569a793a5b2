"""Progress where stderr is no terminal: a line a step, and none where nobody asked for any."""

from __future__ import annotations

import pytest

from labctl.cli.output import Output

STEPS = [("building b Os", 0, 1), ("building b Os: aes.c", 0, 1), ("building b Os: line.c", 0, 1), ("trial runs", 0, 3),
         ("sha256: 20 runs", 1, 3), ("sm3: 20 runs", 2, 3), ("done", 3, 3)]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({"lines": True}, ["building b Os", "1/3 trial runs", "2/3 sha256: 20 runs", "3/3 sm3: 20 runs"]),
        ({"lines": True, "quiet": True}, []),
        ({}, []),
    ],
)
def test_a_step_is_a_line(capsys, options, lines):
    with Output(**{"quiet": False, **options}) as output:
        for step in STEPS:
            output.progress(*step)
    said = capsys.readouterr()
    assert not said.out
    assert said.err.splitlines() == lines


def test_on_a_terminal_no_line_stays(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Output(quiet=False, lines=True) as output:
        output.progress("sha256: 20 runs", 1, 3)
    assert "2/3" not in capsys.readouterr().err
