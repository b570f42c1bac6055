"""Let the engine's tests import their oracle, the plain loop beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
