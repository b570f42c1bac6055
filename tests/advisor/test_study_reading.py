"""From TOML to settings: the grid, what is skipped, and one line for every mistake."""

from pathlib import Path

import msgspec
import pytest

from fedskew.advisor.study.grid import Study
from fedskew.advisor.study.reading import only, presets, read_study
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError

HEAD = """
[defaults]
rounds = 2
candidates = ["fedavg"]
[data.FCUBE]
source = "generated:fcube"
"""
GRID = """
[[grid]]
data = "FCUBE"
partition = "homo"
"""


def study(tmp_path: Path, text: str, scale: str = "") -> Study:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return read_study(path, scale=scale)


def test_the_grid_is_the_product_of_its_lists_and_blocks_are_joined_without_repeats(tmp_path: Path) -> None:
    block = """
[[grid]]
data = "FCUBE"
partition = ["homo", "label_dirichlet alpha=0.5"]
local_epochs = [1, 2, 4]
"""
    found = study(tmp_path, HEAD + block + GRID + "local_epochs = [1, 3]\n")
    cells = [(s.partition, s.local_epochs) for s in found.settings]
    assert cells[:6] == [(p, e) for p in ("homo", "label_dirichlet alpha=0.5") for e in (1, 2, 4)]
    assert cells[6:] == [("homo", 3)]
    assert len({s.key for s in found.settings}) == 7


def test_defaults_hold_where_a_block_says_nothing(tmp_path: Path) -> None:
    first, second = study(tmp_path, HEAD + GRID + GRID + "rounds = 9\n").settings
    assert (first.rounds, second.rounds, first.batch_size, first.momentum) == (2, 9, 64, 0.9)


def test_a_strategy_that_brings_its_own_parties_takes_no_number_of_them(tmp_path: Path) -> None:
    found = study(tmp_path, HEAD + '[[grid]]\ndata="FCUBE"\npartition=["fcube", "natural", "homo"]\nparties=[5, 7]\n')
    assert [s.parties for s in found.settings] == [None, None, 5, 7]


def test_a_grid_of_hyperparameters_becomes_candidates_one_by_one(tmp_path: Path) -> None:
    text = HEAD.replace('["fedavg"]', '["FedAvg", "fedprox mu=0.1|1", "scaffold lineage=code-2021"]') + GRID
    assert study(tmp_path, text).settings[0].candidates == (
        "fedavg",
        "fedprox mu=0.1",
        "fedprox mu=1",
        "scaffold lineage=code-2021",
    )


def test_the_key_depends_on_the_bytes_of_the_data_and_not_on_where_they_lie(tmp_path: Path) -> None:
    keys = []
    for folder, text in (("a", "x,y\n1,2\n"), ("b", "x,y\n1,2\n"), ("c", "x,y\n1,3\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.csv").write_text(text)
        toml = tmp_path / "s.toml"
        toml.write_text('[data.m]\nsource="mine.csv"\n[[grid]]\ndata="m"\npartition="homo"\n')
        keys.append(read_study(toml, tmp_path / folder).settings[0].key)
    assert keys[0] == keys[1] != keys[2]


def test_a_data_set_that_is_not_here_is_skipped_by_name(tmp_path: Path) -> None:
    text = HEAD + '[data.rcv1]\nsource="rcv1.svm"\n[[grid]]\ndata="all"\npartition="homo"\n'
    found = study(tmp_path, text)
    assert [s.data for s in found.settings] == ["FCUBE"]
    assert found.skipped == {"rcv1": tmp_path / "rcv1.svm"}
    with pytest.raises(
        FedskewError, match=r"fits none of the 1 settings \(without the data sets that are not here: rcv1"
    ):
        only(found, "rcv1")


def test_a_study_without_any_of_its_data_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(FedskewError, match=r"none of its data sets \(a, b\) is in .*--data"):
        study(tmp_path, '[data.a]\nsource="a.csv"\n[data.b]\nsource="b.csv"\n[[grid]]\ndata="a"\npartition="homo"\n')


def test_a_scale_caps_the_grid_and_is_told(tmp_path: Path) -> None:
    text = HEAD + GRID + "rounds = [10, 20, 50]\nseeds = 1\n"
    found = study(tmp_path, text, scale="rounds=20,rows=100,seeds=2")
    assert [(s.rounds, s.seeds, s.table.rows) for s in found.settings] == [(10, 1, 100), (20, 1, 100)]
    assert found.note == "SCALED DOWN: rounds at most 20, rows at most 100, seeds at most 2."
    assert study(tmp_path, text).note == ""


def test_other_candidates_take_the_place_of_the_studys_own_and_are_told(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(HEAD + GRID)
    found, own = read_study(path, candidates="FedAvg, fedavg+wsm,fedprox mu=0.1|1"), read_study(path)
    names = ("fedavg", "fedavg+wsm", "fedprox mu=0.1", "fedprox mu=1")
    assert {one.candidates for one in found.settings} == {names}
    assert found.note.startswith("CANDIDATES OF THIS RUN: FedAvg, fedavg+wsm, fedprox mu=0.1|1.")
    assert [msgspec.structs.replace(one, candidates=()) for one in found.settings] == [
        msgspec.structs.replace(one, candidates=()) for one in own.settings
    ]
    with pytest.raises(FedskewError, match="fedagv"):
        read_study(path, candidates="fedagv")


def test_rows_of_the_grid_stand_before_those_of_the_data_set_and_a_scale_caps_both(tmp_path: Path) -> None:
    text = HEAD + "rows = 90\n" + GRID + GRID + "rows = [50, 300]\n"
    assert [s.table.rows for s in study(tmp_path, text).settings] == [90, 50, 300]
    assert [s.table.rows for s in study(tmp_path, text, scale="rows=60").settings] == [60, 50]


def test_only_keeps_what_the_words_fit(tmp_path: Path) -> None:
    found = study(
        tmp_path, HEAD + '[[grid]]\ndata="FCUBE"\npartition=["homo", "label_dirichlet alpha=0.1", "shards"]\n'
    )
    assert [s.partition for s in only(found, "Dirichlet,shards").settings] == ["label_dirichlet alpha=0.1", "shards"]
    with pytest.raises(FedskewError, match="fits none of the 3 settings"):
        only(found, "covtype")


MISTAKES = {
    "study": (HEAD + GRID + "[grids]\n", r"mine.toml: there is no key 'grids'; did you mean 'grid'\?"),
    "grid": (HEAD + GRID + "sedes = 3\n", r"\[\[grid\]\] 1: there is no key 'sedes'; did you mean 'seeds'\?"),
    "defaults": (HEAD.replace("rounds", "round") + GRID, "there is no key 'round'; did you mean 'rounds'"),
    "data": (HEAD + 'lable="y"\n' + GRID, r"\[data.FCUBE\]: there is no key 'lable'; did you mean 'label'"),
    "type": (HEAD + GRID + 'seeds = "many"\n', r"\[\[grid\]\] 1: Expected `int`, got `str` at `seeds`"),
    "range": (HEAD + GRID + "participation = 1.5\n", "participation"),
    "momentum": (HEAD + GRID + "momentum = 1.0\n", "momentum"),
    "data name": (HEAD + GRID.replace("FCUBE", "FCUB"), "data is 'FCUB'; did you mean 'FCUBE'"),
    "strategy": (HEAD + GRID.replace("homo", "hom"), "partition 'hom': there is no strategy 'hom'; did you mean"),
    "parameter": (HEAD + GRID.replace("homo", "homo alpha=1"), "has no parameter 'alpha'"),
    "value": (HEAD + GRID.replace("homo", "label_dirichlet alpha=x"), "alpha is 'x'; it must be a number"),
    "empty": (HEAD + GRID.replace("homo", " "), "partition is empty"),
    "candidate": (HEAD.replace("fedavg", "fedavgg") + GRID, "candidate 'fedavgg': unknown algorithm 'fedavgg'"),
    "hyper": (HEAD.replace("fedavg", "fedprox nu=1") + GRID, "fedprox has no hyperparameter 'nu'"),
    "hyper value": (HEAD.replace("fedavg", "fedprox mu=big") + GRID, "mu is 'big'; it must be a number"),
    "generated": (HEAD.replace("fcube", "cube") + GRID, "source is 'generated:cube'; did you mean 'generated:fcube'"),
    "missing": (HEAD + '[[grid]]\ndata="FCUBE"\n', "missing required field `partition`"),
    "syntax": ("[data", "is not TOML"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_one_line_that_names_the_key(tmp_path: Path, mistake: str) -> None:
    text, message = MISTAKES[mistake]
    with pytest.raises(FedskewError, match=message) as caught:
        study(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", ["rows", "rows=0", "rows=many", "epochs=3"])
def test_a_wrong_scale_names_what_can_be_capped(tmp_path: Path, scale: str) -> None:
    with pytest.raises(FedskewError, match=r"--scale .*'rows', 'rounds', 'seeds', 'local_epochs'"):
        study(tmp_path, HEAD + GRID, scale=scale)


def test_a_name_that_is_no_file_and_no_preset_names_the_presets(tmp_path: Path) -> None:
    with pytest.raises(FedskewError, match="did you mean 'paper-tabular'"):
        read_study("paper-tabula")
    with pytest.raises(EnvironmentFaultError, match="cannot be read as text"):
        read_study(tmp_path)


@pytest.fixture
def pretended(tmp_path: Path) -> Path:
    """A folder with a file of each name that the presets want."""
    names = ("adult_a9a", "covtype", "mnist", "fashion_mnist", "letterrecognition", "shuttle", "hapt_har", "reuters_r8")
    for name in (*(f"{name}.npz" for name in names), "mplsstops.parquet", "nycflights13.parquet"):
        (tmp_path / name).write_text("x")
    return tmp_path


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_read_and_finds_its_data(name: str, pretended: Path) -> None:
    found = read_study(name, pretended)
    assert found.settings
    assert not found.skipped
    assert found.note


def test_presets_hold_what_they_promise(pretended: Path) -> None:
    assert presets() == ("baselines", "evidence", "paper-images", "paper-sensitivity", "paper-tabular")
    tabular = read_study("paper-tabular", pretended)
    cells = {(s.data, s.partition.split()[0]) for s in tabular.settings}
    strategies = ("noniid-labeldir-code", "noniid-#label-code", "quantity-skew", "homo")
    assert cells == {(d, p) for d in ("adult", "covtype") for p in strategies} | {("FCUBE", "fcube"), ("FCUBE", "homo")}
    for one in tabular.settings:
        assert (one.rounds, one.local_epochs, one.batch_size, one.seeds, one.tuning) == (50, 10, 64, 3, False)
        assert (one.momentum, one.lr, one.weight_decay, one.participation) == (0.9, 0.01, 1e-5, 1.0)
        assert {f"fedprox mu={mu}" for mu in ("0.001", "0.01", "0.1", "1")} < set(one.candidates)
    evidence = read_study("evidence", pretended)
    assert len(evidence.settings) >= 40
    assert len({s.data for s in evidence.settings}) >= 10
    for one in evidence.settings:
        assert (one.rounds, one.local_epochs, one.seeds, one.tuning) == (30, 2, 5, True)
        assert len(one.candidates) == 10  # all but FedBN, which is FedAvg without BatchNorm
        assert "fedbn" not in one.candidates
    assert {s.participation for s in evidence.settings} == {1.0, 0.1}
    sensitivity = read_study("paper-sensitivity", pretended).settings
    assert {10, 20, 40, 80} <= {s.local_epochs for s in sensitivity}
    assert {16, 32, 64, 128, 256} <= {s.batch_size for s in sensitivity}
    assert {10, 20, 50, 100} <= {s.parties for s in sensitivity}
    assert {"resnet20", "resnet20_bn"} <= {s.model for s in sensitivity}
