"""Run the emulated bench: configuration as JSON on stdin, one line of addresses on stdout, until told to stop.

It ends on SIGTERM, SIGINT, {"cmd": "quit"} on the control socket, or when the process that started it is gone.
Exit status: 0 stopped, 1 the DUT failed to start, 2 a configuration that does not fit.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

POLL_S = 0.1


def _read_config() -> Mapping[str, Any]:
    try:
        config = json.loads(sys.stdin.read())
    except RecursionError as error:
        raise ValueError("its brackets are nested too deep") from error
    if not isinstance(config, dict):
        raise TypeError("the configuration must be one JSON object")
    if not Path(config["elf"]).is_file():
        raise ValueError(f"elf: there is no file {config['elf']}")
    return config


def run(bench: Any) -> int:
    """Print where the bench answers and wait for its end."""
    signals: list[int] = []
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told)
    for number in (signal.SIGTERM, signal.SIGINT):
        # No lock is taken in here: the main thread may hold the very one.
        signal.signal(number, lambda number, _: signals.append(number))
    parent = os.getppid()
    print(json.dumps(bench.addresses()), flush=True)
    while not bench.stopped.is_set() and not signals and os.getppid() == parent:
        select.select([heard], [], [], POLL_S)
    bench.close()
    return 1 if bench.boot_error else 0


def main() -> int:
    """Run until stopped; return the exit status."""
    from instruments.sim.bench import Bench

    try:
        bench = Bench(_read_config())
    except (ValueError, KeyError, TypeError) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        print(f"instruments.sim: bad configuration on stdin: {what}", file=sys.stderr)
        return 2
    return run(bench)


if __name__ == "__main__":
    # Threads that sit in native code must not hold up the exit.
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
