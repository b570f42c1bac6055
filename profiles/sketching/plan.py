"""Plan: what all silos must agree on before their second sketch can hold sums of random features."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedskew.profiles.atomic import write_atomically
from fedskew.profiles.encoding import Scaling, scaled_variance, scaling_of
from fedskew.profiles.errors import FedskewError
from fedskew.profiles.kernel import MOST_ROWS, Projection, table_projection
from fedskew.profiles.partitions import Column
from fedskew.profiles.readers.base import check_file
from fedskew.profiles.rowhash import row_hashes
from fedskew.profiles.sketching.merging import merged_heads
from fedskew.profiles.sketching.minima import RowKey
from fedskew.profiles.sketching.pool import pool
from fedskew.profiles.sketching.record import ColumnHead, Count, Name, Reason, Sketch

MOST_BYTES = 64 * 2**20
Finite = Annotated[float, Meta(ge=-3.5e38, le=3.5e38)]


class PlanColumn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column that becomes features: one if numeric, else one for each of its categories.

    ``shift`` and ``scale`` hold one float32 a feature: value less shift, over scale, is what the kernel sees.
    """

    name: Name
    kind: Literal["numeric", "categorical"]
    shift: tuple[Finite, ...]
    scale: tuple[Annotated[float, Meta(gt=0, le=3.5e38)], ...]
    categories: tuple[Name, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Classes and columns in their order, the pooled scale, and how many rows of a large party enter the kernel sums.

    ``variance`` is that of all scaled features together, from which the kernel's width follows. Of a party that has
    more than ``most_rows`` rows by ``sizes`` a row enters if its hash, as a share of 2**64, is under their ratio; so
    that all silos, and all parts of one, choose alike. ``left_out``: columns that the first sketches show to be of no
    use, and why, so that the second ones can still say so.
    """

    class_names: tuple[Name, ...]
    columns: tuple[PlanColumn, ...]
    variance: Annotated[float, Meta(ge=0, le=1e12)]
    sizes: dict[Name, Count] = {}
    most_rows: Annotated[int, Meta(ge=1, le=10**9)] = MOST_ROWS
    left_out: dict[Name, Reason] = {}
    schema: Literal["fedskew-plan/1"] = "fedskew-plan/1"

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(len(column.shift) for column in self.columns)

    def unused_heads(self) -> tuple[ColumnHead, ...]:
        """The columns left out, as a sketch that follows the plan tells them: after those that are used."""
        left = enumerate(self.left_out.items(), start=len(self.columns))
        return tuple(ColumnHead(name=name, place=place, kind="unused", reason=why) for place, (name, why) in left)

    @property
    def sha256(self) -> str:
        """What names the plan in a sketch: the hash of its file."""
        return hashlib.sha256(self.to_json()).hexdigest()

    def to_json(self) -> bytes:
        """The one spelling of this plan."""
        return msgspec.json.encode(self)

    def table_columns(self) -> tuple[Column, ...]:
        """The columns with the slices of their features."""
        stops = np.cumsum([len(column.shift) for column in self.columns]).tolist()
        return tuple(
            Column(c.name, c.kind, stop - len(c.shift), stop, c.categories)
            for c, stop in zip(self.columns, stops, strict=True)
        )

    def projection(self) -> Projection:
        """What turns a row into random features."""
        shift = np.array([value for column in self.columns for value in column.shift], np.float32)
        scale = np.array([value for column in self.columns for value in column.scale], np.float32)
        return table_projection(Scaling(shift, scale), self.variance)

    def entering(self, party: str, features: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows of a party enter the kernel sums; ``labels`` are codes into ``class_names``."""
        limit = self.limit(party)
        if limit is None:
            return np.ones(len(labels), np.bool_)
        return np.asarray(row_hashes(features, labels) < limit)

    def limit(self, party: str) -> np.uint64 | None:
        """The hash under which a party's rows enter the kernel sums; None: all of them do."""
        size = self.sizes.get(party, max(self.sizes.values(), default=0))
        return None if size <= self.most_rows else np.uint64(int(2**64 * (self.most_rows / size)))


def make_plan(sketches: Sequence[Sketch], *, most_rows: int = MOST_ROWS) -> Plan:
    """Fix what the second round of sketches needs, from the first.

    Parameters
    ----------
    sketches : one a party, made without a plan
    most_rows : about as many rows of a party enter the kernel sums at most

    Raises
    ------
    FedskewError
        Two sketches are of one party, or none of the columns can serve as a feature.

    Examples
    --------
    >>> from fedskew.profiles import make_partition
    >>> from fedskew.profiles.sketching.making import sketch
    >>> made = make_plan(sketch(make_partition([[0.0], [2.0], [4.0]], ["x", "y", "x"], ["a", "a", "b"])))
    >>> made.class_names, made.columns[0].shift, round(made.variance, 6)
    (('x', 'y'), (2.0,), 1.0)
    """
    together = pool(sketches)
    if not together.columns:
        raise FedskewError("the sketches have no column that can serve as a feature; a plan needs one at least")
    moments, binary = together.whole()
    rows = int(together.counts.sum())
    count, mean, m2 = moments[:3]
    how = scaling_of(count, mean, m2, binary)
    variance = float(scaled_variance(count, mean, m2, how, rows).sum())
    columns = tuple(
        PlanColumn(
            name=column.name,
            kind=column.kind,
            shift=tuple(how.shift[column.start : column.stop].tolist()),
            scale=tuple(how.scale[column.start : column.stop].tolist()),
            categories=column.categories,
        )
        for column in together.columns
    )
    heads = merged_heads(sketch.columns for sketch in together.sketches)
    sizes = zip(together.party_names, together.counts.sum(axis=1).tolist(), strict=True)
    return Plan(
        class_names=together.class_names,
        columns=columns,
        variance=variance,
        sizes={name: size for name, size in sizes if size > most_rows},
        most_rows=most_rows,
        left_out={head.name: head.reason for head in heads if head.kind == "unused" and head.reason},
    )


def write_plan(path: Path, plan: Plan) -> None:
    """Write a plan file.

    Raises
    ------
    EnvironmentFaultError
        The place cannot be written to.
    """
    write_atomically(path, plan.to_json())


def read_plan(path: Path) -> Plan:
    """Read a plan file; strict.

    Raises
    ------
    FedskewError
        It is no plan, or one that does not hold together.
    """
    if check_file(path) > MOST_BYTES:
        raise FedskewError(f"{path}: is too large for a plan ({MOST_BYTES >> 20} MB at most)")
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise FedskewError(f"{path}: is not a plan that `fedskew plan` wrote ({fault})") from None
    names = [column.name for column in plan.columns]
    for what, given in (("column", names), ("class", plan.class_names)):
        if len(set(given)) < len(given):
            raise FedskewError(f"{path}: names a {what} twice")
    for column in plan.columns:
        width = len(column.categories) if column.kind == "categorical" else 1
        if not len(column.shift) == len(column.scale) == width or len(set(column.categories)) < len(column.categories):
            raise FedskewError(f"{path}: column {column.name!r} does not have one shift and scale a feature")
    return plan


def row_key(secret: bytes, plan: Plan | None) -> RowKey:
    """What hashes the rows of silos that share a secret and follow a plan.

    Raises
    ------
    FedskewError
        There is no plan, or the secret is too short.
    """
    if plan is None:
        raise FedskewError("row hashes need a plan, so that all silos hash the same columns in the same form")
    return RowKey(secret, plan.sha256)


def planned_features(plan: Plan, columns: Sequence[Column], features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Features in the order of a plan, (n, F): NaN for a column that is not there, 0 for a category.

    Parameters
    ----------
    columns, features : as in a Partition
    """
    there = {column.name: column for column in columns}
    wanted = plan.table_columns()
    if wanted == tuple(columns):
        return features
    out = np.zeros((len(features), plan.width), np.float32)
    for column in wanted:
        own = there.get(column.name)
        if column.kind == "numeric":
            known = own is not None and own.kind == "numeric"
            out[:, column.start] = features[:, own.start] if known and own is not None else np.nan
        elif own is not None and own.kind == "categorical":
            place = {name: own.start + i for i, name in enumerate(own.categories)}
            for i, name in enumerate(column.categories):
                if name in place:
                    out[:, column.start + i] = features[:, place[name]]
    return out
