"""Data sets in memory: torch's with index lists, Hugging Face's by its behaviour, scipy's sparse matrices."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array, csr_array, csr_matrix
from torch.utils.data import Dataset, Subset, TensorDataset

from fedskew.profiles import FedskewError, profile, read_table

X = np.arange(24, dtype=np.float32).reshape(8, 3)
Y = np.array([0, 1, 1, 0, 1, 0, 0, 1])


class Pairs(Dataset[Any]):
    """A data set of items, as people write them."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> Any:
        return self.items[place]


def pairs(shape: tuple[int, ...] = (3,), count: int = 8) -> Pairs:
    return Pairs([(torch.full(shape, float(i)), int(Y[i % 8])) for i in range(count)])


@pytest.mark.parametrize(
    "source", [TensorDataset(torch.tensor(X), torch.tensor(Y)), Pairs(list(zip(X, Y, strict=True)))]
)
def test_index_lists_give_the_rows_of_a_torch_dataset_to_parties(source: Any) -> None:
    found = read_table((source, {"b": [5, 0], "a": [1, 2, 3], "none": []}))
    assert found.party_names == ("a", "b", "none")
    assert found.sizes.tolist() == [3, 2, 0]
    np.testing.assert_array_equal(X[[1, 2, 3, 0, 5]], found.features)
    np.testing.assert_array_equal(Y[[1, 2, 3, 0, 5]], found.labels)
    (finding,) = (finding for finding in found.findings if finding.code == "missing_party")
    assert finding.count == 3


def test_lists_without_names_number_the_parties_and_arrays_are_lists_too() -> None:
    found = read_table((pairs(), [np.array([0, 1]), np.array([2, 3]), range(4, 8)]))
    assert found.party_names == ("0", "1", "2")
    assert found.sizes.tolist() == [2, 2, 4]


def test_subsets_by_name_are_silos_and_one_dataset_is_one_party() -> None:
    found = read_table({"a": Subset(pairs(), [0, 1, 2]), "b": Subset(pairs(), [3, 4])})
    assert found.sizes.tolist() == [3, 2]
    assert found.features[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert read_table(pairs(), partitioned=False).party_names == ("all",)


def test_items_that_are_images_make_an_image_partition() -> None:
    assert read_table((pairs((1, 28, 28)), [[0, 1], [2, 3]])).features.shape == (4, 1, 28, 28)
    assert read_table((pairs((28, 28)), [[0, 1], [2, 3]]), modality="tabular").features.shape == (4, 784)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ((pairs(), {"a": [0, 8]}), "party 'a' has row 8; there are rows 0 to 7"),
        ((pairs(), {"a": [0, -1]}), "party 'a' has row -1"),
        ((pairs(), {"a": [0, 1], "b": [1]}), "party 'b' has a row that stands twice"),
        ((pairs(), {"a": [0, 0]}), "party 'a' has a row that stands twice"),
        ((pairs(), {"a": [0.5]}), "must be a list of row numbers"),
        ((pairs(), {"": [0], "b": [1]}), "none may be empty"),
        ((pairs(), {1: [0], "1": [1]}), "a name of its own"),
        ((Pairs([1, 2]), [[0], [1]]), "item 0 is of type int"),
        ((Pairs([]), [[], []]), "has no items"),
        ((Pairs([(X[0], 1), (X[0, :2], 1)]), [[0], [1]]), "item 1 has the shape (2,), item 0 (3,)"),
        ((Pairs([(X[0], [1, 0]), (X[0], [0, 1])]), [[0], [1]]), "its labels have the shape (2, 2)"),
        ((Pairs([("a", object()), ("b", object())]), [[0], [1]]), "Python objects"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(source: Any, message: str) -> None:
    with pytest.raises(FedskewError) as caught:
        read_table(source)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


class ClassLabel:
    """Stands for the feature of this name in Hugging Face's library."""

    names = ("cat", "dog")


class HuggingFace:
    """Behaves as a Hugging Face data set does: columns by name."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns = columns
        self.column_names = list(columns)
        self.features = {"label": ClassLabel()} if "label" in columns else {}

    def __len__(self) -> int:
        return len(self.columns[self.column_names[0]])

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]


HuggingFace.__name__ = "Dataset"


def test_columns_of_a_hugging_face_dataset_are_a_table() -> None:
    source = HuggingFace(age=[30, None, 50, 40], site=["b", "a", "a", "b"], label=[0, 1, 1, 0])
    found = read_table(source, label="label", party="site")
    assert found.class_names == ("cat", "dog")
    assert found.party_names == ("a", "b")
    np.testing.assert_array_equal(np.array([[np.nan], [50], [30], [40]]), found.features)


def test_the_image_column_of_a_hugging_face_dataset_is_the_features() -> None:
    images = [np.full((28, 28), i, np.uint8) for i in range(4)]
    source = HuggingFace(image=images, label=[0, 1, 1, 0], writer=["b", "a", "a", "b"], note=list("wxyz"))
    found = read_table(source, party="writer")
    assert found.features[:, 0, 0, 0].tolist() == [1, 2, 0, 3]
    assert found.class_names == ("cat", "dog")
    assert any(finding.code == "unused_column" and "'note'" in finding.text for finding in found.findings)
    assert read_table((source, {"p": [0, 1], "q": [2, 3]})).sizes.tolist() == [2, 2]
    for option, message in (({"party": "wrter"}, "did you mean 'writer'"), ({"label": "lbl"}, "no label column 'lbl'")):
        with pytest.raises(FedskewError, match=message):
            read_table(source, **option)  # type: ignore[arg-type]


def test_several_wide_columns_need_a_choice() -> None:
    source = HuggingFace(a=[[1, 2], [3, 4]] * 2, b=[[5], [6]] * 2, label=[0, 1, 0, 1], site=["x", "x", "y", "y"])
    with pytest.raises(FedskewError, match="features="):
        read_table(source, party="site")
    assert read_table(source, party="site", features="b").features.tolist() == [[5], [6], [5], [6]]


@pytest.mark.parametrize("form", [csr_matrix, coo_array])
def test_a_sparse_matrix_stays_sparse(form: Any) -> None:
    for source in ((form(X), Y, list("abababab")), {"x": form(X), "y": Y, "party": np.array(list("abababab"))}):
        found: Any = read_table(source)
        assert isinstance(found.features, csr_array)
        np.testing.assert_array_equal(X[[0, 2, 4, 6, 1, 3, 5, 7]], found.features.toarray())
        assert profile(found).rows == 8


def test_sparse_features_of_another_length_with_holes_or_called_images_are_refused() -> None:
    with pytest.raises(FedskewError, match=r"must be \(8,\)"):
        read_table((csr_matrix(X), Y[:5], Y[:5]))
    with pytest.raises(FedskewError, match="NaN or infinite"):
        read_table((csr_matrix(np.where(X == 4, np.nan, X)), Y, list("abababab")))
    with pytest.raises(FedskewError, match="sparse, and images are not"):
        read_table((csr_matrix(X), Y, list("abababab")), modality="image")


def test_an_empty_first_column_of_a_sparse_matrix_is_kept() -> None:
    found = read_table((csr_matrix(np.hstack([np.zeros((8, 1), np.float32), X])), Y, list("abababab")))
    assert found.features.shape == (8, 4)
    assert [column.name for column in found.columns] == ["x0", "x1", "x2", "x3"]
