"""One call of the command line, in this process or in one of its own."""

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass

from tapgnn.cli import main

SMALL = ("--width", "16", "--epochs", "1")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def last(self):
        """The JSON object on the last line of standard output."""
        return json.loads(self.out.splitlines()[-1])

    @property
    def refusal(self):
        """The one line of a user's mistake."""
        assert self.code == 2, self.err
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("tapgnn: ")
        return line


def tapgnn(*arguments):
    """Call the entry point of the script in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Outcome(code, out.getvalue(), err.getvalue())


def started(*arguments, **options):
    """Start the command in a process of its own."""
    command = [sys.executable, "-m", "tapgnn.cli", *(str(argument) for argument in arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options
    )
