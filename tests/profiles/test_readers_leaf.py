"""LEAF JSON: users are parties, train and test folders of several files, and what damage says."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedskew.profiles import EnvironmentFaultError, FedskewError, partition_source, profile, read_table
from fedskew.profiles.readers.leaf import is_leaf

DRAW = np.random.default_rng(0)


def user(rows: int, width: int = 784, classes: int = 3) -> dict[str, Any]:
    return {"x": DRAW.random((rows, width)).round(4).tolist(), "y": [i % classes for i in range(rows)]}


def document(users: dict[str, Any]) -> dict[str, Any]:
    return {"users": list(users), "num_samples": [len(data["y"]) for data in users.values()], "user_data": users}


def write(path: Path, users: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(users)))
    return path


TRAIN = [{"f0_14": user(4), "f1_02": user(3)}, {"f2_30": user(5)}]
TEST = {"f1_02": user(2), "f2_30": user(1)}


@pytest.fixture
def femnist(tmp_path: Path) -> Path:
    for number, users in enumerate(TRAIN):
        write(tmp_path / "data" / "train" / f"all_data_{number}.json", users)
    write(tmp_path / "data" / "test" / "all_data_0.json", TEST)
    return tmp_path / "data"


def test_each_user_is_a_party_and_the_test_rows_keep_theirs(femnist: Path) -> None:
    found = read_table(femnist)
    assert found.party_names == ("f0_14", "f1_02", "f2_30")
    assert found.sizes.tolist() == [4, 3, 5]
    assert found.features.shape == (12, 1, 28, 28)
    every = np.concatenate([np.array(data["x"]) for users in TRAIN for data in users.values()])
    np.testing.assert_array_equal(every.astype(np.float32).reshape(-1, 1, 28, 28), found.features)
    assert [found.class_names[code] for code in found.labels[:4]] == ["0", "1", "2", "0"]
    assert found.test is not None
    assert found.test.party is not None
    assert [found.party_names[code] for code in found.test.party] == ["f1_02", "f1_02", "f2_30"]
    assert profile(found).parties == 3


def test_a_folder_of_files_and_one_file_are_sources_too(femnist: Path) -> None:
    found = read_table(femnist / "train", test=femnist / "test")
    assert found.rows == 12
    assert found.test is not None
    assert len(found.test.labels) == 3
    assert read_table(femnist / "train" / "all_data_0.json").party_names == ("f0_14", "f1_02")
    both = read_table([femnist / "train" / f"all_data_{number}.json" for number in range(2)])
    assert both.sizes.tolist() == [4, 3, 5]


def test_rows_of_other_lengths_and_modality_tabular_are_tables(tmp_path: Path, femnist: Path) -> None:
    path = write(tmp_path / "synthetic.json", {"a": user(4, 60), "b": user(4, 60)})
    assert read_table(path).features.shape == (8, 60)
    assert read_table(femnist, modality="tabular").features.shape == (12, 784)


def test_users_without_rows_are_parties_and_one_user_in_two_files_is_one_party(tmp_path: Path) -> None:
    write(tmp_path / "a.json", {"u": user(3, 5), "none": user(0)})
    write(tmp_path / "b.json", {"u": user(2, 5), "v": user(4, 5)})
    found = read_table(tmp_path)
    assert found.party_names == ("none", "u", "v")
    assert found.sizes.tolist() == [0, 5, 4]
    assert read_table([tmp_path / "a.json", tmp_path / "b.json"]).sizes.tolist() == [0, 5, 4]


def test_an_index_may_deal_the_rows_anew_or_keep_the_users(femnist: Path, tmp_path: Path) -> None:
    partition_source(femnist, "iid", tmp_path / "i.json", parameters={"num_partitions": 4})
    found: Any = read_table(tmp_path / "i.json")
    assert found.sizes.tolist() == [3, 3, 3, 3]
    assert found.test.party is None
    partition_source(femnist, "natural", tmp_path / "n.json")
    assert read_table(tmp_path / "n.json").sizes.tolist() == [4, 3, 5]


def test_test_rows_of_users_called_like_simulated_parties_do_not_become_theirs(tmp_path: Path) -> None:
    write(tmp_path / "d" / "train" / "a.json", {"0": user(6, 5), "1": user(6, 5)})
    write(tmp_path / "d" / "test" / "a.json", {"1": user(3, 5)})
    partition_source(tmp_path / "d", "iid", tmp_path / "i.json", parameters={"num_partitions": 2})
    found: Any = read_table(tmp_path / "i.json")
    assert found.test.party is None


def test_index_files_and_other_json_are_not_taken_for_leaf(femnist: Path, tmp_path: Path) -> None:
    partition_source(femnist, "iid", femnist / "train" / "i.json", parameters={"num_partitions": 2})
    assert read_table(femnist).rows == 12
    for text in ('{"users": [1, 2]}', '{"a": [0], "user_data": [1]}', "", "[]"):
        (tmp_path / "x.json").write_text(text)
        assert not is_leaf(tmp_path / "x.json")
    assert is_leaf(femnist / "test" / "all_data_0.json")


def broken(**changes: Any) -> dict[str, Any]:
    return document({"u": {"x": [[1.0, 2.0], [3.0, 4.0]], "y": [0, 1]}, "v": {"x": [[5, 6]], "y": [1]}}) | changes


def with_rows(x: Any, y: Any) -> dict[str, Any]:
    """Two users: the rows given, and none."""
    return broken(user_data={"u": {"x": x, "y": y}, "v": {"x": [], "y": []}}, num_samples=None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (broken(users=["u", "v", "w"]), "user 'w' has no data"),
        (broken(users=["u"]), "user 'v' has data and is not among its users"),
        (broken(users=["u", "v", "u"]), "names the user 'u' twice"),
        (broken(num_samples=[2]), "2 users and 1 num_samples"),
        (broken(num_samples=[2, 3]), "user 'v' has 1 rows x and 1 labels y, and num_samples says 3"),
        (broken(user_data={"u": {"x": [[1]]}, "v": {}}), "missing required field"),
        (with_rows([[1.0]], [0, 1]), "1 rows x and 2 labels"),
        (with_rows([[1.0], [2.0, 3.0]], [0, 1]), "user 'u', row 1: has 2 numbers; all others have 1"),
        (with_rows(["to be", "or not"], [0, 1]), "no texts or file names"),
        (with_rows([], []), "none of its 2 users has a row"),
    ],
)
def test_files_that_contradict_themselves_are_refused(tmp_path: Path, content: Any, message: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(FedskewError) as caught:
        read_table(tmp_path / "a.json")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_cut_after_its_beginning_is_refused_in_one_line(femnist: Path) -> None:
    path = femnist / "train" / "all_data_0.json"
    whole = path.read_bytes()
    for length in (120, 2000, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FedskewError, match=r"all_data_0\.json: ") as caught:
            read_table(path)
        assert "\n" not in str(caught.value)


def test_labels_that_are_texts_and_files_beyond_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = {name: {"x": [[1.0], [2.0], [3.0]], "y": ["cat", "dog", "cat"]} for name in "ab"}
    path = write(tmp_path / "a.json", users)
    assert read_table(path).class_names == ("cat", "dog")
    with pytest.raises(FedskewError, match="who is the party"):
        read_table(path, party="site")
    monkeypatch.setattr("fedskew.profiles.readers.base.available_memory", lambda: 10)
    with pytest.raises(EnvironmentFaultError, match="memory"):
        read_table(path)
