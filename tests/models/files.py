"""Where the small real model lies."""
import os
from pathlib import Path


def model_file():
    """The small real model in the cache (tools/fetch-model smollm2), or None."""
    cache = os.environ.get("TANDEM_CACHE", os.path.expanduser("~/.cache/tandem"))
    path = Path(os.environ.get("TANDEM_TEST_MODEL") or f"{cache}/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    return path if path.is_file() else None
