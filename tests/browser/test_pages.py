"""Pages in a real browser: nothing loaded, nothing run, accessible, and no wider than the screen.

Skipped where chromium or the node modules are missing; ``make test-browser`` installs both.
"""

import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
made = import_module("advisor.made_records")  # a neighbour among the tests, not the package's room

from fedskew.advisor.reporting import report  # noqa: E402

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
NODE = shutil.which("node")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed; run `make test-browser`"),
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(
        not (HERE / "node_modules" / "playwright-core").is_dir(),
        reason="the node modules are not installed; run `make test-browser`",
    ),
]


@pytest.fixture(scope="module")
def looked(tmp_path_factory):
    """What the browser says about each page, and the folder of its screenshots."""
    out = tmp_path_factory.mktemp("pages")
    pages = {
        "full": made.full_report("a hospital with a rather long name "),
        "hostile": made.full_report("".join(made.PAYLOADS)),
        "many": report(made.hostile_or_plain("p", parties=200, classes=30)),
    }
    for number, payload in enumerate(made.PAYLOADS):
        pages[f"payload{number}"] = report(made.hostile_or_plain(payload, parties=2, classes=2))
    for name, page in pages.items():
        (out / f"{name}.html").write_text(page.to_html(), encoding="utf-8")
    looks: dict[str, Any] = {}
    for names, widths in (
        (["full", "hostile", "many"], "375,1280,2560"),
        ([f"payload{i}" for i in range(len(made.PAYLOADS))], ""),
    ):
        done = subprocess.run(
            [str(NODE), str(HERE / "look.mjs"), str(out), *(str(out / f"{name}.html") for name in names)],
            env={**os.environ, "WIDTHS": widths, "CHROMIUM": str(CHROMIUM)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        looks |= {look["page"].removesuffix(".html"): look for look in json.loads(done.stdout)}
    return looks, out


def test_no_page_asks_for_anything_or_runs_anything(looked):
    for name, look in looked[0].items():
        assert look["requests"] == [], name
        assert look["dialogs"] == [], name
        assert look["errors"] == [], name
        assert look["scripts"] == 0, name


def test_no_name_changes_the_title(looked):
    assert {look["title"] for look in looked[0].values()} == {"fedskew report"}


def test_axe_finds_nothing_at_any_width_light_or_dark(looked):
    for name in ("full", "hostile", "many"):
        assert looked[0][name]["violations"] == [], name


def test_no_page_is_wider_than_its_screen(looked):
    for name in ("full", "hostile", "many"):
        assert looked[0][name]["overflow"] == [], name


def test_no_id_stands_twice(looked):
    assert all(look["ids"] == [] for look in looked[0].values())


def test_a_page_prints(looked):
    printed = (looked[1] / "full.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert 2 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page/") <= 14
