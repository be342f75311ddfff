"""A seeded run that looks like a real one: fb-forum under the paper's protocol, with its trivial baselines."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.evaluation import metrics
from tapgnn.report import Report

START, STOP = 1_084_585_996.0, 1_098_777_142.0
DATA: dict[str, Any] = {
    "nodes": 899,
    "events": 33_720,
    "bipartite": False,
    "temporal_nodes": 66_912,
    "message_links": 2_906_331,
    "ratio": 86.19,
    "repetition": 0.2081,
    "density": 0.08353,
    "degree_max": 1_841,
    "degree_mean": 37.51,
    "timespan_days": 164.25,
    "timespan": STOP - START,
    "start": START,
    "end": STOP,
    "instants": 33_485,
    "ties": 466,
    "duplicates": 0,
    "self_loops": 0,
    "sorted": True,
    "feature_width": 0,
    "labels": None,
}
SETTINGS: dict[str, Any] = {
    "protocol": "paper",
    "seeds": [0, 1, 2, 3, 4],
    "model": {"kernel": "adaptive", "layers": 2, "width": 128, "sketch": {"width": 64, "rates": 3, "steps": 2}},
    "training": {"chunk": 1024, "learning_rate": 1e-3, "weight_decay": 1e-5, "epochs": 20, "patience": 5},
    "versions": {"tapgnn": "0.1.0", "torch": "2.13.0", "numpy": "2.4.6", "python": "3.11.9"},
    "data_sha256": "5f0c9b7f2a7b8c6e8b0e4f1d3a2c9e8d7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c",
}


def run(seed: int = 0, queries: int = 7_600, sample: int = 3_000, simulated: bool = False) -> Report:
    """A whole report of the given sizes."""
    rng = np.random.default_rng(seed)
    labels = np.tile([1, 0], queries // 2)
    times = np.repeat(np.sort(rng.uniform(START + 0.85 * (STOP - START), STOP, queries // 2)), 2)
    scores, baselines = _scores(rng, labels)
    rows = {"tapgnn": scores, **baselines}
    name = "payments, 200,000 events" if simulated else "fb-forum, protocol paper"
    return Report(
        title=name,
        subtitle="adaptive preset, link prediction, mean of five seeds, one uniform negative per event",
        simulated=simulated,
        created="2025-11-04 16:20 UTC",
        data=DATA,
        metrics={method: _measures(rng, labels, values, method) for method, values in rows.items()},
        history=history(rng),
        labels=labels,
        scores=scores,
        times=times,
        baseline_scores=baselines,
        embeddings=(cloud := _cloud(rng, sample))[0],
        embedding_times=cloud[1],
        classification=fraud(rng) if simulated else None,
        settings=SETTINGS,
    )


def history(rng: np.random.Generator, seeds: int = 5, epochs: int = 12) -> list[dict[str, Any]]:
    """Two validation points an epoch; each seed stops when it likes."""
    rows = []
    for seed in range(seeds):
        last = epochs - int(rng.integers(0, 5))
        for step in range(1, 2 * last + 1):
            epoch = step / 2
            loss = 0.21 + 0.4 * np.exp(-epoch / 1.7) + 0.006 * rng.standard_normal()
            quality = (
                0.969 - 0.09 * np.exp(-epoch / 1.3) - 0.0006 * max(0.0, epoch - 6) + 0.0015 * rng.standard_normal()
            )
            speed = 15_800 + 900 * rng.standard_normal()
            rows.append(
                {
                    "seed": seed,
                    "epoch": epoch,
                    "loss": loss,
                    "metric": "auc",
                    "validation": quality,
                    "events_per_s": speed,
                }
            )
    return rows


def fraud(rng: np.random.Generator, events: int = 30_000) -> dict[str, Any]:
    """Labels and scores of a rare class."""
    labels = (rng.random(events) < 0.012).astype(np.int64)
    scores = 1 / (1 + np.exp(4.0 - 3.2 * labels - 1.1 * rng.standard_normal(events)))
    areas = {"auc": metrics.auc(labels, scores), "ap": metrics.average_precision(labels, scores)}
    times = 1.7e9 + 60.0 * np.arange(events)
    alerts = {
        f"{budget:.1%} of events": {"precision": 0.9 - 30 * budget, "recall": 40 * budget} for budget in (0.001, 0.01)
    }
    methods = {"classifier": areas, "gradient-boosted trees on the row": {"auc": 0.61, "ap": 0.03}}
    return {"labels": labels, "scores": scores, "times": times, **areas, "alerts": alerts, "methods": methods}


def _scores(rng: np.random.Generator, labels: NDArray[Any]) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    noise = rng.standard_normal((4, len(labels)))
    model = 1 / (1 + np.exp(-(4.1 * (labels - 0.5) + 1.55 * noise[0] + 0.15)))
    age = np.exp(9.0 - 2.9 * labels + 1.25 * noise[1])
    known = rng.random(len(labels)) < np.where(labels == 1, 0.995, 0.9)
    recency = np.where(known, -age, -np.inf)
    destination = np.where(known, -np.exp(9.2 - 2.75 * labels + 1.35 * noise[2]), -np.inf)
    popularity = np.floor(np.exp(3.2 + 1.35 * labels + 1.2 * noise[3]))
    met = (rng.random(len(labels)) < np.where(labels == 1, 0.56, 0.03)).astype(np.float64)
    return model, {
        "recency": recency,
        "recency-destination": destination,
        "popularity": popularity,
        "edgebank": met,
    }


def _measures(rng: np.random.Generator, labels: NDArray[Any], scores: NDArray[Any], method: str) -> dict[str, float]:
    own = method == "tapgnn"
    row = {
        "auc_mean": metrics.auc(labels, scores) + 0.0007 * rng.standard_normal(),
        "auc_std": abs(0.0012 + 0.0004 * rng.standard_normal()),
        "ap_mean": metrics.average_precision(labels, scores),
        "ap_std": 0.0016,
    }
    if own:
        row |= {"accuracy_mean": metrics.accuracy(labels, scores), "accuracy_std": 0.0021}
    ranks = 1 + rng.geometric(0.42 if own else 0.2, 2000)
    return row | {"mrr_mean": float((1 / ranks).mean()), "mrr_std": 0.0031}


def _cloud(rng: np.random.Generator, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Nodes of a few communities that drift, each at its own pace, in 64 dimensions."""
    times = np.sort(START + (STOP - START) * rng.beta(1.2, 2.0, size))
    community = rng.integers(0, 5, size)
    home, drift = 2.2 * rng.standard_normal((5, 64)), 1.8 * rng.standard_normal((5, 64))
    pace = ((times - START) / (STOP - START))[:, None]
    rows = home[community] + drift[community] * pace + 0.9 * rng.standard_normal((size, 64))
    return rows.astype(np.float32), times


def awkward() -> Report:
    """A run that went badly: markup in every name, a lost comparison, NaN scores, times from 0, many rivals."""
    rng = np.random.default_rng(1)
    good = run(queries=400, sample=300)
    scores, baselines = _scores(rng, good.labels)
    worse = {
        f"baseline number {number} with a long name & <b>markup</b>": values
        for number, values in enumerate([*baselines.values()] * 2 + [np.full(400, np.nan), np.zeros(3)])
    }
    return replace(
        good,
        title="<script>alert('title')</script> & \"quotes\" averylongwordwithoutanybreak" + "x" * 60,
        subtitle="<img src=x onerror=alert(1)>",
        simulated=True,
        created="<i>now</i>",
        data={
            "nodes": 12,
            "<u>odd</u>": "<u>value</u>",
            "end": 5.0,
            "start": 0.0,
            "note": "word " * 30,
            "list": [1, 2.5],
        },
        metrics={
            "tapgnn": {"auc_mean": 0.871, "auc_std": 0.004, "ap": 0.85, "<s>": 12345.678},
            "recency": {"auc_mean": 0.912, "auc_std": 0.002},
            **{name: {"auc_mean": 0.4 + 0.05 * place} for place, name in enumerate(worse)},
        },
        scores=scores * 3,
        times=np.linspace(0.0, 2_678_373.0, 400),
        baseline_scores=worse,
        embedding_times=np.linspace(0.0, 30.0, 300),
        classification={"labels": np.zeros(5), "scores": np.ones(5), "auc": 0.5, "<em>": 1.0},
        settings={"<b>key</b>": {"</script>": "</details><script>alert(2)</script>"}, "none": None, "long": "y" * 300},
    )
