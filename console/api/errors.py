"""Translation of brokers' errors into HTTP responses."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from rest_framework import status
from rest_framework.exceptions import ParseError
from rest_framework.response import Response
from rest_framework.views import exception_handler as rest_exception_handler

from brokers.admin import (
    AdminError,
    AlreadyExists,
    BrokerUnreachable,
    EffectNotConfirmed,
    InvalidValue,
    NotAllowed,
    NotFound,
    StaleVersion,
)
from brokers.input_checks import readable, readable_sentences, shortened
from console.brokers.stops_left import StopsInForce
from console.history.storage.reader import HistoryBroken, NothingRecorded
from console.links.visible import UnknownBroker
from console.operations.attempt import PreviewOutdated
from console.operations.messages import NotOffered
from console.operations.stops_across import EffectsNotConfirmed, NowhereDone

_STATUS: dict[type[Exception], int] = {
    NotFound: status.HTTP_404_NOT_FOUND,
    UnknownBroker: status.HTTP_404_NOT_FOUND,
    NotAllowed: status.HTTP_403_FORBIDDEN,
    AlreadyExists: status.HTTP_409_CONFLICT,
    NotOffered: status.HTTP_409_CONFLICT,
    PreviewOutdated: status.HTTP_409_CONFLICT,
    BrokerUnreachable: status.HTTP_503_SERVICE_UNAVAILABLE,
    AdminError: status.HTTP_503_SERVICE_UNAVAILABLE,
    NothingRecorded: status.HTTP_404_NOT_FOUND,
    HistoryBroken: status.HTTP_503_SERVICE_UNAVAILABLE,
}


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return the response to an exception. 400 names each field, 409 of a stale version has the current version,
    409 of a stop the effect to confirm, and 503 means that the broker does not respond."""
    if isinstance(error, InvalidValue):
        return Response({field: [sentence] for field, sentence in readable_sentences(error.errors).items()}, status=400)
    if isinstance(error, StaleVersion):
        current = getattr(error, "current_object", None) or {"version": error.current}
        return Response({"detail": _sentence(error), "current": current}, status=status.HTTP_409_CONFLICT)
    if isinstance(error, EffectNotConfirmed):
        brokers = {"brokers": error.brokers} if isinstance(error, EffectsNotConfirmed) else {}
        return Response({"detail": _sentence(error), "effect": error.effect, **brokers}, status.HTTP_409_CONFLICT)
    if isinstance(error, StopsInForce):
        return Response({"detail": _sentence(error), "stops": error.stops}, status.HTTP_409_CONFLICT)
    if isinstance(error, NowhereDone):
        return Response({"detail": _sentence(error), "brokers": error.brokers}, status=_status_of(error))
    if isinstance(error, PermissionDenied):
        return Response(
            {"detail": _sentence(error) or "You do not have permission to do that."}, status=status.HTTP_403_FORBIDDEN
        )
    if isinstance(error, ParseError):  # malformed JSON: same shape as for an invalid field
        return Response({"detail": [str(error.detail)]}, status=status.HTTP_400_BAD_REQUEST)
    for kind, code in _STATUS.items():
        if isinstance(error, kind):
            return Response({"detail": _sentence(error)}, status=code)
    return rest_exception_handler(error, context)


def _status_of(error: NowhereDone) -> int:
    if error.denied:
        return status.HTTP_403_FORBIDDEN
    return status.HTTP_400_BAD_REQUEST if error.refused else status.HTTP_503_SERVICE_UNAVAILABLE


def _sentence(error: Exception) -> str:
    return readable(shortened(str(error), 1000))
