"""The kill matrix: an engine killed by SIGKILL at every point and at random loses nothing and doubles nothing."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .attacked_server import POINTS as POINTS_OF_JOURNAL
from .attacked_server import AttackedServer, Producers, audit, kill_server
from .killable_engine import POINTS, POINTS_OF, Acknowledgements
from .live import quick_folder, saved_model

ROOT = Path(__file__).parents[2]


class KillableProcess:
    """The warm program that lives lives; `kills` counts those that really ended by SIGKILL, by point."""

    def __init__(self, folder):
        self.folder, self.kills, self.number = Path(folder), Counter(), 0
        first = self.life(f"{folder}/warm.db", until=12)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.online.killable_engine", json.dumps(first)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        assert self.process.stdout.readline() == "warm\n"

    def life(self, place, **more):
        told = more.pop("told", f"{self.folder}/told-{abs(hash(place))}")
        return {"model": str(saved_model()), "place": place, "acknowledged": told, "every": 3, **more}

    def live(self, place, **more):
        """One life; gives how it ended."""
        life = self.life(place, **more)
        self.process.stdin.write(json.dumps(life) + "\n")
        self.process.stdin.flush()
        end = json.loads(self.process.stdout.readline())
        if end["signal"]:
            assert end["signal"] == signal.SIGKILL
            self.kills["at random" if "kill after" in life else life["point"]] += 1
        assert "lost" not in end, f"acknowledged and lost: {end}"
        return end

    def acknowledged(self, place):
        path = self.life(place)["acknowledged"]
        return Acknowledgements(path).all() if os.path.exists(path) else {}

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def killable():
    with quick_folder() as folder:
        found = KillableProcess(folder)
        yield found
        found.close()


def kill_repeatedly(killable, place, each, at_random, within):
    """Kill it at every point so many times, and at random; then finish. Gives the last report and the kills."""
    rng, before = random.Random(0), Counter(killable.kills)
    points = [point for point in POINTS for _ in range(each)] + ["at random"] * at_random
    rng.shuffle(points)
    for number, point in enumerate(points):
        for attempt in range(20):
            until = len(killable.acknowledged(place)) + 8
            died = sum(killable.kills.values())
            if point == "at random":
                killable.live(place, until=until, within=within, **{"kill after": 1000 * number + attempt})
            else:
                killable.live(
                    place, until=until, point=point, times=rng.randint(1, 3) if "checkpoint" not in point else 1
                )
            if sum(killable.kills.values()) > died:
                break
    until = len(killable.acknowledged(place)) + 5
    end = killable.live(place, until=until)
    return end, until, killable.kills - before


def check_survival(killable, place, untouched, each, at_random, within=0.06):
    end, until, kills = kill_repeatedly(killable, place, each, at_random, within)
    whole = killable.live(untouched, until=until)
    told = killable.acknowledged(place)
    assert sorted(told) == list(range(until)), "every batch was acknowledged"
    assert list(told.values()) == list(range(1, until + 1)), "and has the position that it was told"
    assert end["position"] == end["applied"] == until
    assert end["accepted"] == whole["accepted"], "none was applied twice"
    assert end["offsets"] == whole["offsets"] == until - 1
    assert end["digest"] == whole["digest"]
    assert all(kills[point] >= each for point in POINTS), kills
    return sum(kills.values())


def test_a_hundred_kills_lose_nothing_and_double_nothing(killable):
    with quick_folder() as folder:
        kills = check_survival(killable, f"{folder}/s.db", f"{folder}/whole.db", each=10, at_random=25)
    assert kills >= 100


def test_kills_beside_postgresql_lose_nothing_and_double_nothing(killable, postgres):
    place, untouched = f"{postgres}&schema=killed", f"{postgres}&schema=untouched"
    assert check_survival(killable, place, untouched, each=3, at_random=8, within=0.12) >= 30


@pytest.mark.parametrize("broken", ["rows first", "position first"])
def test_a_checkpoint_in_two_transactions_is_caught(killable, broken):
    """The control: with the library's one transaction cut in two, the same kills end in another state."""
    with quick_folder() as folder:
        place = f"{folder}/s.db"
        killable.live(place, until=20)
        for until in (28, 36, 44):
            end = killable.live(place, until=until, broken=broken, point="between")
            assert end["signal"] == signal.SIGKILL or "its checkpoint should have" in end["error"]
        end, whole = killable.live(place, until=50), killable.live(f"{folder}/whole.db", until=50)
    assert "its checkpoint should have" in end.get("error", "") or end["digest"] != whole["digest"]


@pytest.mark.parametrize(("change", "point"), [(change, point) for change in POINTS_OF for point in POINTS_OF[change]])
def test_a_kill_while_history_is_rewritten_leaves_the_old_or_the_new(killable, place, change, point, tmp_path):
    def live(where, **more):
        return killable.live(str(where), told=str(tmp_path / f"{Path(where).name}.told"), until=30, **more)

    other = {"to": str(saved_model("mean", seed=1))} if change == "migrate" else {}
    new = {"model": other["to"]} if other else {}
    before = live(place)
    assert live(place, change=change, point=point, **other)["signal"] == signal.SIGKILL
    happened = point in ("after commit", "before wiping")
    after = live(place, verify=True, **new if happened else {})
    fresh = tmp_path / "fresh.db"
    live(fresh)
    live(fresh, change=change, **other)
    whole = live(fresh, **new)
    names = ("digest", "first", "position", "accepted")
    assert [after[name] for name in names] == [(whole if happened else before)[name] for name in names]
    if not happened:
        live(place, change=change, **other)
        after = live(place, verify=True, **new)
        assert [after[name] for name in names] == [whole[name] for name in names]


@pytest.mark.parametrize("broken", [False, True])
def test_a_server_killed_under_four_producers_keeps_every_acknowledged_batch_once(broken, tmp_path):
    """And the control: where a journal acknowledges a batch before it writes it, the same audit finds what is lost."""
    place, changes = str(tmp_path / "state.db"), {"broken": "acknowledges first", "every": 10**9} if broken else {}
    server = AttackedServer(saved_model(), place, tmp_path, **changes)
    producers = Producers(server.url)
    kill_server(server, producers, 3 if broken else 8, () if broken else POINTS_OF_JOURNAL)
    assert producers.wait_for(8)
    producers.finish()
    assert server.stop() == 0
    server.close()
    found = audit(saved_model(), place, producers.acknowledged, tmp_path)
    assert found["acknowledged"] >= 8
    assert (found["lost"] > 0) == broken
    assert broken or (found["doubled"] == 0 and found["digest_equal"])
