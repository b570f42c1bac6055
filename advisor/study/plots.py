"""Pictures of what one axis of the grid does: accuracy by the value of the axis, a line a candidate."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from fedskew.advisor.study.effects import Effect
from fedskew.profiles.drawing import MUTED, SMALL, WIDTH, Plot, Where, figure, panel, svg, title

COLOURS = ("#0b62b0", "#b3261e", "#1c2126", "#8a5a00", "#5b636c", "#2e7d32")
STYLES = ("-", "--", ":", "-.")
ROW = 0.18  # inches


def effect_picture(effect: Effect) -> str:
    """The picture as one SVG element: mean over seeds with a bar of one standard deviation to both sides."""
    height = 2.7 + ROW * len(effect.lines)

    def draw(where: Where) -> None:
        title(where, effect.axis.replace("_", " "))
        held = "\n".join(wrap(effect.where, 66)[:2])
        style: dict[str, Any] = {"fontsize": SMALL, "color": MUTED, "parse_math": False, "va": "top"}
        where.text(0.02 / WIDTH, 1 - 0.28 / height, held, **style)
        axes = panel(where, left=0.5, right=0.15, top=0.7, bottom=0.45 + ROW * len(effect.lines), spines="lb")
        places = range(len(effect.values))
        for i, (name, cells) in enumerate(effect.lines.items()):
            known = [(x, *cell) for x, cell in zip(places, cells, strict=True) if cell is not None]
            look: dict[str, Any] = {
                "color": COLOURS[i % len(COLOURS)],
                "linestyle": STYLES[i // len(COLOURS) % len(STYLES)],
            }
            xs, means, spreads = zip(*known, strict=True) if known else ((), (), ())
            axes.errorbar(xs, means, yerr=spreads, linewidth=1.2, marker="o", markersize=3, elinewidth=0.7, **look)
            where.text(
                0.5 / WIDTH,
                (ROW * (len(effect.lines) - i) - 0.08) / height,
                f"{name}: {', '.join('-' if cell is None else f'{cell[0]:.1f}' for cell in cells)}",
                fontsize=SMALL,
                color=look["color"],
                parse_math=False,
                va="center",
            )
        axes.set_xticks(list(places), list(effect.values))
        axes.set_ylabel("accuracy, %", fontsize=SMALL, color=MUTED)

    finding = f"Accuracy by {effect.axis.replace('_', ' ')} for {', '.join(effect.lines)}."
    return svg(figure(Plot(height, draw, finding)), "e")


def effect_pictures(effects: Sequence[Effect]) -> dict[str, bytes]:
    """All of them by file name."""
    return {f"effects/{i}-{one.axis}.svg": effect_picture(one).encode() for i, one in enumerate(effects, 1)}
