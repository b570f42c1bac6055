"""A reader of one's own: a function from a path to a named table (or to arrays), and the endings it answers to.

To ship it, add the value to READERS in profiles/readers/__init__.py; every command then reads such files.
"""

from pathlib import Path

from fedskew.profiles.readers.base import Options, Reader, Table, check_file


def read_pairs(path: Path, options: Options) -> Table:  # noqa: ARG001
    """Lines of ``name=value`` pairs, one row a line."""
    import polars as pl

    check_file(path)
    rows = [dict(pair.split("=", 1) for pair in line.split()) for line in path.read_text().splitlines() if line]
    return Table(path.name, pl.DataFrame(rows, infer_schema_length=None))


PAIRS = Reader("name=value pairs", (".pairs",), read_pairs)

if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "clinic.pairs")
        file.write_text("age=41 outcome=ill\nage=29 outcome=well\n")
        table = PAIRS.read(file, Options())
        print(f"{table.name}: {table.frame.height} rows, columns {', '.join(table.frame.columns)}")
