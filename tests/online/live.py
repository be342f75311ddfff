"""What the tests of the engine share: small saved models, streams as batches, the offline answer."""

import functools
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st

from tapgnn import Events, Vocabulary, load_model, save_model
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.model import Trace
from tapgnn.model.files import SCHEMA, holds_file, read_file
from tapgnn.online.explain.event_window import Window
from tapgnn.online.explain.link_explanation import explain
from tapgnn.online.explain.moment import Moment

from ..streams import tiny_model

KNOWN = (0, 1, 2)
# Laws are no matter of disks: where there is memory that looks like one, their journals lie there.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
_folders = tempfile.TemporaryDirectory(prefix="tapgnn-models-")


@functools.cache
def saved_model(kernel="adaptive", features=0, seed=0, dtype="float64"):
    """The folder of a model that knows three of the ids of `streams`, without a saved state."""
    folder = Path(_folders.name) / f"{kernel}-{features}-{seed}-{dtype}"
    # Without time encoding and features, the adaptive model takes few events at a time in compiled form.
    table = plain_table(features)
    model = tiny_model(
        kernel, Vocabulary(KNOWN), seed, edge_features=2 * features, time_width=0 if kernel == "adaptive" else 3
    )
    save_model(model.to(getattr(torch, dtype)), folder, more={SCHEMA: table.to_json()})
    return folder


def plain_table(features):
    """The fitted schema of events with so many plain features."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(50, features)) if features else None
    return FittedSchema.fit(Events.from_arrays([0] * 50, [1] * 50, np.arange(50.0), vectors))


def explain_now(model, where, window, src, dst, time, limit, held=None):
    """Why a link has its score; `held` are the events of a trace."""
    moment = Moment.of(model, where, src, dst, time)
    windows = [window] if held is None or not isinstance(where, Trace) else [window, Window.of(model, held, where)]
    return explain(model, moment, moment.history(*windows), limit)


def quick_folder():
    """A folder for a journal that is gone after the block."""
    return tempfile.TemporaryDirectory(dir=MEMORY)


def columns(events, rows=slice(None)):
    """Events as the mapping that a client sends."""
    names = np.array(events.vocabulary.ids)
    found = {"src": names[events.src[rows]], "dst": names[events.dst[rows]], "time": events.time[rows]}
    return found if events.features is None else {**found, "features": events.features[rows]}


@st.composite
def batches(draw, events, shuffled_within=0.0):
    """The stream as batches cut anywhere, inside instants too; events may come later than their time says."""
    order = np.arange(len(events))
    if shuffled_within:
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        order = np.argsort(events.time + rng.uniform(0, shuffled_within, len(events)), kind="stable")
    borders = sorted(draw(st.sets(st.integers(1, max(1, len(events) - 1)), max_size=6)) - {len(events)})
    return [columns(events, order[a:b]) for a, b in zip([0, *borders], [*borders, len(events)], strict=True)]


def offline(folder, events):
    """The model of a folder, the trace of one pass over the whole log, and the state after it."""
    model = load_model(folder)
    sent = columns(events)
    log = Events.from_arrays(sent["src"], sent["dst"], sent["time"], sent.get("features"), vocabulary=model.vocabulary)
    if holds_file(folder, SCHEMA):
        log = FittedSchema.from_json(read_file(folder, SCHEMA)).encode(log)
    with torch.no_grad():
        trace, state = model.advance(log, model.empty_state())
    return model, log, trace, state


def everyone(events):
    """All ids of a stream, those of the model, and one that nobody knows."""
    return [*sorted({*events.vocabulary.ids, *KNOWN}), 999]


def offline_embeddings(folder, events, time):
    """z [Q, d] of everyone at a time after the stream, from one pass over it."""
    model, _, _, state = offline(folder, events)
    with torch.no_grad():
        rows = model.vocabulary.rows(everyone(events))
        return model.query(state, rows, np.full(len(rows), time)).numpy()
