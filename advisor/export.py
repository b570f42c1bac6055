"""A Flower app of the chosen algorithm: plain files, carried over from this package, that need nothing of it."""

import json
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template

from fedskew.advisor.delivery import read_answer
from fedskew.advisor.exported import Choice, choose
from fedskew.advisor.reporting import read_report
from fedskew.engine import algorithms as shipped
from fedskew.engine.algorithms.wsm import SUFFIX
from fedskew.profiles.atomic import check_output, folder_atomically, write_atomically
from fedskew.profiles.errors import FedskewError

PACKAGE = "federation"
TEMPLATES = "fedskew.advisor.flower"
ROOTS = ("client_app", "server_app", "choice")
IMPORT = re.compile(r"^from (fedskew(?:\.\w+)+) import (.+)$", re.MULTILINE)
KEEPS = {
    "c": "its control variate c_i",
    "g": "its gradient memory g_i",
    "previous": "its last model",
}


def export_flower(choice: Choice, out: Path) -> tuple[Path, ...]:
    """Write a complete Flower app.

    Parameters
    ----------
    choice : algorithm, hyperparameters, network and classes
    out : the folder to make; an existing one must be empty

    Returns
    -------
    The files written, relative to ``out``

    Raises
    ------
    FedskewError
        The folder holds files already, or there is no such network.
    EnvironmentFaultError
        The folder cannot be written.
    """
    texts = app_files(choice)
    with folder_atomically(out) as folder:
        (folder / PACKAGE).mkdir()
        for name, text in texts.items():
            write_atomically(folder / name, text.encode())
    return tuple(Path(name) for name in texts)


def export_answer(source: Path, out: Path, algorithm: str | None = None) -> str:
    """Export what a run folder or a JSON file of a command says, and return what to tell the user.

    Raises
    ------
    FedskewError
        There is nothing to follow in it, or the folder holds files already.
    EnvironmentFaultError
        A file cannot be read or written.
    """
    check_output(out, folder=True)
    choice = choose(read_report(read_answer(source), str(source)), algorithm)
    written = export_flower(choice, out)
    notes = "".join(f"Note: {note}\n" for note in choice.notes)
    return (
        f"{choice.algorithm.title} for {choice.parties} parties is in {out}, {len(written)} files.\n{notes}"
        f"Fill in {out / PACKAGE / 'data.py'}; {out / 'README.md'} has the commands to simulate and to deploy."
    )


def app_files(choice: Choice) -> dict[str, str]:
    """The text of every file of the app by its path."""
    written = _choice_text(choice)
    modules = _closed({f"{TEMPLATES}.{root}" for root in ROOTS}, {f"{TEMPLATES}.choice": written.text})
    inside = {name.rpartition(".")[2]: carried(text) for name, text in modules.items()} | written.carried
    inside["__init__"] = f'"""{choice.algorithm.title} as a Flower app."""\n'
    facts = _facts(choice, written)
    toml = Template(_template("app.toml")).substitute({**facts, "why": _one_line(choice.why)})
    found = {"pyproject.toml": toml.rstrip() + "\n", "README.md": Template(_template("app.md")).substitute(facts)}
    return found | {f"{PACKAGE}/{name}.py": text for name, text in sorted(inside.items())}


def carried(text: str) -> str:
    """A module's text as it stands in the app: without this package's names, its doctests and its checkers' notes.

    Examples
    --------
    >>> print(carried("from fedskew.profiles.keyed import Key  # noqa: F401"))
    from federation.keyed import Key
    """
    text = re.sub(r"\n\n( *)Examples\n\1-{8}\n.*?(?=\n\1\"\"\")", "", text, flags=re.DOTALL)
    text = re.sub(r"  # (?:noqa|type: ignore)[^\n]*", "", text)
    text = re.sub(r"^from fedskew\.profiles\.errors import [^\n]+\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\n{4,}", "\n\n\n", text).replace("FedskewError", "ValueError")
    text = re.sub(r"^from fedskew\.advisor\.flower import", f"from {PACKAGE} import", text, flags=re.MULTILINE)
    return re.sub(r"^from fedskew(?:\.\w+)*\.(\w+) import", rf"from {PACKAGE}.\1 import", text, flags=re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Written:
    """The text of choice.py, the algorithm's module, a user's own module by name, and what to know about it."""

    text: str
    module: str
    carried: dict[str, str]
    note: str = ""


def _choice_text(choice: Choice) -> _Written:
    module, constant = _home(choice.algorithm.name)
    network, own, note = _network(choice.model)
    wsm = choice.algorithm.name.endswith(SUFFIX)
    lines = [
        f'"""What was chosen by fedskew {version("fedskew")}: the algorithm, the network, the classes."""',
        "",
        *([f"from fedskew.engine.algorithms.{module} import {constant}"] if wsm else []),
        *(["from fedskew.engine.algorithms.wsm import with_wsm"] if wsm else []),
        *([] if wsm else [f"from fedskew.engine.algorithms.{module} import {constant} as ALGORITHM"]),
        network,
        "",
        '__all__ = ["ALGORITHM", "CLASSES", "NETWORK"]',
        *(["", f"ALGORITHM = with_wsm({constant})"] if wsm else []),
        "",
        *_classes(choice.classes),
    ]
    return _Written("\n".join(lines) + "\n", module, own, note)


def _classes(names: tuple[str, ...]) -> list[str]:
    """The names as Python's own escapes, so that whatever stands in a name stays in its quotes."""
    if not names:
        return ["CLASSES: tuple[str, ...] = ()  # a continuous target"]
    return ["CLASSES = (", *(f"    {_quoted(name)},  # {code}" for code, name in enumerate(names)), ")"]


def _quoted(name: str) -> str:
    literal = ascii(name)
    plain = not {'"', "\\"} & set(literal)
    return f'"{literal[1:-1]}"' if plain else literal


def _home(name: str) -> tuple[str, str]:
    """The module that defines a registered algorithm, and the constant's name there."""
    base = name.removesuffix(SUFFIX)
    for found in pkgutil.iter_modules(shipped.__path__):
        if found.name != "registry":
            module = import_module(f"{shipped.__name__}.{found.name}")
            for constant, value in vars(module).items():
                if constant.isupper() and getattr(value, "name", None) == base:
                    return found.name, constant
    raise FedskewError(f"{name!r} is no algorithm that fedskew ships; only those can be exported")


def _network(model: str) -> tuple[str, dict[str, str], str]:
    """The line that imports the network, a user's module to carry along, and a note about it."""
    if ":" not in model:
        from fedskew.engine.models import find_model

        factory = find_model(model)
        return f"from {factory.__module__} import {factory.__name__} as NETWORK", {}, ""
    where, _, name = model.partition(":")
    if not name.isidentifier() or not all(part.isidentifier() for part in where.split(".")):
        raise FedskewError(f"model {model!r} is not of the form module:factory")
    path = None if "." in where else _source_of(where)
    if path is not None:
        return f"from {PACKAGE}.{where}_model import {name} as NETWORK", {f"{where}_model": path.read_text("utf-8")}, ""
    note = (
        f"The network is `{model}`: the package that holds `{where}` must be installed at the server and all parties."
    )
    return f"from {where} import {name} as NETWORK", {}, note


def _source_of(module: str) -> Path | None:
    """The file of a module that is a single file; None where it is something else or is not found here."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or spec.submodule_search_locations or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _closed(wanted: set[str], given: Mapping[str, str]) -> dict[str, str]:
    """Text of the wanted modules and of all of this package's that they import, errors left out."""
    found: dict[str, str] = {}
    while wanted:
        name = min(wanted)
        found[name] = given[name] if name in given else _source(name)
        wanted = (wanted | _imported(found[name])) - set(found)
    return found


def _imported(text: str) -> set[str]:
    names: set[str] = set()
    for module, what in IMPORT.findall(text):
        names |= {f"{module}.{part.strip()}" for part in what.split(",")} if module == TEMPLATES else {module}
    return names - {"fedskew.profiles.errors"}


def _source(module: str) -> str:
    package, _, name = module.rpartition(".")
    return (files(package) / f"{name}.py").read_text("utf-8")


def _template(name: str) -> str:
    return (files(TEMPLATES) / name).read_text("utf-8")


def _facts(choice: Choice, written: _Written) -> dict[str, str]:
    algorithm = choice.algorithm
    hyper = "\n".join(f"{name} = {_toml(value)}" for name, value in sorted(choice.hyper.items()))
    rates = {name: _toml(getattr(choice, name)) for name in ("lr", "momentum", "weight_decay", "participation")}
    counts = {name: str(getattr(choice, name)) for name in ("parties", "rounds", "seed", "local_epochs", "batch_size")}
    notes = [note for note in (*choice.notes, written.note) if note]
    return {
        **rates,
        **counts,
        "version": version("fedskew"),
        "name": re.sub(r"[^a-z0-9]+", "-", algorithm.name),
        "title": algorithm.title,
        "source": algorithm.source,
        "link": algorithm.link,
        "module": written.module,
        "dtype": choice.dtype,
        "why": _marked(choice.why),
        "hyper": f"\n[tool.flwr.app.config.algorithm]\n{hyper}" if hyper else "",
        "notes": "\n".join(f"- {_marked(note)}" for note in notes)
        or "All of the training that was judged is carried over.",
        "weights": ", but in the server's mean of weights they count alike, as in the paper"
        if algorithm.uniform
        else "",
        "state": _state(choice),
    }


def _state(choice: Choice) -> str:
    kept = "Nothing is kept between rounds, so a party may be replaced at any time."
    if choice.algorithm.shared is not None:
        what = "the weights and statistics of its BatchNorm layers"
    elif choice.algorithm.client_state:
        what = next(text for name, text in KEEPS.items() if name in _own_names(choice))
    else:
        return kept
    return (
        f"Each party keeps {what}, in Flower's `context.state`, for as long as the run lasts; it is never sent. A new "
        "run starts from nothing at the server and the parties alike. If a party loses it within a run (its disk, or a "
        "new SuperNode in its place), the run fails and says so, since the server's side would no longer fit. "
        "`--run-config 'on-lost-state=\"restart\"'` lets that party start anew; `federation/memory.py` says what that "
        "does to the result."
    )


def _own_names(choice: Choice) -> set[str]:
    import torch

    return set(choice.algorithm.init(torch.zeros(1), choice.hyper).own)


def _toml(value: float | str) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(float(value))


def _one_line(text: str) -> str:
    """Text for a comment: no line break or control character, however it is spelt."""
    return "".join(" " if not character.isprintable() else character for character in text)


def _marked(text: str) -> str:
    """Text for Markdown: names of parties and classes in it must not become markup."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", _one_line(text))
