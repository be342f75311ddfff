"""What `advance` and `score` do for the paper's model with attention where no gradient is wanted, on plain arrays.

The dense products stay with the matrix library, on as few rows as in the general form or fewer. What lies between two
of them is one compiled loop, and the states of the chains are replaced where they stand.

The last layer of the projection and the dot product are one bilinear form, so only left ends pay for a product:

    z = W x + b        z_u . z_v = (W'W x_u + W'b) . x_v + W'b . x_u + b . b

For evaluation on the CPU, with a dot product and learned node vectors, with neither gates, self connection nor given
features; otherwise `Sweep.of` is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.numba_intrinsics import fast
from tapgnn.compiled.row_lookup import find_row, put_rows
from tapgnn.compiled.scan_loops import over_segments, softmax_forward
from tapgnn.events import Floats
from tapgnn.model.features.node_statistics import fold_facts
from tapgnn.model.time_encoding import encode
from tapgnn.model.trace import Reached
from tapgnn.unfold import Unfolding

if TYPE_CHECKING:
    from tapgnn.model.model import Model
    from tapgnn.model.state import Places, State


class Sweep:
    """The weights of a model as they are used here: tensors for products, arrays for loops."""

    def __init__(self, model: Model) -> None:
        self.tensors = (*model.parameters(), *model.buffers())
        self.versions = [tensor._version for tensor in self.tensors]
        self.config = model.config
        self.rate = model.count_rate.numpy() / model.config.events
        vectors: Any = model.inputs.vectors
        self.vectors = vectors.weight.detach().numpy()
        self.encoding = model.encoding.arrays()
        self.layers = [_layer(block) for block in model.blocks]
        self.pause_encoding, self.hidden, self.form = _projection(model.projection)

    @staticmethod
    def of(model: Model, kept: Sweep | None) -> Sweep | None:
        """The sweep of a model, made anew if its weights changed since `kept` was; None where the model has none."""
        if model.training:
            return None
        if kept is not None and kept.versions == [tensor._version for tensor in kept.tensors]:
            return kept
        return Sweep(model) if _is_plain_attention(model) else None

    def absorb(self, view: Unfolding, seen: Floats, state: State) -> Reached:
        """Write the rows of the active nodes into the state; see `Reached`."""
        sums, *arenas = state.arrays()
        rows = view.nodes + 1
        carried = [arena.take(rows, axis=0) for arena in arenas]
        facts, elapsed = np.empty((view.size, carried[0].shape[1])), np.empty((view.size, 2))
        fold_facts(view.chain, view.inbox, view.role, view.time, seen, self.rate, carried[0], facts, elapsed)
        embedding, lower = self._embed(view, rows, sums)
        reached = (facts, embedding, np.empty((view.size, 0), dtype=carried[2].dtype))
        for arena, table in zip(arenas, reached, strict=True):
            put_rows(view.nodes, view.chain[1:] - 1, table, 0, arena)
        return Reached(*map(torch.from_numpy, (*reached, *carried, lower)))

    def _embed(self, view: Unfolding, rows: Any, sums: Any) -> Any:
        """h_K and h_{K-1} [T, d], layer by layer; the sums of the nodes are replaced."""
        width, size, start = self.config.width, view.size, 0
        table, row = self.vectors.take(np.where(rows < len(self.vectors), rows, 0), axis=0), view.owner()
        instants = (view.instants - self.config.origin) / self.config.span
        waves = torch.from_numpy(_encoded(instants, self.encoding))
        for weight, bias, of_time, of_sender, of_receiver in self.layers:
            below, place = table, row
            plain = torch.addmm(bias, torch.from_numpy(table), weight).numpy()
            times = torch.mm(waves, of_time).numpy()
            value, sent, heard = np.empty((size, width), dtype=table.dtype), *np.empty((2, size), dtype=table.dtype)
            weighed = (row, view.instant, table, plain, times, of_sender, of_receiver, value, sent, heard)
            over_segments(_send, view.chain, width, *weighed)
            table, row = np.empty_like(value), np.arange(size)
            messages = (view.inbox, view.sender, sent, heard, value)
            over_segments(softmax_forward, view.chain, width, *messages, rows, start, sums, table)
            start += width + 2
        return table, below.take(place, axis=0) if len(self.layers) == 1 else below

    def link(self, places: Places, left: int) -> Tensor:
        """Logits [Q] of pairs, given as to `Model.link`."""
        of_facts, of_embeddings, _ = places.owner.table_arrays()
        embedding, pause = _recall(places.place, places.row, places.time, of_facts, of_embeddings)
        waves = _encoded(pause / self.config.span, self.pause_encoding)
        of_embedding, of_waves, bias = self.hidden
        hidden = torch.addmm(bias, torch.from_numpy(embedding), of_embedding)
        hidden.addmm_(torch.from_numpy(waves), of_waves).relu_()
        form, shift, constant = self.form
        asked = torch.addmm(shift, hidden[:left], form)
        return torch.from_numpy(_match(asked.numpy(), hidden.numpy(), shift.numpy(), constant))


def _is_plain_attention(model: Model) -> bool:
    config = model.config
    return (
        config.kernel == "attention"
        and config.head == "dot"
        and config.node_vectors
        and not (config.roles or config.self_connection or config.facts or config.node_features or config.edge_features)
        and not model.sketched
        and model.device.type == "cpu"
    )


def _layer(block: Any) -> tuple[Any, ...]:
    """The weights of a block: those of its products, transposed, and q_u and q_v as arrays."""
    kernel = block.kernel
    products = (block.transform.weight.T, block.transform.bias, block.of_time.weight.T)
    queries = (part.weight.detach().numpy()[0] for part in (kernel.of_sender, kernel.of_receiver))
    return (*(weight.detach() for weight in products), *queries)


def _projection(projection: Any) -> tuple[Any, ...]:
    """The encoding of pauses, the weights of the hidden layer, and W'W, W'b and b . b of the last one."""
    weight, bias = projection.out.weight.detach(), projection.out.bias.detach()
    of_inputs = projection.hidden.weight.detach().T
    hidden = (of_inputs[: len(bias)], of_inputs[len(bias) :], projection.hidden.bias.detach())
    return projection.encoding.arrays(), hidden, (weight.T @ weight, weight.T @ bias, float(bias @ bias))


def _encoded(time: Floats, encoding: tuple[Any, Any]) -> Any:
    """cos(W t + b) [., time_width] of times in spans."""
    waves = np.empty((len(time), len(encoding[1])), dtype=encoding[1].dtype)
    encode(time, *encoding, waves)
    return waves


@fast
def _send(first, last, chain, row, instant, table, plain, times, of_sender, of_receiver, value, sent, heard):  # type: ignore[no-untyped-def]
    """What each temporal node i of the chains first to last sends, and both its shares of the scores.

    value_i = plain[row_i] + times[instant_i], sent_i = q_u . value_i, heard_i = q_v . table[row_i]
    """
    for i in range(chain[first], chain[last]):
        own, node, wave, message = table[row[i]], plain[row[i]], times[instant[i]], value[i]
        for j in range(len(message)):
            message[j] = node[j] + wave[j]
        sent[i], heard[i] = _dot(of_sender, message), _dot(of_receiver, own)


@fast
def _recall(place, row, time, of_facts, of_embeddings):  # type: ignore[no-untyped-def]
    """The embedding [Q, d] of each query, and the pause [Q] since; infinite where there never was an event."""
    arena = of_embeddings[2]
    embedding, pause = np.empty((len(place), arena.shape[1]), dtype=arena.dtype), np.empty(len(place))
    for q in range(len(place)):
        facts = find_row(place[q], row[q], of_facts[0], of_facts[1], of_facts[2])
        pause[q] = time[q] - max(facts[2], facts[3])
        mine = find_row(place[q], row[q], of_embeddings[0], of_embeddings[1], of_embeddings[2])
        for j in range(len(mine)):
            embedding[q, j] = mine[j]
    return embedding, pause


@fast
def _match(asked, hidden, shift, constant):  # type: ignore[no-untyped-def]
    """[Q] logits of the left ends, asked [left, d], and the right ends in blocks of as many, all hidden [., d]."""
    left = len(asked)
    logits = np.empty(len(hidden) - left, dtype=hidden.dtype)
    for q in range(len(logits)):
        u = q % left
        logits[q] = _dot(asked[u], hidden[left + q]) + _dot(shift, hidden[u]) + constant
    return logits


@fast
def _dot(first, second):  # type: ignore[no-untyped-def]
    total = first[0] * second[0]
    for j in range(1, len(first)):
        total += first[j] * second[j]
    return total
