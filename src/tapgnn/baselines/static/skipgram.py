"""Skip-gram: node vectors from walks, by gensim's Word2Vec with negative sampling.

    maximise  the sum, over v and u within a window of each other, of
              log s(z_v . c_u) + sum over drawn w of log s(-z_v . c_w)

(Mikolov et al., "Distributed Representations of Words and Phrases and their Compositionality", NIPS 2013; s is the
logistic function.) A node that no walk reached has the vector zero. One worker, because with more the result depends on
how the threads take turns.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import ConfigError
from tapgnn.events import Ints

Table = NDArray[np.float32]


class SkipGram:
    """A skip-gram model that may go on learning from further walks; its vectors so far are `table`."""

    def __init__(self, width: int, window: int, negatives: int, epochs: int, seed: int) -> None:
        self._model: Any = _word2vec().Word2Vec(
            vector_size=width,
            window=window,
            negative=negatives,
            epochs=epochs,
            seed=seed % (1 << 32),
            sg=1,
            hs=0,
            min_count=1,
            sample=0,
            workers=1,
        )

    def learn(self, walks: list[list[str]]) -> None:
        """Train on sentences of row numbers; vectors that exist already are where it starts."""
        model = self._model
        model.build_vocab(walks, update=bool(len(model.wv)))
        model.train(walks, total_examples=len(walks), epochs=model.epochs)

    def table(self, nodes: int) -> Table:
        """[nodes, d] the vectors, zero for a node that was in no walk."""
        vectors = np.zeros((nodes, self._model.vector_size), dtype=np.float32)
        rows = np.array([int(word) for word in self._model.wv.index_to_key], dtype=np.int64)
        vectors[rows] = self._model.wv.vectors[: len(rows)]
        return vectors


def sentences(walks: Ints, shortest: int = 1) -> list[list[str]]:
    """Walks [W, length] as lists of words without the -1 at their ends; those with fewer nodes are left out."""
    # One string a node, shared by all walks: there are millions of steps.
    names = np.array([str(row) for row in range(int(walks.max(initial=-1)) + 1)], dtype=object)
    sizes = (walks >= 0).sum(axis=1).tolist()
    return [names[walk[:size]].tolist() for walk, size in zip(walks, sizes, strict=True) if size >= shortest]


def _word2vec() -> ModuleType:
    try:
        import gensim.models as models
    except ImportError as error:
        raise ConfigError(
            "this method learns with gensim, which is not installed; pip install 'tapgnn[peers]'"
        ) from error
    return models  # type: ignore[no-any-return]
