"""What the bits of a result depend on beside data and options: versions, and the engine's own code."""

import hashlib
import sys
from importlib.metadata import version
from pathlib import Path


def versions() -> dict[str, str]:
    """Versions of this process by name; ``code`` is a hash of the engine.

    Examples
    --------
    >>> sorted(versions())
    ['code', 'fedskew', 'numpy', 'python', 'torch']
    """
    import numpy as np
    import torch

    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return {
        "fedskew": version("fedskew"),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": ".".join(map(str, sys.version_info[:2])),
        "code": digest.hexdigest(),
    }
