"""Comparison: TAP-GNN and every baseline through one harness, which knows nothing of a method but `Method`.

Each method, TAP-GNN included, gets for each seed the same `Task` in the same order:

    fit(train, valid)        timed: `train_seconds`, and `train_cpu_seconds`, which other processes do not lengthen
    replay(valid, ...)       the validation events against one random negative each; they only set the threshold below
    replay(test, ...)        timed: `query_ms`, the time per question with the observation of the stream in it
    both again               not timed: for its `alternatives`, where a method has several scores of one fit to report

and is marked by the same examiner (`Exam`): AUC, AP, MRR over a fixed number of negatives, what the protocol adds, and
accuracy. Not every score is a probability, so accuracy is taken at the threshold that parts the validation questions
best, for all methods alike. A question at t sees the events strictly before t, for all methods alike.

Who looks at validation how often: TAP-GNN and the learners (JODIE, TGN, DyRep, TGAT, TDGNN, GraphSAGE*) twice an epoch,
each time from a state that the weights of the moment made of the training events (JODIE, TGN and DyRep at the end of an
epoch also from the one that training left), and stop after three epochs without a better AUC. The embedding methods
train for a fixed number of epochs and choose settings: Node2Vec p and q, HTNE the length of the history, TNODE the
number of snapshots (and the best of every tenth step), GraphSAGE its score, CTDNE nothing. The trivial methods never
look; windowed EdgeBank looks back as far as the test is long.

Every fit runs in a process of its own (`baselines.process`) with the same number of threads in all its pools (a first
run also compiles loops, and counts it as training). `memory_mb` is the peak resident size of that process less its peak
just before the fit, when library and data are loaded: ru_maxrss at both moments. A run that fails, or whose process
dies, is a run with `error`, and the others go on: a row is averaged over the seeds that ended and says how many
`failed`. Ctrl-C keeps the runs that ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from tapgnn.baselines import METHODS, EdgeBank, Method
from tapgnn.baselines.method import Clock
from tapgnn.baselines.shared.subprocess_run import peak_mb, run_apart
from tapgnn.baselines.shared.summary import summary
from tapgnn.data.negatives import sample_negatives
from tapgnn.data.splits import Split, split_paper, split_strict
from tapgnn.errors import ConfigError, QueryError
from tapgnn.estimator import TAPGNN
from tapgnn.evaluation.harness import events_fingerprint, versions
from tapgnn.evaluation.metrics import accuracy
from tapgnn.evaluation.questions import NAME, PROTOCOLS, RANKED_AGAINST, Exam, Protocol
from tapgnn.events import Events, Floats, Ints
from tapgnn.training.stream_scoring import score_along


class TAPGNNMethod(Method):
    """TAP-GNN itself with its defaults, behind the protocol of the baselines."""

    name = NAME
    sees_history = True

    def __init__(self, seed: int = 0, **params: Any) -> None:
        self.estimator = TAPGNN(seed=seed, **params)
        self._clock = Clock()

    def fit(self, train: Events, valid: Events) -> None:
        """Train with the defaults of the library, and observe the training events."""
        self.estimator.fit(train, valid)
        self._clock = Clock()
        self._clock.advance(train)

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] logits from the live state."""
        self._clock.check(time)
        model = self.estimator.model_
        with torch.no_grad():
            logits = model.score(self.estimator.state_, self._rows(src), self._rows(dst), time)
        return np.asarray(logits.double().numpy(force=True))

    def observe(self, events: Events) -> None:
        """Advance the live state."""
        self._clock.advance(events)
        self.estimator.observe(events)

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] as the reference, in one pass of `advance`."""
        self._clock.check(time)
        model, state = self.estimator.model_, self.estimator.state_
        scores, self.estimator.state_ = score_along(model, state, events, self._rows(src), self._rows(dst), time)
        self._clock.advance(events)
        return scores

    def _rows(self, rows: Ints) -> Ints:
        """-1 where the vocabulary has no such row."""
        return np.where(rows < len(self.estimator.model_.vocabulary), rows, -1)


WINDOWED = "edgebank-window"
NAMES = (NAME, *METHODS, WINDOWED)
Maker = Callable[[str, int], Method]


def make_method(name: str, seed: int, window: float = 1.0) -> Method:
    """A new method of the table, TAP-GNN included; `window` is that of windowed EdgeBank."""
    if name == WINDOWED:
        return EdgeBank(window)
    return TAPGNNMethod(seed) if name == NAME else METHODS[name](seed=seed)


class RankedExam(Exam):
    """The exam of the protocol, with the negatives for MRR under the paper's protocol too."""

    def __init__(self, split: Split, protocol: Protocol, seed: int) -> None:
        super().__init__(split, protocol, seed)
        if "ranked" not in self.blocks:
            test, start = split.test, len(self.src)
            drawn = sample_negatives(test, split.train, count=RANKED_AGAINST, seed=seed, purpose="ranking").dst
            self.src = np.concatenate([self.src, np.repeat(test.src, RANKED_AGAINST)])
            self.dst = np.concatenate([self.dst, drawn.ravel()])
            self.time = np.concatenate([self.time, np.repeat(test.time, RANKED_AGAINST)])
            self.blocks["ranked"] = (slice(start, start + drawn.size), RANKED_AGAINST)


class Task:
    """What every method is given for one seed: the parts of the log, the questions, and how they are marked."""

    def __init__(self, split: Split, protocol: Protocol, seed: int) -> None:
        self.split, self.protocol, self.seed = split, protocol, seed
        self.exam = RankedExam(split, protocol, seed)
        valid = split.valid
        negative = sample_negatives(valid, split.train, seed=seed, purpose="threshold").dst[:, 0]
        self.valid_src, self.valid_time = np.tile(valid.src, 2), np.tile(valid.time, 2)
        self.valid_dst = np.concatenate([valid.dst, negative])

    def measure(self, method: Method) -> dict[str, Any]:
        """Fit, ask and mark one method; `details` and `alternatives` hold what it tells beside its score."""
        start, busy = time.perf_counter(), time.process_time()
        method.fit(self.split.train, self.split.valid)
        costs = {"train_seconds": time.perf_counter() - start, "train_cpu_seconds": time.process_time() - busy}
        others = method.alternatives()
        found: dict[str, Any] = {**self.ask(method), **costs}
        if details := method.details():
            found["details"] = details
        if others:
            found["alternatives"] = {name: self.ask(other) for name, other in others.items()}
        return found

    def ask(self, method: Method) -> dict[str, float]:
        """Ask and mark one method that was fitted."""
        split, exam = self.split, self.exam
        chosen_on = _checked(method, method.replay(split.valid, self.valid_src, self.valid_dst, self.valid_time))
        start = time.perf_counter()
        scores = method.replay(split.test, exam.src, exam.dst, exam.time)
        asked = time.perf_counter() - start
        marks = exam.mark(_checked(method, scores), probabilities=False)
        if self.protocol == "paper":
            # Nothing is inductive there, so this is the AUC again.
            marks.pop("transductive_auc", None)
        threshold = best_threshold(np.repeat([1, 0], len(split.valid)), chosen_on)
        marks["accuracy"] = accuracy(exam.labels, scores[exam.first], threshold)
        return {**marks, "query_ms": 1e3 * asked / len(scores)}


def _checked(method: Method, scores: Floats) -> Floats:
    if np.isnan(scores).any():
        raise QueryError(f"{method.name} gave {int(np.isnan(scores).sum())} scores that are no numbers; its fit failed")
    return scores


def best_threshold(labels: Ints, scores: Floats) -> float:
    """The score from which on to say yes, so that most labels [Q] are met; halfway to the score below it.

    >>> best_threshold(np.array([1, 0, 1, 0]), np.array([0.9, 0.1, 0.7, 0.3]))
    0.5
    """
    order = np.argsort(-scores, kind="stable")
    ranked, hit = scores[order], labels[order] == 1
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    right = np.cumsum(hit)[ends] + (~hit).sum() - np.cumsum(~hit)[ends]
    last = int(ends[np.argmax(right)])
    below = ranked[last + 1] if last + 1 < len(ranked) else ranked[last]
    return float(0.5 * (ranked[last] + below)) if np.isfinite(below) and np.isfinite(ranked[last]) else ranked[last]


@dataclass(frozen=True)
class Step:
    """What the harness says on the way: a method begins with a seed (`run` is None), or has ended it."""

    method: str
    seed: int
    place: int
    total: int
    run: Mapping[str, Any] | None = None


Listener = Callable[[Step], None]


def chosen_methods(names: Sequence[str], known: Sequence[str] = NAMES) -> list[str]:
    """The names in order and once each; 'all' is every method, and an unknown name an error that lists them."""
    chosen = list(dict.fromkeys(known if "all" in names else names))
    unknown = [name for name in chosen if name not in known]
    if unknown or not chosen:
        what = f"no method is called {unknown[0]!r}" if unknown else "no method was named"
        raise ConfigError(f"{what}; the methods are {', '.join(known)}, or all")
    return chosen


def compare(
    events: Events,
    methods: Sequence[str] = ("all",),
    protocol: Protocol = "strict",
    seeds: int = 5,
    threads: int = 1,
    listener: Listener | None = None,
    make: Maker | None = None,
    known: Sequence[str] = NAMES,
) -> dict[str, Any]:
    """Every method under one protocol: `methods` by name with their marks and costs, and what they were made with.

    Processes are started afresh, so a script that calls this must keep its own work under `if __name__ == "__main__"`.
    `make` builds a method from its name and a seed, and must be importable. Ctrl-C stops: the results are those of the
    runs that had ended, and say so (`interrupted`); before the first there is nothing to keep, and the
    KeyboardInterrupt goes on.
    """
    names = chosen_methods(methods, known)
    if protocol not in PROTOCOLS:
        raise ConfigError(f"protocol {protocol!r} is not one of {', '.join(PROTOCOLS)}")
    if seeds < 1 or threads < 1:
        raise ConfigError(f"at least one seed and one thread are needed, not {seeds} and {threads}")
    split = split_paper(events) if protocol == "paper" else split_strict(events)
    runs: dict[str, list[dict[str, Any]]] = {}
    interrupted = False
    try:
        for name, run in _runs(split, names, protocol, seeds, threads, listener, make):
            runs.setdefault(name, []).append(run)
    except KeyboardInterrupt:
        if not runs:
            raise
        interrupted = True
    return {
        "methods": {name: summary(found) for name, found in runs.items()},
        "protocol": protocol,
        "seeds": sorted({run["seed"] for found in runs.values() for run in found}),
        "interrupted": interrupted,
        "versions": {**versions(), "threads": str(threads)},
        "data": _description(events, split),
    }


def _runs(
    split: Split,
    names: Sequence[str],
    protocol: Protocol,
    seeds: int,
    threads: int,
    listener: Listener | None,
    make: Maker | None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every run as it ends, seed by seed."""
    tell = listener or (lambda step: None)
    window = float(split.test.time[-1] - split.test.time[0]) or 1.0
    build = make or partial(make_method, window=window)
    for seed in range(seeds):
        task = Task(split, protocol, seed)
        for place, name in enumerate(names, seed * len(names) + 1):
            tell(Step(name, seed, place, seeds * len(names)))
            run = {"seed": seed, **run_apart(measured, build, name, task, threads=threads, preload=__name__)}
            yield name, run
            tell(Step(name, seed, place, seeds * len(names), run))


def measured(make: Maker, name: str, task: Task) -> dict[str, Any]:
    """What the child does: build the method, measure it, and say what memory it took."""
    method = make(name, task.seed)
    before = peak_mb()
    found = task.measure(method)
    return {**found, "memory_mb": peak_mb() - before, "sees_history": method.sees_history}


def _description(events: Events, split: Split) -> dict[str, Any]:
    return {
        "sha256": events_fingerprint(events),
        "events": len(events),
        "nodes": len(events.vocabulary),
        "train_events": len(split.train),
        "valid_events": len(split.valid),
        "test_events": len(split.test),
    }
