"""What a result was made with: versions of the libraries, and a hash of the code it depends on."""

import hashlib
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

VERSIONED = ("fedskew", "torch", "numpy", "scipy", "polars")
ROOMS = ("engine", "profiles")  # whose code decides what a result is


@cache
def environment() -> dict[str, str]:
    """Versions and the code that results depend on.

    Examples
    --------
    >>> sorted(environment())[:2]
    ['code', 'fedskew']
    """
    digest = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((Path(__file__).resolve().parents[2] / room).rglob("*.py")):
            digest.update(path.read_bytes())
    python = ".".join(map(str, sys.version_info[:3]))
    return {**{name: version(name) for name in VERSIONED}, "python": python, "code": digest.hexdigest()[:16]}
