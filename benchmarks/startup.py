"""How long the installed command `tapgnn` takes to answer from nothing: help, and a question to a saved model.

A small model is fitted first, and every command is run once before it is timed, so that compiled loops and files are
cached. Prints one JSON object as the last line: for each command the best wall and processor seconds of ROUNDS, beside
those of Python alone and of `import torch` alone, which no question to a model can do without.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5


def seconds(command):
    """Best wall and best processor seconds of a command."""
    walls, processors = [], []
    for _ in range(ROUNDS + 1):
        before, start = os.times(), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        walls.append(time.perf_counter() - start)
        processors.append(sum(after[2:4]) - sum(before[2:4]))
    return {"wall_s": round(min(walls[1:]), 3), "processor_s": round(min(processors[1:]), 3)}


def main():
    python, tapgnn = [sys.executable, "-c"], [str(Path(sys.executable).with_name("tapgnn"))]
    with tempfile.TemporaryDirectory() as folder:
        log, model = str(Path(folder) / "payments.csv"), str(Path(folder) / "model")
        subprocess.run([*tapgnn, "simulate", log, "--events", "2000"], check=True, capture_output=True)
        subprocess.run([*tapgnn, "fit", log, "--epochs", "1", "--out", model], check=True, capture_output=True)
        commands = {
            "python": [*python, "pass"],
            "import torch": [*python, "import torch"],
            "tapgnn --help": [*tapgnn, "--help"],
            "tapgnn fit --help": [*tapgnn, "fit", "--help"],
            "tapgnn rank": [*tapgnn, "rank", model, "a00001", "-k", "3"],
        }
        print(json.dumps({"benchmark": "startup", **{name: seconds(words) for name, words in commands.items()}}))


if __name__ == "__main__":
    main()
