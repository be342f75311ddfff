"""Skip-gram: node vectors from walks, by gensim's Word2Vec with negative sampling.

    maximise  the sum, over v and u within a window of each other, of
              log s(z_v . c_u) + sum over drawn w of log s(-z_v . c_w)

(Mikolov et al., "Distributed Representations of Words and Phrases and their Compositionality", NIPS 2013; s is the
logistic function.) A node that no walk reached has the vector zero. One worker, because with more the result depends on
how the threads interleave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tapgnn.baselines.shared.labelled_pairs import Table
from tapgnn.baselines.static.embedding_method import EmbeddingMethod
from tapgnn.errors import ConfigError
from tapgnn.events import Ints

# Skip-gram with negative sampling alone, on every step of every walk.
FIXED = {"sg": 1, "hs": 0, "min_count": 1, "sample": 0, "workers": 1}


class SkipGram:
    """A skip-gram model that can be trained further on more walks; `table` has its vectors so far."""

    def __init__(self, width: int, window: int, negatives: int, epochs: int, seed: int) -> None:
        try:
            from gensim.models import Word2Vec
        except ImportError as error:
            raise ConfigError("this method needs gensim, which is missing; pip install 'tapgnn[peers]'") from error
        variable = {"vector_size": width, "window": window, "negative": negatives, "epochs": epochs}
        self._model: Any = Word2Vec(**variable, **FIXED, seed=seed % (1 << 32))

    def train(self, walks: Ints) -> None:
        """Train on walks [W, length] of rows, -1 after their ends; vectors that exist already are the start."""
        sentences, model = _sentences(walks), self._model
        model.build_vocab(sentences, update=bool(len(model.wv)))
        model.train(sentences, total_examples=len(sentences), epochs=model.epochs)

    def table(self, nodes: int) -> Table:
        """[nodes, d] the vectors, zero for a node that was in no walk."""
        vectors = np.zeros((nodes, self._model.vector_size), dtype=np.float32)
        rows = np.array([int(word) for word in self._model.wv.index_to_key], dtype=np.int64)
        vectors[rows] = self._model.wv.vectors[: len(rows)]
        return vectors


@dataclass(eq=False)
class WalkMethod(EmbeddingMethod):
    """Vectors by skip-gram: `walks` of `length` nodes per node, a context of `window` nodes on either side."""

    width: int = 128
    walks: int = 10
    length: int = 80
    window: int = 10
    negatives: int = 5
    epochs: int = 1

    def _skip_gram(self) -> SkipGram:
        return SkipGram(self.width, self.window, self.negatives, self.epochs, self.seed)


def _sentences(walks: Ints) -> list[list[str]]:
    """Walks [W, length] as lists of words, without the -1 at their ends."""
    # One string per node, shared by all walks: there are millions of steps.
    names = np.array([str(row) for row in range(int(walks.max(initial=-1)) + 1)], dtype=object)
    sizes = (walks >= 0).sum(axis=1).tolist()
    return [names[walk[:size]].tolist() for walk, size in zip(walks, sizes, strict=True)]
