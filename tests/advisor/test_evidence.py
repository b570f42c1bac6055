"""The evidence base and its schema."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from fedskew.advisor.citations import CITATIONS, Citation, bibtex, cited
from fedskew.advisor.evidence import (
    CITATION,
    COLUMNS,
    VERSION,
    EvidenceRow,
    format_evidence,
    parse_evidence,
    published,
    read_evidence,
    shipped,
)
from fedskew.advisor.hyperparameters import ORIGINS, hyperparameters, tuning_runs
from fedskew.advisor.price import COSTS
from fedskew.profiles.errors import EnvironmentFaultError, FedskewError

ROW = EvidenceRow(
    source="mine",
    code="v1",
    dataset="toy",
    variant="",
    modality="tabular",
    skew="label_dirichlet+quantity",
    param="beta=0.5+qbeta=0.5",
    parties=10,
    participation=1.0,
    algorithm="fedprox+wsm",
    mean=81.25,
    std=0.5,
)


def broken(column: str, value: str) -> str:
    cells = format_evidence([ROW]).splitlines()[2].split(",")
    cells[COLUMNS.index(column)] = value
    return f"# {VERSION}\n{','.join(COLUMNS)}\n{','.join(cells)}\n"


def test_every_published_row_is_there() -> None:
    counted = Counter(row.source for row in published())
    external = sum(n for source, n in counted.items() if not source.startswith("niid_bench"))
    assert (counted["niid_bench"], counted["niid_bench_mixed"], counted["niid_bench_leaderboard"], external) == (
        176,
        8,
        20,
        579,
    )


def test_text_of_the_evidence_reads_back_unchanged() -> None:
    assert parse_evidence(format_evidence(shipped())) == shipped()


def test_shipped_evidence_is_the_published_one_and_our_own_study() -> None:
    assert shipped()[: len(published())] == published()
    assert {row.source for row in shipped()[len(published()) :]} <= {"fedskew_study"}
    assert {row.algorithm for row in shipped() if row.source == "fedskew_study"} <= set(COSTS) - {"fedbn"}


def test_mechanism_columns_are_written_where_stated_and_read_back() -> None:
    stated = replace(ROW, algorithm="fedavg", step_ratio=6.0, weight_sum=2.25)
    assert parse_evidence(format_evidence([ROW, stated])) == (ROW, stated)
    assert "step_ratio" not in format_evidence([ROW]).splitlines()[1]


def test_every_published_source_has_a_work_to_cite() -> None:
    assert {row.source for row in published()} <= set(CITATION)
    assert set(CITATION.values()) <= set(CITATIONS)


def test_contested_rows_stay_and_weigh_less() -> None:
    contested = [row for row in published() if row.contested]
    assert len(contested) > 200
    assert max(row.trust for row in contested) <= 0.8
    wrong_sign = [row for row in published() if row.source == "flbenchmark" and row.algorithm == "scaffold"]
    assert len(wrong_sign) == 47
    assert all(row.trust == 0 for row in wrong_sign)
    sampled = [
        r
        for r in published()
        if r.source == "niid_bench_leaderboard" and r.algorithm == "scaffold" and r.parties == 100
    ]
    assert len(sampled) == 3
    assert all(row.mean == 10 and row.contested and row.trust < 0.1 for row in sampled)


def test_constant_predictors_are_known_as_failures() -> None:
    failed = {(r.dataset, r.skew, r.param, r.algorithm) for r in published() if r.source == "niid_bench" and r.failed}
    assert ("SVHN", "label_count", "k=1", "fedprox") in failed  # 19.6 is the share of the digit 1
    assert ("adult", "label_count", "k=1", "fedprox") in failed  # 76.4, the majority
    assert ("adult", "label_count", "k=1", "fedavg") not in failed
    assert ("CIFAR-10", "quantity", "qbeta=0.5", "fednova") in failed


def test_own_study_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "study.csv"
    path.write_text(format_evidence([ROW]))
    assert read_evidence(path) == (ROW,)


def test_missing_file_is_the_machines_fault(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFaultError, match="cannot read the evidence file"):
        read_evidence(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("mean", "101", "line 3, column mean: 101 is above 100"),
        ("mean", "", "mean and trust must be given"),
        ("mean", "-1", "out of range"),
        ("mean", "nan", "out of range"),
        ("mean", "high", "is not a number"),
        ("parties", "2.5", "is not a number"),
        ("trust", "2", "above 1"),
        ("participation", "10", "above 1"),
        ("algorithm", "fedavgg", "did you mean 'fedavg'"),
        ("skew", "label", "unknown skew 'label'"),
        ("modality", "text", "unknown modality"),
    ],
)
def test_broken_row_is_named_by_line_and_column(column: str, value: str, said: str) -> None:
    with pytest.raises(FedskewError, match=said) as caught:
        parse_evidence(broken(column, value), "mine.csv")
    assert str(caught.value).startswith("mine.csv, line 3")


def test_other_version_is_refused() -> None:
    with pytest.raises(FedskewError, match=r"it must be '# fedskew-evidence/1'"):
        parse_evidence("# fedskew-evidence/9\n")


def test_unknown_column_is_refused() -> None:
    with pytest.raises(FedskewError, match="colour"):
        parse_evidence(f"# {VERSION}\n{','.join(COLUMNS)},colour\n")


def test_short_row_is_refused() -> None:
    with pytest.raises(FedskewError, match="number of cells"):
        parse_evidence(f"# {VERSION}\n{','.join(COLUMNS)}\na,b\n")


def test_same_result_twice_is_refused() -> None:
    with pytest.raises(FedskewError, match="line 4: fedprox\\+wsm stands twice"):
        parse_evidence(format_evidence([ROW, ROW]))


def test_bibtex_has_one_entry_a_work_with_balanced_braces() -> None:
    text = bibtex(CITATIONS.values())
    assert text.count("@") == len(CITATIONS)
    assert text.count("{") == text.count("}")


def test_plain_citation_is_one_line_with_a_link() -> None:
    for work in CITATIONS.values():
        assert "\n" not in work.plain()
        assert work.plain().endswith(work.link)
        assert work.link.startswith("https://")
        assert msgspec.json.decode(msgspec.json.encode(work), type=Citation) == work


def test_works_are_cited_once_in_order_of_use() -> None:
    assert [work.key for work in cited(["li2021moon", "li2022niid", "li2021moon"])] == ["li2021moon", "li2022niid"]


def test_every_algorithm_has_hyperparameters_and_a_source() -> None:
    assert set(ORIGINS) <= set(COSTS)
    for name in COSTS:
        found = hyperparameters(name, local_epochs=3, batch_size=8)
        assert found.start["local_epochs"] == 3
        assert found.start["batch_size"] == 8
        assert set(found.grid) <= set(found.start)
        assert COSTS[name].citation in CITATIONS


def test_start_values_lie_on_their_grid() -> None:
    for name in COSTS:
        found = hyperparameters(name)
        assert all(found.start[key] in values for key, values in found.grid.items())


def test_wsm_tunes_like_its_base() -> None:
    assert hyperparameters("fedprox+wsm").grid == hyperparameters("fedprox").grid
    assert tuning_runs("fedprox+wsm") == 4


def test_unknown_algorithm_has_no_hyperparameters() -> None:
    with pytest.raises(FedskewError, match="did you mean 'scaffold'"):
        hyperparameters("scafold")
