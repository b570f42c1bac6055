"""Feature skew: how far P(x | label) differs between parties, beyond chance."""

import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.between import Share, class_terms, index_from
from fedskew.profiles.kernel import projection, sums_by_class
from fedskew.profiles.partitions import Partition
from fedskew.profiles.records import FeatureShift, FeatureSkew
from fedskew.profiles.severity import severity
from fedskew.profiles.shift import feature_shifts

NAMED = 10  # rows a party needs for its own part of the index


def unidentified(partition: Partition) -> str | None:
    """Say why parties cannot be compared within classes, or None where they can.

    Examples
    --------
    >>> import numpy as np
    >>> from fedskew.profiles import make_partition
    >>> unidentified(make_partition(np.eye(2), ["x", "y"], ["a", "b"]))
    'no_shared_class'
    >>> unidentified(make_partition(np.eye(2), ["x", "x"], ["a", "b"]))
    'too_few_rows'
    """
    without = partition.features.ndim == 2 and not partition.features.shape[1]
    return "no_features" if without else unidentified_counts(partition.counts)


def unidentified_counts(counts: NDArray[np.int64]) -> str | None:
    """Say it from the rows by party and class (P, K) alone."""
    shared = counts[:, (counts > 0).sum(axis=0) >= 2]
    if not shared.size:
        return "no_shared_class"
    if ((shared >= 10).sum(axis=0) >= 2).any():
        return None
    return "too_few_rows" if shared[shared > 0].mean() < 2 else None


def feature_skew(partition: Partition, *, columns: bool = True) -> FeatureSkew:
    r"""Measure feature skew given the label: jointly by a kernel, and column by column.

    The index is the share of kernel variance that lies between parties within classes, less what chance gives at these
    sizes: 0 by chance, 1 when a row is known once its party and class are; signed, no unit. Its p-value holds for
    parties of any size (see :func:`~fedskew.profiles.between.class_terms`), its interval keeps parties fixed.
    ``by_party`` is the squared kernel distance of a party's rows from the others of their class on the same scale, also
    less chance; the index is their mean weighted by rows. At most about 200,000 rows of a party enter, chosen by a hash
    of the row. The index is null (``reason``) where there is no feature (``no_features``), no class is shared by two
    parties (``no_shared_class``) or cells hold under two rows on average (``too_few_rows``), but never when two parties
    share a class in ten rows each; or where all rows of a class are alike (``no_spread``).

    Parameters
    ----------
    partition : dense or sparse table, or images
    columns : measure the columns one by one too

    References
    ----------
    Rahimi and Recht 2007, Random Features for Large-Scale Kernel Machines; Kelley 1935,
    https://doi.org/10.1073/pnas.21.9.554; Kazi-Aoual et al. 1995, https://doi.org/10.1016/0167-9473(94)00064-2

    Examples
    --------
    >>> import numpy as np
    >>> from fedskew.profiles import make_partition
    >>> x = np.repeat([0.0, 1.0], 20)[:, None]
    >>> apart = feature_skew(make_partition(x, np.zeros(40), x[:, 0]))
    >>> round(apart.skew, 6), apart.severity
    (1.0, 'strong')
    """
    by_feature = feature_shifts(partition) if columns else ()
    share = None
    reason = unidentified(partition)
    if reason is None:
        by = projection(partition)
        share = index_from((class_terms(sums) for sums in sums_by_class(partition, by)), partition.parties)
    return feature_skew_of(share, reason, by_feature, partition.party_names)


def feature_skew_of(
    share: Share | None, reason: str | None, by_feature: tuple[FeatureShift, ...], party_names: tuple[str, ...]
) -> FeatureSkew:
    """Grade the joint index; null with ``reason``, or ``no_spread``, where it could not be told."""
    if share is None:
        reason = reason or "no_spread"
        return FeatureSkew(skew=None, p_value=None, severity="none", reason=reason, by_feature=by_feature)
    return FeatureSkew(
        skew=share.skew,
        p_value=share.p_value,
        severity=severity("feature", share.skew, share.p_value),
        interval=share.interval,
        by_feature=by_feature,
        by_party={
            name: float(value) if rows >= NAMED else None
            for name, value, rows in zip(party_names, share.by_party, share.rows, strict=True)
        },
    )
