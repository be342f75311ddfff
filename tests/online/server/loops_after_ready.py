"""A program that serves a model, sends requests of every kind once it is ready, and prints which loops came to run.

A loop comes to run for some types when it is compiled for them, or read from the cache of compiled loops: either way
the request that is first waits for it, with a cold cache for seconds. The last line is a JSON list of requests and
loops.

    python -m tests.online.server.loops_after_ready MODEL JOURNAL ROWS    ROWS: a JSON list of events in order of time
"""

import gc
import json
import sys
from pathlib import Path

from numba.core.dispatcher import Dispatcher

from ..payments import as_arrow, as_json, as_lines
from .running import ARROW, JSON, NDJSON, running

FORMS = {JSON: as_json, NDJSON: as_lines, ARROW: as_arrow}


def all_loops():
    """Every compiled function of the process."""
    return [thing for thing in gc.get_objects() if type(thing).__mro__.count(Dispatcher)]


def ready(loops):
    """The loops that are there for some types."""
    return {f"{loop.__module__}.{loop.__name__} {types}" for loop in loops for types in loop.overloads}


def requests(http, rows):
    """Send requests of every kind; gives the name of each, and its response."""

    def ask(path, **fields):
        return path, http.post(path, json=fields)

    def events(path, size, form):
        part = [next(rows) for _ in range(size)]
        return f"{path} {size} {form}", http.post(path, content=FORMS[form](part), headers={"Content-Type": form})

    def undo(path, **fields):
        with_events = live()["newest"][0]
        return ask(path, **{name: with_events[value] for name, value in fields.items()})

    def live():
        return http.get("/v1/live").json()

    judging = ["/v1/classify"] if live()["classifier"] else []
    for size, form in ((1, JSON), (64, NDJSON), (65, ARROW), (2, ARROW), (70, JSON), (3, JSON)):
        for path in ("/v1/events", "/v1/score-then-observe", *judging):
            yield events(path, size, form)
        newest, risky = live()["newest"], next((e for e in live()["riskiest"] if e["explained"]), None)
        ends = [(event["src"], event["dst"]) for event in newest] * 5
        yield ask("/v1/score", pairs=[{"src": left, "dst": right} for left, right in ends[:size]])
        yield ask("/v1/rank", src=ends[0][0])
        yield ask("/v1/rank", src=ends[0][0], candidates=[right for _, right in ends[:size]])
        yield ask("/v1/embed", nodes=[f"new {number}" for number in range(size)])
        yield ask("/v1/node", node=ends[0][0], role="src")
        yield ask("/v1/explain", src=ends[0][0], dst=ends[0][1])
        yield ask("/v1/explain", src="never seen", dst=ends[0][1])
        if risky is not None:
            yield ask("/v1/explain", position=risky["position"], index=risky["index"])
        if judging:
            yield ask("/v1/explain", event=next(rows))
        for path in ("/v1/map", "/v1/model", "/metrics", "/openapi.json"):
            yield path, http.get(path)
    yield undo("/v1/retract", position="position", index="index")
    yield ask("/v1/erase", node="never seen")
    yield events("/v1/events", 1, JSON)
    yield ask("/v1/explain", src=ends[0][0], dst=ends[0][1])


def main(model, journal, rows):
    found = json.loads(Path(rows).read_text())
    new = []
    with running(Path(model), journal, late="merge") as server, server.http() as http:
        known = all_loops()
        before = ready(known)
        for name, response in requests(http, iter(found)):
            if response.status_code >= 500 or (response.status_code >= 400 and "keeps no sums" not in response.text):
                raise RuntimeError(f"{name}: {response.text}")
            after = ready(known)
            new += [[name, loop] for loop in sorted(after - before)]
            before = after
        new += [["a module that was imported late", loop] for loop in sorted(ready(all_loops()) - before)]
    print(json.dumps(new))


if __name__ == "__main__":
    main(*sys.argv[1:])
