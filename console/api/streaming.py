"""Streamed responses, for exports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse


def streamed(
    request: HttpRequest, parts: Iterator[bytes], content_type: str, filename: str, *, database: bool = False
) -> StreamingHttpResponse:
    """Return a file download. `database`: the parts come from the database, whose connection belongs to one thread."""
    # Django reads a synchronous iterator completely before it responds under ASGI, and an asynchronous one under WSGI.
    content = _in_threads(parts, one=database) if isinstance(request, ASGIRequest) else parts
    answer = StreamingHttpResponse(content, content_type=content_type)
    answer["Content-Disposition"] = f'attachment; filename="{filename}"'
    return answer


async def _in_threads(parts: Iterator[bytes], *, one: bool) -> AsyncIterator[bytes]:
    next_part = sync_to_async(lambda: next(parts, None), thread_sensitive=one)
    while (part := await next_part()) is not None:
        yield part
