"""A look-alike: rows of a proxy data set dealt out so that its silos look like those of a profile.

For whoever may see the profile of a federation but not its rows: validate on the look-alike, decide, then federate.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError
from fedskew.profiles.feature import feature_skew
from fedskew.profiles.keyed import generator
from fedskew.profiles.partitions import Finding, Holdout, Partition, make_partition
from fedskew.profiles.records import Profile
from fedskew.profiles.simulate import resolve, transformed

LEVELS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Noise levels tried for a feature skew like the profile's, in the units of ``feature_noise``."""


def look_alike(profile: Profile, proxy: Partition, seed: int = 42) -> Partition:
    """Deal the rows of a proxy out like the silos of a profile.

    Same parties; the k-th most frequent class of the profile is played by the k-th most frequent of the proxy; every
    party's rows of every class are the profile's, all scaled by one factor where the proxy has too few. Where the
    profile has feature skew, noise is added at the level whose index comes nearest. Test rows that the proxy brings are
    kept, but for those of classes that play no part.

    Parameters
    ----------
    profile : of the silos to imitate
    proxy : any labelled table; its own parties are ignored
    seed : of the draw

    Raises
    ------
    FedskewError
        The proxy has fewer classes than the profile, or too few rows for one row a party.

    Examples
    --------
    >>> from fedskew.profiles import profile as measure
    >>> silos = make_partition(np.zeros((6, 1)), list("aabbbb"), list("xxxyyy"))
    >>> proxy = make_partition(np.zeros((40, 1)), ["u"] * 20 + ["v"] * 20, ["all"] * 40)
    >>> look_alike(measure(silos), proxy).counts.tolist()
    [[1, 2], [3, 0]]
    """
    wanted = np.asarray(profile.counts, dtype=np.int64)
    wanted = wanted[:, wanted.sum(axis=0) > 0]  # a class without rows, or with test rows alone, needs no player
    rows = proxy.counts.sum(axis=0)
    if (rows > 0).sum() < wanted.shape[1]:
        raise FedskewError(
            f"the proxy has {(rows > 0).sum()} classes with rows, the profile {wanted.shape[1]}; "
            f"take a proxy with as many classes or more"
        )
    chosen = np.argsort(-rows, kind="stable")[: wanted.shape[1]]
    order = np.argsort(-wanted.sum(axis=0), kind="stable")
    wanted = wanted[:, order]  # column k: the k-th most frequent class
    target, scale = _scaled(wanted, rows[chosen])
    picked, party, labels = _deal(proxy, chosen, target, seed)
    names = tuple(proxy.class_names[code] for code in chosen)
    dealt = make_partition(
        proxy.features[picked],
        labels,
        party,
        class_names=names,
        party_names=profile.party_names,
        columns=proxy.columns,
        test=_test_rows(proxy.test, chosen),
        findings=(_told(profile, scale, len(picked)), *proxy.findings),
        target=proxy.target[picked] if proxy.target is not None and profile.task == "regression" else None,
    )
    return _like_features(profile, dealt, seed)


def _scaled(wanted: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
    """Scale a table of counts down until every class has rows enough; a cell with rows keeps at least one."""
    scale = min(1.0, float((rows / wanted.sum(axis=0)).min()))
    target = np.where(wanted > 0, np.maximum(1, np.floor(wanted * scale)), 0).astype(np.int64)
    if (target.sum(axis=0) > rows).any():
        raise FedskewError("the proxy has too few rows for one row of each class at each party; take a larger proxy")
    return target, scale


def _deal(
    proxy: Partition, chosen: NDArray[np.int64], target: NDArray[np.int64], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of the proxy, their parties and their new class codes."""
    rows, party, labels = [], [], []
    for k, code in enumerate(chosen):
        mine = generator("look-alike", seed, proxy.class_names[code]).permutation(np.flatnonzero(proxy.labels == code))
        count = int(target[:, k].sum())
        rows.append(mine[:count])
        party.append(np.repeat(np.arange(len(target)), target[:, k]))
        labels.append(np.full(count, k))
    return np.concatenate(rows), np.concatenate(party), np.concatenate(labels)


def _test_rows(test: Holdout | None, chosen: NDArray[np.int64]) -> Holdout | None:
    """The proxy's own test rows of the classes that play, in their new codes; none where it has none of these."""
    if test is None:
        return None
    keep = np.flatnonzero(np.isin(test.labels, chosen))
    code = np.full(max(int(test.labels.max(initial=0)), int(chosen.max())) + 1, -1)
    code[chosen] = np.arange(len(chosen))
    held = test.select(keep)
    return replace(held, labels=code[held.labels], party=None) if len(keep) else None


def _told(profile: Profile, scale: float, rows: int) -> Finding:
    text = f"look-alike of {profile.parties} silos with {profile.rows:,} rows, made of {rows:,} rows of a proxy"
    smaller = f", sizes scaled by {scale:.3g}" if scale < 1 else ""
    return Finding(code="look_alike", severity="mild", text=text + smaller, count=rows)


def _like_features(profile: Profile, dealt: Partition, seed: int) -> Partition:
    """Add the noise whose feature index comes nearest to the profile's; none where the profile shows none."""
    wanted = profile.feature.skew
    if wanted is None or profile.feature.severity == "none" or not isinstance(dealt.features, np.ndarray):
        return dealt
    best, distance = dealt, abs((feature_skew(dealt).skew or 0.0) - wanted)
    for level in LEVELS:
        noisy = transformed(dealt, resolve("feature_noise", {"noise": level}), seed)
        gap = abs((feature_skew(noisy).skew or 0.0) - wanted)
        if gap < distance:
            best, distance = noisy, gap
    return best
