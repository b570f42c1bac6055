"""Concept shift: parties that label the same rows differently, beyond what their class shares and features explain."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.between import tail
from fedskew.profiles.concept_features import concept_features
from fedskew.profiles.feature import unidentified
from fedskew.profiles.keyed import generator
from fedskew.profiles.logistic import cross_fitted, fitted, log_softmax
from fedskew.profiles.partitions import Partition
from fedskew.profiles.records import ConceptSkew
from fedskew.profiles.rowhash import row_hashes, told_apart
from fedskew.profiles.severity import SIGNIFICANCE, severity

MOST_ROWS = 12_000  # rows that enter; fewer with many classes
MOST_PARTIES = 20  # the largest
FEWEST_ROWS = 20  # of a party
STRATUM = 20  # rows of one class with about the same propensity
RATIO = 2.0  # log likelihood ratio of party against the rest beyond which a row has no counterpart
OVERLAP = 0.25  # share of a party's rows that must have counterparts
SKETCH = 64
PARTS = 3
PRIOR = 100.0  # rows' worth of belief that a party's map is the pooled one
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Sample:
    """The rows that enter, ordered by hash: class and party codes, fold 0 or 1, features of the models."""

    labels: NDArray[np.int64]
    party: NDArray[np.int64]
    fold: NDArray[np.int64]
    features: NDArray[np.float32]
    components: Vector
    names: tuple[str, ...]
    classes: int


def concept_skew(partition: Partition, *, sized: bool = True) -> ConceptSkew:
    r"""Test whether P(label | x) differs between parties, allowing each its own class shares and its own x.

    Under the null the odds of a party factor, :math:`P(p \mid x, y) \propto a_p(x)\, b_p(y)`: covariate shift, label
    skew and their product are no concept shift. A logistic model of the party, additive in x and y and cross-fitted,
    gives each row its propensity. Rows of one class and nearly one propensity form a stratum; within it parties are
    exchangeable, also where the pooled model of the label is wrong. The statistic of party p against the rest is
    :math:`\|U_p\|^2` with :math:`U_p = \sum_i (1[p_i = p] - c_i)\,(1[y_i] - \hat\pi(x_i)) \otimes s(x_i)`, c the share
    of p in the stratum: the score of a party's own map of the pooled model's predictions and of eight principal
    components. Where the pooled model is right its mean is 0 even if strata are too wide. Its p comes from mean and
    variance over permutations within strata (gamma law). A party counts only if a map of its own also saves log loss on
    rows it was not fitted to (one-sided test of the mean): of both p-values the larger holds, over parties the smallest
    with Šidák's correction.

    ``skew`` is the share of the pooled model's remaining log loss that a party's own map saves over a party's own
    class offsets, on rows neither was fitted to: 0 or slightly below by chance, at most 1. With a wrong pooled model
    under covariate shift it may be positive; its p-value then is not small. At most 12,000 rows (chosen by a hash of
    the row) of the 20 largest parties with at least 20 rows enter. A party of one class is compared with nothing: its
    class offset says all. Null (``reason``): ``no_features``; ``one_class`` in the pool or in every party;
    ``no_shared_class`` and ``too_few_rows`` as for feature skew; ``no_overlap`` where no party has a quarter of its
    rows in a region of x that others share.

    Parameters
    ----------
    partition : dense or sparse table, or images
    sized : also size what the first test does not find; else ``skew`` is null there (``not_sized``), at a
        third of the time

    References
    ----------
    Rosenbaum and Rubin 1983, https://doi.org/10.1093/biomet/70.1.41, theorem 1; Shah and Peters 2020,
    https://doi.org/10.1214/19-AOS1857, section 3, on the product of two residuals.

    Examples
    --------
    >>> from fedskew.profiles import make_partition
    >>> x = generator("concept-example").standard_normal(400)
    >>> party = np.arange(400) % 2
    >>> apart = concept_skew(make_partition(x[:, None], (x > 0) ^ (party == 1), party))
    >>> apart.p_value < 1e-6, apart.severity
    (True, 'strong')
    """
    if not all(partition.features.shape[1:]):
        return ConceptSkew(skew=None, p_value=None, severity="none", reason="no_features")
    sample = _sample(partition)
    reason = unidentified(partition) or ("one_class" if np.count_nonzero(partition.counts.sum(axis=0)) < 2 else None)
    if reason is None and (sample is None or len(np.unique(sample.labels)) < 2):
        reason = "too_few_rows"
    if reason is None and sample is not None and not _mixed(sample).any():
        reason = "one_class"
    if reason is not None or sample is None:
        return ConceptSkew(skew=None, p_value=None, severity="none", reason=reason)
    pooled = cross_fitted(sample.features, sample.labels, sample.classes, sample.fold)
    score = _party_tests(sample, pooled)
    if np.isnan(score).all():
        return ConceptSkew(skew=None, p_value=None, severity="none", reason="no_overlap")
    if not sized and _smallest(score) >= SIGNIFICANCE:
        return ConceptSkew(skew=None, p_value=_smallest(score), severity="none", reason="not_sized")
    loss = _losses(sample, pooled)
    p_value = _smallest(np.maximum(score, _gain_tests(sample, loss)))
    total = float(loss[0].sum())
    skew = float(1 - loss[1].sum() / total) if total > 1e-9 else 0.0
    return ConceptSkew(skew=skew, p_value=p_value, severity=severity("concept", skew, p_value))


def _smallest(p_values: Vector) -> float:
    """The smallest of the parties' p-values, with Šidák's correction for their number."""
    smallest = min(float(np.nanmin(p_values)), 1 - 1e-16)
    return float(-np.expm1(np.count_nonzero(~np.isnan(p_values)) * np.log1p(-smallest)))


def _sample(partition: Partition) -> _Sample | None:
    """Choose rows and make the features of both models; None where fewer than two parties have enough rows."""
    sizes = partition.sizes
    chosen = np.sort(np.argsort(-sizes, kind="stable")[:MOST_PARTIES])
    chosen = chosen[sizes[chosen] >= FEWEST_ROWS]
    if len(chosen) < 2:
        return None
    place = np.full(partition.parties, -1)
    place[chosen] = np.arange(len(chosen))
    rows = np.flatnonzero(place[partition.party] >= 0)
    hashes = told_apart(row_hashes(partition.features, partition.labels), partition.party)[rows]
    most = min(MOST_ROWS, 400_000 // max(partition.classes, 1))
    order = np.argsort(hashes, kind="stable")[:most]
    rows, hashes = rows[order], hashes[order]
    held, labels = np.unique(partition.labels[rows], return_inverse=True)
    features, components = concept_features(partition, rows)
    fold = (hashes >> np.uint64(7)).astype(np.int64) & 1
    if fold.min() == fold.max():
        fold = np.arange(len(fold)) % 2
    names = tuple(partition.party_names[p] for p in chosen)
    return _Sample(labels, place[partition.party[rows]].astype(np.int64), fold, features, components, names, len(held))


def _party_tests(sample: _Sample, pooled: Vector) -> Vector:
    """One p-value for each party against all the others; NaN where it has too little overlap."""
    hot = np.eye(sample.classes, dtype=np.float32)[sample.labels]
    additive = np.hstack([sample.features, hot[:, 1:]])
    odds = cross_fitted(additive, sample.party, len(sample.names), sample.fold)
    scores = _scores(sample, pooled, hot)
    found = np.full(len(sample.names), np.nan)
    for party in np.flatnonzero(_mixed(sample)):
        rest = np.log(np.maximum(-np.expm1(odds[:, party]), 1e-12))
        p_value = _one_test(sample, scores, (sample.party == party).astype(np.float64), odds[:, party] - rest)
        if p_value is not None:
            found[party] = p_value
    return found


def _mixed(sample: _Sample) -> NDArray[np.bool_]:
    """Which parties hold two classes or more: of others their class offset says all there is, and nothing is left."""
    seen = np.zeros((len(sample.names), sample.classes), np.bool_)
    seen[sample.party, sample.labels] = True
    return np.asarray(seen.sum(axis=1) >= 2)


def _gain_tests(sample: _Sample, loss: Vector) -> Vector:
    """For each party, the one-sided p-value of its mean saved loss."""
    from scipy.special import ndtr

    out = np.ones(len(sample.names))
    for party in range(len(sample.names)):
        saved = (loss[0] - loss[1])[sample.party == party]
        error = float(saved.std() * np.sqrt(len(saved)))
        if error > 0:
            out[party] = float(ndtr(-saved.sum() / error))
    return out


def _scores(sample: _Sample, pooled: Vector, hot: NDArray[np.float32]) -> Vector:
    """Residual of the label times what a party may treat differently; where that is wide, a random projection of it."""
    share = np.exp(pooled)
    residual = hot - share
    centred = share - share.mean(axis=0)
    basis = np.hstack([centred / max(float(centred.std()), 1e-9), sample.components])
    if residual.shape[1] * basis.shape[1] <= SKETCH:
        return np.asarray((residual[:, :, None] * basis[:, None, :]).reshape(len(residual), -1))
    draw = generator("concept-sketch", residual.shape[1], basis.shape[1])
    left = draw.choice([-1.0, 1.0], (residual.shape[1], SKETCH))
    right = draw.choice([-1.0, 1.0], (basis.shape[1], SKETCH))
    return np.asarray((residual @ left) * (basis @ right) / np.sqrt(SKETCH))


def _one_test(sample: _Sample, scores: Vector, inside: Vector, odds: Vector) -> float | None:
    """p of one party against the rest within strata of class and propensity; None without overlap."""
    rows = np.bincount(sample.labels, minlength=sample.classes)
    own = np.bincount(sample.labels, inside, minlength=sample.classes)
    base = np.log(np.maximum(own, 1e-9) / np.maximum(rows - own, 1e-9))[sample.labels]
    kept = np.flatnonzero(np.abs(odds - base) < RATIO)
    if len(kept) < 8:
        return None
    order = kept[np.lexsort((odds[kept], sample.labels[kept]))]
    stratum, starts, n = _strata(sample.labels[order], sample.classes)
    ones = np.add.reduceat(inside[order], starts)
    centred = scores[order] - (np.add.reduceat(scores[order], starts, axis=0) / n[:, None])[stratum]
    centred = _levelled(
        centred, odds[order] - (np.add.reduceat(odds[order], starts) / n)[stratum], sample.labels[order]
    )
    paired = ones * (n - ones) / n
    if paired.sum() < max(5.0, OVERLAP * inside.sum() * (1 - inside.mean())):
        return None
    score = centred.T @ (inside[order] - (ones / n)[stratum])
    spread = (centred * (paired / np.maximum(n - 1, 1))[stratum][:, None]).T @ centred
    mean, variance = float(np.trace(spread)), 2 * float((spread**2).sum())
    if mean <= 0:
        return None
    return tail(float(score @ score), mean, variance, 8 * float(np.einsum("ij,ji->", spread @ spread, spread)))


def _levelled(scores: Vector, odds: Vector, labels: NDArray[np.int64]) -> Vector:
    """Take out what inside strata still goes with the propensity, by one line a class: strata have a width."""
    total = np.bincount(labels, odds**2)
    slopes = np.zeros((len(total), scores.shape[1]))
    for label in np.flatnonzero(total > 1e-12):
        own = labels == label
        slopes[label] = odds[own] @ scores[own] / total[label]
    return np.asarray(scores - odds[:, None] * slopes[labels])


def _strata(labels: NDArray[np.int64], classes: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Vector]:
    """Cut rows sorted by class and propensity into runs of about thirty: number of each row's run, starts, lengths."""
    rows = np.bincount(labels, minlength=classes)
    runs = np.maximum(1, rows // STRATUM)
    within = np.arange(len(labels)) - (np.cumsum(rows) - rows)[labels]
    number = within * runs[labels] // rows[labels] + (np.cumsum(runs) - runs)[labels]
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    lengths = np.diff(np.append(starts, len(labels)))
    return np.repeat(np.arange(len(starts)), lengths), starts, lengths.astype(np.float64)


def _losses(sample: _Sample, pooled: Vector) -> Vector:
    """The log loss of each row with its party's own class offsets, and with its party's own map: (2, n).

    Neither was fitted to the row. The predictions of the rows of one fold come from one model, which saw none of them;
    maps are fitted and tried inside that fold. Rows of parties with too few rows to fit have 0.
    """
    logits = np.clip(pooled - pooled.mean(axis=1, keepdims=True), -6, 6)
    basis = np.hstack([logits, np.clip(sample.components, -4, 4)])  # clipped: one far row must not tilt a map
    nothing = np.zeros((len(basis), 0))
    part = np.arange(len(basis)) % PARTS  # rows stand in the order of their hashes
    loss = np.zeros((2, len(basis)))
    for fold in (0, 1):
        for held in range(PARTS):
            seen, tried = (sample.fold == fold) & (part != held), (sample.fold == fold) & (part == held)
            given = np.zeros_like(pooled)
            given[seen | tried] = _mapped(sample, basis, pooled, seen, seen | tried, 1.0)
            for party in np.flatnonzero(_mixed(sample)):
                own = sample.party == party
                if (seen & own).sum() >= FEWEST_ROWS // 3 and (tried & own).any():
                    rows = np.flatnonzero(tried & own)
                    for which, design in enumerate((nothing, basis)):
                        logs = _mapped(sample, design, given, seen & own, tried & own, PRIOR)
                        loss[which, rows] = -logs[np.arange(len(rows)), sample.labels[rows]]
    return loss


def _mapped(
    sample: _Sample, basis: Vector, given: Vector, seen: NDArray[np.bool_], tried: NDArray[np.bool_], prior: float
) -> Vector:
    """Log-probabilities of some rows after a map of the basis, fitted to other rows, is added to given logits."""
    weights, centre, turn = fitted(basis[seen], sample.labels[seen], sample.classes, given[seen], prior, 1e-3)
    return np.asarray(log_softmax((basis[tried] - centre) @ turn @ weights[1:] + weights[0] + given[tried]))
