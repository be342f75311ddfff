"""How long it takes from `git clone` to a report on a table, by the words of the README alone.

The repository is cloned into a temporary folder, the lines of the README's first `console` block and of its `sh` block
are run there one after the other as they are printed. Prints one JSON object as the last line: the seconds of every
line, and of all of them. The exit code is 1 if a line fails, the report is missing, or all takes longer than LIMIT.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Seconds from nothing to a report.
LIMIT = 300


def lines_of(readme):
    """The commands of the README."""
    console = re.search(r"^```console\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)[1]
    table = re.search(r"^```sh\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)[1]
    printed = [line.removeprefix("$ ").partition("  #")[0].strip() for line in console.splitlines()]
    return [*printed, *table.strip().splitlines()]


def main():
    # A shell of its own for all lines, as a person has it; the package of this checkout must not be found.
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        subprocess.run(["git", "clone", "--quiet", ROOT, "clone"], cwd=folder, check=True)
        seconds = {"git clone": round(time.perf_counter() - start, 1)}
        clone = Path(folder) / "clone"
        steps = lines_of((clone / "README.md").read_text())
        script = "set -e\n" + "".join(f"{line}\ndate +'step %s.%N'\n" for line in steps)
        begun = time.time()
        done = subprocess.run(["bash", "-c", script], cwd=clone, env=kept, stdout=subprocess.PIPE, text=True)
        for line, end in zip(steps, map(float, re.findall(r"^step (\S+)$", done.stdout, re.MULTILINE)), strict=False):
            seconds[line], begun = round(end - begun, 1), end
        whole = round(time.perf_counter() - start, 1)
        report = (clone / "model/report.html").is_file()
    print(json.dumps({"benchmark": "newcomer", "seconds": seconds, "total_s": whole, "report": report}))
    sys.exit(1 if done.returncode or not report or whole > LIMIT else 0)


if __name__ == "__main__":
    main()
