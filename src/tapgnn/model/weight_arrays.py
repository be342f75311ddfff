"""The weights of a model as arrays, in records that compiled code takes: one shape for every configuration.

A part that a model lacks has arrays without rows or columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.parallel import view as array_of
from tapgnn.compiled.projection_fused import JoinWeights
from tapgnn.model.event_classifier import FactClassifier
from tapgnn.model.features.pair_encoder import PairEncoding
from tapgnn.model.features.statistics_encoder import Encoding
from tapgnn.model.heads import Additive, Dot, RoleDot
from tapgnn.model.projection import NoProjection, Projection

if TYPE_CHECKING:
    from tapgnn.model.model import Model


class InputArrays(NamedTuple):
    """h_0: vectors [1 + N, d], and features [1 + M, f] with the weight [f, d] and bias [d] of their transform."""

    vectors: Any
    features: Any
    weight: Any
    bias: Any


class BlockArrays(NamedTuple):
    """The blocks, stacked: see `Block`; their kernel's number and weights, and whether gates are more than ones."""

    form: int
    gated: bool
    transform: Any
    bias: Any
    of_time: Any
    of_edge: Any
    of_category: Any
    first_code: Any
    gate: Any
    own: Any
    scale: Any
    shift: Any
    scan_weight: Any


class ClockArrays(NamedTuple):
    """Origin and spans of the clocks, rates of the decayed counts [H] per event, and the encoding of instants."""

    spans: Any
    count_rate: Any
    frequency: Any
    phase: Any


class ProjectionArrays(NamedTuple):
    """Of the projection with statistics, their weights, what joins them with h, and h_0's; or of that of the paper.

    shortest is the pause that the logarithm of pauses counts in, 0 where pauses themselves are encoded.
    """

    encoding: Any
    of_statistics: Any
    join_weights: Any
    of_node: Any
    frequency: Any
    phase: Any
    of_embedding: Any
    of_pause: Any
    shortest: float
    hidden_bias: Any
    out: Any
    out_bias: Any


class HeadArrays(NamedTuple):
    """Of any of the `heads`: weights of the pair, as in `pair_score`, and of the network of the head mlp.

    turn [2, d, d] and turn_bias [2, d] transform z by role (role-dot). The network has two hidden layers over
    statistics, walks and facts of the pair, of which the cosines are divided by walk_scale; without one, out_bias is
    that of the score.
    """

    walk_scale: Any
    pair_encoding: Any
    of_pair: Any
    turn: Any
    turn_bias: Any
    of_left: Any
    of_right: Any
    of_walks: Any
    of_pairs: Any
    bias: Any
    second: Any
    second_bias: Any
    out: Any
    out_bias: Any


class ClassifierArrays(NamedTuple):
    """Columns used and their intervals, and the members as one network.

    first [I, M h + 1] holds the first layers of the members side by side and, last, the mean of their additive parts;
    second [M, h, s] and out [M, s] a member each, the outputs over M.
    """

    used: Any
    low: Any
    steepness: Any
    first: Any
    first_bias: Any
    second: Any
    second_bias: Any
    out: Any


def input_arrays(model: Model) -> InputArrays:
    """Of h_0."""
    inputs, width = model.inputs, model.config.width
    vectors = inputs.features.new_zeros(0, width) if inputs.vectors is None else inputs.vectors.weight
    if inputs.of_features is None:
        weight, bias = vectors.new_zeros(width, 0), vectors.new_zeros(width)
    else:
        weight, bias = inputs.of_features.weight, inputs.of_features.bias
    return InputArrays(array_of(vectors), array_of(inputs.features), array_of(weight.T), array_of(bias))


def block_arrays(model: Model) -> BlockArrays:
    """Of the blocks."""
    blocks, width = model.layers, model.config.width
    like = blocks[0].transform.weight

    def stacked(tensors: list[Tensor]) -> Any:
        return array_of(torch.stack(tensors))

    def weights(part: str) -> Any:
        maps = [getattr(block, part) for block in blocks]
        # A block without the part of another has weights of 0.
        size = max(0 if part is None else part.in_features for part in maps)
        return stacked([like.new_zeros(size, width) if part is None else part.weight.T for part in maps])

    ends = [block.end or (like.new_zeros(0),) * 3 for block in blocks]
    gates = [like.new_ones(2, width) if block.gate is None else block.gate for block in blocks]
    vectors = [like.new_zeros(0, width) if block.of_category is None else block.of_category.weight for block in blocks]
    own, scale, shift = (stacked(list(tensors)) for tensors in zip(*ends, strict=True))
    return BlockArrays(
        form=blocks[0].kernel.array_form or 0,
        gated=blocks[0].gate is not None,
        transform=weights("transform"),
        bias=stacked([block.transform.bias for block in blocks]),
        of_time=weights("of_time"),
        of_edge=weights("of_edge"),
        of_category=stacked(vectors),
        first_code=array_of(blocks[0].first_code),
        gate=stacked(gates),
        own=own,
        scale=scale,
        shift=shift,
        scan_weight=stacked([block.kernel.scan_weights() for block in blocks]),
    )


def statistics_encoding(model: Model) -> Encoding:
    """How the statistics of nodes are encoded; without columns in a model without them."""
    if model.statistics is not None:
        return model.statistics.arrays()
    row = array_of(model.walk_scale.new_zeros(0))
    edges = array_of(model.walk_scale.new_zeros(0, 1))
    return Encoding(1.0, np.empty(0), row, row, np.empty(0, dtype=np.int64), edges)


def pair_encoding(model: Model) -> PairEncoding:
    """How the facts of pairs are encoded; without columns in a model without them."""
    if model.pairs is not None:
        return model.pairs.arrays()
    row = array_of(model.walk_scale.new_zeros(0))
    return PairEncoding(row, row, row.reshape(0, 0))


def projection_arrays(model: Model) -> ProjectionArrays:
    """Of the projection."""
    projection, like = model.projection, model.walk_scale
    row, rows = array_of(like.new_zeros(0)), array_of(like.new_zeros(0, model.config.width))
    arrays = ProjectionArrays(
        statistics_encoding(model),
        rows,
        JoinWeights(row, row, row, row),
        rows,
        row,
        row,
        rows,
        rows,
        0.0,
        row,
        rows,
        row,
    )
    if isinstance(projection, Projection):
        hidden, width = projection.hidden.weight.T, model.config.width
        return arrays._replace(
            frequency=array_of(projection.encoding.frequency),
            phase=array_of(projection.encoding.phase),
            of_embedding=array_of(hidden[:width]),
            of_pause=array_of(hidden[width:]),
            shortest=projection.shortest,
            hidden_bias=array_of(projection.hidden.bias),
            out=array_of(projection.out.weight.T),
            out_bias=array_of(projection.out.bias),
        )
    if isinstance(projection, NoProjection):
        return arrays
    return arrays._replace(
        of_statistics=array_of(projection.of_statistics.weight.T),
        join_weights=JoinWeights(*map(array_of, projection.weights())),
        of_node=rows if projection.of_node is None else array_of(projection.of_node.weight.T),
    )


def head_arrays(model: Model) -> HeadArrays:
    """Of the head."""
    head, like = model.head, model.walk_scale
    row, rows = array_of(like.new_zeros(0)), array_of(like.new_zeros(0, 0))
    turn = array_of(like.new_zeros(0, 0, 0))
    arrays = HeadArrays(
        array_of(like), pair_encoding(model), rows, turn, rows, rows, rows, rows, rows, row, rows, row, rows, row
    )
    if isinstance(head, Dot | RoleDot):
        product = array_of(like.new_tensor([[0.0], [0.0], [head.scale]]).expand(3, model.config.width))
        if isinstance(head, Dot):
            return arrays._replace(of_pair=product)
        ends = (head.of_left, head.of_right)
        turn, bias = torch.stack([end.weight.T for end in ends]), torch.stack([end.bias for end in ends])
        return arrays._replace(of_pair=product, turn=array_of(turn), turn_bias=array_of(bias))
    if isinstance(head, Additive):
        both = head.of_both.weight.view(2, -1)
        of_pair = torch.cat([both, torch.zeros_like(both[:1])])
        return arrays._replace(of_pair=array_of(of_pair), out_bias=array_of(head.of_both.bias))
    arrays, direct = arrays._replace(of_pair=array_of(head.of_pair)), head.direct
    if direct is None:
        return arrays
    nothing = direct.bias.new_zeros(0, len(direct.bias))
    maps = (direct.of_left, direct.of_right, direct.of_walks, direct.of_pairs)
    parts = [nothing if part is None else part.weight.T for part in maps]
    return arrays._replace(
        of_left=array_of(parts[0]),
        of_right=array_of(parts[1]),
        of_walks=array_of(parts[2]),
        of_pairs=array_of(parts[3]),
        bias=array_of(direct.bias),
        second=array_of(direct.second.weight.T),
        second_bias=array_of(direct.second.bias),
        out=array_of(direct.out.weight),
        out_bias=array_of(direct.out.bias),
    )


@torch.no_grad()
def classifier_arrays(classifier: FactClassifier, dtype: torch.dtype) -> ClassifierArrays:
    """Of a classifier of events, in the type of the model that it is used with."""
    own = classifier
    first = torch.cat([own.first.transpose(0, 1).flatten(1), own.additive.mean(dim=0).unsqueeze(1)], dim=1)
    bias = torch.cat([own.first_bias.flatten(), own.bias.mean().unsqueeze(0) + own.shift])
    rest = (first, bias, own.second, own.second_bias, own.out / len(own.bias))
    used, *arrays = (array_of(tensor) for tensor in (own.used, *(part.to(dtype) for part in (own.low, own.steepness))))
    return ClassifierArrays(used, *arrays, *(array_of(part.to(dtype)) for part in rest))
