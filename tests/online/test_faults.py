"""The kill matrix: an engine that dies by SIGKILL at every point and at random loses nothing and doubles nothing."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .live import quick_folder, saved_model
from .mortal import POINTS, Acknowledgements

ROOT = Path(__file__).parents[2]


class Mortals:
    """The warm program that lives lives; `deaths` counts those that really ended by SIGKILL, by point."""

    def __init__(self, folder):
        self.folder, self.deaths, self.number = Path(folder), Counter(), 0
        first = self.life(f"{folder}/warm.db", until=12)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.online.mortal", json.dumps(first)],
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
            self.deaths["at random" if "kill after" in life else life["point"]] += 1
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
def mortals():
    with quick_folder() as folder:
        found = Mortals(folder)
        yield found
        found.close()


def suffer(mortals, place, each, at_random, within):
    """Die at every point so many times, and at random; then finish. Gives the last life's words and the deaths."""
    rng, before = random.Random(0), Counter(mortals.deaths)
    fates = [point for point in POINTS for _ in range(each)] + ["at random"] * at_random
    rng.shuffle(fates)
    for number, fate in enumerate(fates):
        for attempt in range(20):
            until = len(mortals.acknowledged(place)) + 8
            died = sum(mortals.deaths.values())
            if fate == "at random":
                mortals.live(place, until=until, within=within, **{"kill after": 1000 * number + attempt})
            else:
                mortals.live(place, until=until, point=fate, times=rng.randint(1, 3) if "checkpoint" not in fate else 1)
            if sum(mortals.deaths.values()) > died:
                break
    until = len(mortals.acknowledged(place)) + 5
    end = mortals.live(place, until=until)
    return end, until, mortals.deaths - before


def check_survival(mortals, place, untouched, each, at_random, within=0.06):
    end, until, deaths = suffer(mortals, place, each, at_random, within)
    whole = mortals.live(untouched, until=until)
    told = mortals.acknowledged(place)
    assert sorted(told) == list(range(until)), "every batch was acknowledged"
    assert list(told.values()) == list(range(1, until + 1)), "and has the position that it was told"
    assert end["position"] == end["applied"] == until
    assert end["accepted"] == whole["accepted"], "none was applied twice"
    assert end["offsets"] == whole["offsets"] == until - 1
    assert end["digest"] == whole["digest"]
    assert all(deaths[point] >= each for point in POINTS), deaths
    return sum(deaths.values())


def test_a_hundred_deaths_lose_nothing_and_double_nothing(mortals):
    with quick_folder() as folder:
        deaths = check_survival(mortals, f"{folder}/s.db", f"{folder}/whole.db", each=10, at_random=25)
    assert deaths >= 100


def test_deaths_beside_postgresql_lose_nothing_and_double_nothing(mortals, postgres):
    place, untouched = f"{postgres}&schema=mortal", f"{postgres}&schema=untouched"
    assert check_survival(mortals, place, untouched, each=3, at_random=8, within=0.12) >= 30


@pytest.mark.parametrize("broken", ["rows first", "position first"])
def test_a_checkpoint_in_two_transactions_is_caught(mortals, broken):
    """The control: with the library's one transaction cut in two, the same deaths end in another state."""
    with quick_folder() as folder:
        place = f"{folder}/s.db"
        mortals.live(place, until=20)
        for until in (28, 36, 44):
            end = mortals.live(place, until=until, broken=broken, point="between")
            assert end["signal"] == signal.SIGKILL or "its checkpoint should have" in end["error"]
        end, whole = mortals.live(place, until=50), mortals.live(f"{folder}/whole.db", until=50)
    assert "its checkpoint should have" in end.get("error", "") or end["digest"] != whole["digest"]


@pytest.mark.parametrize("point", ["in checkpoint", "before position", "before wiping"])
def test_a_death_in_an_erasure_leaves_the_old_or_the_new(mortals, place, point, tmp_path):
    told, other = str(tmp_path / "told"), str(tmp_path / "other")
    whole = mortals.live(place, until=30, told=told)
    assert mortals.live(place, told=told, until=30, erase=True, point=point)["signal"] == signal.SIGKILL
    after = mortals.live(place, told=told, until=30)
    mortals.live(str(tmp_path / "fresh.db"), until=30, told=other)
    erased = mortals.live(str(tmp_path / "fresh.db"), until=30, told=other, erase=True)
    assert after["digest"] == (erased if point == "before wiping" else whole)["digest"]
    assert mortals.live(place, told=told, until=30, erase=True)["digest"] == erased["digest"]
