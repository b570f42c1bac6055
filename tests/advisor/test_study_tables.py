"""Rows, tables and leaderboard of a study against hand calculation, and the exactly checkable numbers of the paper."""

import csv
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedskew.advisor import regret
from fedskew.advisor.evidence import format_evidence, parse_evidence, shipped
from fedskew.advisor.price import parameter_count
from fedskew.advisor.study.rows import deviation, evidence_rows, grouped, usable
from fedskew.advisor.study.spelling import skew_of
from fedskew.advisor.study.tables import Cell, Line, latex, markdown, paper_numbers, winners
from fedskew.engine.records import Candidate, Score
from fedskew.profiles.simulate import resolve
from fedskew.profiles.steps import step_counts


def candidate(name: str, *by_seed: float | None, status: str = "ok") -> Candidate:
    known = [value for value in by_seed if value is not None]
    mean = None if len(known) < len(by_seed) else sum(known) / len(known)
    score = Score(mean=mean, lower=None, upper=None, by_seed=by_seed)
    unknown = ("macro_f1", "lift", "worst_party", "spread", "loss", "best_round", "trend")
    rest: dict[str, Any] = {"seconds": 0.0, "bytes_per_party": 0, "hyperparameters": {}, "by_party": {}}
    rest |= dict.fromkeys(unknown)
    return Candidate(algorithm=name, status=status, accuracy=score, balanced_accuracy=score, **rest)


@pytest.mark.parametrize(
    ("ours", "std", "paper", "paper_std", "expected"),
    [
        (80.0, 1.0, 81.0, 0.5, ""),  # as far as the larger deviation, not beyond
        (80.0, 1.0, 81.1, 0.5, "*"),
        (80.0, 0.5, 82.0, 1.0, "*"),  # exactly twice the larger
        (80.0, 0.5, 82.1, 1.0, "**"),
        (84.2, 0.2, 82.1, 0.1, "**"),
        (10.0, 0.0, 10.0, 0.0, ""),
        (10.0, 0.0, 10.1, 0.0, "**"),
        (80.0, 30.0, 55.0, 0.1, ""),
    ],
)
def test_a_cell_is_flagged_beyond_either_deviation_and_again_beyond_twice_the_larger(
    ours: float, std: float, paper: float, paper_std: float, expected: str
) -> None:
    assert Cell(ours, std, "ok", paper, paper_std).flag == expected


def test_nothing_is_flagged_where_one_side_has_no_number() -> None:
    assert Cell(None, None, "diverged", 80.0, 1.0).flag == ""
    assert Cell(80.0, 1.0, "ok").flag == ""


LINE = Line(
    data="adult",
    partition="label_count, k=1, 10 parties",
    scale="32,561 rows",
    cells={
        "fedavg": Cell(75.04, 1.0, "ok", 82.5, 2.2),
        "fedprox": Cell(82.16, 2.0, "ok", 82.1, 2.2),
        "scaffold": Cell(82.2, 0.0, "failed", 77.1, 2.9),
        "fednova": Cell(None, None, "diverged", 66.4, 30.4),
    },
)


def test_the_markdown_table_holds_ours_the_papers_and_the_flagged_difference() -> None:
    text = markdown("My study", "SCALED DOWN: rows at most 9.", [LINE])
    row = next(line for line in text.splitlines() if line.startswith("| adult"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[3:] == [
        r"75.0 ± 1.0 / **82.5 ± 2.2** / -7.5\*\*",
        "**82.2 ± 2.0** / 82.1 ± 2.2 / +0.1",
        r"**82.2 ± 0.0** † / 77.1 ± 2.9 / +5.1\*",
        "- ‡ / 66.4 ± 30.4 / -",
    ]
    assert "SCALED DOWN: rows at most 9." in text
    assert text.endswith("ours FedAvg 0, FedProx 1, SCAFFOLD 0, FedNova 0; the paper's FedAvg 1, FedProx 0, "
                         "SCAFFOLD 0, FedNova 0.\n")  # fmt: skip


def test_columns_are_headed_by_titles_also_with_re_weighted_softmax_and_settings() -> None:
    cells = dict.fromkeys(("fedavg+wsm", "fedprox mu=0.1"), Cell(50.0, 0.5, "ok"))
    head = next(line for line in markdown("My study", "", [replace(LINE, cells=cells)]).splitlines() if "scale" in line)
    assert head == "| data | partition | scale | FedAvg + WSM | FedProx mu=0.1 |"


def test_the_latex_table_has_the_same_numbers_and_escapes_names() -> None:
    text = latex("My study", "", [LINE, replace(LINE, data="a_b", cells={"fedavg": Cell(50.0, 0.5, "ok")})])
    assert r"adult & label\_count, k=1, 10 parties & $75.0 \pm 1.0$** & $\mathbf{82.2 \pm 2.0}$ &" in text
    assert r" & \quad paper & $\mathbf{82.5 \pm 2.2}$ & $82.1 \pm 2.2$ & $77.1 \pm 2.9$ & $66.4 \pm 30.4$ \\" in text
    assert r"a\_b & label\_count, k=1, 10 parties & $\mathbf{50.0 \pm 0.5}$ &  &  &  \\" in text
    assert text.count(r"\\") == 4


COUNTED = {  # FedProx, FedAvg, SCAFFOLD, FedNova: what the paper's own table says
    "label": (11, 8, 4, 3),
    "feature": (3, 4, 5, 2),
    "quantity": (5, 3, 0, 0),
}


@pytest.mark.parametrize("category", COUNTED)
def test_winners_of_the_papers_table_are_as_the_paper_counts_them(category: str) -> None:
    rows = regret.settings(shipped(), "niid_bench")
    wanted = [results for results in rows if next(iter(results.values())).skew.split("_")[0] == category]
    found = winners({name: row.mean for name, row in results.items()} for results in wanted)
    assert tuple(found[name] for name in ("fedprox", "fedavg", "scaffold", "fednova")) == COUNTED[category]


def test_every_skewed_row_of_the_papers_table_file_is_found_by_our_names(data_file: Callable[[str], Path]) -> None:
    path = data_file("mnist.npz").parents[1] / "paper" / "accuracy.csv"
    if not path.is_file():
        pytest.skip("the paper's table is not here")
    spelled = {
        "iid": "homo",
        "label_quantity": "noniid-#label{}",
        "label_dirichlet": "noniid-labeldir-code alpha={}",
        "feature_noise": "noise noise={}",
        "feature_synthetic": "fcube",
        "quantity_dirichlet": "quantity-skew beta={}",
    }
    seen: Counter[str] = Counter()
    with path.open() as lines:
        for line in csv.DictReader(lines):
            if line["partition"] not in spelled:
                continue  # FEMNIST by writer
            name, *pairs = spelled[line["partition"]].format(line["param"]).split()
            plan = resolve(name, dict(pair.split("=") for pair in pairs))
            found = paper_numbers(line["dataset"], *skew_of(plan))[line["algorithm"].lower()]
            assert (found.mean, found.std) == (float(line["mean"]), float(line["std"]))
            seen[line["partition"]] += 1
    assert seen.total() == 172


# rows of the training part, parties, steps of all parties in a round at E = 10, B = 64, counted by hand
STEPS = [
    ("adult, IID", [3257] + [3256] * 9, 10 * 51 * 10),  # 32,561 rows; ceil(3257 / 64) = 51
    ("covtype, IID", [43576] * 9 + [43575], 10 * 681 * 10),  # 435,759 rows
    ("FCUBE", [1000] * 4, 10 * 16 * 4),
    ("MNIST, one digit each", [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
     10 * (93 + 106 + 94 + 96 + 92 + 85 + 93 + 98 + 92 + 93)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sizes", "steps"), STEPS)
def test_steps_of_a_round_are_as_counted_by_hand(name: str, sizes: list[int], steps: int) -> None:
    assert int(step_counts(sizes, 10, 64).sum()) == steps, name


@pytest.mark.parametrize(
    ("model", "features", "classes", "shape", "printed"),
    [
        ("cnn", 784, 10, (1, 28, 28), 1.95),
        ("cnn", 3072, 10, (3, 32, 32), 2.73),
        ("mlp", 123, 2, None, 0.20),
        ("mlp", 47_236, 2, None, 66.54),
    ],
)
def test_the_printed_megabytes_are_eleven_copies_of_the_model(
    model: str, features: int, classes: int, shape: tuple[int, int, int] | None, printed: float
) -> None:
    parameters = parameter_count(model, features, classes, shape)
    assert parameters is not None
    assert round(11 * 4 * parameters / 1e6, 2) == printed


def test_a_grid_is_reported_under_its_algorithm_and_other_variants_under_their_own_name() -> None:
    made = [candidate(n, 0.5) for n in ("fedavg", "fedprox mu=0.1", "fedprox mu=1", "scaffold", "scaffold lineage=x")]
    found = {name: [one.algorithm for one in members] for name, members in grouped(made).items()}
    assert found == {
        "fedavg": ["fedavg"],
        "fedprox": ["fedprox mu=0.1", "fedprox mu=1"],
        "scaffold": ["scaffold"],
        "scaffold lineage=x": ["scaffold lineage=x"],
    }
    both = grouped([candidate(n, 0.5) for n in ("fedprox", "fedprox mu=0.1", "fedprox mu=1")])
    assert list(both) == ["fedprox", "fedprox mu"]


def test_deviation_is_the_sample_deviation_and_none_where_a_seed_diverged() -> None:
    values = (0.5, 0.7, 0.9, 0.2)
    assert deviation(candidate("fedavg", *values).accuracy) == pytest.approx(np.std(values, ddof=1))
    assert deviation(candidate("fedavg", 0.5, None).accuracy) is None
    assert deviation(candidate("fedavg", 0.5).accuracy) == 0.0


def test_a_diverged_seed_counts_as_the_constant_predictor() -> None:
    score = candidate("fedavg", 0.8, None, 0.7).accuracy
    assert usable(score, 0.1) == pytest.approx((0.8 + 0.1 + 0.7) / 3)
    assert usable(score, None) is None


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("homo", ("none", "")),
        ("noniid-#label3", ("label_count", "k=3")),
        ("iid-diff-quantity", ("quantity", "qbeta=0.5")),
        ("quantity+noise", ("quantity+feature", "qbeta=0.5+noise=0.1")),
        ("hsu", ("label_dirichlet", "hsu=0.1")),
        ("natural", ("natural", "")),
        ("covariate_quantile", ("feature", "quantile")),
        ("label_permutation", ("concept", "permuted")),
    ],
)
def test_a_strategy_is_spelled_as_in_the_evidence_base(strategy: str, expected: tuple[str, str]) -> None:
    assert skew_of(resolve(strategy, {})) == expected


def test_no_result_makes_an_empty_evidence_file_that_reads_back() -> None:
    assert parse_evidence(format_evidence(evidence_rows([]))) == ()
