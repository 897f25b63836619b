"""Style sheets select what the pages have: a class, id or data attribute that is renamed is renamed in them, too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STATIC = ROOT / "console/static/console"

SHEETS = "".join(path.read_text() for path in STATIC.rglob("*.css"))
PAGES = "".join(
    path.read_text()
    for path in (
        *STATIC.rglob("*.js"),
        *(ROOT / "templates").rglob("*.html"),
        *(ROOT / "console/pages").rglob("*.py"),
        *(ROOT / "console/help").rglob("*.py"),
    )
)


def selectors(sheet: str) -> str:
    return " ".join(re.findall(r"[^{}]*\{", re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL)))


def missing(names: Iterable[str], pages: str) -> list[str]:
    """Names that the pages do not have, as a whole or as a prefix that a script completes (`outcome-${…}`)."""

    def used(name: str) -> bool:
        prefix = name.rpartition("-")[0]
        return bool(
            re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", pages)
            or (prefix and re.search(rf"(?<![\w-]){re.escape(prefix)}-(\$\{{|\{{\{{|\")", pages))
        )

    return sorted(name for name in set(names) if not used(name))


def attribute_in_script(name: str) -> str:
    """`data-sort-by` is `sortBy` in a script."""
    return re.sub(r"-(.)", lambda found: found[1].upper(), name)


@pytest.mark.parametrize("sign", [r"\.", "#"], ids=["class", "id"])
def test_pages_have_each_name_that_is_selected(sign: str) -> None:
    names = re.findall(rf"{sign}([a-zA-Z][\w-]*)", selectors(SHEETS))
    assert names
    assert not missing(names, PAGES)


def test_pages_have_each_data_attribute_that_is_selected() -> None:
    names = re.findall(r"\[data-([a-z-]+)", selectors(SHEETS))
    assert len(names) > 10
    in_scripts = [name.removeprefix("data-") for name in missing([f"data-{name}" for name in names], PAGES)]
    assert not missing(map(attribute_in_script, in_scripts), PAGES)


def test_a_name_that_no_page_has_is_found() -> None:
    pages = '<p class="tag" data-kind="x">` outcome-${outcome} `{ data: { sortBy: 1 } }'
    assert missing(["tag", "outcome-done", "taxi", "kin", "result-done"], pages) == ["kin", "result-done", "taxi"]
    assert attribute_in_script("sort-by") == "sortBy"
