"""What a partition refuses to be made of."""

import numpy as np
import pytest

from fedskew.profiles import FedskewError, make_partition


@pytest.mark.parametrize("missing", [float("nan"), None])
@pytest.mark.parametrize("what", ["labels", "party"])
def test_names_that_are_missing_are_told_with_their_row(missing: float | None, what: str) -> None:
    names = np.array([1.0, 2.0, missing, 1.0], dtype=object if missing is None else None)
    rows = {"labels": [0, 1, 0, 1], "party": [0, 0, 1, 1]} | {what: names}
    with pytest.raises(FedskewError, match=r"1 .* missing, the first in row 2"):
        make_partition(np.zeros((4, 1)), rows["labels"], rows["party"])
