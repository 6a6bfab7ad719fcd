"""Draws the charts of a report as SVG. Importing this module imports matplotlib.

Colors of texts and lines are those of the page, so that a chart is readable in light and dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from hilum_eval.case import WEIGHTS
from hilum_eval.summary import MIN_DIMENSION, Summary

# Colors that stand for those of the page in the SVG.
_TEXT = "#010203"
_LINE = "#010204"
_REPLACED = {_TEXT: "var(--text)", _LINE: "var(--line)"}
# Distinguishable with all kinds of color blindness (Okabe and Ito).
_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
_STYLE: dict[Any, Any] = {
    # Texts stay texts, which are searchable and use the font of the page.
    "svg.fonttype": "none",
    # Ids in the SVG are the same in every run.
    "svg.hashsalt": "hilum-eval",
    "text.color": _TEXT,
    "axes.labelcolor": _TEXT,
    "axes.edgecolor": _LINE,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
    "grid.color": _LINE,
    "font.size": 10,
}


def draw_dimensions(summaries: Sequence[Summary]) -> str:
    """Return a bar chart of the dimensions of all arms."""
    names = [
        name for name in WEIGHTS if any(each.dimensions[name] is not None for each in summaries)
    ]
    values = {each.arm.name: [each.dimensions[name] or 0.0 for name in names] for each in summaries}
    labels = [f"{name} ({WEIGHTS[name]} %)" for name in names]
    return _draw_bars(labels, values, "Score", limit=100.0, mark=MIN_DIMENSION)


def draw_cases(summaries: Sequence[Summary]) -> str:
    """Return a bar chart of the scores of all cases."""
    labels = [case.id for case in summaries[0].cases]
    values = {each.arm.name: [case.score or 0.0 for case in each.cases] for each in summaries}
    return _draw_bars(labels, values, "Score", limit=100.0)


def draw_usage(summaries: Sequence[Summary], name: str, label: str) -> str:
    """Return a bar chart of the mean usage of each case.

    Args:
        summaries: The summaries.
        name: The field of ``Usage``.
        label: What the axis shows.
    """
    labels = [case.id for case in summaries[0].cases]
    values = {
        each.arm.name: [case.usage.get(name, 0.0) for case in each.cases] for each in summaries
    }
    return _draw_bars(labels, values, label)


def _draw_bars(
    labels: Sequence[str],
    values: Mapping[str, Sequence[float]],
    axis: str,
    *,
    limit: float = 0.0,
    mark: float = 0.0,
) -> str:
    """Return a chart with horizontal bars, one for each label and arm.

    Args:
        labels: The groups of bars, from top to bottom.
        values: The values of each arm, in the order of the labels.
        axis: What the axis shows.
        limit: The highest value of the axis; by default, it depends on the values.
        mark: A value at which to draw a line; 0 for none.
    """
    height = 0.8 / max(len(values), 1)
    with rc_context(_STYLE):
        figure = Figure(figsize=(8, 0.9 + len(labels) * (0.14 + 0.2 * len(values))))
        axes = figure.add_subplot()
        for index, (name, numbers) in enumerate(values.items()):
            places = [position + index * height for position in range(len(labels))]
            axes.barh(places, numbers, height, label=name, color=_COLORS[index % len(_COLORS)])
        middle = height * (len(values) - 1) / 2
        axes.set_yticks([position + middle for position in range(len(labels))], labels)
        axes.invert_yaxis()
        axes.set_xlabel(axis)
        highest = max((max(numbers, default=0.0) for numbers in values.values()), default=0.0)
        # Without a value above 0, the axis would also show negative numbers.
        axes.set_xlim(0, limit or highest * 1.05 or 1.0)
        if mark:
            axes.axvline(mark, color=_TEXT, linestyle=":", linewidth=1)
        axes.grid(axis="x", linewidth=0.5)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        if len(values) > 1:
            figure.legend(loc="outside upper center", ncols=3, frameon=False)
        stream = io.StringIO()
        figure.savefig(
            stream,
            format="svg",
            transparent=True,
            bbox_inches="tight",
            # Without the time, equal results give equal pages.
            metadata={"Date": None, "Creator": None},
        )
    return _adapt(stream.getvalue())


def _adapt(svg: str) -> str:
    """Return an SVG as part of a page, with the colors and the font of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for color, variable in _REPLACED.items():
        svg = svg.replace(color, variable)
    svg = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font: \1 system-ui, sans-serif", svg)
    return re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", svg, count=1)
