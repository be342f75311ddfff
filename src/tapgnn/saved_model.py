"""A saved model as it lies in its folder: the scores of some pairs, in numpy.

Loading torch and compiled code takes several times as long as the answer to a question from the command line. So a
folder is checked once, by `TAPGNN.load`, and the checksum of its model.json is noted in the cache folder; from then on
its files are compared with the checksums in model.json, and read as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from tapgnn import __version__
from tapgnn.cache_folder import cache_folder
from tapgnn.data.schema import Schema
from tapgnn.events import Floats, Ints
from tapgnn.file_integrity import bytes_sha256, write_atomically
from tapgnn.fitted_queries import FittedQueries
from tapgnn.model.config import Config
from tapgnn.model.numpy_queries import NumpyQueries
from tapgnn.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tapgnn.estimator import TAPGNN

MANIFEST, VOCABULARY, SCHEMA = "model.json", "vocabulary.json", "schema.json"
WEIGHTS, STATE, ESTIMATOR = "weights.safetensors", "state.safetensors", "estimator.safetensors"
# In the cache folder: the fingerprints of what was checked, a line each, the latest last, and how many are kept.
CHECKED, KEPT = "checked-models.txt", 1_000
# Pairs that are scored at once.
PIECE = 4_096


def open_model(folder: str | Path) -> FittedQueries:
    """The model in a folder; one that is missing, damaged, older or newer is a clear error."""
    path = Path(folder)
    manifest = _content(path / MANIFEST)
    if _fingerprint(manifest) not in _checked():
        _load_whole(path)
        note_checked(path)
    expected = json.loads(manifest)["sha256"]
    files = {name: _content(path / name) for name in (VOCABULARY, SCHEMA, WEIGHTS, STATE, ESTIMATOR)}
    intact = all(bytes_sha256(content) == expected.get(name) for name, content in files.items())
    return SavedModel(path, json.loads(manifest)["config"], files) if intact else _load_whole(path)


def note_checked(folder: str | Path) -> None:
    """Note a model that was checked, or was written just now; where nothing can be, every question checks it anew."""
    fingerprints = [*_checked(), _fingerprint(_content(Path(folder) / MANIFEST))]
    try:
        write_atomically(cache_folder() / CHECKED, "\n".join(fingerprints[-KEPT:]) + "\n")
    except OSError:
        return


class SavedModel(FittedQueries):
    """What `TAPGNN.load` reads, for scores at times after its log; anything else is asked of all of the model."""

    def __init__(self, folder: Path, config: dict[str, Any], files: Mapping[str, bytes]) -> None:
        self.folder, self.config = folder, Config.from_dict(config)
        self._vocabulary = Vocabulary(json.loads(files[VOCABULARY]))
        self._schema = Schema.from_dict(json.loads(files[SCHEMA])["schema"])
        self.candidates_ = load(files[ESTIMATOR])["candidates"]
        state = files[STATE]
        header = json.loads(state[8 : 8 + int.from_bytes(state[:8], "little")])
        counters = json.loads(header["__metadata__"]["about"])
        self.clock = float(counters["clock"])
        self.queries = NumpyQueries(self.config, load(files[WEIGHTS]), load(state), counters["events"])

    @cached_property
    def whole(self) -> TAPGNN:
        """All of the model."""
        return _load_whole(self.folder)

    @property
    def vocabulary(self) -> Vocabulary:
        """The ids that the model knows."""
        return self._vocabulary

    @property
    def schema(self) -> Schema:
        """What the columns of the table mean."""
        return self._schema

    @property
    def now(self) -> float:
        """The time of a question without one: just after the last event."""
        return self.clock + self.config.unit

    def embed_rows(self, node: Ints, when: Floats) -> NDArray[np.float32]:
        """z [Q, d] of rows of the vocabulary at times in the unit of the log."""
        return self.whole.embed_rows(node, when)

    def score_rows(self, src: Ints, dst: Ints, when: Floats) -> Floats:
        """Logits [Q] of links of rows of the vocabulary; one source, at one time, may stand for all."""
        if not (when > self.clock).all():
            return self.whole.score_rows(src, dst, when)
        # In the type of the model: how many are asked together then changes no digit.
        found = np.empty(len(dst), dtype=self.queries.weights["walk_scale"].dtype)
        for start in range(0, len(dst), PIECE):
            piece = slice(start, start + PIECE)
            found[piece] = self.queries.link(src if len(src) == 1 else src[piece], dst[piece], when[piece])
        return found.astype(np.float64)


def _load_whole(folder: Path) -> TAPGNN:
    from tapgnn.estimator import TAPGNN

    return TAPGNN.load(folder)


def _content(path: Path) -> bytes:
    """The content of a regular file; of anything else nothing, which no checksum is of. A pipe would never end."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


def _fingerprint(manifest: bytes) -> str:
    """What stands for a model.json and the version that checks it."""
    return bytes_sha256(b"%s\0%s" % (__version__.encode(), manifest))


def _checked() -> list[str]:
    """The fingerprints of what was checked."""
    return _content(cache_folder() / CHECKED).decode(errors="replace").split()
