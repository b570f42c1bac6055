"""Let the engine's tests import their oracle, the plain loop beside them, from wherever pytest is started."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)
