"""What a study leaves in its folder beside the results: evidence, leaderboard, tables, and curves if asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedskew.advisor.evidence import format_evidence
from fedskew.advisor.study.board import leaderboard
from fedskew.advisor.study.effects import effects, effects_markdown
from fedskew.advisor.study.grid import Study
from fedskew.advisor.study.rows import evidence_rows, rows_of
from fedskew.advisor.study.run import Result
from fedskew.advisor.study.tables import latex, markdown, table
from fedskew.profiles.atomic import write_atomically

LISTS = ("accuracy_by_seed", "balanced_accuracy_by_seed")
CURVES = ("curve", "balanced_curve")


def write_outputs(study: Study, results: Sequence[Result], out: Path, *, curves: bool = False) -> tuple[str, ...]:
    """Write everything that follows from the results; nothing where there are none.

    Returns
    -------
    names of the files within the folder
    """
    if not results:
        return ()
    rows = [row for result in results for row in rows_of(study.name, result)]
    lines = table(results, paper=study.paper)
    left = len(study.settings) - len(results)
    missing = f"INCOMPLETE: {left} of {len(study.settings)} settings are not finished." if left else ""
    absent = f"Data sets that were not there: {', '.join(study.skipped)}." if study.skipped else ""
    note = " ".join(part for part in (missing, absent, study.note) if part)
    texts = {
        "leaderboard.md": leaderboard(study.title, note, results),
        "table.md": markdown(study.title, note, lines),
        "table.tex": latex(study.title, note, lines),
        "evidence-base.csv": format_evidence(evidence_rows(results)),
    }
    found = effects(results)
    if found:
        texts["effects.md"] = f"# {study.title}\n\n{note}\n\n{effects_markdown(found)}"
    files = {name: text.encode() for name, text in texts.items()} | _frames(rows, note)
    if curves:
        from fedskew.advisor.study.plots import effect_pictures

        files |= _drawn(results) | effect_pictures(found)
    for name, data in files.items():
        (out / name).parent.mkdir(exist_ok=True)
        write_atomically(out / name, data)
    return tuple(files)


def _frames(rows: Sequence[dict[str, Any]], note: str) -> dict[str, bytes]:
    """The rows as Parquet with the curves, and as CSV without them, seeds parted by semicolons."""
    import io

    import polars as pl

    types: dict[str, Any] = {
        **dict.fromkeys(LISTS, pl.List(pl.Float64)),
        **dict.fromkeys(CURVES, pl.List(pl.List(pl.Float64))),
        **dict.fromkeys(("difference", "difference_lower", "difference_upper", "macro_f1"), pl.Float64),
        "diverged_at": pl.Int64,
    }
    frame = pl.DataFrame(list(rows), schema_overrides=types, infer_schema_length=None)
    frame = frame.with_columns(pl.lit(note).alias("note"))
    parquet, text = io.BytesIO(), io.BytesIO()
    frame.write_parquet(parquet, compression="zstd", statistics=False)
    flat = frame.drop(CURVES).with_columns(pl.col(LISTS).cast(pl.List(pl.String)).list.join(";", ignore_nulls=False))
    flat.write_csv(text)
    return {"evidence.parquet": parquet.getvalue(), "evidence.csv": text.getvalue()}


def _drawn(results: Sequence[Result]) -> dict[str, bytes]:
    from fedskew.engine.plots import learning_curves
    from fedskew.profiles.drawing import svg

    return {
        f"curves/{result.setting.key}.svg": svg(learning_curves(result.validation), "c").encode() for result in results
    }
