"""The program of a model on arrays, without gradients: what is served.

One text for every configuration: where a model lacks a part, its arrays are empty (`weight_arrays`). The text runs in
two ways: interpreted, for many rows, with dense products by the matrix library and loops on several threads; and
compiled whole, for few, where a single event would pay more for calls than for arithmetic.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.jit import compiled, fast, program, whole
from tapgnn.compiled.kept import keep
from tapgnn.compiled.numba_intrinsics import new_line
from tapgnn.compiled.pair_score import weigh
from tapgnn.compiled.parallel import view as array_of
from tapgnn.compiled.products import empty_rows, linear, multiply, relu
from tapgnn.compiled.projection_fused import join
from tapgnn.compiled.row_lookup import pick_rows, put_rows, take_rows
from tapgnn.errors import ConfigError
from tapgnn.events import Events
from tapgnn.kernels import ChunkArrays, LayerArrays, scan_block
from tapgnn.model.event_classifier import EventClassifier, FactClassifier, RepresentationClassifier
from tapgnn.model.features.event_facts import event_facts
from tapgnn.model.features.node_statistics import LAST, fold_statistics, read_clocks
from tapgnn.model.features.pair_encoder import encode_pairs
from tapgnn.model.features.recent_partners import fold_partners, pair_facts
from tapgnn.model.features.statistics_encoder import encode_rows
from tapgnn.model.features.walk_sketch import compare, decay_to_queries, propagate
from tapgnn.model.heads import QUESTIONS, Question
from tapgnn.model.state import Past, State
from tapgnn.model.time_encoding import encode_times
from tapgnn.model.trace import Reached
from tapgnn.model.weight_arrays import (
    ClockArrays,
    block_arrays,
    classifier_arrays,
    head_arrays,
    input_arrays,
    projection_arrays,
    representation_classifier_arrays,
)
from tapgnn.unfold import Unfolding, chain_owners

if TYPE_CHECKING:
    from tapgnn.model.model import Model

# Up to so many events or queries a call is compiled whole; measured: from there on the matrix library is faster.
FEW = 64
# Counts how often a tensor was written to.
version_of = attrgetter("_version")


class Describing(NamedTuple):
    """What describes a node at a query: origin and spans of the clocks, h_0, and the projection."""

    spans: Any
    inputs: Any
    projection: Any


class Inference:
    """The weights of a model as arrays."""

    def __init__(self, model: Model) -> None:
        self.tensors = (*model.parameters(), *model.buffers())
        self.versions = list(map(version_of, self.tensors))
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
            self.describing = Describing(model.spans, self.inputs, projection_arrays(model))
            self.head = head_arrays(model)
        # Unit of time, rates per event, and how many columns the plain facts of an event have.
        self.counting = (float(model.config.unit), model.count_rate, len(model.description["facts"]))
        self.absorbing = (self.clocks, self.inputs, self.blocks, self.sketching)
        self.linking = (self.counting, self.describing, self.sketching, self.head)
        self.kept_absorbing, self.kept_linking = keep(self.absorbing), keep(self.linking)
        self.columns = sum(map(len, model.description.values()))
        self.judge: tuple[EventClassifier | None, tuple[Tensor, ...], list[int], Any] = None, (), [], None

    def is_current(self) -> bool:
        """Whether the weights are still those of the model."""
        return self.versions == list(map(version_of, self.tensors))

    def absorb(self, events: Events, view: Unfolding, state: State) -> Reached:
        """Write the rows of the active nodes into the state; see `Reached`."""
        features = self.no_features
        if events.features is not None:
            features = torch.from_numpy(events.features).to(self.dtype).numpy()
        given = (view, float(state.events), features, state.arrays())
        few = len(events) <= FEW
        return Reached(*(absorb_few(*given, self.kept_absorbing) if few else absorb(*given, *self.absorbing)))

    def represent(self, past: Past) -> Tensor:
        """z [Q, d]."""
        run = represent_few if len(past) <= FEW else represent
        return torch.from_numpy(run(past.arrays(), self.describing)[0])

    def link(self, past: Past, left: int, question: Question) -> Tensor:
        """Logits [Q] of pairs; see `Model.link`."""
        given = (past.arrays(), left, QUESTIONS.index(question))
        few = len(past) <= FEW
        return torch.from_numpy(link_few(*given, self.kept_linking) if few else link(*given, *self.linking))

    def describe_events(self, past: Past, features: Tensor | None) -> Tensor:
        """[Q, D] see `Model.describe_events`."""
        given = self._features(features)
        return torch.from_numpy(describe_events(past.arrays(), given, *self.linking)[0])

    def classify(self, classifier: EventClassifier, past: Past, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits [Q] of the links and of the labels of events; see `Model.score_and_classify`."""
        asked, given, (arrays, kept) = past.arrays(), self._features(features), self._classifier(classifier)
        of_representations = isinstance(classifier, RepresentationClassifier)
        if len(past) <= FEW:
            run = classify_representations_few if of_representations else classify_few
            link, label = run(asked, given, self.kept_linking, kept)
        else:
            run = classify_representations if of_representations else classify
            link, label = run(asked, given, *self.linking, arrays)
        return torch.from_numpy(link), torch.from_numpy(label)

    def _features(self, features: Tensor | None) -> Any:
        return self.no_features if features is None else array_of(features)

    def _classifier(self, classifier: EventClassifier) -> Any:
        """Its weights as arrays, and kept, made anew where it is another one or was trained since."""
        kept, tensors, versions, arrays = self.judge
        if kept is not classifier or versions != list(map(version_of, tensors)):
            tensors = (*classifier.parameters(), *classifier.buffers())
            if isinstance(classifier, RepresentationClassifier):
                arrays = representation_classifier_arrays(classifier, self.dtype)
            elif isinstance(classifier, FactClassifier):
                # Compiled code would read beyond the description.
                if len(classifier.used) and int(classifier.used.max()) >= self.columns:
                    raise ConfigError("the classifier belongs to another model; train one for this model")
                arrays = classifier_arrays(classifier, self.dtype)
            arrays = arrays, keep((arrays,))
            self.judge = classifier, tensors, list(map(version_of, tensors)), arrays
        return arrays


@program
def absorb(view, before, features, arenas, clocks, inputs, blocks, sketching):  # type: ignore[no-untyped-def]
    """Replace the rows of the active nodes in the arenas, after `before` events; gives what `Reached` holds."""
    sums, statistics, embeddings, sketches, known = arenas
    nodes, size, seen = view.nodes, len(view.time), view.seen + before
    carried_statistics = take_rows(nodes, statistics, 0, statistics.shape[1])
    carried_embedding = take_rows(nodes, embeddings, 0, embeddings.shape[1])
    carried_sketch = take_rows(nodes, sketches, 0, sketches.shape[1])
    carried_partners = take_rows(nodes, known, 0, known.shape[1])
    rows, elapsed, at = np.empty((size, statistics.shape[1])), np.empty((size, 2)), np.empty((size, 2))
    degree = np.empty(size, dtype=embeddings.dtype)
    fold_statistics(view, seen, clocks.count_rate, carried_statistics, rows, elapsed)
    read_clocks(clocks.spans, view, seen, rows, elapsed, at, degree)
    chunk = ChunkArrays(view.chain, view.inbox, view.sender, view.role, degree, elapsed)
    owner = chain_owners(view.chain)
    embedding, lower = embed(view, owner, chunk, features, clocks, inputs, blocks, sums)
    sketch = empty_rows(size, 0, sketches)
    if sketching.width > 0:
        sketch = propagate(view.chain, view.inbox, view.sender, owner, elapsed, carried_sketch, sketching)
        put_rows(nodes, view.chain[1:] - 1, sketch, 0, sketches)
    partners = np.empty((size, known.shape[1]))
    if known.shape[1] > 0:
        fold_partners(view, owner, seen, clocks.count_rate, rows, carried_partners, partners)
        put_rows(nodes, view.chain[1:] - 1, partners, 0, known)
    put_rows(nodes, view.chain[1:] - 1, rows, 0, statistics)
    put_rows(nodes, view.chain[1:] - 1, embedding, 0, embeddings)
    carried = (carried_statistics, carried_embedding, carried_sketch, carried_partners)
    return rows, embedding, sketch, partners, *carried, lower


@program
def embed(view, owner, chunk, features, clocks, inputs, blocks, sums):  # type: ignore[no-untyped-def]
    """h_K and h_{K-1} [T, d], layer by layer; the sums of the nodes are replaced."""
    table, row, start = first_inputs(view.nodes, inputs), owner, 0
    origin, span, _ = clocks.spans
    waves = encode_times((view.instants - origin) / span, clocks.frequency, clocks.phase)
    lower, place = table, row
    for k in range(len(blocks.transform)):
        lower, place = table, row
        layer = LayerArrays(blocks.gate[k], blocks.own[k], blocks.scale[k], blocks.shift[k], blocks.scan_weight[k])
        value, index = linear(table, blocks.transform[k], blocks.bias[k]), row[view.sender]
        if waves.shape[1] > 0:
            times = linear(waves, blocks.of_time[k], 0)
            value, index = add_rows(value, row, times, view.instant), view.sender
        if features.shape[1] > 0:
            numbers = len(blocks.of_edge[k])
            edges = linear(np.ascontiguousarray(features[:, :numbers]), blocks.of_edge[k], 0)
            _add_categories(features, numbers, blocks.first_code, blocks.of_category[k], edges)
            value, index = add_rows(value, index, edges, view.event), np.arange(len(view.event))
        width = sums.shape[1] // len(blocks.transform)
        carried = take_rows(view.nodes, sums, start, width)
        table, last = scan_block(blocks.form, blocks.gated, chunk, value, index, table, row, layer, carried)
        put_rows(view.nodes, np.arange(len(view.nodes)), last, start, sums)
        row, start = np.arange(len(owner)), start + width
    return table, lower if len(blocks.transform) > 1 else lower[place]


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
        waves = encode_times((asked.time - last) / spans[1], projection.frequency, projection.phase)
        multiply(waves, projection.of_pause, hidden)
        relu(hidden)
        return linear(hidden, projection.out, projection.out_bias), past, hidden[:, :0].copy()
    described, encoded = encode_rows(past, asked.partners, asked.time, asked.seen, projection.encoding)
    known = linear(described, projection.of_statistics, 0)
    if len(projection.of_node) > 0:
        multiply(first_inputs(asked.node, inputs), projection.of_node, known)
    z, _ = join(asked.embedding, known, projection.joining)
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
    if len(head.of_pair) > 0:
        weigh(left, z, head.of_pair, logits)
    if len(head.bias) > 0:
        given = encoded if len(head.second) > 0 else z
        ours = linear(given[:left], head.of_left, 0)
        hidden = linear(given[left:], head.of_right, head.bias)
        if len(head.of_walks) > 0:
            multiply(walks, head.of_walks, hidden)
        if len(head.of_pairs) > 0:
            multiply(encode_pairs(pairs, head.pair_encoding), head.of_pairs, hidden)
        _join_ends(left, ours, hidden)
        if len(head.second) > 0:
            hidden = linear(hidden, head.second, head.second_bias)
        output = min(question, len(head.out) - 1)
        _add_weighed(hidden, head.out[output], head.out_bias[output], logits)
    return logits, walks, pairs, past


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


@program
def classify_representations(  # type: ignore[no-untyped-def]
    asked, features, counting, describing, sketching, head, classifier
):
    """`classify` from the representations of both ends and the features."""
    z, _, _ = represent(asked, describing)
    described = empty_rows(len(z) // 2, len(classifier.centre), z)
    _standardise(z, features, classifier.centre, classifier.scale, described)
    first = linear(described, classifier.first, classifier.first_bias)
    relu(first)
    logits = np.zeros(len(described), dtype=z.dtype)
    second = linear(first, classifier.second, classifier.second_bias)
    _add_weighed(second, classifier.third, classifier.third_bias[0], logits)
    return link(asked, len(logits), 0, counting, describing, sketching, head), logits


@fast
def _standardise(z: Any, features: Any, centre: Any, scale: Any, described: Any) -> None:
    """Fill described [Q, w]."""
    size, width = len(described), z.shape[1]
    for q in range(size):
        for j in range(width):
            described[q, j] = (z[q, j] - centre[j]) / scale[j]
            described[q, width + j] = (z[size + q, j] - centre[width + j]) / scale[width + j]
        for j in range(2 * width, described.shape[1]):
            described[q, j] = (features[q, j - 2 * width] - centre[j]) / scale[j]


represent_few = whole(represent)


@whole
def absorb_few(view: Any, before: Any, features: Any, arenas: Any, kept: Any) -> Any:
    """`absorb`, with what it takes of the model."""
    return absorb(view, before, features, arenas, *kept.parts)


@whole
def link_few(asked: Any, left: Any, question: Any, kept: Any) -> Any:
    """`link`, with what it takes of the model."""
    return link(asked, left, question, *kept.parts)


@whole
def classify_few(asked: Any, features: Any, kept: Any, classifier: Any) -> Any:
    """`classify`, with what it takes of the model and of the classifier."""
    return classify(asked, features, *kept.parts, *classifier.parts)


@whole
def classify_representations_few(asked: Any, features: Any, kept: Any, classifier: Any) -> Any:
    """`classify_representations`, with what it takes of the model and of the classifier."""
    return classify_representations(asked, features, *kept.parts, *classifier.parts)
