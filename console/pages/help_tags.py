"""The template tag that explains terms beside a heading; available in every template."""

from __future__ import annotations

from django import template
from django.utils.safestring import mark_safe

from console.help.terms import terms

register = template.Library()


@register.inclusion_tag("console/terms.html")
def explain(*names: str) -> dict[str, object]:
    """A button that explains terms: `{% explain "overfull" "blocked" %}`. Names are anchors of the page of terms."""
    found = terms()
    return {
        "id": f"terms-{names[0]}",
        "terms": [(found[name].name, mark_safe(found[name].html)) for name in names],  # noqa: S308 -- of this package
    }
