"""The model: one `advance` for offline, training and online use, and the queries that read what it leaves.

    advance(events, state) -> (trace, state')         Algorithm 1, layer by layer, from a carried state
    query(where, nodes, times) -> z                   the projection (eq. 8)
    score(where, src, dst, times) -> logits           the link head (eq. 9)
    classify(where, classifier, ...) -> logits        of the positive label of events

`where` is a state (the live present) or a trace (any moment within its events). Cutting the stream between any two
instants changes no number; everything asked at t depends on events strictly before t.

What these do is written in two programs over the same loops: `inference` on arrays, where no gradient is wanted, and
`differentiable` on tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from tapgnn.compiled.row_lookup import Rows
from tapgnn.errors import ConfigError, LateEventError, advise
from tapgnn.events import Events, Floats
from tapgnn.kernels import find_kernel
from tapgnn.model.backend import backend_for
from tapgnn.model.block import Block
from tapgnn.model.config import Config
from tapgnn.model.differentiable import DescribedPairs, Differentiable
from tapgnn.model.event_classifier import EventClassifier, codes_fit, dense_features, description_columns
from tapgnn.model.features.node_statistics import empty_statistics
from tapgnn.model.features.pair_encoder import PairEncoder
from tapgnn.model.features.recent_partners import empty_partners
from tapgnn.model.features.statistics_encoder import StatisticsEncoder
from tapgnn.model.features.walk_sketch import Sketching, sketch_size
from tapgnn.model.heads import Question, make_head
from tapgnn.model.inference import Inference
from tapgnn.model.inputs import Inputs
from tapgnn.model.projection import StatisticsProjection, make_projection
from tapgnn.model.state import Past, QueryInputs, State
from tapgnn.model.time_encoding import TimeEncoding
from tapgnn.model.trace import ChunkRows, Observed, Trace
from tapgnn.unfold import Unfolding, unfold
from tapgnn.vocabulary import Vocabulary

Late = Literal["reject", "merge"]
Numbers = ArrayLike | Tensor


class Model(nn.Module):
    """TAP-GNN over the nodes of a vocabulary; nodes that appear later are served by the unknown vector.

    >>> log = Events.from_arrays(["a", "a", "b"], ["b", "c", "c"], [1.0, 2.0, 3.0])
    >>> model = Model(Config.preset("paper", width=8, time_width=4), log.vocabulary)
    >>> trace, state = model.advance(log, model.empty_state())
    >>> trace.embedding.shape, state.clock
    (torch.Size([6, 8]), 3.0)
    >>> model.query(state, log.vocabulary.rows(["a", "b"]), [4.0, 4.0]).shape
    torch.Size([2, 8])
    """

    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.inputs = Inputs(config, len(vocabulary))
        self.encoding = TimeEncoding(config.time_width, config.unit / config.span)
        self.blocks = nn.ModuleList([Block(config, first=k == 0) for k in range(config.layers)])
        self.statistics = StatisticsEncoder(config) if config.statistics else None
        width, encoded = (0, 0) if self.statistics is None else (self.statistics.width, self.statistics.encoded_width)
        self.projection = StatisticsProjection(config, width) if config.statistics else make_projection(config)
        # No buffers: they stay in float64 whatever the type of the model.
        self.count_rate: Floats = config.count_rates() / config.events
        self.sketching = Sketching(config.sketch_width, config.sketch_steps, config.sketch_rates())
        self.spans = (float(config.origin), float(config.span), float(config.events))
        walks = ((config.sketch_steps + 1) ** 2 - 1) * self.sketching.rate.shape[1] if config.sketched else 0
        self.pairs = PairEncoder(config.bins) if config.partners and config.head == "mlp" else None
        self.head = make_head(config, encoded, walks, 0 if self.pairs is None else self.pairs.width)
        self.register_buffer("walk_scale", torch.ones(walks))
        self.walk_scale: Tensor
        self.backend = backend_for(self.device)
        # What an event is described by to a classifier.
        self.description = description_columns(config)
        self._outside = find_kernel(config.kernel).array_form is None
        self._inference: Inference | None = None
        self._widths = self.empty_state().widths
        self._codes = np.array(config.edge_categories, dtype=np.int64)

    def _apply(self, *arguments: Any, **options: Any) -> Model:
        """A move to another type or device: the backend is chosen anew, and arrays of the old tensors let go."""
        moved = super()._apply(*arguments, **options)  # type: ignore[no-untyped-call]
        self.backend, self._inference = backend_for(self.device), None
        return moved  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        """For a copy, which makes arrays of its own weights."""
        return {**self.__dict__, "_inference": None}

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.walk_scale.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights and embeddings."""
        return self.walk_scale.dtype

    @property
    def layers(self) -> list[Block]:
        """The blocks."""
        return cast(list[Block], list(self.blocks))

    def empty_state(self) -> State:
        """The state before the first event."""
        config, device = self.config, self.device
        size = sketch_size(*self.sketching) if config.sketched else 0
        sums = torch.cat([block.kernel.empty() for block in self.layers])
        return State(
            sums=sums.unsqueeze(0).to(device, self.dtype),
            statistics=torch.from_numpy(empty_statistics(len(self.count_rate))).unsqueeze(0).to(device),
            embedding=torch.zeros(1, config.width, dtype=self.dtype, device=device),
            sketch=torch.zeros(1, size, dtype=self.dtype, device=device),
            partners=torch.from_numpy(empty_partners(config.partners, len(config.half_lives))).unsqueeze(0).to(device),
            sketch_width=config.sketch_width if config.sketched else 0,
        )

    def advance(self, events: Events, state: State, late: Late = "reject") -> tuple[Trace, State]:
        """Absorb events into the state; the state handed in is consumed.

        Events must be later than the clock of the state. With late='merge', older ones are absorbed at the present
        instant instead: exact for undecayed sums of the first layer whose messages tell neither time nor degree (mean,
        pool, attention without time encoding), an approximation otherwise.
        """
        events, view, following = self._open(events, state, late)
        reached = self._program().absorb(events, view, following)
        return self._close(events, view, reached, state, following)

    def observe(self, events: Events, state: State) -> tuple[Observed, State]:
        """The part of `advance` that needs no weights; `embed` is the other. The state handed in is consumed.

        The observed chunks must be embedded one by one, each once; the next may be observed meanwhile.
        """
        events, view, following = self._open(events, state, "reject")
        flow, reached = Differentiable(self).observe(view, following)
        trace, following = self._close(events, view, reached, state, following)
        return Observed(events, flow, trace), following

    def embed(self, observed: Observed) -> Trace:
        """The trace of an observed chunk, with its embeddings and gradients."""
        events, flow, trace = observed
        reached = Differentiable(self).embed(events, trace.view, flow, trace.reached, trace.successor)
        return replace(trace, reached=reached)

    def _open(self, events: Events, state: State, late: Late) -> tuple[Events, Unfolding, State]:
        """The events in order, their unfolding, and the state that takes over."""
        self._check_events(events)
        state.check_usable()
        state.check_widths(self._widths)
        events = _in_order(events, state.clock, late)
        state.admit(self.vocabulary)
        return events, unfold(events), state.consume()

    def _close(
        self, events: Events, view: Unfolding, reached: ChunkRows, state: State, following: State
    ) -> tuple[Trace, State]:
        """The trace, and the state at the end of the events."""
        trace = Trace(view, reached, events.time, state.events, state.clock, following)
        if len(events):
            following.clock = float(events.time[-1])
            following.events += len(events)
        return trace, following

    def advance_directly(self, events: Events) -> Tensor:
        """TAP-GNN*: the embeddings [T, d] of a log from its start, aggregated from the whole neighbourhood.

        The same weights and the same numbers as `advance`, at the cost of the links of G_MP. Rows as in `unfold`.
        """
        self._check_events(events)
        view, start = unfold(events), self.empty_state()
        start.admit(self.vocabulary)
        return Differentiable(self).embed_directly(events, view, start)

    def query(self, where: State | Trace, nodes: Numbers, times: Numbers) -> Tensor:
        """z(v,t) [Q, d] of rows of the vocabulary (-1: a node nobody knows), at times after what was absorbed."""
        return self._program().represent(self.past(where, nodes, times))

    def score(
        self, where: State | Trace, src: Numbers, dst: Numbers, times: Numbers, question: Question = "destination"
    ) -> Tensor:
        """Logits [Q] of an event src -> dst at each time; see `link` for the questions."""
        past, left = self._ends(where, src, dst, times)
        return self._program().link(past, left, question)

    def classify(
        self,
        where: State | Trace,
        classifier: EventClassifier,
        src: Numbers,
        dst: Numbers,
        times: Numbers,
        features: NDArray[np.float32] | None = None,
    ) -> Tensor:
        """Logits [Q] of the positive label of events src -> dst at each time, with features [Q, f] if it takes them."""
        return self.score_and_classify(where, classifier, src, dst, times, features)[1]

    def score_and_classify(
        self,
        where: State | Trace,
        classifier: EventClassifier,
        src: Numbers,
        dst: Numbers,
        times: Numbers,
        features: NDArray[np.float32] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """What `score` and `classify` give, at little more than the cost of the first."""
        past, size = self._ends(where, src, dst, times)
        return self._program().classify(classifier, past, self._own_columns(features, size))

    def describe_events(
        self,
        where: State | Trace,
        src: Numbers,
        dst: Numbers,
        times: Numbers,
        features: NDArray[np.float32] | None = None,
    ) -> Tensor:
        """[Q, D] what is known of events just before they happen, in the columns of `description`; NaN: never was."""
        past, size = self._ends(where, src, dst, times)
        return self._program().describe_events(past, self._own_columns(features, size))

    def _own_columns(self, features: NDArray[np.float32] | None, size: int) -> Tensor | None:
        """What a classifier is told of the features [Q, f] of events."""
        if not self.config.feature_width:
            return None
        if features is None or features.shape != (size, self.config.feature_width):
            raise ConfigError(
                f"the model expects {self.config.feature_width} features per event; pass those of the events to judge"
            )
        return torch.from_numpy(dense_features(features, self.config)).to(self.device, self.dtype)

    def past(self, where: State | Trace, nodes: Numbers, times: Numbers) -> Past:
        """What is known of rows of the vocabulary strictly before some times."""
        where.check_widths(self._widths)
        node, time = _array(nodes, np.int64), _array(times, np.float64)
        return where.past(node, time if time.shape == node.shape else np.broadcast_to(time, node.shape).copy())

    def link(self, past: Past, left: int, question: Question = "destination") -> Tensor:
        """Logits [Q] of pairs: the first `left` queries are left ends, the others right ends in blocks of `left`.

        The i-th of every block is paired with the i-th left end: an end in many pairs is described once. Questions:

        destination  is it this one, given that the left end acts now? Against a random destination
        event        does it happen now? Against that, and against events of the past
        """
        return self._program().link(past, left, question)

    def link_rows(self, asked: QueryInputs, left: int) -> Tensor:
        """Logits [Q, questions] of pairs of given rows, with gradients to them."""
        return Differentiable(self).link_rows(asked, left)

    def describe_pairs(self, past: Past, left: int) -> DescribedPairs:
        """What needs no weights of `link_rows`, for pairs as in `link`."""
        return Differentiable(self).describe_pairs(past, left)

    def weigh_pairs(self, described: DescribedPairs, embedding: Rows) -> Tensor:
        """The rest of `link_rows`: logits [Q, questions] of pairs whose ends have these embeddings."""
        return Differentiable(self).weigh_pairs(described, embedding)

    def recall(self, where: State | Trace, nodes: Numbers, times: Numbers) -> tuple[Tensor, ...]:
        """Statistics [Q, F], embedding [Q, d], sketch and partners [Q, .] strictly before some times, copied."""
        _, _, _, *rows = self.past(where, nodes, times).tensors()
        return tuple(map(self.backend.pick, rows))

    @torch.no_grad()
    def calibrate(self, asked: Iterable[tuple[Past, int]]) -> None:
        """Set the scales of statistics, walks and pairs from queries like those to come, given as to `link`."""
        program, statistics, walks, pairs = Differentiable(self), [], [], []
        for queries, left in asked:
            found = queries.tensors()
            past = self.backend.pick(found.statistics)
            if self.statistics is not None:
                statistics.append(
                    self.statistics.plain(past, self.backend.pick(found.partners), found.time, found.seen)
                )
            if self.config.sketched:
                walks.append(program.walks(found, past, left))
            if self.pairs is not None:
                pairs.append(program.pairs(found, past, left))
        if self.statistics is not None and statistics:
            self.statistics.calibrate(torch.cat(statistics))
        if walks:
            self.walk_scale.copy_(torch.cat(walks).std(dim=0, correction=0) + 1e-3)
        if self.pairs is not None and pairs:
            self.pairs.calibrate(torch.cat(pairs))

    def _program(self) -> Differentiable | Inference:
        """The one that serves now."""
        if self._outside or self.backend.differentiates(self.training):
            return Differentiable(self)
        kept = self._inference
        if kept is None or not kept.is_current():
            kept = self._inference = Inference(self)
        return kept

    def _ends(self, where: State | Trace, src: Numbers, dst: Numbers, times: Numbers) -> tuple[Past, int]:
        """The past of the left ends, then of the right ends, and how many there are of each."""
        left, right, time = _array(src, np.int64), _array(dst, np.int64), _array(times, np.float64)
        moments = np.empty(2 * len(left))
        moments[: len(left)] = moments[len(left) :] = time
        where.check_widths(self._widths)
        return where.past(np.concatenate((left, right)), moments), len(left)

    def _check_events(self, events: Events) -> None:
        if events.vocabulary is not self.vocabulary:
            raise ConfigError(
                "the events and the model have different vocabularies; build them with vocabulary=model.vocabulary"
            )
        if events.feature_width != self.config.feature_width:
            raise ConfigError(
                f"the model expects {self.config.feature_width} features per event, these events have "
                f"{events.feature_width}; pass the features it was trained with"
            )
        coded = events.features is not None and len(self._codes) > 0
        if coded and not codes_fit(events.features, self.config.edge_features, self._codes):
            raise ConfigError("a code of a category is out of range; encode the columns with the model's encoder")


def _array(values: Numbers, kind: type) -> Any:
    return (values.numpy(force=True) if isinstance(values, Tensor) else np.asarray(values)).astype(kind, copy=False)


def _in_order(events: Events, clock: float, late: Late) -> Events:
    """The events, all later than the clock; or, merged, none earlier than it."""
    if len(events) == 0 or events.time[0] > clock:
        return events
    if late not in ("reject", "merge"):
        raise ConfigError(f"late is reject or merge, not {late!r}")
    if late == "merge":
        return Events(
            events.src,
            events.dst,
            np.maximum(events.time, clock),
            events.features,
            events.labels,
            events.vocabulary,
        )
    names = events.vocabulary.ids
    raise advise(
        LateEventError,
        f"event {names[events.src[0]]!r} -> {names[events.dst[0]]!r} at {events.time[0]} is not later than the clock "
        f"of the state, {clock}",
        "send events in order of time, pass late='merge', or put a re-order buffer in front",
        "pass a file of later events; the model has observed those up to this time",
    )
