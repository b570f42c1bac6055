"""Put the tables of finished studies into docs/reproduction.md, between their marks.

    python bench/reproduction.py paper-tabular=runs/tabular baselines=runs/baselines

Of each folder the page takes table.md and, where there is one, effects.md, without their headings, and says which
versions made them.
"""

import json
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reproduction.md"


def block(folder: Path) -> str:
    """The tables of a study as they go into the page."""
    parts = []
    for name in ("table.md", "effects.md"):
        path = folder / name
        if path.exists():
            text = path.read_text("utf-8").split("\n", 2)[2].strip()
            parts.append(re.sub(r"^## ", "#### ", text, flags=re.MULTILINE))
    made = json.loads((folder / "environment.json").read_text("utf-8"))
    kept = ("fedskew", "torch", "numpy")
    versions = "; ".join(dict.fromkeys(", ".join(f"{name} {one[name]}" for name in kept) for one in made))
    return "\n\n".join([*parts, f"Made with {versions}."])


def put(page: str, name: str, text: str) -> str:
    """The page with a block between its marks."""
    marks = re.compile(rf"(<!-- begin {re.escape(name)} -->\n).*?(\n<!-- end {re.escape(name)} -->)", re.DOTALL)
    if not marks.search(page):
        raise SystemExit(f"{PAGE.name} has no marks for {name}")
    return marks.sub(lambda found: found[1] + text + found[2], page)


def main() -> None:
    """Fill in the blocks named on the command line."""
    page = PAGE.read_text("utf-8")
    for pair in sys.argv[1:]:
        name, _, folder = pair.partition("=")
        page = put(page, name, block(Path(folder)))
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
