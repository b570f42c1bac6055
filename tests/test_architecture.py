"""The house: imports point one way, light paths stay light, the links are links, no file is too long."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("profiles", "engine", "advisor")
ALLOWED = {
    "profiles": {"profiles"},
    "engine": {"profiles", "engine"},
    "advisor": {"profiles", "engine", "advisor"},
}
FILES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]


def imports(path):
    """Every (module, at top level) that a file imports."""
    tree = ast.parse(path.read_text())
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) not in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, id(node) not in inside


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path):
    room = path.relative_to(ROOT).parts[0]
    for module, _ in imports(path):
        assert module != "fedskew", f"{path} imports the facade"
        if module.startswith("fedskew."):
            assert module.split(".")[1] in ALLOWED[room], f"{path} imports {module}"
        if room == "profiles":
            assert module.split(".")[0] != "torch", f"{path} imports torch"


@pytest.mark.parametrize("name", [*ROOMS, "cli.py"])
def test_the_import_package_links_to_the_folders_at_the_root(name):
    link = ROOT / "src" / "fedskew" / name
    assert link.is_symlink()
    assert link.resolve() == ROOT / name


HEAVY = ("torch", "pandas", "scipy.stats", "polars", "matplotlib", "jinja2")


@pytest.mark.parametrize(
    "statement", ["import fedskew", "import fedskew.cli", "import fedskew.profiles", "import fedskew.advisor"]
)
def test_light_imports_load_nothing_heavy(statement):
    code = f"import sys; {statement}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_loads_neither_numpy_nor_the_rooms():
    code = f"""
import sys
sys.argv = ["fedskew", "--help"]
from fedskew.cli import main
try:
    main()
except SystemExit:
    print([m for m in ("numpy", "fedskew.profiles", *{HEAVY!r}) if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


def test_profile_and_recommend_import_neither_torch_nor_all_of_scipys_statistics():
    """Importing them takes about two seconds and one, more than all the rest of a small table's profile."""
    code = (
        "import sys; from fedskew.advisor import advise, demo_partition\n"
        "advise(demo_partition(), validated=False); print(bool({'torch', 'scipy.stats'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("path", [*FILES, ROOT / "cli.py"], ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_grows_beyond_what_one_can_read_at_once(path):
    limit = 600 if path.name == "cli.py" else 330  # the options of all commands live in cli.py
    assert len(path.read_text().splitlines()) <= limit


def test_the_repository_never_loads_pickles_or_evaluates_text():
    for path in [*FILES, ROOT / "cli.py"]:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile"}, path
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path
        assert not any(module.split(".")[0] in {"pickle", "shelve", "marshal"} for module, _ in imports(path)), path
