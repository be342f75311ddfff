"""The program of a model on arrays, without gradients: what is served.

One text for every configuration: where a model lacks a part, its arrays are empty (`weight_arrays`). The text runs in
two ways: interpreted, for many rows, with dense products by the matrix library and loops on several threads; and
compiled whole, for few, where a single event would pay more for calls than for arithmetic.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.handle import make_handle
from tapgnn.compiled.jit import compiled, fast, program, whole
from tapgnn.compiled.numba_intrinsics import new_line
from tapgnn.compiled.pair_score import weigh
from tapgnn.compiled.parallel import side_by_side
from tapgnn.compiled.parallel import view as array_of
from tapgnn.compiled.products import empty_rows, linear, multiply, relu
from tapgnn.compiled.projection_fused import join
from tapgnn.compiled.row_lookup import pick_rows, put_rows, take_rows, take_sums
from tapgnn.errors import ConfigError
from tapgnn.events import Events
from tapgnn.kernels import ChunkArrays, LayerArrays, scan_block
from tapgnn.model.event_classifier import EventClassifier, FactClassifier, RepresentationClassifier
from tapgnn.model.features.event_facts import event_facts
from tapgnn.model.features.node_statistics import LAST
from tapgnn.model.features.pair_encoder import encode_pairs
from tapgnn.model.features.recent_partners import pair_facts
from tapgnn.model.features.statistics_encoder import encode_rows
from tapgnn.model.features.walk_sketch import compare, decay_to_queries
from tapgnn.model.heads import QUESTIONS, Question
from tapgnn.model.observation import count, remember
from tapgnn.model.state import Past, State
from tapgnn.model.time_encoding import encode_times, log_pauses
from tapgnn.model.trace import ChunkRows
from tapgnn.model.weight_arrays import (
    ClockArrays,
    block_arrays,
    classifier_arrays,
    head_arrays,
    input_arrays,
    projection_arrays,
)
from tapgnn.unfold import Unfolding

if TYPE_CHECKING:
    from tapgnn.model.model import Model

# Up to so many events or queries a call is compiled whole; measured: from there on the matrix library is faster.
FEW = 64
# How often a tensor was written to.
version_of = attrgetter("_version")


def count_writes(tensors: tuple[Tensor, ...]) -> int:
    """How often they were written to, all together; a number that only grows."""
    return sum(map(version_of, tensors))


class DescriptionArrays(NamedTuple):
    """What describes a node at a query: origin and spans of the clocks, h_0, and the projection."""

    spans: Any
    inputs: Any
    projection: Any


class Inference:
    """The weights of a model as arrays."""

    def __init__(self, model: Model) -> None:
        self.tensors = (*model.parameters(), *model.buffers())
        self.writes = count_writes(self.tensors)
        self.dtype = model.walk_scale.dtype
        self.sketching = model.sketching if model.config.sketched else model.sketching._replace(width=0)
        self.no_features = np.empty((0, 0), dtype=array_of(model.walk_scale).dtype)
        with torch.no_grad():
            encoding = model.encoding
            self.clocks = ClockArrays(
                model.spans, model.count_rate, *map(array_of, (encoding.frequency, encoding.phase))
            )
            self.inputs = input_arrays(model)
            self.blocks = block_arrays(model)
            self.describing = DescriptionArrays(model.spans, self.inputs, projection_arrays(model))
            self.head = head_arrays(model)
        # Unit of time, rates per event, and how many columns the plain facts of an event have.
        self.counting = (float(model.config.unit), model.count_rate, len(model.description["facts"]))
        self.absorbing = (self.clocks, self.inputs, self.blocks, self.sketching)
        self.linking = (self.counting, self.describing, self.sketching, self.head)
        self.absorbing_handle, self.linking_handle = make_handle(self.absorbing), make_handle(self.linking)
        self.columns = sum(map(len, model.description.values()))
        self.judge: tuple[FactClassifier | None, tuple[Tensor, ...], int, Any] = None, (), 0, None

    def is_current(self) -> bool:
        """Whether the weights are still those of the model."""
        return self.writes == count_writes(self.tensors)

    def absorb(self, events: Events, view: Unfolding, state: State) -> ChunkRows:
        """Write the rows of the active nodes into the state; see `ChunkRows`."""
        features = self.no_features
        if events.features is not None:
            features = torch.from_numpy(events.features).to(self.dtype).numpy()
        # Gradients that still need the embeddings before these are refused: torch sees that they are written to.
        torch.autograd.graph.increment_version(state.embedding)
        given = (view, float(state.events), features, state.arrays())
        few = len(events) <= FEW
        return ChunkRows(*(absorb_few(*given, self.absorbing_handle) if few else absorb_many(*given, *self.absorbing)))

    def represent(self, past: Past) -> Tensor:
        """z [Q, d]."""
        run = represent_few if len(past) <= FEW else represent
        return torch.from_numpy(run(past.arrays(), self.describing)[0])

    def link(self, past: Past, left: int, question: Question) -> Tensor:
        """Logits [Q] of pairs; see `Model.link`."""
        given = (past.arrays(), left, QUESTIONS.index(question))
        few = len(past) <= FEW
        return torch.from_numpy(link_few(*given, self.linking_handle) if few else link(*given, *self.linking))

    def describe_events(self, past: Past, features: Tensor | None) -> Tensor:
        """[Q, D] see `Model.describe_events`."""
        given = self._features(features)
        return torch.from_numpy(describe_events(past.arrays(), given, *self.linking)[0])

    def classify(self, classifier: EventClassifier, past: Past, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits [Q] of the links and of the labels of events; see `Model.score_and_classify`."""
        if isinstance(classifier, RepresentationClassifier):
            return self.link(past, len(past) // 2, QUESTIONS[0]), classifier.judge(self.represent(past), features)
        asked, given, (arrays, kept) = past.arrays(), self._features(features), self._classifier(classifier)
        few = len(past) <= FEW
        found = (
            classify_few(asked, given, self.linking_handle, kept)
            if few
            else classify(asked, given, *self.linking, arrays)
        )
        link, label = map(torch.from_numpy, found)
        return link, label

    def _features(self, features: Tensor | None) -> Any:
        return self.no_features if features is None else array_of(features)

    def _classifier(self, classifier: FactClassifier) -> Any:
        """Its weights as arrays, and kept, made anew where it is another one or was trained since."""
        kept, tensors, writes, arrays = self.judge
        if kept is not classifier or writes != count_writes(tensors):
            tensors = (*classifier.parameters(), *classifier.buffers())
            # Compiled code would read beyond the description.
            if len(classifier.used) and int(classifier.used.max()) >= self.columns:
                raise ConfigError("the classifier belongs to another model; train one for this model")
            made = classifier_arrays(classifier, self.dtype)
            arrays = made, make_handle((made,))
            self.judge = classifier, tensors, count_writes(tensors), arrays
        return arrays


@program
def absorb(view, before, features, arenas, clocks, inputs, blocks, sketching):  # type: ignore[no-untyped-def]
    """Replace the rows of the active nodes in the arenas, after `before` events; gives what `ChunkRows` holds."""
    sums, statistics, embeddings, sketches, known = arenas
    counted = count(view, before, clocks.spans, clocks.count_rate, statistics, embeddings)
    embedded = embed(view, counted, features, clocks, inputs, blocks, sums, embeddings)
    return _reached(counted, embedded, remember(view, counted, clocks.count_rate, sketching, sketches, known))


def absorb_many(
    view: Any, before: Any, features: Any, arenas: Any, clocks: Any, inputs: Any, blocks: Any, sketching: Any
) -> Any:
    """`absorb`, with what needs no weights on another thread."""
    sums, statistics, embeddings, sketches, known = arenas
    counted = count(view, before, clocks.spans, clocks.count_rate, statistics, embeddings)
    embedding = partial(embed, view, counted, features, clocks, inputs, blocks, sums, embeddings)
    remembering = partial(remember, view, counted, clocks.count_rate, sketching, sketches, known)
    return _reached(counted, *side_by_side(len(view.time) * sketches.shape[1], embedding, remembering))


@program
def _reached(counted, embedded, remembered):  # type: ignore[no-untyped-def]
    embedding, lower, carried_embedding = embedded
    sketch, partners, carried_sketch, carried_partners = remembered
    carried = (counted.carried, carried_embedding, carried_sketch, carried_partners)
    return counted.statistics, embedding, sketch, partners, *carried, lower


@program
def embed(view, counted, features, clocks, inputs, blocks, sums, embeddings):  # type: ignore[no-untyped-def]
    """h_K and h_{K-1} [T, d], layer by layer, and h_K [C, d] as it was; sums and embeddings of nodes are replaced."""
    owner = counted.owner
    chunk = ChunkArrays(view.chain, view.inbox, view.sender, view.role, counted.degree, counted.elapsed)
    carried_embedding = take_rows(view.nodes, embeddings, 0, embeddings.shape[1])
    table, row, start = first_inputs(view.nodes, inputs), owner, 0
    origin, span, _ = clocks.spans
    waves = encode_times((view.instants - origin) / span, clocks.frequency, clocks.phase)
    lower, place = table, row
    for k in range(len(blocks.transform)):
        lower, place = table, row
        layer = LayerArrays(blocks.gate[k], blocks.own[k], blocks.scale[k], blocks.shift[k], blocks.scan_weight[k])
        value, index, mine = linear(table, blocks.transform[k], blocks.bias[k]), row[view.sender], row
        if waves.shape[1] > 0:
            times = linear(waves, blocks.of_time[k], 0)
            value, index, mine = add_rows(value, row, times, view.instant), view.sender, np.arange(len(row))
        message = value
        if features.shape[1] > 0:
            numbers = len(blocks.of_edge[k])
            edges = linear(np.ascontiguousarray(features[:, :numbers]), blocks.of_edge[k], 0)
            _add_categories(features, numbers, blocks.first_code, blocks.of_category[k], edges)
            value, index = add_rows(value, index, edges, view.event), np.arange(len(view.event))
        width = sums.shape[1] // len(blocks.transform)
        carried = take_sums(view.nodes, sums, start, width)
        carrying = (value, index, message, mine)
        table, last = scan_block(blocks.form, blocks.gated, chunk, *carrying, table, row, layer, carried)
        put_rows(view.nodes, np.arange(len(view.nodes)), last, start, sums)
        row, start = np.arange(len(owner)), start + width
    put_rows(view.nodes, view.chain[1:] - 1, table, 0, embeddings)
    return table, lower if len(blocks.transform) > 1 else lower[place], carried_embedding


@compiled
def _add_categories(features: Any, numbers: Any, first_code: Any, vectors: Any, edges: Any) -> None:
    """Add the vectors of the categories, whose codes stand behind the numbers of features [E, f], to edges [E, d]."""
    for e in range(len(edges)):
        for c in range(len(first_code)):
            code = first_code[c] + int(features[e, numbers + c])
            for j in range(edges.shape[1]):
                edges[e, j] += vectors[code, j]


@program
def first_inputs(nodes, inputs):  # type: ignore[no-untyped-def]
    """h_0 [n, d] of nodes; see `Inputs`."""
    table = empty_rows(len(nodes), len(inputs.bias), inputs.bias)
    _look_up(nodes, inputs.vectors, inputs.bias, table)
    if len(inputs.weight) > 0:
        known = empty_rows(len(nodes), inputs.features.shape[1], inputs.features)
        _look_up(nodes, inputs.features, np.zeros(known.shape[1], dtype=known.dtype), known)
        multiply(known, inputs.weight, table)
    return table


@compiled
def _look_up(nodes: Any, vectors: Any, bias: Any, table: Any) -> None:
    """Rows v + 1 of the vectors, row 0 for a node beyond them, and the bias added."""
    for c in range(len(nodes)):
        row = nodes[c] + 1 if nodes[c] + 1 < len(vectors) else 0
        for j in range(table.shape[1]):
            table[c, j] = bias[j] + vectors[row, j] if len(vectors) else bias[j]


@program
def add_rows(first, first_row, second, second_row):  # type: ignore[no-untyped-def]
    """[n, d] first[first_row] + second[second_row]."""
    out = empty_rows(len(first_row), first.shape[1], first)
    _add_rows(first, first_row, second, second_row, out)
    return out


@fast
def _add_rows(first: Any, first_row: Any, second: Any, second_row: Any, out: Any) -> None:
    for i in range(len(out)):
        a, b = first_row[i], second_row[i]
        for j in range(out.shape[1]):
            out[i, j] = first[a, j] + second[b, j]


@program
def represent(asked, describing):  # type: ignore[no-untyped-def]
    """z [Q, d], the statistics [Q, F] of the nodes, and these encoded [Q, .]."""
    spans, inputs, projection = describing
    past = pick_rows(asked.statistics)
    if len(projection.out) > 0:
        hidden = linear(pick_rows(asked.embedding), projection.of_embedding, projection.hidden_bias)
        last = np.maximum(past[:, LAST], past[:, LAST + 1])
        pause = (asked.time - last) / spans[1]
        if projection.shortest > 0:
            pause = log_pauses(pause, projection.shortest)
        multiply(encode_times(pause, projection.frequency, projection.phase), projection.of_pause, hidden)
        relu(hidden)
        return linear(hidden, projection.out, projection.out_bias), past, hidden[:, :0].copy()
    if len(projection.of_statistics) == 0:
        z = pick_rows(asked.embedding)
        return z, past, z[:, :0].copy()
    described, encoded = encode_rows(past, asked.partners, asked.time, asked.seen, projection.encoding)
    known = linear(described, projection.of_statistics, 0)
    if len(projection.of_node) > 0:
        multiply(first_inputs(asked.node, inputs), projection.of_node, known)
    z, _ = join(asked.embedding, known, projection.join_weights)
    return z, past, encoded


@program
def link(asked, left, question, counting, describing, sketching, head):  # type: ignore[no-untyped-def]
    """Logits [Q] of pairs."""
    logits, _, _, _ = link_parts(asked, left, question, counting, describing, sketching, head)
    return logits


@program
def link_parts(asked, left, question, counting, describing, sketching, head):  # type: ignore[no-untyped-def]
    """Logits [Q] of pairs, cosines [Q, .] of their sketches, their facts [Q, .], and the statistics [n, F] of ends."""
    z, past, encoded = represent(asked, describing)
    pairs = np.empty((len(z) - left, 0))
    if asked.partners.arena.shape[1] > 0:
        unit, rate, _ = counting
        pairs = pair_facts(asked.partners, past, asked.time, asked.seen, left, unit, len(rate))
    walks = empty_rows(len(z) - left, 0, z)
    if sketching.width > 0:
        kept = decay_to_queries(past, asked.time, asked.seen, describing.spans, sketching.rate, z)
        walks = compare(asked.sketch, kept, left, sketching) / head.walk_scale
    logits = np.zeros(len(z) - left, dtype=z.dtype)
    weigh(left, turn_ends(left, z, head), head.of_pair, logits)
    if len(head.bias) > 0:
        ours = linear(encoded[:left], head.of_left, 0)
        hidden = linear(encoded[left:], head.of_right, head.bias)
        if len(head.of_walks) > 0:
            multiply(walks, head.of_walks, hidden)
        if len(head.of_pairs) > 0:
            multiply(encode_pairs(pairs, head.pair_encoding), head.of_pairs, hidden)
        _join_ends(left, ours, hidden)
        hidden = linear(hidden, head.second, head.second_bias)
        output = min(question, len(head.out) - 1)
        _add_weighed(hidden, head.out[output], head.out_bias[output], logits)
    elif len(head.out_bias) > 0:
        logits += head.out_bias[0]
    return logits, walks, pairs, past


@program
def turn_ends(left, z, head):  # type: ignore[no-untyped-def]
    """z [n, d] of all ends, with a transform of its own for each role where the head has them."""
    if len(head.turn) == 0:
        return z
    ends = empty_rows(z.shape[0], z.shape[1], z)
    ends[:left] = linear(z[:left], head.turn[0], head.turn_bias[0])
    ends[left:] = linear(z[left:], head.turn[1], head.turn_bias[1])
    return ends


@fast
def _join_ends(left: Any, ours: Any, hidden: Any) -> None:
    """relu of each row of hidden and that of its left end."""
    zero = hidden.dtype.type(0)
    for q in range(len(hidden)):
        u = q % left
        for j in range(hidden.shape[1]):
            hidden[q, j] = max(hidden[q, j] + ours[u, j], zero)


@fast
def _add_weighed(rows: Any, weight: Any, bias: Any, logits: Any) -> None:
    """Add weight . relu(row) + bias to each logit."""
    zero = rows.dtype.type(0)
    for q in range(len(logits)):
        total = bias
        for j in range(rows.shape[1]):
            total += weight[j] * max(rows[q, j], zero)
        logits[q] += total


@program
def describe_events(asked, features, counting, describing, sketching, head):  # type: ignore[no-untyped-def]
    """[Q, D] descriptions of events, and link logits [Q]; the first half of the queries are sources."""
    unit, rate, facts = counting
    size = len(asked.time) // 2
    logits, walks, pairs, past = link_parts(asked, size, 0, counting, describing, sketching, head)
    described = np.empty((size, facts + 1 + walks.shape[1] + features.shape[1]))
    event_facts(past, pick_rows(asked.partners), pairs, asked.time, asked.seen, unit, rate, described[:, :facts])
    described[:, facts] = logits
    described[:, facts + 1 : facts + 1 + walks.shape[1]] = walks
    if features.shape[1] > 0:
        described[:, facts + 1 + walks.shape[1] :] = features
    return described, logits


@program
def classify(asked, features, counting, describing, sketching, head, classifier):  # type: ignore[no-untyped-def]
    """Logits [Q] of the links and of the labels of events."""
    described, link = describe_events(asked, features, counting, describing, sketching, head)
    hidden = empty_rows(len(described), len(classifier.first_bias), classifier.first)
    _weigh_descriptions(described, classifier, hidden)
    logits = np.empty(len(described), dtype=hidden.dtype)
    _ask_members(hidden, classifier, logits)
    return link, logits


@fast
def _weigh_descriptions(described: Any, classifier: Any, hidden: Any) -> None:
    """Fill hidden [Q, .] with the first layer of what `FactClassifier.encode` gives, most of which is 0."""
    used, low, steepness, weight = classifier.used, classifier.low, classifier.steepness, classifier.first
    pieces, zero, one = low.shape[1], low.dtype.type(0), low.dtype.type(1)
    for q in range(len(described)):
        for j in range(hidden.shape[1]):
            hidden[q, j] = classifier.first_bias[j]
        for f in range(len(used)):
            value, place = low.dtype.type(described[q, used[f]]), f * (pieces + 1)
            missing = np.isnan(value)
            for k in range(pieces + 1):
                share = one if missing else zero
                if k < pieces:
                    share = zero if missing else min(max((value - low[f, k]) * steepness[f, k], zero), one)
                if share > zero:
                    for j in range(hidden.shape[1]):
                        hidden[q, j] += share * weight[place + k, j]


@fast
def _ask_members(hidden: Any, classifier: Any, logits: Any) -> None:
    """Fill logits [Q] from the first hidden layers of all members and, last, their additive parts."""
    second, second_bias, out = classifier.second, classifier.second_bias, classifier.out
    members, width, depth = second.shape
    zero = hidden.dtype.type(0)
    deep = new_line(depth, hidden)
    for q in range(len(logits)):
        total = hidden[q, members * width]
        for m in range(members):
            for j in range(depth):
                deep[j] = second_bias[m, j]
            for i in range(width):
                value = max(hidden[q, m * width + i], zero)
                for j in range(depth):
                    deep[j] += value * second[m, i, j]
            for j in range(depth):
                total += out[m, j] * max(deep[j], zero)
        logits[q] = total


represent_few = whole(represent)


@whole
def absorb_few(view: Any, before: Any, features: Any, arenas: Any, handle: Any) -> Any:
    """`absorb`, with what it takes of the model."""
    return absorb(view, before, features, arenas, *handle.parts)


@whole
def link_few(asked: Any, left: Any, question: Any, handle: Any) -> Any:
    """`link`, with what it takes of the model."""
    return link(asked, left, question, *handle.parts)


@whole
def classify_few(asked: Any, features: Any, handle: Any, classifier: Any) -> Any:
    """`classify`, with what it takes of the model and of the classifier."""
    return classify(asked, features, *handle.parts, *classifier.parts)
