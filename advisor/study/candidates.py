"""Candidates of a study as text: an algorithm with hyperparameters, or a grid of them of which the best is reported."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from fedskew.engine.algorithms import ALGORITHMS, Algorithm, find_algorithm
from fedskew.engine.algorithms.limits import check_hyper
from fedskew.profiles.errors import FedskewError

Hyper = dict[str, float | str]


def parse_candidates(texts: Iterable[str], where: str) -> tuple[str, ...]:
    """Candidates one by one: ``all`` becomes every algorithm, ``fedprox mu=0.1|1`` two of one algorithm.

    Parameters
    ----------
    texts : as in the study file
    where : what messages name

    Raises
    ------
    FedskewError
        An unknown algorithm or hyperparameter, or a value of the wrong kind.

    Examples
    --------
    >>> parse_candidates(["FedAvg", "fedprox mu=0.1|1"], "here")
    ('fedavg', 'fedprox mu=0.1', 'fedprox mu=1')
    """
    found: list[str] = []
    for text in texts:
        words = text.split()
        if words == ["all"]:
            found += [algorithm.name for algorithm in ALGORITHMS]
            continue
        if not words:
            raise FedskewError(f"{where}: a candidate is empty; name an algorithm, or 'all'")
        pairs = [pair.partition("=") for pair in words[1:]]
        for chosen in product(*(values.split("|") for _, _, values in pairs)):
            settings = [f"{key}={value}" for (key, _, _), value in zip(pairs, chosen, strict=True)]
            name = " ".join([words[0].lower(), *settings])
            try:
                candidate(name)
            except FedskewError as error:
                raise FedskewError(f"{where}: candidate {text!r}: {error}") from error
            found.append(name)
    if not found:
        raise FedskewError(f"{where}: there are no candidates; name algorithms, or 'all'")
    return tuple(dict.fromkeys(found))


def candidate(text: str) -> tuple[Algorithm, Hyper]:
    """The algorithm under the text's name, and the hyperparameters it fixes.

    Examples
    --------
    >>> algorithm, hyper = candidate("fedprox mu=0.1")
    >>> algorithm.name, hyper
    ('fedprox mu=0.1', {'mu': 0.1})
    """
    base, *pairs = text.split()
    algorithm = find_algorithm(base)
    hyper: Hyper = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise FedskewError(f"{pair!r} is not of the form KEY=VALUE, such as mu=0.1")
        hyper[key] = value if isinstance(algorithm.hyper.get(key), str) else _number(key, value)
    check_hyper(algorithm, hyper)
    if not pairs:
        return algorithm, hyper
    return replace(algorithm, name=text, title=f"{algorithm.title} {' '.join(pairs)}"), hyper


def base_of(text: str) -> str:
    """The id of a candidate's algorithm.

    Examples
    --------
    >>> base_of("fedprox mu=0.1")
    'fedprox'
    """
    return text.split(maxsplit=1)[0]


def keys_of(text: str) -> tuple[str, ...]:
    """Names of the hyperparameters that a candidate fixes.

    Examples
    --------
    >>> keys_of("fedprox mu=0.1")
    ('mu',)
    """
    return tuple(pair.partition("=")[0] for pair in text.split()[1:])


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FedskewError(f"{key} is {text!r}; it must be a number") from None
