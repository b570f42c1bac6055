"""Our study in the package, and the regret of advice on it: against hand computation on made-up rows."""

import math
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import numpy as np
import pytest

from fedskew.advisor import own_regret as measure
from fedskew.advisor.evidence import published
from fedskew.advisor.own_evidence import (
    COLUMNS,
    STATED,
    VERSION,
    Constants,
    OwnRow,
    fitted,
    format_own,
    own_evidence,
    parse_fit,
    parse_own,
)
from fedskew.advisor.own_fit import Fit, choices
from fedskew.advisor.own_results import compact, joined, own_rows
from fedskew.advisor.price import COSTS, base_name
from fedskew.advisor.study.reading import read_study
from fedskew.advisor.study.run import Result, read_result, result_path, run_setting
from fedskew.profiles.errors import FedskewError

MADE: dict[str, Any] = {
    "modality": "tabular",
    "skew": "quantity",
    "param": "qbeta=0.5",
    "kind": "quantity",
    "components": "quantity",
    "severity": "strong",
    "classes_each": None,
    "strong_concept": 0,
    "classes": 4,
    "parties": 10,
    "participation": 1.0,
    "train_rows": 500,
    "model": "mlp",
    "rounds": 20,
    "local_epochs": 2,
    "batch_size": 32,
    "seeds": 2,
    "label_skew": 0.0,
    "feature_skew": 0.0,
    "quantity_skew": 0.5,
    "step_ratio": 8.0,
    "weight_sum": 2.0,
    "majority": 40.0,
    "majority_balanced": 25.0,
}
DICT: dict[str, Any] = {
    **{name: value for name, value in MADE.items() if not name.startswith("majority")},
    "data": "mplsstops-87",
    "setting": "s",
    "algorithm": "fedavg",
    "tuned": 3,
    "status": "ok",
    "constant_seeds": 0,
    "majority": 0.4,
    "majority_balanced": 0.25,
    "label_skew": -0.01,
    "rounds": 4,
    "accuracy_by_seed": [0.5, 0.7],
    "balanced_accuracy_by_seed": [0.3, 0.5],
    "curve": [[0.1, 0.2, 0.3, 0.5], [0.3, 0.4, 0.5, 0.7]],
    "balanced_curve": [[0.1, 0.2, 0.2, 0.3], [0.3] * 4],
}


def own(setting: str, algorithm: str, score: float, dataset: str = "A", **changes: Any) -> OwnRow:
    early = dict.fromkeys(("accuracy_5", "accuracy_10", "accuracy_25", "accuracy_50"), score)
    early |= {name.replace("accuracy", "balanced"): value for name, value in early.items()}
    values = {"accuracy": score, "balanced": score, "accuracy_sd": 0.5, "balanced_sd": 0.5, **early, **MADE}
    values |= {"setting": setting, "dataset": dataset, "table": dataset, "algorithm": algorithm, "tuned": 3}
    return OwnRow(**{**values, "status": "ok", "constant": 0.0, **changes})


def world(gains: dict[str, dict[str, float]]) -> tuple[measure.Results, ...]:
    """One setting a data set: FedAvg at 60, the others by their gain."""
    rows = [
        own(d, name, 60.0 + gain, d) for d, found in gains.items() for name, gain in {"fedavg": 0.0, **found}.items()
    ]
    return measure.own_settings(rows)


def test_packaged_rows_read_and_are_few_bytes() -> None:
    rows = own_evidence()
    assert len({(row.setting, row.algorithm) for row in rows}) == len(rows)
    assert all(base_name(row.algorithm) in COSTS and row.setting.startswith(row.table.split("-")[0]) for row in rows)
    assert isinstance(fitted(), Constants)
    folder = Path(measure.__file__).parent
    assert (folder / "own_evidence.csv").stat().st_size < 300_000


def test_rows_read_back_as_written() -> None:
    rows = (own("a", "fedavg", 61.125), own("a", "fedprox", 60.5, classes_each=2, accuracy_sd=None))
    text = format_own(rows, "where from")
    assert text.splitlines()[:2] == [f"# {VERSION}", "# where from"]
    assert parse_own(text, "x") == rows


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("accuracy", "101", "line 5, column accuracy: 101 is out of range"),
        ("accuracy", "", "is not a number"),
        ("balanced_5", "nan", "out of range"),
        ("participation", "1.5", "out of range"),
        ("parties", "2.5", "is not a number"),
        ("algorithm", "fedavgg", "did you mean 'fedavg'"),
        ("status", "fine", "not known"),
        ("skew", "label", "not known"),
    ],
)
def test_broken_cell_is_named_by_line_and_column(column: str, value: str, said: str) -> None:
    lines = format_own([own("a", "fedavg", 61.0)], "x").splitlines()
    cells = lines[4].split(",")
    cells[COLUMNS.index(column)] = value
    with pytest.raises(FedskewError, match=said):
        parse_own("\n".join([*lines[:4], ",".join(cells)]) + "\n", "own.csv")


def test_other_version_columns_and_repeats_are_refused() -> None:
    with pytest.raises(FedskewError, match="it must be '# fedskew-own-evidence/1'"):
        parse_own("# fedskew-evidence/1\n", "x")
    with pytest.raises(FedskewError, match="colour"):
        parse_own(f"# {VERSION}\n# y\n{','.join(COLUMNS)},colour\n", "x")
    with pytest.raises(FedskewError, match="fedavg stands twice"):
        parse_own(format_own([own("a", "fedavg", 61.0)] * 2, "y"), "x")


def test_a_row_is_made_short_by_hand() -> None:
    row = compact(DICT)
    assert (row.dataset, row.table) == ("mplsstops", "mplsstops-87")
    assert row.label_skew == 0  # more even than chance is no skew
    assert (row.accuracy, row.balanced) == (60.0, 40.0)
    assert row.accuracy_sd == pytest.approx(100 * math.sqrt(0.02), abs=1e-3)
    assert (row.accuracy_5, row.accuracy_25, row.accuracy_50) == (20.0, 20.0, 30.0)  # rounds 1, 1, 2 of 4
    assert row.balanced_50 == 25.0


def test_what_diverges_or_is_constant_counts_as_the_constant_predictor() -> None:
    lost = {"accuracy_by_seed": [0.5, None], "balanced_accuracy_by_seed": [0.3, None], "status": "diverged"}
    row = compact({**DICT, **lost, "curve": [[0.1, 0.2, 0.3, 0.5], [0.3]]})
    assert row.accuracy == pytest.approx(100 * (0.5 + 0.4) / 2)
    assert row.balanced == pytest.approx(100 * (0.3 + 0.25) / 2)
    assert row.accuracy_sd is None
    assert row.accuracy_5 == 20.0  # both seeds were alive after round 1
    assert row.accuracy_50 == pytest.approx(100 * (0.2 + 0.4) / 2)
    failed = compact({**DICT, "status": "failed", "constant_seeds": 2})
    assert (failed.accuracy, failed.balanced, failed.constant) == (40.0, 25.0, 1.0)


def test_regret_by_hand() -> None:
    (one,) = world({"A": {"fedprox": 2.0, "scaffold": -3.0}})
    assert [measure.regret(one, name, "balanced") for name in ("fedavg", "fedprox", "scaffold")] == [2.0, 0.0, 5.0]


def test_best_constant_never_sees_the_data_set_it_is_judged_on() -> None:
    table = world(
        {
            "A": {"fedprox": 9.0, "scaffold": 0.0},
            "B": {"fedprox": 0.0, "scaffold": 1.0},
            "C": {"fedprox": 0.0, "scaffold": 1.0},
        }
    )
    choose = measure.best_constant_without(table)
    assert [choose(one, "accuracy") for one in table] == ["scaffold", "fedprox", "fedprox"]


def test_second_opinion_never_sees_the_data_set_it_is_judged_on() -> None:
    gains = {name: {"scaffold": 3.0, "fedprox": 0.0} for name in "ABCDE"}
    honest = measure.opinion_choice(world(gains), constants=STATED)
    liar = measure.opinion_choice(world({**gains, "A": {"scaffold": -15.0, "fedprox": 15.0}}), constants=STATED)
    for choose in (honest, liar):
        assert choose(world(gains)[0], "accuracy") == "scaffold"
    rows = measure.opinion_rows(world(gains), "accuracy", frozenset({"A", "adult"}))
    assert {row.dataset for row in rows} == {row.dataset for row in published()} - {"adult"} | set("BCDE")


def test_short_validation_takes_the_leader_of_that_round_and_pays_at_the_end() -> None:
    rows = [own("a", "fedavg", 60.0, balanced_10=50.0), own("a", "fedadam", 58.0, balanced_10=55.0)]
    (one,) = measure.own_settings(rows)
    assert measure.regrets((one,), measure.leader(10), "balanced").tolist() == [2.0]
    assert measure.regrets((one,), measure.leader(50), "balanced").tolist() == [0.0]
    assert measure.leader(10)(one, "accuracy") == "fedavg"


def test_halving_drops_who_is_behind_early_and_costs_what_it_trains() -> None:
    """Of five, three stay after 10 %, two after 25 %, one after 50 %: (5 x 10 + 3 x 15 + 2 x 25) / 5 = 29 %."""
    ends = {"fedavg": 70.0, "fedprox": 95.0, "scaffold": 65.0, "fednova": 90.0, "moon": 80.0}
    early: dict[str, dict[str, Any]] = {
        "fedavg": {"accuracy_10": 50.0, "accuracy_25": 60.0, "accuracy_50": 61.0},
        "fedprox": {"accuracy_10": 40.0, "accuracy_25": 99.0, "accuracy_50": 99.0},
        "scaffold": {"accuracy_10": 55.0, "accuracy_25": 59.0, "accuracy_50": 70.0},
        "fednova": {"accuracy_10": 51.0, "accuracy_25": 50.0, "accuracy_50": 99.0},
        "moon": {"accuracy_10": 9.0, "accuracy_25": 9.0, "accuracy_50": 9.0},
    }
    rows = [own("a", name, end, **early[name]) for name, end in ends.items()]
    (one,) = measure.own_settings(rows)
    assert measure.halving(one, "accuracy") == "scaffold"  # fedprox and moon go first, then fednova, then fedavg
    assert measure.regrets((one,), measure.halving, "accuracy").tolist() == [30.0]
    assert measure.halving_cost(5) == 29.0
    assert measure.halving_cost(1) == 50.0


def test_tree_walks_the_measured_profile() -> None:
    (one,) = world({"A": {"fedprox": 0.0, "scaffold": 0.0}})
    assert measure.tree_choice(one, "accuracy") == "fedavg"
    as_table = {n: replace(r, kind="label_dirichlet", components="label_dirichlet") for n, r in one.items()}
    assert measure.tree_choice(as_table, "accuracy") == "fedprox"
    as_image = {n: replace(r, modality="image") for n, r in as_table.items()}
    assert measure.tree_choice(as_image, "accuracy") == "scaffold"


def test_interval_draws_whole_data_sets() -> None:
    found = measure.over_data_sets([1.0, 1.0, 1.0, 5.0], ["A", "A", "A", "B"])
    assert (found.mean, found.lower, found.upper) == (2.0, 1.0, 5.0)  # with two data sets both ends are single ones
    rng = np.random.default_rng(1)
    values, names = rng.normal(size=40), [str(i) for i in range(40)]
    each = measure.over_data_sets(values, names)  # one setting a data set: the textbook standard error
    half = 1.96 * values.std() / math.sqrt(40)
    assert each.upper - each.lower == pytest.approx(2 * half, rel=0.08)
    assert measure.over_data_sets(values, names) == each


def test_fit_chooses_what_the_second_opinion_says() -> None:
    rng = np.random.default_rng(3)
    rows = []
    where = [(dataset, skew) for dataset in ("adult", "B", "C", "D") for skew in ("quantity", "label_dirichlet")]
    for i, (dataset, skew) in enumerate(where):
        place = {"skew": skew, "quantity_skew": rng.uniform(), "label_skew": rng.uniform(), "step_ratio": 2.0 + i}
        names = ("fedavg", "fedprox", "scaffold", "fedadam", "feddyn")
        rows += [own(f"s{i}", name, float(rng.uniform(35, 75)), dataset, **place) for name in names]
    table = measure.own_settings(rows)
    grid = (Constants(), Constants(0.05, 4.0, 2.0, 100.0), Constants(1.0, 0.25, 0.7, 20.0))
    fit = Fit(table, "accuracy", ("accuracy",), grid)
    for constants in grid:
        for left in (None, "B", "MNIST"):
            out = fit.losses(constants, None if left is None else fit.names.index(left))
            assert len(out) == 8 + 35 + 12  # ours, NIID-Bench's, Flower's
            for one, lost in zip(table, out[:8], strict=True):
                gone = frozenset({measure.first(one).dataset, left or ""})
                name = measure.opinion_of(measure.opinion_rows(table, "accuracy", gone), constants)(one)
                assert lost == measure.regret(one, name, "accuracy"), (constants, left, name)
    assert fit.losses(fit.best()).mean() == min(fit.losses(one).mean() for one in grid)


def test_constants_are_chosen_without_the_data_set_judged() -> None:
    gains = {name: {"feddyn": 3.0, "fedprox": 0.0} for name in "ABCD"}
    table = world({**gains, "D": {"feddyn": -1.0, "fedprox": 1.0}})
    names = Fit(table, "accuracy", ("accuracy",)).nested()
    assert [three[0] for three in names[:4]] == ["feddyn"] * 4  # on D all the other data sets speak for it


def test_first_three_are_validated_among_themselves_alone() -> None:
    early = {"feddyn": 1.0, "fedprox": 2.0, "scaffold": 9.0, "fednova": 3.0, "fedavg": 0.0}
    ends = {"feddyn": 66.0, "fedprox": 61.0, "scaffold": 30.0, "fednova": 30.0, "fedavg": 60.0}
    rows = [own(d, n, ends[n], d, accuracy_10=early[n], balanced_10=early[n]) for d in "ABCDE" for n in ends]
    table = measure.own_settings(rows)
    known = choices(table)
    for one in table:
        assert known["second opinion"].choose(one, "accuracy") == "feddyn"
        assert known["its first 3, 10 % of the rounds"].choose(one, "accuracy") == "fedprox"  # FedAvg is the third
        assert known["its first 3, all rounds"].choose(one, "accuracy") == "feddyn"
        assert known["validation, 10 % of the rounds"].choose(one, "accuracy") == "scaffold"
    shares = {name: policy.trained for name, policy in known.items() if policy.trained}
    assert shares["its first 3, 10 % of the rounds"] == pytest.approx(6.0)  # three of five, a tenth of the way
    assert shares["its first 5, all rounds"] == 100.0
    assert shares["validation, 25 % of the rounds"] == 25.0


def test_fit_is_written_and_read_back() -> None:
    fit = Constants(published=0.05, pseudo=4.0, width=2.0, cap=100.0)
    assert parse_fit(format_own([own("a", "fedavg", 61.0)], "x", fit), "x") == fit
    assert parse_fit(f"# {VERSION}\n# x\n", "x") == STATED
    for line in ("# fit: published=2 pseudo=1 width=1 cap=20", "# fit: colour=1", "# fit: pseudo", "# fit: width=0"):
        with pytest.raises(FedskewError, match="fit"):
            parse_fit(line, "x")


def test_coverage_counts_differences_on_data_sets_left_out() -> None:
    table = world({name: {"scaffold": 1.0} for name in "ABCDEF"})
    assert measure.coverage(table, STATED) == (6, 6)
    wild = world({name: {"scaffold": 19.0 if i % 2 else -19.0} for i, name in enumerate("ABCDEF")})
    held, total = measure.coverage(wild, STATED)
    assert total == 6
    assert held >= 5  # a spread that the evidence shows widens the interval


def test_a_study_is_taken_as_it_is(tmp_path: Path) -> None:
    toml = """
    title = "t"
    [defaults]
    rounds = 4
    local_epochs = 1
    seeds = 2
    candidates = ["fedavg", "scaffold"]
    model = "linear"
    [data.FCUBE]
    source = "generated:fcube"
    rows = 120
    test_rows = 80
    [[grid]]
    data = "FCUBE"
    partition = "quantity_dirichlet beta=0.5 min_partition_size=4"
    parties = 4
    """
    (tmp_path / "t.toml").write_text(toml)
    study, out = read_study(tmp_path / "t.toml"), tmp_path / "out"
    for name in ("runs", "timings", "settings"):
        (out / name).mkdir(parents=True)
    run_setting(study.settings[0], None, out)
    result = read_result(result_path(out, study.settings[0]))
    rows = own_rows([result])
    assert [row.algorithm for row in rows] == ["fedavg", "scaffold"]
    for row, one in zip(rows, result.validation.candidates, strict=True):
        assert row.accuracy == pytest.approx(100 * fmean(v for v in one.accuracy.by_seed if v is not None), abs=1e-3)
        assert row.accuracy_50 == pytest.approx(100 * fmean(line[1] for line in one.accuracy.curve), abs=1e-3)
        assert row.balanced_25 == pytest.approx(
            100 * fmean(line[0] for line in result.balanced_curves[one.algorithm]), abs=1e-3
        )
        assert row.facts.kind == result.profile.prevailing.kind
        assert row.weight_sum == pytest.approx(result.weight_sum, rel=1e-3)
    assert parse_own(format_own(rows, "x"), "x") == rows
    evidence = rows[1].evidence("balanced")
    assert (evidence.mean, evidence.majority) == (rows[1].balanced, rows[1].majority_balanced)
    assert {row.severity for row in own_rows([_graded(result, label="mild", quantity="strong")])} == {"mild"}
    assert {row.severity for row in own_rows([_graded(result, label="strong", quantity="none")])} == {"strong"}


def _graded(result: Result, *, label: str, quantity: str) -> Result:
    """A result with label skew alone as a component, and quantity graded whatever it is."""
    found = result.profile
    graded = msgspec.structs.replace(
        found,
        label=msgspec.structs.replace(found.label, severity=label),
        quantity=msgspec.structs.replace(found.quantity, severity=quantity),
        prevailing=msgspec.structs.replace(found.prevailing, components=("label_dirichlet",)),
    )
    return msgspec.structs.replace(result, profile=graded)


def test_further_candidates_join_the_setting_in_which_fedavg_scored_the_same() -> None:
    ours = (own("a", "fedavg", 60.0), own("a", "scaffold", 50.0), own("b", "fedavg", 61.0))
    theirs = (
        own("x", "fedavg", 61.0),
        own("x", "fedavg+wsm", 40.0),
        own("y", "fedavg", 60.0),
        own("y", "fedavg+wsm", 63.0),
    )
    found = joined(ours, theirs)
    assert [(row.setting, row.algorithm, row.accuracy) for row in found] == [
        ("a", "fedavg", 60.0),
        ("a", "scaffold", 50.0),
        ("a", "fedavg+wsm", 63.0),
        ("b", "fedavg", 61.0),
        ("b", "fedavg+wsm", 40.0),
    ]
    assert parse_own(format_own(found, "made up"), "x") == found
    with pytest.raises(FedskewError, match=r"x: FedAvg's row is in no setting of the first study"):
        joined(ours, (own("x", "fedavg", 61.001), own("x", "fedavg+wsm", 40.0)))


def test_what_has_a_modifier_is_judged_by_claims_and_by_no_policy() -> None:
    rows = (own("a", "fedavg", 60.0), own("a", "fedavg+wsm", 90.0))
    (plain,), (whole,) = measure.own_settings(rows), measure.own_settings(rows, modified=True)
    assert list(plain) == ["fedavg"]
    assert list(whole) == ["fedavg", "fedavg+wsm"]
    assert measure.regret(plain, "fedavg", "accuracy") == 0.0
