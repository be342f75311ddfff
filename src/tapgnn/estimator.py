"""TAPGNN: training, queries and evaluation behind one object, in the spirit of scikit-learn.

    model = TAPGNN().fit(events)                learn; the model then knows all of these events
    model.observe(later)                        the stream moves on
    model.score(src, dst, times)                the score of each link
    model.rank(src, time, k)                    the likeliest destinations
    model.embed(nodes, times)                   z(v,t), at any time
    model.transform(table)                      the representations of both ends just before each event
    model.evaluate(later)                       its metrics on later events, beside those of the trivial methods
    model.fit_classifier(events)                learn the label; model.classify(later), model.predict_proba(later)
    model.save(folder); TAPGNN.load(folder)

Events are `Events` or a table (a pandas or polars frame, a pyarrow table, a TemporalData, a list of dicts), whose
columns the schema explains: found, or given to `fit`. Answers about a table are in the order of its rows, one for each,
and a pandas or polars table is answered in kind: with its index, a column for every answer.

The score of a link is the chance, as the model sees it, that the event has this destination rather than one drawn at
random: 0.9 says 'nine times as likely as a random destination', not 'this will happen with a probability of 90 %'.

Ids are the user's own; a bare string or integer is one id. Where sources and destinations are of two kinds
(`Schema.bipartite`), a source is looked up among the sources and a destination among the destinations. A node never
seen before is a normal case. Times are numbers in the unit of the log, or datetimes where the log has them; without
times, a query is about now, just after the last event. The parameters follow scikit-learn's protocol (`get_params`,
`set_params`, tags), so that `clone`, a pipeline and a grid search work, but scikit-learn is not imported for it: it
would take longer to load than most queries take to answer. `score` is a query here, not scikit-learn's default
scorer: a search needs a `scoring` of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tapgnn import html_display
from tapgnn.data.arguments import (
    check_events,
    check_seed,
    plain,
    plain_values,
)
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.data.frame_answers import answer_like, in_row_order, is_column
from tapgnn.data.frames import frame_events, frame_schema
from tapgnn.data.growing_log import GrowingLog
from tapgnn.data.negatives import candidates
from tapgnn.data.node_table import NodeEncoder, NodeTable, read_node_table
from tapgnn.data.schema import Schema
from tapgnn.data.splits import split_strict
from tapgnn.errors import ConfigError, EventError, ModelFileError, QueryError, StateError, advise
from tapgnn.events import Events, Floats, Ints, checked_labels
from tapgnn.fitted_queries import FittedQueries
from tapgnn.model import Config, EventClassifier, Model, State, load_model, save_model
from tapgnn.model.files import (
    SCHEMA,
    load_state,
    pack_tensors,
    read_file,
    refusing,
    restore_classifier,
    unpack_tensors,
)
from tapgnn.training.checkpoint import load_checkpoint, save_checkpoint
from tapgnn.training.classification import Classification, ClassifierProtocol, score_events, train_classifier
from tapgnn.training.link_prediction import History, LinkTraining, Listener, Settings, TrainingParameters
from tapgnn.training.stream_scoring import represent_along
from tapgnn.vocabulary import Vocabulary

# What a saved estimator has beside the model and its state.
FILE = "estimator.safetensors"


@dataclass(eq=False)
class TAPGNN(TrainingParameters, FittedQueries):
    """Temporal Aggregation and Propagation Graph Neural Network.

    preset, and the options of it that are not None, give the model; the others how it is trained; epochs and
    vector_rate are those of the preset where they are None. See `Config`, `TrainingParameters` and `Settings`.

    >>> rng = np.random.default_rng(0)
    >>> log = Events.from_arrays(rng.integers(0, 30, 600), rng.integers(30, 60, 600), np.arange(600.0))
    >>> model = TAPGNN(width=16, epochs=1).fit(log)
    >>> model.score([3, 4], [40, 41], [600.0, 600.0]).shape
    (2,)
    """

    preset: str = "adaptive"
    kernel: str | None = None
    layers: int | None = None
    width: int | None = None
    dropout: float | None = None
    options: dict[str, Any] | None = None
    epochs: int | None = None
    vector_rate: float | None = None

    # What the columns of predict_proba stand for: the negative and the positive label.
    classes_ = np.array([0, 1])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; `deep` is there for scikit-learn and changes nothing."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> TAPGNN:
        """Change parameters by name; an unknown one is an error."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ConfigError(f"TAPGNN has no parameter {name!r}; its parameters are {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator: neither a classifier nor a regressor, and no target is needed."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "state_")

    def __repr__(self) -> str:
        usual = {name: parameter.default for name, parameter in inspect.signature(type(self)).parameters.items()}
        chosen = [f"{name}={value!r}" for name, value in self.get_params().items() if value != usual[name]]
        return f"TAPGNN({', '.join(chosen)})"

    def _repr_html_(self) -> str:
        """The settings that were chosen, and what is known, for a notebook."""
        rows: list[tuple[str, Any]] = [("model", repr(self))]
        if hasattr(self, "state_"):
            rows += [("has observed", f"{self.state_.events:,} events up to {self.state_.clock:.10g}")]
            rows += [("knows", f"{len(self.model_.vocabulary):,} nodes")]
            rows += [("classifier", "none" if self.classifier_ is None else type(self.classifier_).__name__)]
        return html_display.table("TAPGNN" if len(rows) > 1 else "TAPGNN, not fitted", ["", ""], rows)

    def config(self) -> Config:
        """The model's configuration before it is fitted to a log."""
        named = {"kernel": self.kernel, "layers": self.layers, "width": self.width, "dropout": self.dropout}
        if not isinstance(self.options, Mapping | None):
            raise ConfigError(f"options must be a dictionary, such as {{'rates': 1}}, not {self.options!r}")
        chosen = {name: value for name, value in named.items() if value is not None} | dict(self.options or {})
        return Config.preset(self.preset, **plain_values(chosen, Config))

    def settings(self) -> Settings:
        """How the model is trained."""
        check_seed(self.seed)
        given = {field.name: getattr(self, field.name) for field in fields(Settings)}
        by_preset = Settings.__annotations__
        chosen = {name: value for name, value in given.items() if value is not None or name not in by_preset}
        return Settings.preset(self.preset, **plain_values(chosen, Settings))

    def resolved(self) -> dict[str, Any]:
        """Every setting with its value, plain: those of the model before it is fitted to a log, and of the training."""
        return {"preset": self.preset, "model": self.config().to_dict(), "training": asdict(self.settings())}

    def fit(
        self,
        events: Any,
        valid: Any = None,
        *,
        schema: Schema | None = None,
        nodes: Any = None,
        node_id: str | None = None,
        listener: Listener | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
    ) -> TAPGNN:
        """Learn future links from a log; without `valid`, its last 15 % choose the weights.

        Events, or a table that the schema explains (found where none is given). With a checkpoint folder every epoch is
        written there, and `resume` goes on from it. Afterwards the model has observed `events` (and not `valid`, where
        it was given). A column of labels in place of `valid`, as scikit-learn passes them, trains the classifier also.

        nodes     a table of what is known of nodes, one row each
        node_id   its column of their ids; by default the one that is named as the sources or destinations
        """
        labels, order = None, None
        if valid is not None and not isinstance(valid, Events) and is_column(valid):
            labels, valid = np.asarray(valid), None
        if not isinstance(events, Events):
            schema = frame_schema(events)[0] if schema is None else schema
            events, order = frame_events(events, schema=schema)
        if valid is not None and not isinstance(valid, Events):
            valid, _ = frame_events(valid, schema=schema, vocabulary=events.vocabulary)
        if labels is not None:
            marks = checked_labels(labels, len(events))
            events = replace(events, labels=marks if order is None else marks[order])
        check_events(events)
        if valid is not None:
            check_events(valid, events.vocabulary)
        train, chosen_on = events, valid
        if chosen_on is None:
            chosen_on = split_strict(events).test
            train = events.slice(0, len(events) - len(chosen_on))
        settings = self.settings()
        table, known = FittedSchema.fit(train, schema), None
        if nodes is not None:
            known = nodes if isinstance(nodes, NodeTable) else read_node_table(nodes, table.schema, node_id)
            rows = events.vocabulary.add(known.internal_ids(table.schema))
            trained_on = np.isin(rows, np.concatenate([train.src, train.dst]))
            table = replace(table, nodes=NodeEncoder.fit(known, trained_on))
        train, chosen_on = table.encode(train), table.encode(chosen_on)
        config = self.config().fitted_to(train, table.categories)
        if table.nodes is not None:
            config = replace(config, node_features=table.nodes.width)
        torch.manual_seed(settings.seed)
        model = Model(config, events.vocabulary)
        if table.nodes is not None and known is not None:
            model.inputs.features[:] = torch.from_numpy(table.nodes.missing())
            _describe(model, table.nodes, table.schema, known)
        training = LinkTraining(model, train, chosen_on, settings)
        if checkpoint is not None and resume:
            described = model.inputs.features.clone()
            load_checkpoint(training, checkpoint)
            if not torch.equal(described, model.inputs.features):
                raise ConfigError(f"{checkpoint} belongs to a training with another node table; start without --resume")
        after = None if checkpoint is None else partial(save_checkpoint, folder=checkpoint)
        # A fit that fails leaves the estimator as it was.
        self.history_: History = training.run(listener, after)
        self.model_ = model
        self.table_ = table
        self.classifier_: EventClassifier | None = None
        self.log_: GrowingLog | None = GrowingLog()
        self.state_: State = model.empty_state()
        self.candidates_ = candidates(train)
        self.observe(events)
        if labels is not None:
            self.fit_classifier(events)
        return self

    @property
    def vocabulary(self) -> Vocabulary:
        """The ids that the model knows: later events are read or built with it."""
        self._check_fitted()
        return self.model_.vocabulary

    @property
    def schema(self) -> Schema:
        """What the columns of the table mean."""
        self._check_fitted()
        return self.table_.schema

    def read(self, table: Any) -> tuple[Events, Ints]:
        """The events of a table, as the log that the model was fitted on was read, and the row of each."""
        return self.table_.read(table, self.vocabulary)

    def _encoded(self, events: Any) -> Events:
        """Events, or a table of them, as the model takes them."""
        vocabulary = self.vocabulary
        if not isinstance(events, Events):
            events, _ = self.read(events)
        check_events(events, vocabulary)
        return self.table_.encode(events)

    def observe(self, events: Any) -> TAPGNN:
        """Absorb events that are later than all before."""
        encoded = self._encoded(events)
        with torch.no_grad():
            for piece in encoded.chunks(4_096):
                _, self.state_ = self.model_.advance(piece, self.state_)
        if self.log_ is not None:
            self.log_.append(encoded)
        return self

    def describe(self, nodes: Any) -> TAPGNN:
        """Take in a later node table: nodes that are new, or whose description has changed; others stay as they are."""
        self._check_fitted()
        encoder = self.table_.nodes
        if encoder is None:
            raise advise(
                QueryError,
                "the model was fitted without a node table",
                "fit it again with nodes=...",
                "fit it again with --node-table",
            )
        later = read_node_table(nodes, self.schema, encoder.id, encoder.kinds)
        _describe(self.model_, encoder, self.schema, later)
        return self

    def remember(self, events: Any) -> TAPGNN:
        """Give a loaded model the log of the events it has observed, so that it can answer queries about the past."""
        events = self._encoded(events)
        end = float(events.time[-1]) if len(events) else -np.inf
        if end != self.state_.clock or len(events) != self.state_.events:
            raise advise(
                EventError,
                f"the model has observed {self.state_.events:,} events up to {self.state_.clock}, this log has "
                f"{len(events):,} up to {end}",
                "pass the whole log that it has observed, and `observe` what came later",
                "pass the whole log that it has observed as --log, and what came later as --observe",
            )
        self.log_ = GrowingLog()
        self.log_.append(events)
        return self

    @property
    def now(self) -> float:
        """The time of a question without one: just after the last event."""
        self._check_fitted()
        return self.state_.clock + self.model_.config.unit

    @torch.no_grad()
    def embed_rows(self, node: Ints, when: Floats) -> NDArray[np.float32]:
        """z [Q, d] of rows of the vocabulary at times in the unit of the log."""
        if not len(node) or when.min() > self.state_.clock:
            return self.model_.query(self.state_, node, when).float().numpy(force=True)
        if self.log_ is None:
            raise advise(
                QueryError,
                f"the model has observed events up to {self.state_.clock} and has no log",
                "query later times, or call remember(log) with the log that it was fitted on",
                "query later times, or pass --log with the log that it was fitted on",
            )
        return represent_along(self.model_, self.model_.empty_state(), self.log_.events(), node, when)[0]

    @torch.no_grad()
    def score_rows(self, src: Ints, dst: Ints, when: Floats) -> Floats:
        """Logits [Q] of links of rows of the vocabulary; one source, at one time, may stand for all."""
        logits = self.model_.score(self.state_, np.broadcast_to(src, dst.shape), dst, when)
        return logits.double().numpy(force=True)

    def evaluate(self, events: Any, seed: int = 0) -> dict[str, dict[str, float]]:
        """Every metric of the strict protocol on events later than all observed, by method, this model first.

        The events are not absorbed. To train and test along one log, and over several seeds, see
        `tapgnn.evaluation`.
        """
        from tapgnn.evaluation.questions import measure_trained

        events = self._encoded(events)
        if not len(events):
            raise EventError("there are no events to evaluate on; pass at least one that is later than all observed")
        check_seed(seed)
        if self.log_ is None:
            raise QueryError(
                "the log, from which negatives are drawn, was not saved with the model; "
                "call remember(log) with the log that it was fitted on"
            )
        found = measure_trained(self.model_, self.state_, self.log_.events(), events, "strict", seed)
        return {name: results.metrics for name, results in found.items()}

    def fit_classifier(self, events: Any, protocol: ClassifierProtocol = "facts") -> Classification:
        """Learn the labels of a log on top of the frozen model; `classify` then answers.

        See `tapgnn.training.classification` for the protocols.
        """
        encoded = self._encoded(events)
        found = train_classifier(self.model_, encoded, self.seed, protocol)
        self.classifier_ = found.classifier
        return found

    @torch.no_grad()
    def classify(self, events: Any) -> Any:
        """The probability [E] of the positive label for each of these events, each seen just before it happens.

        The events must be later than what was observed; they are not absorbed. For a table the answer is in the order
        of its rows; without a column of times, every event is taken to happen now.
        """
        log, order = self._located(events)
        if self.classifier_ is None:
            raise QueryError("the model has no classifier; call fit_classifier with a labelled log first")
        scores = score_events(self.classifier_, self.model_, self.state_.copy(), self._encoded(log))
        return answer_like(events, in_row_order(scores, order), ["risk"])

    def predict_proba(self, events: Any) -> NDArray[np.float64]:
        """[E, 2] the probabilities of the negative and positive label, as scikit-learn wants them; see `classify`."""
        risk = np.asarray(self.classify(events))
        return np.column_stack([1 - risk, risk])

    @torch.no_grad()
    def transform(self, events: Any) -> Any:
        """[E, 2 d] z of the source and of the destination just before each event, in the order of the rows.

        Events that the model has not observed are seen one after the other, as in `classify`, and are not absorbed;
        for those that it has, its log is replayed.
        """
        log, order = self._located(events)
        later = log.time > self.state_.clock
        node, when, fresh = np.concatenate([log.src, log.dst]), np.tile(log.time, 2), np.tile(later, 2)
        z = np.empty((len(node), self.model_.config.width), dtype=np.float32)
        if later.any():
            ahead = self._encoded(log.take(later))
            z[fresh] = represent_along(self.model_, self.state_.copy(), ahead, node[fresh], when[fresh])[0]
        if not later.all():
            z[~fresh] = self.embed_rows(node[~fresh], when[~fresh])
        both = np.concatenate([z[: len(log)], z[len(log) :]], axis=1)
        return answer_like(events, in_row_order(both, order), self.get_feature_names_out().tolist())

    def fit_transform(self, events: Any, y: Any = None, **options: Any) -> Any:
        """`fit`, then `transform` the same events; a pipeline passes labels, of which representations know nothing."""
        return self.fit(events, **options).transform(events)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns of `transform`; the argument is there for scikit-learn and changes nothing."""
        ends, places = (self.schema.src, self.schema.dst), range(self.model_.config.width)
        return np.array([f"{end}_z{place}" for end in ends for place in places], dtype=object)

    def _located(self, events: Any) -> tuple[Events, Ints | None]:
        """Events, and the row of each in the table that they came from, if they came from one."""
        self._check_fitted()
        if not isinstance(events, Events):
            return self.table_.read(events, self.vocabulary, self.now)
        check_events(events, self.vocabulary)
        return events, None

    def save(self, folder: str | Path) -> str:
        """Write model, state and classifier into a folder; returns the model's hash."""
        self._check_fitted()
        if Path(folder).exists() and not Path(folder).is_dir():
            raise ModelFileError(f"{folder} is a file; pass the name of a folder to save the model in")
        tensors = {"candidates": torch.from_numpy(self.candidates_)}
        if self.classifier_ is not None:
            tensors |= {f"classifier.{name}": tensor for name, tensor in self.classifier_.state_dict().items()}
        more = {FILE: pack_tensors(tensors, {"params": plain(self.get_params())}), SCHEMA: self.table_.to_json()}
        return save_model(self.model_, folder, self.state_, more)

    @classmethod
    def load(cls, folder: str | Path) -> TAPGNN:
        """Read what `save` wrote."""
        path, model = Path(folder) / FILE, load_model(folder)
        state = load_state(folder, model)
        with refusing(Path(folder) / SCHEMA):
            table = FittedSchema.from_json(read_file(folder, SCHEMA))
            numbers, sizes = table.encoder.widths
            described = 0 if table.nodes is None else table.nodes.width
            expected = (model.config.edge_features, model.config.edge_categories, model.config.node_features)
            if (numbers, sizes, described) != expected:
                raise ConfigError("the encoders do not fit the model")
        tensors, about = unpack_tensors(path, read_file(folder, FILE))
        with refusing(path):
            found = cls(**about["params"])
            # Parameters of the wrong kind are refused here rather than by the next fit.
            found.config(), found.settings()
            found.candidates_, nodes = tensors.pop("candidates").numpy(), len(model.vocabulary)
            kind, shape = found.candidates_.dtype, found.candidates_.shape
            if kind != np.int64 or len(shape) != 1:
                raise ConfigError(f"candidates are {kind} of shape {shape}, not a list of rows")
            if (np.diff(found.candidates_, prepend=-1, append=nodes) < 1).any():
                raise ConfigError(f"candidates are not ascending rows of a vocabulary of {nodes}")
            saved = {name.removeprefix("classifier."): tensor for name, tensor in tensors.items()}
            found.classifier_ = restore_classifier(saved, model) if saved else None
        found.model_, found.state_, found.table_, found.log_ = model, state, table, None
        return found

    def _check_fitted(self) -> None:
        if not hasattr(self, "state_"):
            raise StateError("this model is not fitted; call fit, or TAPGNN.load for a saved one")


def _describe(model: Model, encoder: NodeEncoder, schema: Schema, nodes: NodeTable) -> None:
    """Give the nodes of a table their features; those that the model does not know yet get a row."""
    rows = model.vocabulary.add(nodes.internal_ids(schema))
    last = {row: place for place, row in enumerate(rows.tolist())}
    places = list(last.values())
    model.inputs.describe(rows[places], encoder.features(nodes.columns)[places])
    # The features may be a new tensor now: arrays of the old one must not be read again.
    model.to(model.dtype)
