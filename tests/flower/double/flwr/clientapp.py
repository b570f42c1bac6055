"""A ClientApp that knows its functions by the type of message."""

from collections.abc import Callable
from typing import Any


class ClientApp:
    def __init__(self) -> None:
        self.known: dict[str, Callable[..., Any]] = {}

    def _register(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self.known[name] = function
            return function

        return decorate

    def query(self) -> Any:
        return self._register("query")

    def train(self) -> Any:
        return self._register("train")

    def evaluate(self) -> Any:
        return self._register("evaluate")
