"""Local-only training, a reference line and no candidate: nothing is shared, every party keeps its own model.

It answers each party's question: does federation pay for me?
"""

from fedskew.engine.algorithms.base import Algorithm


def nothing(name: str, layer: str) -> bool:  # noqa: ARG001
    """Share no weight."""
    return False


LOCAL_ONLY = Algorithm(
    name="local_only",
    title="local only",
    source="reference line: each party trains alone",
    link="",
    shared=nothing,
    traffic=0.0,
    client_state=1,
)
