"""The starting point of a live state: a saved model, the state saved with it or an empty one, and their hashes."""

from __future__ import annotations

import copy
import hashlib
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tapgnn.data.encoders import TableEncoder
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.data.schema import Schema
from tapgnn.errors import ConfigError, ModelFileError
from tapgnn.estimator import FILE, TAPGNN
from tapgnn.events import Ints
from tapgnn.model import EventClassifier, Model, State, load_model, model_hash, save_model
from tapgnn.model.features.node_statistics import COUNT, both_roles
from tapgnn.model.files import SCHEMA, STATE, holds_file, load_state, read_file, refusing
from tapgnn.online.journal.state_rows import hash_rows
from tapgnn.unfold import SOURCE
from tapgnn.vocabulary import Id, Vocabulary

STARTS = ("saved", "empty", "after")


@dataclass
class StartingPoint:
    """A model in evaluation mode, and the state to which the first record of a journal is applied.

    start       'saved': from the state saved with the model; 'empty': from an empty one; 'after': from the saved
                state, which already holds the journal's events up to its clock
    digest      the model's hash, as `save_model` gave it
    base, clock the hash and the clock of the state
    table       what the columns of an event mean, and how the model takes them
    candidates  rows that a bipartite log had as destinations, None where any node is one
    """

    model: Model
    start: str
    digest: str
    base: str
    clock: float
    candidates: Ints | None
    classifier: EventClassifier | None
    table: FittedSchema
    source: Path | State
    _ready: State | None

    @classmethod
    def of(cls, source: str | Path | TAPGNN | StartingPoint, start: str = "saved") -> StartingPoint:
        """From the folder of a saved model, or from a fitted one in memory; one that is ready stays as it is."""
        if isinstance(source, StartingPoint):
            return source
        if start not in STARTS:
            raise ConfigError(f"start is one of {', '.join(STARTS)}, not {start!r}")
        pool: Ints | None = None
        classifier: EventClassifier | None = None
        if isinstance(source, TAPGNN) or holds_file(source, FILE):
            fitted = source if isinstance(source, TAPGNN) else TAPGNN.load(source)
            model, state, classifier = fitted.model_, fitted.state_, fitted.classifier_
            pool = _items(state, fitted.candidates_)
            table = fitted.table_
        else:
            model = load_model(source)
            table = _saved_table(model, Path(source))
            state = _saved_state(model, Path(source))
        if start == "empty":
            state = model.empty_state()
        base = _hash_state(state)
        if isinstance(source, TAPGNN):
            own, classifier = copy.deepcopy(model).eval(), copy.deepcopy(classifier)
            digest = _hash_in_memory(source)
            return cls(own, start, digest, base, state.clock, pool, classifier, table, state.copy(), None)
        return cls(model, start, model_hash(source), base, state.clock, pool, classifier, table, Path(source), state)

    def emptied(self) -> StartingPoint:
        """The same weights under a model that knows no node, and an empty state."""
        model = copy.copy(self.model)
        model.vocabulary = Vocabulary()
        state = model.empty_state()
        own = replace(self, model=model, start="empty", source=state, base=_hash_state(state), clock=state.clock)
        own.candidates = own._ready = None
        return own

    def load(self) -> State:
        """The state before the journal's first record, as a copy; a saved one is read again rather than kept."""
        state, self._ready = self._ready, None
        if state is not None:
            return state
        if isinstance(self.source, State):
            return self.source.copy()
        state = self.model.empty_state() if self.start == "empty" else _saved_state(self.model, self.source)
        if _hash_state(state) != self.base:
            raise ModelFileError(f"{self.source}: the saved state changed while it was in use; restore it")
        return state

    def has_history(self, node: Id) -> bool:
        """Whether the state holds events of a node."""
        row = int(self.model.vocabulary.rows([node])[0])
        if row < 0 or self.clock == -np.inf:
            return False
        state = self.load()
        return row < state.size and bool(both_roles(state.statistics[row + 1], COUNT).sum() > 0)

    def identity(self) -> dict[str, str]:
        """What a journal remembers of it."""
        return {"model": self.digest, "base": self.base, "start": self.start}


def _saved_table(model: Model, folder: Path) -> FittedSchema:
    """The schema of a folder, one without columns where it has none."""
    table = FittedSchema(Schema(), TableEncoder({}, {}))
    with refusing(folder / SCHEMA):
        if holds_file(folder, SCHEMA):
            table = FittedSchema.from_json(read_file(folder, SCHEMA))
        if table.encoder.widths != (model.config.edge_features, model.config.edge_categories):
            raise ConfigError("the encoders do not fit the model")
    return table


def _saved_state(model: Model, folder: Path) -> State:
    return load_state(folder, model) if holds_file(folder, STATE) else model.empty_state()


def _hash_state(state: State) -> str:
    digest = hashlib.sha256(f"{state.clock!r} {state.events} {state.size}".encode())
    digest.update(hash_rows(state, np.arange(state.size)))
    return digest.hexdigest()


def _items(state: State, candidates: Ints) -> Ints | None:
    """The candidates of a bipartite log: those where none was ever a source."""
    sent = state.statistics[1 : state.size + 1, COUNT + SOURCE].numpy(force=True)
    return None if (sent[candidates[candidates < state.size]] > 0).any() else candidates


def _hash_in_memory(fitted: TAPGNN) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return save_model(fitted.model_, folder, more={SCHEMA: fitted.table_.to_json()})
