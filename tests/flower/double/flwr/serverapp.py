"""A ServerApp that knows its main function, and a grid that calls a ClientApp at once."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from flwr.app import Context, Message


class ServerApp:
    def __init__(self) -> None:
        self.function: Callable[..., Any] | None = None

    def main(self) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self.function = function
            return function

        return decorate


class Grid:
    """``tamper`` may change or swallow (None) a reply: it gets node, type and reply."""

    def __init__(self, client: Any, nodes: int, config: dict[str, Any]) -> None:
        self.client = client
        self.contexts = {7 * i + 3: Context({"partition-id": i}, config) for i in range(nodes)}
        self.tamper: Callable[[int, str, Any], Any] = lambda _node, _what, reply: reply

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            try:
                reply = self.client.known[message.message_type](message, self.contexts[node])
            except Exception as error:  # noqa: BLE001 - as Flower does
                reply = Message(None, reply_to=message, error=SimpleNamespace(reason=str(error)))
            replies.append(self.tamper(node, message.message_type, reply))
        return [reply for reply in replies[::-1] if reply is not None]  # in no order to rely on
