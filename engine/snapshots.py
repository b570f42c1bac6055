"""The state of a run as one safetensors file, and back, bit for bit. Written whole or not at all."""

import hashlib
import json
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fedskew.engine.states import PartyStore, RunState
from fedskew.profiles.atomic import write_atomically
from fedskew.profiles.errors import EnvironmentFaultError


def write_blob(path: Path, content: bytes) -> str:
    """Write a file whole or not at all; returns the SHA-256 of its content.

    Raises
    ------
    EnvironmentFaultError
        The disk is full or the folder cannot be written.
    """
    try:
        write_atomically(path, content)
    except EnvironmentFaultError as error:
        raise EnvironmentFaultError(
            f"{error} ({len(content):,} bytes); earlier rounds are kept, make room and run the same command again"
        ) from error
    return hashlib.sha256(content).hexdigest()


def read_blob(path: Path, sha256: str) -> bytes:
    """Read a file and check its SHA-256.

    Raises
    ------
    EnvironmentFaultError
        It is missing or was changed.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EnvironmentFaultError(f"cannot read {path}: {error.strerror}; start a new run folder") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise EnvironmentFaultError(f"{path} is damaged (its SHA-256 differs); start a new run folder")
    return content


def pack(state: RunState) -> bytes:
    """Turn a state into safetensors bytes; of the parties' states only those seen."""
    tensors: dict[str, Tensor] = {"weights": state.weights, "buffers": state.buffers}
    tensors |= {f"server/{name}": rows for name, rows in state.server.items()}
    for name, store in state.own.items():
        seen = torch.from_numpy(store.seen)
        tensors[f"own/{name}/default"] = store.default
        tensors[f"own/{name}/seen"] = seen.to(torch.uint8)
        tensors[f"own/{name}/rows"] = store.rows[seen]
    facts = json.dumps({"round": state.round_, "diverged": sorted(state.diverged.items())})
    # one entry: safetensors writes several in an order that differs from process to process
    return save({name: rows.contiguous() for name, rows in tensors.items()}, metadata={"state": facts})


def unpack(content: bytes) -> RunState:
    """Turn safetensors bytes back into the state they were made of.

    Raises
    ------
    EnvironmentFaultError
        The bytes are not a state.
    """
    try:
        tensors = load(content)
        size = int.from_bytes(content[:8], "little")
        facts = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["state"])
        own = {}
        for key in tensors:
            if key.startswith("own/") and key.endswith("/default"):
                name = key.removeprefix("own/").removesuffix("/default")
                own[name] = _store(tensors[key], tensors[f"own/{name}/seen"], tensors[f"own/{name}/rows"])
        return RunState(
            weights=tensors["weights"],
            buffers=tensors["buffers"],
            server={k.removeprefix("server/"): v for k, v in tensors.items() if k.startswith("server/")},
            own=own,
            round_=int(facts["round"]),
            diverged={int(place): int(round_) for place, round_ in facts["diverged"]},
        )
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise EnvironmentFaultError(f"a saved state cannot be read ({error}); start a new run folder") from error


def _store(default: Tensor, seen: Tensor, rows: Tensor) -> PartyStore:
    store = PartyStore.empty(default, seen.shape[1])
    store.rows[seen.bool()] = rows
    store.seen[:] = seen.numpy().astype(np.bool_)
    return store
