"""Records, messages and contexts."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np


class Array:
    def __init__(self, ndarray: Any) -> None:
        self.value = np.array(ndarray)

    def numpy(self) -> Any:
        return self.value


class ArrayRecord(dict[str, Array]):
    pass


class ConfigRecord(dict[str, Any]):
    pass


class MetricRecord(dict[str, Any]):
    pass


class RecordDict(dict[str, Any]):
    pass


class Message:
    def __init__(
        self, content: Any, dst_node_id: int = 0, message_type: str = "", reply_to: Any = None, error: Any = None
    ) -> None:
        self.content, self.message_type, self.error = content, message_type, error
        source = 0 if reply_to is None else reply_to.metadata.dst_node_id
        self.metadata = SimpleNamespace(dst_node_id=dst_node_id, src_node_id=source)

    def has_error(self) -> bool:
        return self.error is not None


@dataclass
class Context:
    node_config: dict[str, Any]
    run_config: dict[str, Any]
    state: RecordDict = field(default_factory=RecordDict)
