"""Partition: a table whose rows belong to parties. Checked once, then never changed."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedskew.profiles.errors import FedskewError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Modality = Literal["tabular", "image"]
Severity = Literal["none", "mild", "strong"]
Features = Any  # NDArray[np.float32] (N, F), NDArray[np.uint8 | np.float32] (N, C, H, W), or csr_array (N, F)
"""Dense (N, F) float32, images (N, C, H, W) uint8 or float32, or a scipy CSR array (N, F) float32."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person must know about the data before they trust any number: counted, named, with a severity.

    ``parties`` holds the names concerned (empty: all of them), ``count`` the rows or columns concerned.
    """

    code: str
    severity: Severity
    text: str
    parties: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the user's table and the slice of the feature matrix it became.

    ``kind`` is ``numeric`` (one feature, raw values, NaN where missing) or ``categorical`` (one 0/1 feature for each of
    ``categories``, all 0 where missing). ``stop`` is exclusive. ``more``: there are categories beyond these, so that
    all 0 need not mean missing.
    """

    name: str
    kind: Literal["numeric", "categorical"]
    start: int
    stop: int
    categories: tuple[str, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class Holdout:
    """A held-out test table: features and labels in the codes of the partition; ``party`` (N,) int32 where known.

    ``target`` (N,) float64 is the continuous target behind the labels, as in :class:`Partition`.
    """

    features: Features
    labels: NDArray[np.int64]
    party: NDArray[np.int32] | None = None
    target: NDArray[np.float64] | None = None

    def select(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> "Holdout":
        """Some of the rows: (N,) bool, or ascending row numbers."""
        party = None if self.party is None else self.party[keep]
        target = None if self.target is None else self.target[keep]
        return Holdout(self.features[keep], self.labels[keep], party, target)


@dataclass(frozen=True, slots=True)
class Partition:
    """Rows, their labels and the party that holds each; immutable.

    Rows stand grouped by party, parties and classes in the order of their names, so identity is the name and never
    the order of appearance. Build one with :func:`make_partition` or ``read_table``.

    Parameters
    ----------
    features : (N, F) float32 with NaN where missing, (N, C, H, W) uint8 or float32, or CSR (N, F) float32
    labels : (N,) int64, codes 0 to K - 1 into ``class_names``
    party : (N,) int32, codes 0 to P - 1 into ``party_names``, ascending
    class_names, party_names : K and P texts, as given by the user
    columns : what each slice of the features is; empty for images
    test : the held-out table, if one was given
    findings : what reading noticed: skipped rows, unusable columns, schema differences
    target : (N,) float64 continuous target behind the quantile-bin labels, or None for classification
    """

    features: Features
    labels: NDArray[np.int64]
    party: NDArray[np.int32]
    class_names: tuple[str, ...]
    party_names: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    test: Holdout | None = None
    findings: tuple[Finding, ...] = ()
    target: NDArray[np.float64] | None = None
    _counts: list[NDArray[np.int64]] = field(default_factory=list, repr=False, compare=False)

    @property
    def modality(self) -> Modality:
        """``image`` for (N, C, H, W) features, else ``tabular``."""
        return "image" if self.features.ndim == 4 else "tabular"

    @property
    def rows(self) -> int:
        """Number of rows N."""
        return len(self.labels)

    @property
    def parties(self) -> int:
        """Number of parties P, those without rows included."""
        return len(self.party_names)

    @property
    def classes(self) -> int:
        """Number of classes K, those without rows included."""
        return len(self.class_names)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows by party and class, (P, K) int64; computed once.

        Examples
        --------
        >>> toy = make_partition(np.zeros((3, 1)), ["a", "b", "b"], ["x", "x", "y"])
        >>> toy.counts.tolist()
        [[1, 1], [0, 1]]
        """
        if not self._counts:
            cells = self.party.astype(np.int64) * self.classes + self.labels
            self._counts.append(np.bincount(cells, minlength=self.parties * self.classes).reshape(self.parties, -1))
        return self._counts[0]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows by party, (P,) int64."""
        return np.asarray(self.counts.sum(axis=1))

    def rows_of(self, party: int) -> slice:
        """The rows of one party: a slice, since rows stand grouped by party."""
        first, last = np.searchsorted(self.party, [party, party + 1])
        return slice(int(first), int(last))

    def with_test(self, test: Holdout | None) -> "Partition":
        """The same partition with another held-out table."""
        return replace(self, test=test)

    def select(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> "Partition":
        """The partition of some of the rows; names, columns, test table and findings stay.

        Parameters
        ----------
        keep : (N,) bool, or ascending row numbers

        Raises
        ------
        FedskewError
            No row is left.

        Examples
        --------
        >>> toy = make_partition(np.eye(3), ["cat", "dog", "dog"], ["a", "a", "b"])
        >>> toy.select(toy.labels == 1).counts.tolist()
        [[0, 1], [0, 1]]
        """
        labels = self.labels[keep]
        if not len(labels):
            raise FedskewError("no row is selected; at least one is needed")
        return replace(
            self,
            features=self.features[keep],
            labels=labels,
            party=self.party[keep],
            target=None if self.target is None else self.target[keep],
            _counts=[],
        )


def make_partition(
    features: "NDArray[Any] | csr_array",
    labels: Any,
    party: Any,
    *,
    class_names: tuple[str, ...] | None = None,
    party_names: tuple[str, ...] | None = None,
    columns: tuple[Column, ...] | None = None,
    test: Holdout | None = None,
    findings: tuple[Finding, ...] = (),
    target: "NDArray[np.float64] | None" = None,
) -> Partition:
    """Check arrays once and make a Partition of them.

    Parameters
    ----------
    features : (N, F), (N, H, W), (N, C, H, W) numbers, or a scipy sparse matrix (N, F)
    labels : (N,) anything; names are their texts, unless ``class_names`` is given and labels are codes into it
    party : (N,) anything; names are their texts, unless ``party_names`` is given and party holds codes into it
    class_names, party_names : names for codes; may hold names that no row uses
    columns : see :class:`Partition`; made up as ``x0``, ``x1``, … where not given

    Raises
    ------
    FedskewError
        Lengths differ, no rows, codes out of range, or features that are not numbers.

    Examples
    --------
    >>> toy = make_partition(np.eye(4), ["cat", "dog", "cat", "dog"], ["b", "b", "a", "a"])
    >>> toy.party_names, toy.class_names, toy.labels.tolist(), toy.party.tolist()
    (('a', 'b'), ('cat', 'dog'), [0, 1, 0, 1], [0, 0, 1, 1])
    """
    matrix = _checked_features(features)
    n = matrix.shape[0]
    label_codes, classes = _coded(labels, class_names, "labels", n)
    party_codes, parties = _coded(party, party_names, "party", n)
    if n == 0:
        raise FedskewError("the table has no rows; at least one is needed")
    order = np.argsort(party_codes, kind="stable")
    if not np.array_equal(order, np.arange(n)):
        matrix, label_codes, party_codes = matrix[order], label_codes[order], party_codes[order]
        target = None if target is None else target[order]
    if columns is None:
        width = matrix.shape[1] if matrix.ndim == 2 else 0
        columns = tuple(Column(f"x{i}", "numeric", i, i + 1) for i in range(width))
    return Partition(
        features=matrix,
        labels=label_codes.astype(np.int64),
        party=party_codes.astype(np.int32),
        class_names=classes,
        party_names=parties,
        columns=columns,
        test=test,
        findings=findings,
        target=target,
    )


def ordered_names(names: Any) -> tuple[str, ...]:
    """Put names in their one true order: as whole numbers where all are, else as text.

    Examples
    --------
    >>> ordered_names({"10", "9", "1"}), ordered_names({"b", "10", "a"})
    (('1', '9', '10'), ('10', 'a', 'b'))
    """
    texts = sorted({str(name) for name in names})
    try:
        return tuple(sorted(texts, key=lambda text: (int(text), text)))
    except ValueError:
        return tuple(texts)


def _checked_features(features: Any) -> Any:
    from scipy.sparse import csr_array, issparse

    if issparse(features):
        sparse: Any = features
        return csr_array(sparse, dtype=np.float32)
    array = np.asarray(features)
    if array.dtype.kind not in "biuf":
        raise FedskewError(f"features are of type {array.dtype}; they must be numbers")
    if array.ndim == 3:
        array = array[:, None, :, :]
    if array.ndim not in (2, 4):
        raise FedskewError(f"features have shape {array.shape}; allowed are (N, F), (N, H, W) and (N, C, H, W)")
    if array.ndim == 4 and array.dtype == np.uint8:
        return array
    return array.astype(np.float32, copy=False)


def _refuse_none(array: NDArray[Any], what: str) -> None:
    """None is no name; NaN among numbers is one, so that no row is lost."""
    none = np.array([one is None for one in array], np.bool_) if array.dtype.kind == "O" else np.zeros(0, np.bool_)
    if none.any():
        first = int(none.argmax())
        raise FedskewError(f"{int(none.sum())} {what} are None, the first in row {first}; leave those rows out")


def _coded(values: Any, names: tuple[str, ...] | None, what: str, n: int) -> tuple[NDArray[Any], tuple[str, ...]]:
    array = np.asarray(values)
    if array.shape != (n,):
        raise FedskewError(f"{what} have shape {array.shape}, but there are {n} rows of features; give one each")
    if names is None:
        _refuse_none(array, what)
        unique, codes = np.unique(array, return_inverse=True)
        texts = [str(value) for value in unique.tolist()]
        names = ordered_names(texts)
        place = {name: i for i, name in enumerate(names)}
        return np.asarray([place[text] for text in texts], dtype=np.int64)[codes], names
    if array.dtype.kind not in "iu" or (n and (array.min() < 0 or array.max() >= len(names))):
        raise FedskewError(f"{what} must be codes 0 to {len(names) - 1} when names are given")
    return array, names
