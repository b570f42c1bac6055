"""Mutation testing: change one operator or number of a module at a time, and see whether its tests notice.

    python bench/mutation.py engine/statistics.py tests/engine/test_statistics.py [more tests]

Comparisons are turned and widened, + and - and * and / exchanged, numbers moved, ``and`` and ``or`` exchanged, ``not``
left out, conditions made constant. Docstrings, annotations and defaults of dataclass fields are left alone. Each mutant
runs in a fork of one process that has imported everything else, so that a mutant costs what its tests cost. A mutant
that no test notices is printed with its line; one that takes twenty times as long as the original counts as noticed.

What was found is written in docs/reliability.md.
"""

import argparse
import ast
import copy
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMPARES: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Div,
}  # fmt: skip


def changes(node: ast.AST) -> Iterator[Callable[[ast.AST], None]]:
    """Ways to change one node of a syntax tree, each as a function that does it to a copy of the node."""
    if isinstance(node, ast.Compare):
        for place, old in enumerate(node.ops):
            for new in COMPARES.get(type(old), ()):
                yield lambda n, place=place, new=new: n.ops.__setitem__(place, new())  # type: ignore[misc]
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        yield lambda n: setattr(n, "op", OPERATORS[type(n.op)]())  # type: ignore[attr-defined]
    elif isinstance(node, ast.BoolOp):
        yield lambda n: setattr(n, "op", ast.Or() if isinstance(n.op, ast.And) else ast.And())  # type: ignore[attr-defined]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield lambda n: setattr(n, "op", ast.UAdd())
    elif isinstance(node, ast.IfExp | ast.If):
        for value in (True, False):
            yield lambda n, value=value: setattr(n, "test", ast.Constant(value))  # type: ignore[misc]
    elif isinstance(node, ast.Constant) and type(node.value) in {int, float}:
        yield lambda n: setattr(n, "value", n.value + 1)  # type: ignore[attr-defined]
        if node.value:
            yield lambda n: setattr(n, "value", 0)


def code_nodes(tree: ast.Module) -> list[int]:
    """Numbers, in the order of ``ast.walk``, of the nodes inside functions; annotations and decorators do not count."""
    skipped: set[int] = set()
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            inside |= {id(n) for statement in node.body for n in ast.walk(statement)}
            notes = [*node.decorator_list, *([node.returns] if node.returns else [])]
            notes += [arg.annotation for arg in ast.walk(node.args) if isinstance(arg, ast.arg) and arg.annotation]
            skipped |= {id(n) for note in notes for n in ast.walk(note)}
        elif isinstance(node, ast.AnnAssign):
            skipped |= {id(n) for n in ast.walk(node.annotation)}
    return [i for i, node in enumerate(ast.walk(tree)) if id(node) in inside and id(node) not in skipped]


def mutants(source: str) -> Iterator[tuple[int, str, ast.Module]]:
    """Line, what is there instead, and the whole changed tree, for every mutant of a module."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    for i in code_nodes(tree):
        for change in changes(nodes[i]):
            mutant = copy.deepcopy(tree)
            target = list(ast.walk(mutant))[i]
            change(target)
            ast.fix_missing_locations(mutant)
            text = ast.unparse(target.test if isinstance(target, ast.If) else target)
            yield getattr(nodes[i], "lineno", 0), text.splitlines()[0], mutant


def run(module: ModuleType, tree: ast.Module | None, tests: list[str], seconds: float) -> int:
    """0 where all tests pass on the mutant, in a fork."""
    pid = os.fork()
    if not pid:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.alarm(max(2, int(seconds)))
        if tree is not None:
            exec(compile(tree, str(module.__file__), "exec"), module.__dict__)  # noqa: S102 - the mutant, in a fork
        options = ["-q", "-x", "-p", "no:cacheprovider", "--no-header", "-W", "ignore", "-o", "addopts="]
        options += ["--import-mode=importlib", "--strict-markers"]
        os._exit(int(pytest.main([*options, *tests])))
    return os.waitpid(pid, 0)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="mutation testing of one module")
    parser.add_argument("module", help="such as engine/statistics.py")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--begin", type=int, default=0, help="leave out the lines before this one")
    given = parser.parse_args()
    path = Path(given.module)
    name = "fedskew." + ".".join(path.with_suffix("").parts)
    module = __import__(name, fromlist=["x"])
    for heavy in ("scipy.stats", "scipy.special", "hypothesis", "polars"):
        __import__(heavy)
    began = time.monotonic()
    if run(module, None, given.tests, 600):
        sys.exit("the tests fail on the module as it is")
    usual = time.monotonic() - began
    survivors, count = [], 0
    for line, text, tree in mutants((ROOT / path).read_text()):
        if line < given.begin:
            continue
        count += 1
        if run(module, tree, given.tests, 20 * usual + 5) == 0:
            survivors.append(f"{given.module}:{line}: {text}")
            print(survivors[-1], flush=True)
    print(f"{count - len(survivors)} of {count} mutants noticed in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
