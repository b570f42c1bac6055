"""What the models of the concept test see of a row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.encoding import encode
from fedskew.profiles.kernel import CHUNK_BYTES, NARROW, PAIRS, Projection, projection, random_features
from fedskew.profiles.partitions import Partition

COMPONENTS = 8  # principal components of the random features that a party may treat differently
Vector = NDArray[np.float64]


def concept_features(partition: Partition, rows: NDArray[np.int64]) -> tuple[NDArray[np.float32], Vector]:
    """Random features, summaries of the row and, for few columns, finer ones; and the principal components.

    Parameters
    ----------
    partition : dense or sparse table, or images
    rows : (n,) row numbers

    Returns
    -------
    (n, D) float32 for the models, and (n, 8) float64 at most, of variance 1
    """
    by = projection(partition)
    if partition.modality == "tabular":
        by = Projection(by.how, by.frequencies / np.float32(NARROW))  # labels change more slowly in x than noise does
    step = max(256, CHUNK_BYTES // (4 * int(np.prod(partition.features.shape[1:])) + 1))
    pieces = (partition.features[rows[at : at + step]] for at in range(0, len(rows), step))
    features = np.concatenate([_chunk(piece, by) for piece in pieces])
    wide = features[:, : 2 * PAIRS]
    many = 4 if isinstance(partition.features, np.ndarray) else 2
    summaries = features[:, 2 * PAIRS : 2 * PAIRS + many]
    summaries -= summaries.mean(axis=0)
    summaries /= np.maximum(summaries.std(axis=0), 1e-9)
    centred = wide - wide.mean(axis=0, dtype=np.float64)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(rows))
    kept = np.flatnonzero(values > 1e-6)[::-1][:COMPONENTS]
    return features, centred @ (vectors[:, kept] / np.sqrt(values[kept]))


def _chunk(part: Any, by: Projection) -> NDArray[np.float32]:
    """Features of some rows side by side: the random ones, then the summaries, then the rest."""
    scaled = encode(part, by.how)
    parts: list[NDArray[Any]] = [random_features(part, by), _summaries(scaled)]
    if isinstance(scaled, np.ndarray) and scaled.ndim == 2 and scaled.shape[1] <= 200:
        parts.append(scaled)
        if scaled.shape[1] <= 20:
            parts += [scaled**2, random_features(part, Projection(by.how, by.frequencies[:, ::-1] * np.float32(3)))]
    return np.hstack(parts).astype(np.float32, copy=False)


def _summaries(scaled: Any) -> NDArray[np.float64]:
    """Mean, standard deviation and roughness of each row: noise shows in them before anywhere else."""
    if not isinstance(scaled, np.ndarray):
        length = np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel()
        return np.stack([np.asarray(scaled.sum(axis=1)).ravel(), length], axis=1)
    flat = scaled.reshape(len(scaled), -1)
    rough = np.abs(np.diff(flat, axis=1)).mean(axis=1) if flat.shape[1] > 1 else flat[:, 0]
    return np.stack([flat.mean(axis=1), flat.std(axis=1), flat.var(axis=1), rough], axis=1)
