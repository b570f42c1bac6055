"""Every command of the README and the documentation runs as written, on small files of the names given there.

Budgets of training are cut (a few rounds, two seeds) and studies only say what they would do; the commands are not
changed otherwise, but that a Ray cluster is not started for them (``tests/engine/test_ray.py`` does that).
"""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.small_study import study_toml
from typer.testing import CliRunner

from fedskew.cli import app
from fedskew.engine import session
from fedskew.engine.settings import PRESETS, Preset, Settings

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(page.relative_to(ROOT) for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
SHORT = Preset(settings=Settings(rounds=2, local_epochs=6, lr=0.05), seeds=2, max_rows=200, visits=None)
BEFORE = {  # what other people, or an earlier page, would have written by then
    "report runs/silos": ["advise silos/ --label y --run runs/silos"],
    "--like profile.json": ["profile silos/ --label y --json profile.json"],
    "recommend a2.json": [f"sketch hospital_{x}.csv --label outcome --plan plan.json --out {x}2.json" for x in "bc"],
    "plan a.json": [f"sketch hospital_{x}.csv --label outcome --out {x}.json" for x in "bc"],
    "plan *.1.json": ["sketch south.csv --label sick --out south.1.json"],
    "plan *.first.json": ["sketch south.csv --label sick --out south.first.json"],
    "profile *.2.json": ["sketch south.csv --label sick --plan plan.json --out south.2.json"],
    "profile *.second.json": ["sketch south.csv --label sick --plan plan.json --out south.second.json"],
}
BLOCK = re.compile(r"^```(?:bash)?\n(.*?)^```$|((?:^    \S.*\n)+)", re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    """Lines of shell in a page: of fenced blocks, or indented by four, continued ones joined, without comments."""
    found = []
    for block in BLOCK.findall((ROOT / page).read_text()):
        text = "".join(block).replace("\\\n", " ")
        lines = [re.sub(r"\s+#\s.*", "", line.strip()) for line in text.splitlines()]
        found += [line for line in lines if re.match(r"fedskew [a-z]|python -c", line)]
    return found


def table(seed: int, rows: int = 60) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    text = pl.Series(np.where(y == 1, "yes", "no"))
    age = rng.normal(40 + 30 * y, 9)
    frame = pl.DataFrame({"age": age, "height": rng.normal(170, 9, rows), "ward": rng.choice(["a", "b"], rows)})
    return frame.with_columns(y=pl.Series(y), outcome=text, problem=text, sick=text)


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with every file that the documentation names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FEDSKEW_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in PRESETS:
        monkeypatch.setitem(PRESETS, name, SHORT)
    monkeypatch.setattr(session, "cores", lambda: 1)
    silos = {name: table(seed) for seed, name in enumerate(["north", "south", "west", "hospital_a", "hospital_b"])}
    silos["hospital_c"] = table(9)
    for folder in ("silos", "data", "runs", "images/cat", "images/dog"):
        Path(folder).mkdir(parents=True)
    for name, frame in silos.items():
        frame.write_csv(f"{name}.csv")
        if not name.startswith("hospital"):
            frame.write_csv(f"silos/{name}.csv")
    table(20).write_csv("public.csv")
    whole = pl.concat([f.with_columns(precinct=pl.lit(n), hospital=pl.lit(n)) for n, f in silos.items()])
    whole.write_parquet("stops.parquet")
    whole.write_csv("silos.csv")
    whole.write_csv("table.csv")
    stops = {name: pl.lit(1) for name in ("rownames", "idNum", "date", "MDC", "citationIssued", "personSearch")}
    stops |= {name: pl.lit(2) for name in ("vehicleSearch", "lat", "long", "neighborhood")}
    whole.rename({"precinct": "policePrecinct"}).with_columns(**stops).write_parquet("mplsstops.parquet")
    rng = np.random.default_rng(0)
    digits = rng.integers(0, 255, (300, 8, 8)).astype(np.uint8)
    classes = np.arange(300) % 10
    for name in ("mnist.npz", "data/mnist.npz", "data/fashion_mnist.npz"):
        np.savez(name, X_train=digits, y_train=classes, X_test=digits[:90], y_test=classes[:90])
    x, two = rng.normal(size=(300, 5)), classes % 2
    np.savez("data/adult_a9a.npz", X_train=x, y_train=two, X_test=x[:90], y_test=two[:90])
    np.savez("data/covtype.npz", X=x, y=classes, y_binary=two, party=classes % 4)
    np.savez("hapt_har.npz", F=rng.normal(size=(90, 5)), y=np.arange(90) % 3, party=np.repeat([1, 2, 3], 30))
    write_images(rng)
    Path("STUDY.toml").write_text(study_toml())
    return tmp_path


def write_images(rng: np.random.Generator) -> None:
    from PIL import Image

    for kind, darkest in (("cat", 0), ("dog", 150)):
        for number in range(60):
            pixels = rng.integers(darkest, darkest + 100, (8, 8)).astype(np.uint8)
            Image.fromarray(pixels).save(f"images/{kind}/{number}.png")


def run(line: str) -> None:
    """Run a line: patterns of files are expanded as the shell does."""
    local = line.replace(" --backend ray", "").replace(" --address auto", "")
    if local.startswith("python "):
        assert os.system(local.replace("python", shlex.quote(sys.executable), 1)) == 0, line
        return
    here = Path()
    words = [
        str(name)
        for word in shlex.split(local)[1:]
        for name in (sorted(here.glob(word)) if "*" in word else [word.replace("~/", f"{Path.home()}/")])
    ]
    if words[0] == "study":
        words += [] if "--dry-run" in words else ["--dry-run"]
    done = CliRunner().invoke(app, words, catch_exceptions=True)
    assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"


def test_the_documentation_shows_commands() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 45


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=str)
def test_every_command_of_a_page_runs_as_written(page: Path, desk: Path) -> None:
    for line in commands(page):
        if "--demo" in line:
            continue  # a minute of training: test_cli.py runs it, and looks at what it finds
        if "--write-silos silos/" in line:
            shutil.rmtree("silos")
        for text, earlier in BEFORE.items():
            if text in line:
                for one in earlier:
                    run(f"fedskew {one}")
        run(line)
