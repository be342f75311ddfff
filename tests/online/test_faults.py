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

from .killable_engine import POINTS, Acknowledgements
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


@pytest.mark.parametrize("point", ["in checkpoint", "before position", "before wiping"])
def test_a_kill_in_an_erasure_leaves_the_old_or_the_new(killable, place, point, tmp_path):
    told, other = str(tmp_path / "told"), str(tmp_path / "other")
    whole = killable.live(place, until=30, told=told)
    assert killable.live(place, told=told, until=30, erase=True, point=point)["signal"] == signal.SIGKILL
    after = killable.live(place, told=told, until=30)
    killable.live(str(tmp_path / "fresh.db"), until=30, told=other)
    erased = killable.live(str(tmp_path / "fresh.db"), until=30, told=other, erase=True)
    assert after["digest"] == (erased if point == "before wiping" else whole)["digest"]
    assert killable.live(place, told=told, until=30, erase=True)["digest"] == erased["digest"]
