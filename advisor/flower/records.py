"""Tensors and arrays in and out of Flower's records."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray
from torch import Tensor


def packed(values: Mapping[str, Tensor | NDArray[Any]]) -> ArrayRecord:
    """A record of named tensors or arrays, in their own types."""
    arrays = {name: v.detach().cpu().numpy() if isinstance(v, Tensor) else v for name, v in values.items()}
    return ArrayRecord({name: Array(np.ascontiguousarray(v)) for name, v in arrays.items()})


def arrays_of(record: Mapping[str, Array]) -> dict[str, NDArray[Any]]:
    """The arrays of a record."""
    return {name: array.numpy() for name, array in record.items()}


def tensors_of(record: Mapping[str, Array]) -> dict[str, Tensor]:
    """The arrays of a record as tensors of their own."""
    return {name: torch.from_numpy(array.copy()) for name, array in arrays_of(record).items()}


def all_finite(values: Mapping[str, Tensor]) -> bool:
    """Whether no number is NaN or infinite."""
    return all(bool(torch.isfinite(v).all()) for v in values.values())
