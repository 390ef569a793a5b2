"""A long campaign: 10 000 runs, in memory and at a cost per run that do not grow."""

import resource
import statistics
from pathlib import Path

import pytest

from labctl.campaign.drive import Options, begin
from labctl.campaign.plan import parse_plan
from labctl.campaign.work import Show

N_ITEMS, N_RUNS = 250, 40
PLAN = f"""
[campaign]
name = "long"
runs = {N_RUNS}
[factors]
boards = ["stm32vldiscovery"]
operations = ["sha256"]
bytes = [{", ".join(str(16 + number) for number in range(N_ITEMS))}]
"""


def resident_bytes(pid):
    """Return the resident memory of a process, 0 where it has just ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


class Gauge(Show):
    """Notes, item by item: our memory, the most that the simulator had, and the processor's time of both."""

    def __init__(self):
        self.own_bytes, self.child_bytes, self.cpu_s = [], [], []
        self._child_bytes = 0

    def stage(self, text):
        children = Path("/proc/self/task").glob("*/children")
        found = [pid for file in children for pid in file.read_text().split()]
        self._child_bytes = max(self._child_bytes, *map(resident_bytes, found), 0)

    def ended(self, item, attempt):
        self.own_bytes.append(resident_bytes("self"))
        self.child_bytes.append(self._child_bytes)
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        self.cpu_s.append(sum(usage.ru_utime + usage.ru_stime for usage in usages))
        self._child_bytes = 0


def tenth(values, number):
    """Return the mean of one tenth of the values, counted from 1."""
    n = len(values) // 10
    return statistics.fmean(values[(number - 1) * n : number * n])


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_ten_thousand_runs_take_no_more_memory_and_no_more_time_each_at_the_end(elf, tmp_path):
    gauge = Gauge()
    summary = begin(parse_plan(PLAN, "plan.toml"), tmp_path / "long", Options(), gauge)
    assert (summary.exit_status, summary.state.n_done) == (0, N_ITEMS)
    assert N_ITEMS * N_RUNS == 10_000
    each_s = [after - before for before, after in zip(gauge.cpu_s, gauge.cpu_s[1:], strict=False)]
    print(f"runner {tenth(gauge.own_bytes, 2) / 1e6:.1f} -> {tenth(gauge.own_bytes, 10) / 1e6:.1f} MB, simulator "
          f"{tenth(gauge.child_bytes, 2) / 1e6:.1f} -> {tenth(gauge.child_bytes, 10) / 1e6:.1f} MB, "
          f"{1e3 * tenth(each_s, 2) / N_RUNS:.2f} -> {1e3 * tenth(each_s, 10) / N_RUNS:.2f} ms of processor a run")
    assert tenth(gauge.own_bytes, 10) <= 1.05 * tenth(gauge.own_bytes, 2)
    assert tenth(gauge.child_bytes, 10) <= 1.05 * tenth(gauge.child_bytes, 2)
    # The items at the end have longer messages: by less than a tenth of what an item costs.
    assert statistics.median(each_s[-25:]) <= 1.2 * statistics.median(each_s[25:50])
