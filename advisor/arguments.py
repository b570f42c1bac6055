"""What the options of the command line mean to the library: text taken apart, checked, and handed on by name."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedskew.profiles.errors import FedskewError

if TYPE_CHECKING:
    from fedskew.profiles import Partition, Profile


def pair(text: str) -> tuple[str, str]:
    """Take KEY=VALUE apart."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise FedskewError(f"--set {text!r} is not of the form KEY=VALUE, such as alpha=0.1")
    return name.strip(), value.strip()


DEMO_ALGORITHMS = ("fedavg", "fedprox", "scaffold", "fednova")
READING = ("label", "party", "test", "task", "modality", "delimiter", "encoding", "on_bad_row")


def read_source(source: list[Path] | None, options: Mapping[str, Any]) -> "Partition":
    """Read what SOURCE and the options about the data name.

    Raises
    ------
    FedskewError
        No source, one that cannot be read, or an output that cannot be written.
    """
    from fedskew.profiles import read_table

    check_outputs(options)
    if not source:
        raise FedskewError("no SOURCE given: name a file, silo files or a folder (or use `fedskew advise --demo`)")
    return read_table(source[0] if len(source) == 1 else source, **reading_options(options))


def read_look_alike(
    like: Path | None, on: Path | None, source: list[Path] | None, options: Mapping[str, Any]
) -> "Partition":
    """Make the silos of --like PROFILE.json out of the rows of --on SOURCE."""
    from fedskew.profiles import read_table
    from fedskew.profiles.lookalike import look_alike

    if like is None or on is None or source:
        raise FedskewError("--like PROFILE.json and --on SOURCE belong together, and take the place of SOURCE")
    check_outputs(options)
    profile = written_profile([like])
    if profile is None:
        raise FedskewError(f"{like} is not a profile that `fedskew profile --json` wrote")
    return look_alike(profile, read_table(on, partitioned=False, **reading_options(options)), options["seed"])


def reading_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of ``read_table`` as given on the command line."""
    how: dict[str, Any] = {name: options[name] for name in READING}
    for name in ("drop", "features"):
        if options[name] is not None:
            how[name] = columns_of(name, options[name])
    return how


def columns_of(name: str, text: str) -> tuple[str, ...]:
    """The columns that an option lists; none at all would mean the opposite of what it says, and is refused.

    Examples
    --------
    >>> columns_of("drop", "age, dose")
    ('age', 'dose')
    """
    found = tuple(listed(text))
    if not found:
        raise FedskewError(f"--{name} names no column; give names such as age,dose, or leave it out")
    return found


def refuse_reading(options: Mapping[str, Any], why: str) -> None:
    """Refuse options about the data where no data are read.

    Raises
    ------
    FedskewError
        One is given.

    Examples
    --------
    >>> refuse_reading({"label": "age"}, "p.json is a profile")
    Traceback (most recent call last):
    ...
    fedskew.profiles.errors.FedskewError: p.json is a profile; leave out --label
    """
    _refuse(options, {**dict.fromkeys((*READING, "drop", "features")), "on_bad_row": "error"}, why)


def _refuse(options: Mapping[str, Any], defaults: Mapping[str, Any], why: str) -> None:
    """Refuse the first of some options that is not at its default."""
    for name, default in defaults.items():
        if options.get(name) not in (None, [], default):
            raise FedskewError(f"{why}; leave out --{name.rstrip('_').replace('_', '-')}")


def check_outputs(options: Mapping[str, Any]) -> None:
    """Refuse a place that cannot be written to, or that is read, before any work is done.

    Raises
    ------
    FedskewError
        An output is an input, too, or two outputs are one place.
    EnvironmentFaultError
        A place cannot be written to.
    """
    from fedskew.profiles.atomic import check_output
    from fedskew.profiles.outputs import check_apart, check_run_apart

    given = {f"--{name.rstrip('_')}": options.get(name) for name in ("json_", "html", "out")}
    for option, path in given.items():
        if path == "":
            raise FedskewError(f"{option} is empty; give a path")
        if option != "--json" and str(path) == "-":
            raise FedskewError(f"{option} -: only --json can go to stdout; give a path")
    outputs = {option: Path(path) for option, path in given.items() if path is not None and str(path) != "-"}
    for path in outputs.values():
        check_output(path)
    if outputs:
        check_apart(outputs, _inputs(options))
    if options.get("run") is not None:
        check_run_apart(Path(options["run"]), _inputs(options))


def _inputs(options: Mapping[str, Any]) -> Iterator[Path]:
    """All that the options name to be read, and the data that an index file names."""
    from fedskew.profiles.index_file import recorded_source

    for name in ("source", "test", "plan", "hash_key", "like", "on"):
        value = options.get(name)
        for path in value if isinstance(value, list) else [value]:
            if path is not None:
                yield Path(path)
                yield from recorded_source(Path(path))


def listed(text: str) -> list[str]:
    """The texts between commas, without blanks around them and without empty ones.

    Examples
    --------
    >>> listed("age, dose,")
    ['age', 'dose']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def written_profile(source: list[Path] | None, options: Mapping[str, Any] | None = None) -> "Profile | None":
    """Read a profile that this command line wrote; None for any other source.

    Parameters
    ----------
    source : as given
    options : of the command line, checked where the source is a profile: none of them reads data anew

    Raises
    ------
    FedskewError
        The profile cannot be read, or an option cannot be heeded.
    """
    import msgspec

    from fedskew.profiles.readers.folder import is_file
    from fedskew.profiles.records import SCHEMA, Profile

    if not source or len(source) > 1 or source[0].suffix != ".json" or not is_file(source[0]):
        return None
    text = source[0].read_bytes()
    try:
        schema = msgspec.json.decode(text, type=dict[str, Any]).get("schema")
        if schema != SCHEMA:
            return None
        if options is not None:
            refuse_reading(options, f"{source[0]} is a profile, which was measured already")
            check_outputs(options)
        return Profile.from_json(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FedskewError(f"{source[0]} is not a profile that fedskew wrote: {error}") from error


def constraints_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """What recommend is told about the federation, as far as it was given."""
    names = (
        "participation",
        "stateless_clients",
        "bandwidth",
        "has_batchnorm",
        "goal",
        "local_epochs",
        "batch_size",
        "model",
    )
    return {name: options[name] for name in names if options.get(name) is not None}


def training_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the engine, checked where text must be taken apart."""
    from fedskew.engine.backends import check_backend

    names = (
        "rounds",
        "seeds",
        "local_epochs",
        "batch_size",
        "lr",
        "participation",
        "model",
        "max_rows",
        "jobs",
        "seed",
        "preset",
    )
    training = {name: options[name] for name in names if options[name] is not None}
    wanted = options["algorithms"]
    if wanted == "shortlist":
        training["algorithms"] = wanted  # named once there is advice
    else:
        training["algorithms"] = None if wanted in (None, "all") else _known(listed(wanted))
    if options.get("demo"):
        training |= _demo_options(options)
    training["references"] = not options["no_references"]
    training["tuning"] = not options["no_tuning"]
    training["run"] = options["run"] or "auto"
    training["force_resume"] = options["force_resume"]
    training["hyper"] = hyper_options(options["set_"] or [])
    for name in ("rounds", "seeds", "local_epochs", "batch_size", "max_rows", "jobs"):
        if training.get(name) is not None and training[name] < 1:
            raise FedskewError(f"--{name.replace('_', '-')} is {training[name]}; it must be 1 or more")
    training["backend"], training["address"] = options.get("backend") or "local", options.get("address")
    check_backend(training["backend"], training["address"])
    return training


TRAINING_ONLY = {
    **dict.fromkeys(("preset", "algorithms", "rounds", "seeds", "lr", "max_rows", "jobs", "set_", "address")),
    **dict.fromkeys(("no_references", "no_tuning", "force_resume"), False),
    "backend": "local",
}
"""Options that training alone heeds, and their defaults."""


def refuse_training(options: Mapping[str, Any]) -> None:
    """Refuse options about the training where nothing is trained.

    Raises
    ------
    FedskewError
        One is given.

    Examples
    --------
    >>> refuse_training({**TRAINING_ONLY, "rounds": 3})
    Traceback (most recent call last):
    ...
    fedskew.profiles.errors.FedskewError: --no-validate trains nothing; leave out --rounds
    """
    _refuse(options, TRAINING_ONLY, "--no-validate trains nothing")


def _known(names: list[str]) -> list[str]:
    """Candidates by name, refused before any row is read where there is no such algorithm."""
    from fedskew.engine.algorithms import find_algorithm

    if not names:
        raise FedskewError("--algorithms names none; give names such as fedavg,scaffold, or shortlist, or all")
    try:
        for name in names:
            find_algorithm(name)
    except FedskewError as error:
        raise FedskewError(f"--algorithms: {error}; or shortlist, or all") from error
    return names


def _demo_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the demo trains unless it is told otherwise: the paper's four, and few rounds, to take about a minute."""
    if options["source"]:
        raise FedskewError("give either SOURCE or --demo, not both")
    refuse_reading(options, "--demo brings its own data")
    found: dict[str, Any] = {}
    if options["algorithms"] is None:
        found["algorithms"] = list(DEMO_ALGORITHMS)
        if options["preset"] is None and options["rounds"] is None:
            found["rounds"] = 20
    return found


def hyper_options(texts: list[str]) -> dict[str, dict[str, float | str]]:
    """Take ALG.KEY=VALUE texts apart: changes by algorithm id."""
    found: dict[str, dict[str, float | str]] = {}
    for text in texts:
        left, equals, value = text.partition("=")
        algorithm, dot, key = left.strip().rpartition(".")
        if not equals or not dot or not algorithm or not key:
            raise FedskewError(f"--set {text!r} is not of the form ALG.KEY=VALUE, such as fedprox.mu=0.1")
        changes = found.setdefault(algorithm.lower(), {})
        if key in changes:
            raise FedskewError(f"--set {algorithm}.{key} is given twice: {changes[key]} and {value.strip()}")
        try:
            changes[key] = float(value)
        except ValueError:
            changes[key] = value.strip()
    return found
