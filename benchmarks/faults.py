"""Faults: a real server, killed again and again under four producers, and one whose PostgreSQL is lost.

    kills             lives that really ended by SIGKILL, by journal and by the point at which they died
    acknowledged      batches for which a producer got a response
    lost              of these, those that are not in the journal at the position that the producer was told
    doubled           batches that are in the journal twice
    digest_equal      the state is that of an engine on which nothing failed
    recovered         losses of PostgreSQL (killed, stopped, sessions ended), of how many, after which the same process
                      took batches in again; `recovery_s` is the longest time to that since the database was back
    control_caught    the same kills and the same audit find lost batches where a journal acknowledges a batch before it
                      writes it

Half of the producers ask for scores. The server is the library's; only its journal has points at which the process dies
(`tests/online/killable_engine.py`). Prints one JSON object as the last line.

    python benchmarks/faults.py             50 kills, two to five minutes
    python benchmarks/faults.py --night     1,000 kills, about twenty minutes
"""

import argparse
import itertools
import json
import logging
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.online.attacked_server import POINTS, AttackedServer, Producers, audit, kill_server
from tests.online.live import saved_model
from tests.online.losable_postgres import LosablePostgres

QUICK, NIGHT, CONTROL, LOSSES = 50, 1_000, 5, 20


def attack(place, folder, kills, lose=None, **broken):
    """Kill a server over a journal, let `lose` lose what is behind it, and look at what is left."""
    folder.mkdir()
    model, server = saved_model(), AttackedServer(saved_model(), place, folder, **broken)
    producers = Producers(server.url)
    kill_server(server, producers, kills, () if broken else POINTS)
    # What was sent while it was away is taken in, and more.
    going_on = producers.wait_for(20)
    found = {} if lose is None else lose(server, producers)
    producers.finish()
    code = server.stop()
    server.close()
    found |= audit(model, place, producers.acknowledged, folder)
    return {"kills": dict(server.kills), "went_on": going_on, "exit_code": code, **found}


def lose_database(postgres):
    """A function that loses PostgreSQL in every way, and counts how often the same process goes on."""

    def lose(server, producers):
        rng, ways = random.Random(0), itertools.cycle((postgres.kill, postgres.stop, postgres.terminate_sessions))
        process, recovered, slowest = server.pid, 0, 0.0
        for way in itertools.islice(ways, LOSSES):
            way()
            time.sleep(rng.uniform(0.0, 1.5))
            postgres.start()
            back = time.perf_counter()
            recovered += producers.wait_for(2 * len(producers.threads)) and server.is_ready() and server.pid == process
            slowest = max(slowest, time.perf_counter() - back)
        return {"recovered": recovered, "losses": LOSSES, "recovery_s": round(slowest, 2)}

    return lose


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--night", action="store_true", help=f"{NIGHT:,} kills")
    kills = NIGHT if parser.parse_args().night else QUICK
    # A line for every request of the clients is too many.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        postgres = LosablePostgres(folder)
        try:
            found = {
                "sqlite": attack(str(folder / "state.db"), folder / "sqlite", kills - kills // 5),
                "postgresql": attack(
                    f"{postgres.address}&schema=faults", folder / "postgresql", kills // 5, lose_database(postgres)
                ),
            }
        finally:
            postgres.close()
        # Without checkpoints, which would tell by themselves that the end of the journal is missing.
        broken = {"broken": "acknowledges first", "every": 10**9}
        control = attack(str(folder / "control.db"), folder / "control", CONTROL, **broken)
    result = {
        "kills": sum(sum(each["kills"].values()) for each in found.values()),
        **{name: sum(each[name] for each in found.values()) for name in ("acknowledged", "lost", "doubled")},
        "digest_equal": all(each["digest_equal"] for each in found.values()),
        **{name: found["postgresql"].pop(name) for name in ("recovered", "losses", "recovery_s")},
        "control_caught": control["lost"] > 0,
        "by_journal": found,
        "control": control,
    }
    print(json.dumps(result))
    kept = not result["lost"] and not result["doubled"] and result["digest_equal"]
    sys.exit(0 if kept and result["recovered"] == result["losses"] and result["control_caught"] else 1)


if __name__ == "__main__":
    main()
