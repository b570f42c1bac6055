"""The one table of thresholds."""

import pytest

from fedskew.profiles import FedskewError
from fedskew.profiles.severity import THRESHOLDS, severity


@pytest.mark.parametrize(
    ("kind", "mild", "strong"),
    [("label", 0.01, 0.25), ("feature", 0.0006, 0.05), ("quantity", 0.05, 0.4)],
)
def test_floors_are_those_of_the_docs_and_inclusive(kind: str, mild: float, strong: float) -> None:
    assert severity(kind, mild - 1e-9, 0.001) == "none"
    assert severity(kind, mild, 0.001) == "mild"
    assert severity(kind, strong - 1e-9, 0.001) == "mild"
    assert severity(kind, strong, 0.001) == "strong"


def test_a_p_value_of_one_per_cent_is_chance() -> None:
    assert {severity(kind, 0.9, 0.01) for kind in THRESHOLDS} == {"none"}
    assert {severity(kind, 0.9, 0.0099) for kind in THRESHOLDS} == {"strong"}


def test_an_index_without_value_is_none() -> None:
    assert {severity(kind, None, None) for kind in THRESHOLDS} == {"none"}


def test_every_threshold_names_its_origin() -> None:
    assert all(threshold.origin for threshold in THRESHOLDS.values())


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(FedskewError, match=r"'labels'.*did you mean 'label'"):
        severity("labels", 0.1, 0.1)
