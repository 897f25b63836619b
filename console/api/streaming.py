"""Answers that are sent while they are being made, a part at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse


def streamed(
    request: HttpRequest, parts: Iterator[bytes], content_type: str, filename: str, *, database: bool = False
) -> StreamingHttpResponse:
    """A file to keep. `database`: making its parts asks the database, whose connection belongs to one thread."""
    # A server of the one sort would read all parts of the other sort before it sends the first.
    content = _in_threads(parts, one=database) if isinstance(request, ASGIRequest) else parts
    answer = StreamingHttpResponse(content, content_type=content_type)
    answer["Content-Disposition"] = f'attachment; filename="{filename}"'
    return answer


async def _in_threads(parts: Iterator[bytes], *, one: bool) -> AsyncIterator[bytes]:
    following = sync_to_async(lambda: next(parts, None), thread_sensitive=one)
    while (part := await following()) is not None:
        yield part
