"""Bring the tables of partitions.md up to date with the tuple of strategies: ``python docs/partitions.py``."""

from pathlib import Path

from fedskew.profiles.strategies.describe import strategies_markdown

PAGE = Path(__file__).with_suffix(".md")
MARK = "<!-- From here on made by python docs/partitions.py. -->\n"


def renewed(page: str) -> str:
    """The page with its tables made anew."""
    return f"{page.partition(MARK)[0]}{MARK}\n{strategies_markdown()}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
