"""Baselines: one file a method, all behind the one protocol class `Method`."""

from tapgnn.baselines.edgebank import EdgeBank
from tapgnn.baselines.method import Method, replay
from tapgnn.baselines.popularity import Popularity
from tapgnn.baselines.recency import Recency

__all__ = ["EdgeBank", "Method", "Popularity", "Recency", "replay"]
