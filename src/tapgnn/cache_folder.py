"""The folder of what can be fetched or found out again: downloads, and which models were checked."""

import os
from pathlib import Path

from platformdirs import user_cache_dir


def cache_folder() -> Path:
    """TAPGNN_CACHE, or the cache folder of the platform."""
    return Path(os.environ.get("TAPGNN_CACHE") or user_cache_dir("tapgnn"))
