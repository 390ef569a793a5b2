"""A campaign of the emulated bench on the web page: what was measured, and that it is emulated."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from labctl.campaign import journal
from labctl.cli import run
from labctl.store import envelope

PLAN = """
[campaign]
name = "served"
seed = 3
runs = 2
[factors]
boards = ["stm32vldiscovery"]
operations = ["sha256"]
bytes = [64]
[bench]
shunt = "1.3 ohm"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    assert run(["campaign", "run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "served")]) == 0
    return tmp_path / "served"


def ask(port, path):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        link.request("GET", path)
        return link.getresponse().read().decode()
    finally:
        link.close()


def test_a_campaign_of_the_emulated_bench_is_served(folder):
    process = subprocess.Popen(
        [Path(sys.executable).with_name("labctl"), "serve", str(folder), "--port", "0"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        port = int(re.search(r":(\d+)/", process.stdout.readline())[1])
        page = ask(port, "/c/served/")
        (item,) = json.loads(ask(port, "/c/served/statistics.json"))["items"]
        shown = json.loads(ask(port, "/c/served/items/1/waveform.json?columns=300"))
        windows = json.loads(ask(port, "/c/served/items/1/runs.json"))["windows"]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Emulated bench: the currents are a model, not silicon." in page
    (attempt,) = journal.read(folder).attempts
    assert (item["mean"], item["expanded"]) == (attempt.row["energy_mean_j"], attempt.row["energy_expanded_j"])
    # The zero reading moves the waveform as a whole: its steps are those of the drop over 1.3 ohm.
    whole = envelope(folder / attempt.capture, "series", "CH1", n_columns=300)
    assert shown["mean"][150] - shown["mean"][0] == pytest.approx((whole.mean[150] - whole.mean[0]) / 1.3, rel=1e-9)
    assert [one["segment"] for one in windows] == [0, 1]
    lengths = [one["stop"] - one["start"] for one in windows]
    # The trigger's own cost, some dozens of the core's 24 cycles a microsecond, is in the windows, not in the result.
    assert 0 < sum(lengths) / 2 - attempt.row["duration_mean_s"] < 10e-6
