"""The page of a foreign file keeps to 80 columns, its warnings wrapped with their numbers and units together."""

from rich.console import Console

from labctl.report.files import render_file


def test_warnings_are_wrapped_as_sentences():
    description = {"file": "a.csv", "format": "Rigol CSV", "channels": []}
    warning = f"{'x' * 72} of 59.3 \u00b5J"  # 80 columns end between the number and its unit
    console = Console(width=200, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(render_file(description, None, [warning, "another"], "no shunt given"))
    assert captured.get().splitlines()[-3:] == ["x" * 72 + " of", "59.3 \u00b5J", "another"]
