"""Every algorithm keeps every law that is about it, on every network."""

from dataclasses import replace

import pytest

from fedskew.engine.algorithms import ALGORITHMS, Algorithm, find_algorithm
from fedskew.engine.algorithms.wsm import with_wsm
from fedskew.engine.conformance import LAWS, check_algorithm
from fedskew.engine.law_cases import NETWORKS
from fedskew.profiles.errors import FedskewError

MODIFIED = tuple(with_wsm(a) for a in ALGORITHMS)
CASES = [
    pytest.param(a, n, marks=[] if n in quick else pytest.mark.slow, id=f"{a.name}-{n}")
    for group, quick in ((ALGORITHMS, ("mlp", "batch_norm", "frozen")), (MODIFIED, ("mlp",)))
    for a in group
    for n in NETWORKS
]


def broken(algorithm: Algorithm, networks: tuple[str, ...]) -> list[str]:
    found = check_algorithm(algorithm, networks)
    return [f"{r.law} [{r.network}]: {r.text}" for r in found if r.status == "broken"]


@pytest.mark.parametrize(("algorithm", "network"), CASES)
def test_every_algorithm_keeps_every_law(algorithm: Algorithm, network: str) -> None:
    assert broken(algorithm, (network,)) == []


def test_every_law_is_about_some_algorithm_and_says_when_it_is_not() -> None:
    about = {law.name: [a.name for a in (*ALGORITHMS, *MODIFIED) if law.applies(a)] for law in LAWS}
    assert [name for name, algorithms in about.items() if not algorithms] == []
    found = check_algorithm(find_algorithm("fedavg"), ())
    skipped = [r for r in found if r.status == "not applicable"]
    assert skipped
    assert all(r.error is None and r.text.startswith("it is about") for r in skipped)


def test_laws_have_names_of_their_own_a_condition_and_traits() -> None:
    assert len({law.name for law in LAWS}) == len(LAWS)
    assert all(law.condition and law.traits for law in LAWS)
    assert {n for law in LAWS for n in law.networks} == set(NETWORKS)


def test_one_result_for_each_law_and_network() -> None:
    found = check_algorithm(find_algorithm("fedavg"), ("mlp", "frozen"))
    per_law = {law.name: max(1, len({"mlp", "frozen"} & set(law.networks))) for law in LAWS}
    only = {law.name for law in LAWS if law.networks and not {"mlp", "frozen"} & set(law.networks)}
    assert len(found) == sum(count for name, count in per_law.items() if name not in only)


def test_a_function_that_raises_breaks_the_law_with_its_message() -> None:
    def fails(update, hyper):
        raise RuntimeError("no server today")

    found = check_algorithm(replace(find_algorithm("fedavg"), aggregate=fails), ())
    assert any(r.status == "broken" and r.text == "RuntimeError: no server today" for r in found)


def test_unknown_networks_are_told() -> None:
    with pytest.raises(FedskewError, match="did you mean 'batch_norm'"):
        check_algorithm(find_algorithm("fedavg"), ["batchnorm"])
