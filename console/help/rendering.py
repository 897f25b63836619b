"""Markdown as HTML: safe, with anchors at headings, and with links and pictures where the console has them.

HTML in a document is shown as text, except for `<picture>` with one picture for each theme. A link to what the console
does not have becomes its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token


@dataclass(frozen=True, slots=True)
class Places:
    """Where the links and pictures of a document are; None: the console does not have them."""

    link: Callable[[str], str | None]
    picture: Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading (level 1 to 6), its anchor, and the text below it without markup."""

    level: int
    title: str
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    html: str
    sections: tuple[Section, ...]


_PICTURE = re.compile(
    r'<picture><source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">'
    r'<img alt="([^"\]]*)" src="([^"]+)"></picture>'
)


def render(text: str, places: Places) -> Page:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("image", _image)
    parser.add_render_rule("table_open", lambda *_: '<div class="table-box" tabindex="0"><table class="grid">\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    # The dark one goes where an image has its title: a picture of both themes is one image of Markdown.
    tokens = parser.parse(_PICTURE.sub(r'![\2](\3 "dark \1")', text))
    sections = _mark_headings(tokens)
    for token in tokens:
        _place(token.children or (), places)
        if token.type in ("fence", "code_block"):
            token.attrSet("tabindex", "0")  # it scrolls
    return Page(parser.renderer.render(tokens, parser.options, {}), sections)


def anchor_of(title: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _mark_headings(tokens: Sequence[Token]) -> tuple[Section, ...]:
    found: list[tuple[int, str, str, list[str]]] = []
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            title = _text(tokens[index + 1].children or ())
            token.attrSet("id", anchor_of(title))
            found.append((int(token.tag[1]), title, anchor_of(title), []))
        elif found and token.type == "inline" and tokens[index - 1].type != "heading_open":
            found[-1][3].append(_text(token.children or ()))
        elif found and token.type in ("fence", "code_block"):
            found[-1][3].append(token.content)
    return tuple(Section(level, title, anchor, " ".join(texts)) for level, title, anchor, texts in found)


def _text(tokens: Iterable[Token]) -> str:
    return "".join(" " if token.type == "softbreak" else token.content for token in tokens)


def _place(tokens: Iterable[Token], places: Places) -> None:
    """Direct links and pictures to where the console has them."""
    opened: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            target = str(token.attrGet("href") or "")
            away = re.match(r"https?://", target) is not None
            found = target if away else places.link(target)
            if found is None:
                token.tag, token.attrs = "span", {}
            else:
                token.attrs = {"href": found}
                if away:
                    token.attrSet("rel", "noreferrer")
            opened.append(found is not None)
        elif token.type == "link_close" and not opened.pop():
            token.tag = "span"
        elif token.type == "image":
            dark = re.match(r"dark (.+)", str(token.attrGet("title") or ""))
            token.meta = {
                "light": places.picture(str(token.attrGet("src") or "")),
                "dark": places.picture(dark[1]) if dark else None,
            }


def _image(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """Both pictures of a theme: the style sheet shows the one of the page's."""
    token = tokens[index]
    light, dark = token.meta["light"], token.meta["dark"]
    pictures = [("in-light", light), ("in-dark", dark)] if light and dark else [("in-both", light)]
    return "".join(
        f'<img class="{theme}" src="{escape(source)}" alt="{escape(token.content)}" loading="lazy">'
        for theme, source in pictures
        if source
    )
