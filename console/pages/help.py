"""The documentation, and its search."""

from __future__ import annotations

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe

from console.help.documents import DOCUMENTS, document_of, page_of
from console.help.search import search
from console.pages.frame import frame

#: Characters of a search at most; the rest is not used.
LONGEST_SEARCH = 200


@require_safe
def help_page(request: HttpRequest, slug: str = "start") -> HttpResponse:
    document = document_of(slug)
    if document is None:
        raise Http404(f"There is no document {slug!r}. Documents: {', '.join(each.slug for each in DOCUMENTS)}.")
    wanted = request.GET.get("q", "").strip()[:LONGEST_SEARCH]
    page = page_of(document, settings.STATIC_URL)
    context = {
        **frame(request, "help", f"Search: {wanted}" if wanted else document.title),
        "documents": DOCUMENTS,
        "document": document,
        "content": mark_safe(page.html),  # noqa: S308 -- Markdown of this package, rendered without HTML
        "sections": [section for section in page.sections if section.level == 2],
        "wanted": wanted,
        "hits": search(wanted, settings.STATIC_URL) if wanted else [],
    }
    return render(request, "console/help.html", context)
