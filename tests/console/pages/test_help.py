"""The documentation that the console serves: documents and links, what its HTML cannot contain, search and terms."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.test import Client

from console.help.documents import DOCUMENTS, Document, page_of
from console.help.rendering import Places, render
from console.help.search import search
from console.help.terms import terms
from console.permissions.rights import Grant, Role
from tests.console.access.conftest import person
from tests.console.conftest import Broker

TEMPLATES = Path(__file__).parents[3] / "templates"
NOWHERE = Places(lambda _target: None, lambda _target: None)


def html(document: Document) -> str:
    return page_of(document, settings.STATIC_URL).html


def test_each_documented_link_leads_to_a_document_and_an_anchor_that_exist() -> None:
    anchors = {f"/help/{each.slug}/": set(re.findall(r'<h\d id="([^"]*)"', html(each))) for each in DOCUMENTS}
    found = 0
    for document in DOCUMENTS:
        for link in re.findall(r'<a href="([^"]+)"', html(document)):
            page, _, anchor = unescape(link).partition("#")
            if page.startswith("http"):
                continue
            page = page or f"/help/{document.slug}/"
            assert page in anchors, link
            assert not anchor or anchor in anchors[page], link
            found += 1
    assert found > 30


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.slug)
def test_pictures_are_those_of_the_version_in_both_themes_with_a_text(document: Document) -> None:
    tags = re.findall(r'<img class="(in-\w+)" src="([^"]+)" alt="([^"]*)"', html(document))
    assert len(tags) == document.path.read_text(encoding="utf-8").count("<picture>") * 2
    assert [theme for theme, _, _ in tags] == ["in-light", "in-dark"] * (len(tags) // 2)
    for theme, source, text in tags:
        assert source.startswith(settings.STATIC_URL)
        assert source.endswith(f"-{theme.removeprefix('in-')}.webp")
        assert finders.find(source.removeprefix(settings.STATIC_URL)), source
        assert len(text) > 20, "says what is to be seen"


def test_each_picture_is_in_a_document_and_small() -> None:
    folder = Path(__file__).parents[3] / ".readme"
    shown = {source.rpartition("/")[2] for each in DOCUMENTS for source in re.findall(r'src="([^"]+)"', html(each))}
    assert {path.name for path in folder.iterdir()} == shown
    assert len(shown) >= 6
    assert all(path.stat().st_size < 150_000 for path in folder.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[a](javascript:alert(1))",
        "[a](data:text/html,x)",
        "![a](javascript:alert(1))",
        '<a href="https://example.org" onclick="alert(1)">a</a>',
        '[a](https://example.org/"onmouseover="alert(1))',
        "| a |\n|---|\n| <b onclick=alert(1)>b</b> |",
        "# <svg onload=alert(1)>",
    ],
)
def test_markup_of_a_document_cannot_become_a_script(text: str) -> None:
    found = render(text, NOWHERE).html
    for tag in re.findall(r"<[^>]+>", found):
        assert not re.search(r"(?i)\son\w+=|javascript:|data:", tag), found
        name = re.match(r"</?(\w+)", tag)
        assert name
        assert name[1] in {"p", "a", "h1", "span", "div", "table", "thead", "tbody", "tr", "th", "td", "img"}, found


def test_link_to_a_file_that_the_console_does_not_have_is_its_text() -> None:
    found = render("see [the tests](tests/README.md) and [this](https://example.org/)", NOWHERE).html
    assert found == ('<p>see <span>the tests</span> and <a href="https://example.org/" rel="noreferrer">this</a></p>\n')


def test_search_finds_sections_with_all_words_and_headings_first() -> None:
    hits = search("resume LEVEL", settings.STATIC_URL)
    assert hits[0].section.title == "Resume level"
    assert hits[0].url == "/help/terms/#resume-level"
    for hit in hits:
        text = f"{hit.section.title} {hit.section.text}".lower()
        assert "resume" in text
        assert "level" in text
    assert search("", settings.STATIC_URL) == []
    assert search("level notawordofanydocument", settings.STATIC_URL) == []
    marked = next(hit for hit in hits if hit.word)
    assert marked.word.lower() in ("resume", "level")


def test_terms_have_two_sentences_and_a_link() -> None:
    for term in terms().values():
        text = re.sub(r"<a .*?</a>|<[^>]+>", "", term.html).strip()
        assert len(re.findall(r"\.(?:\s|$)", text)) == 2, term.name
        assert re.search(r'<a href="/help/[^"]+">', term.html), term.name


def test_terms_that_templates_explain_exist() -> None:
    names = [
        name
        for path in TEMPLATES.rglob("*.html")
        for call in re.findall(r"\{% explain ([^%]+)%\}", path.read_text())
        for name in re.findall(r'"([^"]+)"', call)
    ]
    assert len(set(names)) > 12
    assert not set(names) - set(terms())


def test_terms_of_fields_of_forms_exist() -> None:
    script = (TEMPLATES.parent / "console/static/console/widgets/field_help.js").read_text()
    listed = script.split("const OF_FIELD = {")[1].split("}")[0]
    names = re.findall(r'^ +\w+: "([^"]+)",$', listed, re.MULTILINE)
    assert len(names) == listed.strip().count("\n") + 1 > 12
    assert not set(names) - set(terms())


@pytest.mark.django_db
def test_help_is_for_users_with_a_role_and_names_unknown_documents(broker: Broker) -> None:
    viewer = Client()
    assert viewer.get("/help/").status_code == 302
    viewer.force_login(person("vera", Grant(Role.VIEWER, "local", "default")))
    for document in DOCUMENTS:
        answer = viewer.get(f"/help/{document.slug}/")
        assert answer.status_code == 200
        assert f'aria-current="page">{document.title}' in answer.content.decode()
    assert viewer.get("/help/nothing/").status_code == 404
    found = viewer.get("/help/", {"q": "<script>alert(1)</script>"}).content.decode()
    assert "<script>alert" not in found
    assert "No section has" in found
    assert "<mark>" in viewer.get("/help/", {"q": "capacity"}).content.decode()
    assert viewer.get("/help/", {"q": "x " * 200}).status_code == 200


@pytest.mark.django_db
def test_overview_explains_its_terms(broker: Broker) -> None:
    viewer = Client()
    viewer.force_login(person("vera", Grant(Role.VIEWER, "local", "default")))
    page = viewer.get("/").content.decode()
    assert 'popovertarget="terms-depth"' in page
    assert 'id="terms-depth" popover' in page
    assert "What is depth, overfull, stopped, blocked?" in page
