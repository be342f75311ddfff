"""Run benchmarks by name, and keep what each prints in results/benchmarks/NAME.json, of which docs/results.md is made.

    python benchmarks/record.py online server
    python benchmarks/record.py all

A file has the command, its JSON lines (`output`), the model and the number of the processors, the versions, the date
and the seconds that it took. Nothing else should run on the machine meanwhile.
"""

import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tapgnn.evaluation.runner import versions
from tapgnn.file_integrity import write_atomically

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "results" / "benchmarks"
COMMANDS = {
    "scan": "python benchmarks/scan.py",
    "forward": "python benchmarks/forward.py",
    "threads": "python benchmarks/threads.py",
    "training": "python benchmarks/training.py",
    "memory": "python benchmarks/memory.py",
    "online": "python benchmarks/online.py",
    "startup": "python benchmarks/startup.py",
    "newcomer": "python benchmarks/newcomer.py",
    "server": "python benchmarks/server.py",
    "faults": "python benchmarks/faults.py --night",
    "tgb-lag-0": "tapgnn evaluate tgbl-wiki --protocol tgb --seeds 5 --json",
    "tgb-lag-20": "tapgnn evaluate tgbl-wiki --protocol tgb --lag 20 --seeds 5 --json",
    "dyglib": "tapgnn evaluate wikipedia --protocol dyglib --seeds 3 --json",
    "classification-wikipedia": "python examples/classification.py wikipedia --seeds 5",
    "classification-simulated": "python examples/classification.py simulated --seeds 3 --simulations 2",
}


def record(name, command, folder=FOLDER):
    """Run a command, and keep what it prints."""
    program, *arguments = command.split()
    start = time.perf_counter()
    words = [sys.executable, *(["-m", "tapgnn.cli"] if program == "tapgnn" else []), *arguments]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = {
        "command": command,
        "output": [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")],
        "cpu": processor(),
        "cores": os.cpu_count(),
        "versions": versions(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seconds": round(time.perf_counter() - start, 1),
    }
    write_atomically(folder / f"{name}.json", json.dumps(found, indent=1) + "\n")


def processor():
    """The model of the processor."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def main():
    names = list(COMMANDS) if sys.argv[1:] == ["all"] else sys.argv[1:]
    unknown = [name for name in names if name not in COMMANDS]
    if unknown or not names:
        sys.exit(f"usage: python benchmarks/record.py all|NAME...; the names are {', '.join(COMMANDS)}")
    for name in names:
        print(COMMANDS[name], flush=True)
        record(name, COMMANDS[name])


if __name__ == "__main__":
    main()
