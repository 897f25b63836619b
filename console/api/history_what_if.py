"""Simulation of a queue's recorded traffic under other limits, and recommendations derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue
from console.access.user_rights import request_rights
from console.api import history_schema as shapes
from console.api import schema
from console.api.base_views import MAX_PAGE_SIZE, choice_in, number_in
from console.api.broker_room import rooms_of
from console.api.fields import CountField, MomentField, TextField
from console.api.history_reading import broker_in, history, maybe_queue_in, queue_of, range_of
from console.api.strict import StrictAPIView
from console.history.storage.durations import DAY
from console.history.whatif import recommendations
from console.history.whatif.kinds import KINDS
from console.links.unreported import brokers_without_producers
from console.links.visible import UnknownBroker, visible_link
from console.operations.policies import fields_anywhere, sets_resume_levels
from console.permissions.rights import Rights

if TYPE_CHECKING:
    from console.history.whatif.comparison import Simulated
    from console.history.whatif.recommend import Advice
    from console.history.whatif.recording import Recording
    from console.history.whatif.replay import Limits

MOST_CANDIDATES = 10
_LIMITS = ("capacity_messages", "resume_messages", "capacity_bytes", "resume_bytes")


def _count(description: str, *, null: bool = False) -> serializers.IntegerField:
    return serializers.IntegerField(help_text=description, allow_null=null, min_value=0)


def _level(description: str) -> CountField:
    return CountField(description, max_value=(1 << 62) - 1)


def _resume_level(unit: str) -> serializers.IntegerField:
    return serializers.IntegerField(
        help_text=f"The resume level in {unit}; 0 beside a capacity: when empty; null or omitted: the capacity.",
        default=None,
        allow_null=True,
        min_value=0,
        max_value=(1 << 62) - 1,
    )


class WhatIfLimits(serializers.Serializer[Any]):
    capacity_messages = _count("The stop level in messages; 0: no limit.")
    resume_messages = _count("The resume level in messages; 0 beside a capacity: when empty.")
    capacity_bytes = _count("The stop level in bytes; 0: no limit.")
    resume_bytes = _count("The resume level in bytes; 0 beside a capacity: when empty.")


class WhatIfOutcome(WhatIfLimits):
    episodes_low = _count("Simulated episodes in which the queue is overfull, the least that the record allows.")
    episodes_high = _count("The most episodes that the record allows.")
    blocked_low_ms = _count(
        "Simulated blocked producer time, the least that the record allows; null: the broker does not report it.",
        null=True,
    )
    blocked_high_ms = _count("The most blocked producer time that the record allows; null as before.", null=True)
    overfull_low_ms = _count("Simulated overfull time, the least that the record allows.")
    overfull_high_ms = _count("The most overfull time that the record allows.")
    episodes = _count("Deprecated: use `episodes_high`.")
    blocked_ms = _count("Deprecated: use `blocked_high_ms`.", null=True)
    longest_ms = _count("The longest simulated episode.")
    peak_messages = _count("Highest simulated depth in messages.")
    peak_bytes = _count("Highest simulated depth in bytes: the required memory or disk.")


class WhatIfAdvice(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text=f"{', '.join(KINDS[:-1])} or {KINDS[-1]}.")
    text = serializers.CharField(help_text="The recommendation as a sentence.")
    limits = WhatIfOutcome(allow_null=True, help_text="The recommended limits with their simulated result; null: none.")


class WhatIfCandidate(serializers.Serializer[Any]):
    capacity_messages = _level("The stop level in messages; 0: no limit.")
    resume_messages = _resume_level("messages")
    capacity_bytes = _level("The stop level in bytes; 0: no limit.")
    resume_bytes = _resume_level("bytes")


def _moment(description: str) -> MomentField:
    return MomentField(default=None, allow_null=True, help_text=description)


WhatIfRequest = type(
    "WhatIfRequest",
    (serializers.Serializer,),
    {
        "broker": TextField("Name of the broker; default: the first configured one.", default="", allow_null=True),
        "virtualhost": TextField("The queue's virtual host; default: `default`.", default="", allow_null=True),
        "queue": TextField("The queue's name."),
        "from": _moment("ms since the epoch, or ISO 8601 with a zone; default: a week before `until`."),
        "until": _moment("As `from`; default: now."),
        "candidates": WhatIfCandidate(  # type: ignore[call-arg]  # what takes max_length is the list
            many=True,
            default=list,
            allow_null=True,
            max_length=MOST_CANDIDATES,
            help_text=f"At most {MOST_CANDIDATES}.",
        ),
    },
)

WhatIfAnswer = type(
    "WhatIfAnswer",
    (serializers.Serializer,),
    {
        "from": _count("Beginning of the range."),
        "until": _count("End of the range."),
        "source": serializers.CharField(help_text="The replayed data: samples or minutes; none: not enough data."),
        "observed_ms": _count("Time with recorded traffic."),
        "recorded_blocked_ms": _count(
            "Recorded blocked producer time, as in the top lists; null: the broker does not report it.", null=True
        ),
        "recorded_overfull_ms": _count("Recorded overfull time."),
        "blocked_producers": serializers.FloatField(
            allow_null=True,
            help_text="Mean number of blocked producers while the queue was overfull: simulated blocked producer time"
            " is overfull time times this number; null: the broker does not report it.",
        ),
        "caveat": serializers.CharField(help_text="Limitations of these figures."),
        "current": WhatIfOutcome(
            allow_null=True, help_text="Simulated result of the limits that were effective at the end of the range."
        ),
        "candidates": WhatIfOutcome(many=True),
        "advice": WhatIfAdvice(allow_null=True),
    },
)


class WhatIfView(StrictAPIView):
    @extend_schema(
        request=WhatIfRequest,
        responses={200: WhatIfAnswer, **shapes.REFUSALS},
        summary="Simulate limits",
        description="Replays the queue's recorded traffic with the current limits and with each candidate. Changes"
        " nothing.",
    )
    def post(self, request: Request) -> Response:
        # Libraries of 100 MB, for this alone.
        from console.history.whatif.comparison import CAVEAT, compare
        from console.history.whatif.recommend import recommend
        from console.history.whatif.recorded_traffic import LONGEST, recorded

        body = self.body
        queue = queue_of(body["broker"] or "", body["virtualhost"] or "", body["queue"])
        begin, end = range_of(body["from"], body["until"], longest=LONGEST, default=7 * DAY)
        candidates = [_limits(number, one) for number, one in enumerate(body["candidates"] or (), start=1)]
        about = {"from": begin, "until": end, "caveat": CAVEAT}
        found = recorded(history(request), queue, begin, end)
        if found is None:
            nothing: dict[str, Any] = {
                "source": "none",
                "observed_ms": 0,
                "recorded_blocked_ms": 0,
                "recorded_overfull_ms": 0,
            }
            return Response(
                {**about, **nothing, "blocked_producers": 0.0, "current": None, "advice": None, "candidates": []}
            )
        rights = request_rights(request._request)
        outcomes = compare(found, candidates)
        producers = found.blocked.per_overfull_second
        simulated = [
            _outcome_facts(limits, outcome, producers)
            for limits, outcome in zip((found.current, *candidates), outcomes, strict=True)
        ]
        answer = {
            **about,
            "source": found.source,
            "observed_ms": round(found.observed_seconds * 1000),
            "recorded_blocked_ms": round(found.blocked.seconds * 1000),
            "recorded_overfull_ms": round(found.overfull_seconds * 1000),
            "blocked_producers": producers,
            "current": simulated[0],
            "candidates": simulated[1:],
            "advice": _advice(
                found, recommend(found, rooms_of(rights, queue.broker), resumes=_resumes(rights, queue.broker))
            ),
        }
        return Response(_as_known(answer) if queue.broker in brokers_without_producers(rights) else answer)


def _resumes(rights: Rights, broker: str) -> bool:
    """Return whether resume levels can be set at the broker; True if this console does not have it."""
    try:
        fields = fields_anywhere(visible_link(rights, broker))
    except UnknownBroker:
        return True
    return sets_resume_levels(fields)


def _as_known(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a broker that does not report blocked producers: their time is not known."""
    unknown = dict.fromkeys(("blocked_low_ms", "blocked_high_ms", "blocked_ms"))
    advice = answer["advice"]
    if advice is not None and advice["limits"] is not None:
        advice = {**advice, "limits": {**advice["limits"], **unknown}}
    return {
        **answer,
        "recorded_blocked_ms": None,
        "blocked_producers": None,
        "current": {**answer["current"], **unknown},
        "candidates": [{**one, **unknown} for one in answer["candidates"]],
        "advice": advice,
    }


class AdviceView(StrictAPIView):
    @extend_schema(
        parameters=[
            *shapes.MAYBE_QUEUE,
            schema.parameter("kind", "Only recommendations of this kind.", enum=list(KINDS)),
            schema.parameter("search", "Text in the queue's name."),
            *schema.PAGE,
        ],
        responses={200: shapes.Recommendations, **shapes.REFUSALS},
        summary="List recommendations",
        description="Computed nightly from each broker's last recorded week; 404 before the first run. The simulation"
        " of limits computes the recommendation of one queue for any range, and compares it with the room below the"
        " broker's limits.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        queue = maybe_queue_in(query)
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MAX_PAGE_SIZE)
        count, rows = recommendations.page(
            history(request),
            number,
            size,
            broker=queue.broker if queue else broker_in(query),
            virtualhost=queue.virtualhost if queue else query.get("virtualhost", ""),
            queue=queue.name if queue else "",
            kind=choice_in(query, "kind", KINDS),
            search=query.get("search", "").strip(),
        )
        return Response(
            {
                "count": count,
                "page": number,
                "page_size": size,
                "results": [row | _former_names(row) for row in rows],
                "required": _required(request),
            }
        )


def _former_names(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the deprecated names of a recommendation."""
    return {
        "replayed_blocked_seconds": row["simulated_blocked_high_seconds"],
        "recommended_blocked_seconds": row["recommended_blocked_high_seconds"],
    }


def _required(request: Request) -> list[dict[str, Any]]:
    """Return what the recommended capacities of each broker need together, beside what it has left."""
    rights = request_rights(request._request)
    return [
        {
            "broker": broker,
            "required_bytes": round(required),
            **{f"{room.what}_free_bytes": round(room.free_bytes) for room in rooms_of(rights, broker)},
        }
        for broker, required in recommendations.required_bytes(history(request)).items()
    ]


def _limits(number: int, given: Mapping[str, int | None]) -> Any:
    """Return the candidate's `Limits`: without a resume level, the capacity is the resume level. Raises InvalidValue
    for inconsistent levels."""
    from console.history.whatif.replay import Limits

    levels: dict[str, int] = {}
    for unit in ("messages", "bytes"):
        stop, resume = given[f"capacity_{unit}"] or 0, given[f"resume_{unit}"]
        resume = stop if resume is None else resume
        levels |= {f"capacity_{unit}": stop, f"resume_{unit}": resume}
        if resume and not stop:
            raise InvalidValue(
                {"candidates": f"candidate {number}: resume_{unit} is {resume:,} without a capacity_{unit}"}
            )
        if resume > stop:
            raise InvalidValue(
                {
                    "candidates": f"candidate {number}: resume_{unit} {resume:,} is above capacity_{unit} {stop:,}:"
                    " its producers would never be unblocked"
                }
            )
    return Limits(*(float(levels[name]) for name in _LIMITS))


def _outcome_facts(limits: Limits, simulated: Simulated, producers: float) -> dict[str, int]:
    low, high = simulated.low, simulated.high
    return {
        "capacity_messages": round(limits.stop_messages),
        "resume_messages": round(limits.resume_messages),
        "capacity_bytes": round(limits.stop_bytes),
        "resume_bytes": round(limits.resume_bytes),
        "episodes_low": low.episodes,
        "episodes_high": high.episodes,
        "blocked_low_ms": round(low.blocked_seconds * producers * 1000),
        "blocked_high_ms": round(high.blocked_seconds * producers * 1000),
        "overfull_low_ms": round(low.blocked_seconds * 1000),
        "overfull_high_ms": round(high.blocked_seconds * 1000),
        "episodes": high.episodes,  # deprecated name
        "blocked_ms": round(high.blocked_seconds * producers * 1000),  # deprecated name
        "longest_ms": round(high.longest_seconds * 1000),
        "peak_messages": round(high.peak_messages),
        "peak_bytes": round(high.peak_bytes),
    }


def _advice(found: Recording, advice: Advice) -> dict[str, Any]:
    limits = (
        _outcome_facts(advice.limits, advice.simulated, found.blocked.per_overfull_second)
        if advice.limits is not None and advice.simulated is not None
        else None
    )
    return {"kind": advice.kind, "text": advice.text, "limits": limits}
