"""What a study's results depend on is hashed: code that is there, and all of it."""

import hashlib
from pathlib import Path

from fedskew.advisor.study import versions

ROOT = Path(__file__).resolve().parents[2]


def test_the_code_that_decides_results_is_found_and_hashed() -> None:
    files = [path for room in versions.ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    assert len(files) > 100
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files))
    assert versions.environment()["code"] == digest.hexdigest()[:16]
