"""What if a queue had other limits, and which ones its recorded traffic asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue
from console.api import history_schema as shapes
from console.api import schema
from console.api.asked import AskedView
from console.api.history_reading import broker_in, history, maybe_queue_in, queue_in, range_in
from console.api.reading import MOST_AT_ONCE, body_of, choice_in, number_in
from console.api.schema import MomentField
from console.history.storage.durations import DAY
from console.history.whatif import recommendations
from console.history.whatif.minute_traffic import Recorded
from console.history.whatif.recorded_traffic import LONGEST, recorded

MOST_CANDIDATES = 10
_LIMITS = ("capacity_messages", "resume_messages", "capacity_bytes", "resume_bytes")


def _count(says: str, *, null: bool = False) -> serializers.IntegerField:
    return serializers.IntegerField(help_text=says, allow_null=null, min_value=0)


class WhatIfLimits(serializers.Serializer[Any]):
    capacity_messages = _count("The stop level in messages; 0: no limit.")
    resume_messages = _count("The resume level in messages; 0 beside a capacity: when empty.")
    capacity_bytes = _count("The stop level in bytes; 0: no limit.")
    resume_bytes = _count("The resume level in bytes; 0 beside a capacity: when empty.")


class WhatIfOutcome(WhatIfLimits):
    episodes = _count("Times that it would have been overfull.")
    blocked_ms = _count("How long its producers would have been held.")
    longest_ms = _count("The longest of those times.")
    peak_messages = _count("The greatest depth in messages.")
    peak_bytes = _count("The greatest depth in bytes: the memory or disk that it needs.")


class WhatIfAdvice(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text=f"{', '.join(recommendations.KINDS[:-1])} or {recommendations.KINDS[-1]}.")
    text = serializers.CharField(help_text="A sentence for people.")
    limits = WhatIfOutcome(allow_null=True, help_text="What to set instead, and what that would have come to.")


WhatIfRequest = type(
    "WhatIfRequest",
    (serializers.Serializer,),
    {
        "broker": serializers.CharField(required=False, help_text="Left out: the first configured one."),
        "virtualhost": serializers.CharField(required=False, help_text="Left out: default."),
        "queue": serializers.CharField(help_text="The queue's name."),
        "from": MomentField(required=False, help_text="As for series; left out: a week before `until`."),
        "until": MomentField(required=False, help_text="As for series; left out: now."),
        "candidates": WhatIfLimits(many=True, required=False, help_text=f"At most {MOST_CANDIDATES}."),
    },
)

WhatIfAnswer = type(
    "WhatIfAnswer",
    (serializers.Serializer,),
    {
        "from": _count("Beginning of the range."),
        "until": _count("End of the range."),
        "source": serializers.CharField(help_text="What was replayed: samples or minutes; none: too little is known."),
        "observed_ms": _count("Time of which the traffic is known."),
        "recorded_blocked_ms": _count("How long its producers were held in fact."),
        "caveat": serializers.CharField(help_text="What these figures are worth."),
        "current": WhatIfOutcome(allow_null=True, help_text="The limits in force at the end of the range, replayed."),
        "candidates": WhatIfOutcome(many=True),
        "advice": WhatIfAdvice(allow_null=True),
    },
)


class WhatIfView(AskedView):
    @extend_schema(
        request=WhatIfRequest,
        responses={200: WhatIfAnswer, **shapes.REFUSALS},
        summary="Replay other limits over a queue's recorded traffic",
        description="Changes nothing. First the current limits as the replay makes them out, then each candidate.",
    )
    def post(self, request: Request) -> Response:
        from console.history.whatif.comparison import CAVEAT, advise, compare

        body = body_of(request)
        query = dict(_texts(body))
        queue = queue_in(query)
        begin, end = range_in(query, longest=LONGEST, default=7 * DAY)
        candidates = [_limits(number, one) for number, one in enumerate(_listed(body), start=1)]
        about = {"from": begin, "until": end, "caveat": CAVEAT}
        found = recorded(history(request), queue, begin, end)
        if found is None:
            nothing = {"source": "none", "observed_ms": 0, "recorded_blocked_ms": 0, "current": None, "advice": None}
            return Response({**about, **nothing, "candidates": []})
        outcomes = compare(found.traffic, found.current, candidates)
        shown = [_shown(*pair) for pair in zip((found.current, *candidates), outcomes, strict=True)]
        answer = {
            **about,
            "source": found.source,
            "observed_ms": round(found.traffic.observed_seconds * 1000),
            "recorded_blocked_ms": round(float(found.traffic.held.sum()) * 1000),
            "current": shown[0],
            "candidates": shown[1:],
            "advice": _advice(found, advise),
        }
        return Response(answer)


class AdviceView(AskedView):
    @extend_schema(
        parameters=[
            *shapes.MAYBE_QUEUE,
            schema.asked("kind", "Only of this kind.", enum=list(recommendations.KINDS)),
            schema.asked("search", "Text in the queue's name."),
            *schema.PAGE,
        ],
        responses={200: schema.page_of(shapes.FleetAdvice), **shapes.REFUSALS},
        summary="Advice for every queue",
        description="As the history job last worked it out from each broker's last recorded week, nightly; 404 until it"
        " has. What-if gives the same for a queue and this range, and for others.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        queue = maybe_queue_in(query)
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MOST_AT_ONCE)
        count, rows = recommendations.page(
            history(request),
            number,
            size,
            broker=queue.broker if queue else broker_in(query),
            virtualhost=queue.virtualhost if queue else query.get("virtualhost", ""),
            queue=queue.name if queue else "",
            kind=choice_in(query, "kind", recommendations.KINDS),
            search=query.get("search", "").strip(),
        )
        return Response({"count": count, "page": number, "page_size": size, "results": rows})


def _texts(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """All but the candidates, as parameters of an address would be. Raises InvalidValue."""
    for name, value in body.items():
        if name == "candidates" or value is None:
            continue
        if not isinstance(value, str) and (name not in ("from", "until") or type(value) is not int):
            raise InvalidValue({name: f"{name} must be text"})
        yield name, str(value)


def _listed(body: dict[str, Any]) -> list[Any]:
    candidates = body.get("candidates") or []
    if not isinstance(candidates, list):
        raise InvalidValue({"candidates": "candidates must be a list of limits"})
    if len(candidates) > MOST_CANDIDATES:
        raise InvalidValue({"candidates": f"{len(candidates)} candidates: at most {MOST_CANDIDATES} at once"})
    return candidates


def _limits(number: int, given: Any) -> Any:
    from console.history.whatif.replay import Limits

    if not isinstance(given, dict):
        raise InvalidValue({"candidates": f"candidate {number} must be a JSON object with {', '.join(_LIMITS)}"})
    for name, value in given.items():
        if name not in _LIMITS:
            raise InvalidValue({"candidates": f"candidate {number}: {name} is no limit: there is {', '.join(_LIMITS)}"})
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62):
            raise InvalidValue(
                {"candidates": f"candidate {number}: {name} is {value!r}: it must be a whole number of 0 or more"}
            )
    values = {name: given.get(name) or 0 for name in _LIMITS}
    for unit in ("messages", "bytes"):
        stop, resume = values[f"capacity_{unit}"], values[f"resume_{unit}"]
        if resume and not stop:
            raise InvalidValue(
                {"candidates": f"candidate {number}: resume_{unit} is {resume:,} without a capacity_{unit}"}
            )
        if resume > stop:
            raise InvalidValue(
                {
                    "candidates": f"candidate {number}: resume_{unit} {resume:,} is above capacity_{unit} {stop:,}:"
                    " it would never resume"
                }
            )
    return Limits(*(float(values[name]) for name in _LIMITS))


def _shown(limits: Any, outcome: Any) -> dict[str, int]:
    return {
        "capacity_messages": round(limits.stop_messages),
        "resume_messages": round(limits.resume_messages),
        "capacity_bytes": round(limits.stop_bytes),
        "resume_bytes": round(limits.resume_bytes),
        "episodes": outcome.episodes,
        "blocked_ms": round(outcome.blocked_seconds * 1000),
        "longest_ms": round(outcome.longest_seconds * 1000),
        "peak_messages": round(outcome.peak_messages),
        "peak_bytes": round(outcome.peak_bytes),
    }


def _advice(found: Recorded, advise: Any) -> dict[str, Any]:
    said = advise(found.traffic, found.current, found.peak_messages, found.peak_bytes)
    limits = _shown(said.limits, said.would) if said.limits is not None and said.would is not None else None
    return {"kind": said.kind, "text": said.text, "limits": limits}
