"""The colours of both themes have the contrast of WCAG 2.2 AA, by the values of the style sheet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SHEET = Path(__file__).parents[3] / "console" / "static" / "console" / "console.css"
COLOURS = {
    name: {"light": light, "dark": dark}
    for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", SHEET.read_text())
}
WORDS = ("text", "muted", "accent", "fine", "overfull", "stopped", "both", "danger")
GROUNDS = ("surface", "ground", "raised", "hover")
#: Text and its background; then borders and shapes, which need less contrast.
TEXT = [
    *((word, ground) for word in WORDS for ground in GROUNDS),
    ("text", "accent-soft"),
    ("accent", "accent-soft"),
    ("stopped", "stopped-soft"),
    ("both", "both-soft"),
    ("accent-text", "accent"),
    ("surface", "danger"),
    ("topbar-text", "topbar"),
    ("topbar-muted", "topbar"),
    ("topbar-text", "topbar-hover"),
]
SHAPES = [("control-border", "surface"), ("control-border", "ground"), ("focus", "surface"), ("focus", "ground")]


def luminance(colour: str) -> float:
    """Return the relative luminance of #rrggbb, 0 to 1 (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_has_the_greatest_contrast() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("pairs", "least"), [pytest.param(TEXT, 4.5, id="text"), pytest.param(SHAPES, 3.0, id="shapes")]
)
def test_contrast_is_sufficient(pairs: list[tuple[str, str]], least: float, theme: str) -> None:
    faint = {
        f"{front} on {back}": round(found, 2)
        for front, back in pairs
        if (found := contrast(COLOURS[front][theme], COLOURS[back][theme])) < least
    }
    assert not faint
