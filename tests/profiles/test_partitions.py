"""What a partition refuses to be made of."""

import numpy as np
import pytest

from fedskew.profiles import FedskewError, make_partition


@pytest.mark.parametrize("what", ["labels", "party"])
def test_names_that_are_none_are_told_with_their_row(what: str) -> None:
    rows = {"labels": [0, 1, 0, 1], "party": [0, 0, 1, 1]} | {what: np.array([1.0, 2.0, None, 1.0], dtype=object)}
    with pytest.raises(FedskewError, match=r"1 .* are None, the first in row 2"):
        make_partition(np.zeros((4, 1)), rows["labels"], rows["party"])


def test_nan_among_labels_is_a_class() -> None:
    assert make_partition(np.zeros((3, 1)), [1.0, np.nan, np.nan], [0, 1, 1]).class_names == ("1.0", "nan")
