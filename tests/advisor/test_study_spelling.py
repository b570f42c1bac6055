"""What tells settings of a study apart: in evidence that reads back, in tables, and over what one axis does."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.small_study import study_toml

from fedskew.advisor.evidence import EvidenceRow, format_evidence, parse_evidence
from fedskew.advisor.second_opinion import differences
from fedskew.advisor.study.board import tally
from fedskew.advisor.study.effects import effects
from fedskew.advisor.study.reading import read_study
from fedskew.advisor.study.rows import evidence_rows
from fedskew.advisor.study.run import Result, read_result, result_path, run_setting
from fedskew.advisor.study.spelling import details_of, skew_of, told, varying
from fedskew.advisor.study.tables import table
from fedskew.profiles.simulate import resolve

GRIDS = ["fedavg", "fedprox mu=0.01", "fedprox mu=0.1", "fedprox lr=0.1 mu=1", "fedprox lr=0.2 mu=1"]


def trained(folder: Path, **own: Any) -> Result:
    """One small setting, trained here."""
    (folder / "study.toml").write_text(study_toml(**own))
    study = read_study(folder / "study.toml", folder)
    for name in ("settings", "timings", "runs"):
        (folder / name).mkdir(exist_ok=True)
    run_setting(study.settings[0], None, folder)
    return read_result(result_path(folder, study.settings[0]))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return trained(tmp_path_factory.mktemp("one"), partition="label_dirichlet alpha=0.5", local_epochs=10)


def like(result: Result, **changes: Any) -> Result:
    """The same result under another setting."""
    return msgspec.structs.replace(result, setting=msgspec.structs.replace(result.setting, **changes))


def read_back(results: list[Result]) -> tuple[EvidenceRow, ...]:
    return parse_evidence(format_evidence(evidence_rows(results)))


OTHERS: list[dict[str, Any]] = [
    {"lr": 0.1},
    {"momentum": 0.0},
    {"weight_decay": 0.0},
    {"partition_seed": 7},
    {"seed": 3},
    {"tuning": True},
    {"candidates": ("fedavg", "fedprox", "scaffold")},
    {"partition": "label_dirichlet alpha=0.5 balance=true"},
    {"partition": "label_dirichlet alpha=0.5 min_partition_size=20"},
]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_settings_that_differ_stand_apart_in_evidence_that_reads_back(result: Result, other: dict[str, Any]) -> None:
    pair = [result, like(result, **other)]
    assert len({row.setting for row in read_back(pair)}) == 2
    assert len(differences(evidence_rows(pair))["fedprox"]) == 2


def test_settings_on_different_numbers_of_rows_stand_apart(result: Result) -> None:
    fewer = like(result, table=msgspec.structs.replace(result.setting.table, rows=100))
    assert len({row.setting for row in read_back([result, fewer])}) == 2


def test_evidence_states_the_mechanisms_that_likeness_compares(result: Result) -> None:
    for row in read_back([result]):
        assert row.step_ratio == pytest.approx(result.step_ratio)
        assert row.weight_sum == pytest.approx(result.weight_sum)


@pytest.mark.parametrize(
    ("strategy", "parameters", "expected"),
    [
        ("homo", {}, ()),
        ("iid_stratified", {}, ("iid_stratified",)),
        ("label_dirichlet", {"alpha": 0.1, "num_partitions": 7}, ()),
        ("label_noise", {"label_noise": 0.2}, ("label_noise=0.2",)),
        ("covariate_quantile", {"overlap": 0.1}, ("overlap=0.1",)),
        ("feature_noise", {"noise": 0.1, "noise_law": "code"}, ("noise_law=code",)),
        ("mixed", {"alpha": 0.2}, ("alpha=0.2",)),
        ("natural", {"group_size": 3}, ("group_size=3",)),
    ],
)
def test_details_are_what_the_evidence_bases_spelling_leaves_out(
    strategy: str, parameters: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert details_of(resolve(strategy, parameters)) == expected


def test_long_details_are_hashed_and_stay_different() -> None:
    first, second = (resolve("count_matrix", {"count_matrix": [[1, 2, 3, n]] * 9}) for n in (4, 5))
    assert skew_of(first) == skew_of(second)
    assert details_of(first) != details_of(second)
    assert len(details_of(first)[0]) < 40


def test_only_what_one_data_set_has_several_values_of_is_told(result: Result) -> None:
    setting = result.setting
    other = msgspec.structs.replace(setting, data="B", momentum=0.5)
    assert varying([setting, other]) == ()
    both = [setting, msgspec.structs.replace(setting, lr=0.1, partition_seed=3), other]
    assert varying(both) == ("lr", "partition_seed")
    assert told(both[1], varying(both)) == ["lr=0.1", "partition_seed=3"]


def test_each_axis_has_a_heading_of_its_own(result: Result) -> None:
    grid = [like(result, lr=lr, local_epochs=epochs) for lr in (0.01, 0.1) for epochs in (1, 2)]
    found = [(one.axis, one.where) for one in effects(grid)]
    assert len(set(found)) == len(found) == 4
    assert found[0] == (
        "local_epochs", "FCUBE, label_dirichlet alpha=0.5 (4 parties, 1 a round, B=64, T=2, lr=0.01)"
    )  # fmt: skip
    assert found[2][1].endswith("E=1, B=64, T=2)")


def test_rows_of_a_table_name_what_varies_and_nothing_else(result: Result) -> None:
    usual = table([result], paper=False)[0]
    capped = like(result, partition="noniid-labeldir-code alpha=0.5")
    lines = table([result, like(result, lr=0.1), like(result, momentum=0.0), capped], paper=False)
    labels = [(line.partition, line.scale) for line in lines]
    assert len(set(labels)) == 4
    assert labels[0] == (usual.partition, f"{usual.scale}, lr=0.01, momentum=0.9")
    assert labels[3][0] == "label_dirichlet, beta=0.5, balance=true, min_partition_size=10, 4 parties"


def test_two_grids_of_one_algorithm_both_stay_and_the_best_of_both_is_its_evidence(tmp_path: Path) -> None:
    result = trained(tmp_path, candidates=GRIDS)
    names = ["fedavg", "fedprox mu", "fedprox lr mu"]
    assert list(tally([result])) == names
    assert list(table([result], paper=True)[0].cells) == names
    rows = {row.algorithm: row for row in read_back([result])}
    assert list(rows) == ["fedavg", "fedprox"]
    scores = [one.accuracy.mean for one in result.validation.candidates if one.algorithm != "fedavg"]
    assert rows["fedprox"].mean == pytest.approx(100 * max(score for score in scores if score is not None))
    assert rows["fedprox"].flag == "best_of_4_on_test"
