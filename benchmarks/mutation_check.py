"""Break one scale, sign, offset, endianness or page bound of a driver or its simulator; a test must fail for each.

    benchmarks/mutation_check.py [--only TEXT] [--list]

The list is mutants.toml beside this file: a file, a text that stands there exactly once, what takes its place, and the
tests that must notice. Each mutant runs on a copy of the two packages that the tests import in the place of the real
ones; nothing of the project is changed. A text that is not there any more is an error: the list must be kept. Printed
are every mutant and the score; the exit status is 1 where one survives.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 300
PACKAGES = ("instruments", "labctl")
# What pytest ends with: some test failed, or a module could not even be imported.
NOTICED = (1, 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="mutants whose file or name holds this text")
    parser.add_argument("--list", action="store_true", help="print the list alone")
    options = parser.parse_args()
    mutants = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())["mutant"]
    mutants = [one for one in mutants if options.only in f"{one['file']} {one['name']}"]
    for one in mutants:
        n = (PROJECT / one["file"]).read_text().count(one["find"])
        if n != 1:
            sys.exit(f"{one['file']}: {one['find']!r} stands there {n} times, and must once: correct mutants.toml")
    if options.list:
        for one in mutants:
            print(f"{one['file']}: {one['name']}")
        return 0
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        for package in PACKAGES:
            shutil.copytree(PROJECT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
        unchanged = sorted({test for one in mutants for test in one["tests"]})
        if _run(copy, unchanged) != 0:
            sys.exit("the tests fail on unchanged code: nothing can be told of mutants")
        for one in mutants:
            noticed = _tried(copy, one)
            killed += noticed
            print(f"{'killed' if noticed else 'SURVIVED'}  {one['file']}: {one['name']}", flush=True)
    print(f"{killed} of {len(mutants)} mutants killed")
    return int(killed < len(mutants))


def _tried(copy: Path, mutant: dict) -> bool:
    path = copy / mutant["file"]
    original = path.read_text()
    path.write_text(original.replace(mutant["find"], mutant["replace"]))
    try:
        return _run(copy, mutant["tests"]) in NOTICED
    finally:
        path.write_text(original)


def _run(copy: Path, tests: list[str]) -> int:
    """Run tests against the copy, up to the first that fails; one that hangs has noticed too."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    # -P: else the project's folder would come before the copy.
    options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-m", "not sweep"]
    command = [sys.executable, "-P", "-m", "pytest", *options, *tests]
    try:
        done = subprocess.run(
            command, check=False, cwd=PROJECT, env=environment, capture_output=True, timeout=TIMEOUT_S
        )
        return done.returncode
    except subprocess.TimeoutExpired:
        return 1


if __name__ == "__main__":
    sys.exit(main())
