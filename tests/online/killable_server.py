"""A server to be killed: a program that forks a child for each life, warm, which serves until it is killed or stopped.

Each line of standard input is a life as a JSON object; two lines of standard output say which process lives it and how
that ended. Journals die at the points of `killable_engine`; everything else is the library's own.

    python -m tests.online.killable_server LIFE    LIFE: a life whose engine is opened once, to be warm
"""

import json
import os
import sys

from tapgnn.errors import TapgnnError
from tapgnn.model import load_model
from tapgnn.online.server.rehearsal import rehearse
from tapgnn.online.server.service import ServerSettings, Service
from tapgnn.online.server.serving import run

from .killable_engine import KillSwitch, forget_shared_lock, open_engine


def open_life(life):
    return open_engine(life, KillSwitch(life.get("point"), life.get("times", 1)))


def live(life):
    """Serve; gives the exit code."""
    forget_shared_lock()
    service = Service(lambda: open_life(life), ServerSettings(window=100))
    try:
        run(service, load_model(life["model"]).config, port=life["port"], announce=lambda place: None)
    except TapgnnError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def main(first):
    with open_life(first) as engine:
        rehearse(engine, load_model(first["model"]).config)
    print("warm", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(live(json.loads(line)))
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        print(os.WTERMSIG(status) if killed else 0, 0 if killed else os.WEXITSTATUS(status), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
