"""Run message jobs: `step` does one batch and returns whether the same worker goes on at once.

The worker owns the job's lease, so that two never do the same batch. A job that was begun with an API token has the
permissions of the token and of its owner, as they are at each batch. While the target is blocked, a store cannot be
read, or the broker is not reachable, the job waits: its lease runs out after a short time, and the sweep sends it to a
worker again.

A worker that is killed, or a connection that is lost, between a batch and its answer leaves the batch unconfirmed: the
broker did it or not. Moving, retrying and deleting again is harmless, since what was done is no longer in the queue;
only the counts miss it. Copying again would duplicate, so a copy is interrupted, and the one who resumes it chooses.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from brokers.admin import AdminError, BrokerUnreachable, InvalidValue, TryAgain
from brokers.model import ObjectName
from console.access.actor import Actor
from console.access.later_rights import later_actor, token_number
from console.audit.models import Outcome
from console.leases.leased_row import signed
from console.links.registry import BrokerLink, UnknownBroker, link
from console.messages.models import MessageJob, State
from console.operations.attempt import attempt, happened
from console.operations.composed_reasons import composed_reason
from console.operations.message_acts import Act
from console.operations.messages import called, require
from console.permissions.rights import host_of, needed

#: Messages of a batch; of a copy fewer, since a batch may be copied twice.
BATCH, COPY_BATCH = 500, 100
#: Longer than the longest time that a batch takes, `_BATCH_SECONDS`.
LEASE = timedelta(seconds=60)
_BATCH_SECONDS = 30.0
#: Longest pause between two attempts of a job that waits, s.
_LONGEST_PAUSE = 30


def begin(by: Actor, broker: BrokerLink, act: Act, *, reason: str = "") -> MessageJob:
    """Create a job for all messages that `act.match` finds, without doing anything yet; audited. Raises
    PermissionDenied, NotOffered, NotFound, InvalidValue."""
    with attempt(by, broker, act.queue, act.operation, reason=reason, requested=act.arguments()) as this:
        require(broker, act.queue, act.operation)
        here = broker.call(lambda admin: admin.read(act.queue))  # raises NotFound
        # What the broker refuses, such as a selector or a target, it refuses now and not in the job.
        first = called(broker, act.queue, act.operation, {**act.arguments(), "preview": True, "count": 1})
        with this.in_one_transaction():
            job = MessageJob.objects.create(
                user=by.user if isinstance(by.user, User) else None,
                user_name=by.name,
                token_number=token_number(by),
                source_address=by.address,
                broker=broker.slug,
                virtualhost=host_of(act.queue) or "",
                object=str(act.queue),
                action=act.action,
                to=act.to,
                match=dict(act.match or {}),
                until=first["until"],
                depth=here.attributes.get("depth_messages"),
                reason=reason.strip(),
                **signed(LEASE),
            )
            this.detail = f"message job {job.pk} begins: {this.detail}"
        return job


def interrupt(by: Actor, job: MessageJob, *, reason: str = "") -> None:
    """Interrupt a job after the present batch; audited. Raises PermissionDenied."""
    name = ObjectName.parse(job.object)
    requested = {"job": job.pk}
    with (
        attempt(by, link(job.broker), name, "interrupt-message-job", reason=reason, requested=requested) as this,
        this.in_one_transaction(),
    ):
        why = f"interrupted by {by.name}"
        stopped = {"state": State.INTERRUPTED, "error": why, "blocked": ""}
        MessageJob.objects.filter(pk=job.pk, state=State.RUNNING).update(**stopped)


def resume(by: Actor, job: MessageJob, *, reason: str = "", unconfirmed: str = "") -> None:
    """Resume an interrupted or stalled job; audited. `unconfirmed`: what to do about the unconfirmed batch of a copy:
    `repeat` or `skip` it. Raises PermissionDenied, InvalidValue."""
    name = ObjectName.parse(job.object)
    requested = {"job": job.pk, **({"unconfirmed": unconfirmed} if unconfirmed else {})}
    at_end = False
    with attempt(by, link(job.broker), name, "resume-message-job", reason=reason, requested=requested) as attempted:
        if job.state == State.DONE:
            raise InvalidValue({"detail": f"message job {job.pk} is done"})
        resumed: dict[str, Any] = {"state": State.RUNNING, "error": "", "worker": "", "waits": 0}
        if by.user.pk == job.user_id:
            resumed["token_number"] = token_number(by)
        if job.state == State.INTERRUPTED and job.action == "copy" and job.unconfirmed:
            if not unconfirmed:
                raise InvalidValue({"unconfirmed": f"unconfirmed is missing: {_unconfirmed(job)}"})
            resumed |= {"unconfirmed": 0, "at_least": True}
            if unconfirmed == "skip":
                resumed |= _skipped(job, name)
                at_end = resumed["after"] is None
        this = MessageJob.objects.filter(pk=job.pk)
        with attempted.in_one_transaction():
            if not at_end and not this.filter(state=State.INTERRUPTED).update(**resumed, **signed(LEASE)):
                this.filter(state=State.RUNNING).claim(LEASE, timezone.now(), **resumed)  # running without a worker
    if at_end:  # a job without a cursor would begin at the front
        ends = {each: resumed[each] for each in ("unconfirmed", "at_least", "searched")}
        _end(this.filter(state=State.INTERRUPTED), job, State.DONE, **ends)


def _skipped(job: MessageJob, name: ObjectName) -> dict[str, Any]:
    """Return the columns of a copy that goes on behind its unconfirmed batch: behind as many messages as that would
    have copied, by a preview of the same; `after` is None at the end of the queue."""
    searched, after, left = job.searched, job.after, job.unconfirmed
    while left:
        given = {**_arguments(job), "preview": True, "after": after, "count": left}
        answer = called(link(job.broker), name, _act(job).operation, {k: v for k, v in given.items() if v is not None})
        left -= answer["messages"]
        searched += answer["searched"]
        after = answer["next"]
        if after is None:
            break
    return {"after": after, "searched": searched}


def is_visible(job: MessageJob, hosts: frozenset[str] | None) -> bool:
    """Return whether a user who sees these virtual hosts (None: all) sees the job."""
    return hosts is None or job.virtualhost in hosts


def is_stalled(job: MessageJob) -> bool:
    """Return whether a job neither runs nor waits although its state is running: its worker has ended."""
    return job.state == State.RUNNING and not job.blocked and job.is_free(timezone.now())


def due() -> list[int]:
    """Return the numbers of running jobs that no worker owns: stalled ones, and those whose pause is over."""
    return MessageJob.objects.filter(state=State.RUNNING).free(timezone.now())


# -- one batch --------------------------------------------------------------------------------------------------------


def step(number: int, worker: str) -> bool:
    """Do the next batch of a job. Return whether this worker goes on at once; if not, the job has ended, waits, or
    another worker owns it. `worker`: name of the calling worker."""
    this = MessageJob.objects.filter(pk=number, state=State.RUNNING)
    mine = this.filter(Q(worker="") | Q(worker=worker))
    if not mine.update(worker=worker, **signed(LEASE)) and not this.claim(LEASE, timezone.now(), worker=worker):
        return False
    job = MessageJob.objects.select_related("user").get(pk=number)
    try:
        return _batch(job, worker)
    except (AdminError, PermissionDenied, UnknownBroker) as error:
        return _interrupted(job, worker, str(error))
    except Exception as error:
        _interrupted(job, worker, f"{type(error).__name__}")
        raise


def _batch(job: MessageJob, worker: str) -> bool:
    name, operation = ObjectName.parse(job.object), _act(job).operation
    by, broker = _actor(job), link(job.broker)
    by.check(job.broker, needed(name, operation), name)
    if job.unconfirmed and job.action == "copy":
        return _interrupted(job, worker, _unconfirmed(job))
    try:
        broker.call(lambda admin: admin.read(name))  # before a batch is sent: then it would be unconfirmed
    except BrokerUnreachable as error:
        return _waits(job, worker, str(error))
    require(broker, name, operation)
    arguments = {**_arguments(job), "reason": _reason(job), "actor": by.name}
    sent = {"unconfirmed": arguments["count"], "at_least": job.at_least or bool(job.unconfirmed)}
    if not _mine(job, worker).filter(state=State.RUNNING).update(**sent, **signed(LEASE)):
        return False  # interrupted
    try:
        answer = broker.call(
            lambda admin: admin.call(name, operation, {k: v for k, v in arguments.items() if v is not None}),
            _BATCH_SECONDS,
        )
    except BrokerUnreachable as error:
        return _waits(job, worker, str(error))  # the batch stays unconfirmed
    except TryAgain as error:
        _mine(job, worker).update(unconfirmed=job.unconfirmed)  # nothing was done
        return _waits(job, worker, str(error))
    except AdminError:
        _mine(job, worker).update(unconfirmed=job.unconfirmed)  # it was refused: nothing was done
        raise
    return _counted(job, worker, answer)


def _counted(job: MessageJob, worker: str, answer: Mapping[str, Any]) -> bool:
    """Store cursor and counts of a batch in one update; behind the last batch it also ends the job, which without a
    cursor would repeat it."""
    blocked, last = answer["blocked"], answer["next"] is None and not answer["blocked"]
    counts = {
        "messages": F("messages") + answer["messages"],
        "bytes": F("bytes") + answer["bytes"],
        "skipped": F("skipped") + len(answer["skipped"]),
        "searched": F("searched") + answer["searched"],
        "until": answer["until"],
        "unconfirmed": 0,
        "waits": job.waits if blocked and not answer["messages"] else 0,
        "blocked": blocked,
    }
    if last:
        # Also if a user has interrupted it meanwhile: there is nothing left to interrupt.
        return _end(_mine(job, worker).exclude(state=State.DONE), job, State.DONE, **counts)
    if answer["next"] is not None:
        counts["after"] = answer["next"]
    _mine(job, worker).update(**counts)
    if blocked:
        job.refresh_from_db()
        return _waits(job, worker, blocked)
    return True


def _waits(job: MessageJob, worker: str, why: str) -> bool:
    """Let the lease run out after a pause that grows with each attempt in vain."""
    pause = timedelta(seconds=min(2 ** min(job.waits + 1, 10), _LONGEST_PAUSE))
    _mine(job, worker).update(blocked=why, waits=job.waits + 1, **signed(pause))
    return False


def _interrupted(job: MessageJob, worker: str, why: str) -> bool:
    # Not if a user interrupted it meanwhile, which is audited.
    return _end(MessageJob.objects.filter(pk=job.pk, state=State.RUNNING), job, State.INTERRUPTED, why)


def _end(rows: Any, job: MessageJob, state: State, why: str = "", **counts: Any) -> bool:
    """End the job, if it is one of `rows`, and write its audit row, both or neither. `counts`: columns to set in the
    same update. Return False."""
    ended = {**counts, "state": state, "error": why, "blocked": "", "worker": ""}
    finished = {"finished": timezone.now()} if state == State.DONE else {}
    with transaction.atomic():
        if not rows.update(**ended, **finished):
            return False
        job.refresh_from_db()
        act, done = _act(job), counts_of(job)
        happened(
            Actor(job.user or User(username=job.user_name), job.source_address),
            job.broker,
            act.queue,
            act.operation,
            reason=job.reason,
            detail=f"message job {job.pk} {'ends' if state == State.DONE else 'is interrupted'}: {_in_words(done)}",
            error=why,
            outcome=Outcome.DONE if state == State.DONE else Outcome.FAILED,
            after=done,
        )
    return False


def counts_of(job: MessageJob) -> dict[str, Any]:
    """Return what the job has done so far, for the audit trail."""
    counts = {"messages": job.messages, "bytes": job.bytes, "skipped": job.skipped}
    return {**counts, **({"at_least": True} if job.at_least or job.unconfirmed else {})}


def _in_words(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {str(value).lower()}" for name, value in counts.items())


def _mine(job: MessageJob, worker: str) -> Any:
    return MessageJob.objects.filter(pk=job.pk, worker=worker)


def _act(job: MessageJob) -> Act:
    return Act(job.action, ObjectName.parse(job.object), job.to, match=job.match)


def _arguments(job: MessageJob) -> dict[str, Any]:
    """Return the arguments of the next batch. Ages in the filter grow with the age of the job, so that the messages
    are those that the filter found when it began."""
    passed = max(0, int((timezone.now() - job.created).total_seconds() * 1000))
    match = {
        key: value + passed if key in ("older_than_ms", "newer_than_ms") else value for key, value in job.match.items()
    }
    act = Act(job.action, ObjectName.parse(job.object), job.to, match=match)
    count = COPY_BATCH if job.action == "copy" else BATCH
    return {**act.arguments(), "after": job.after, "until": job.until, "count": count}


def _actor(job: MessageJob) -> Actor:
    return later_actor(job.user, job.user_name, job.token_number, job.source_address, ordered="the job was begun")


def _reason(job: MessageJob) -> str:
    return composed_reason(f"message job {job.pk}", job.reason)


def _unconfirmed(job: MessageJob) -> str:
    return (
        f"the answer to a batch was lost: up to {job.unconfirmed:,} messages may be in {job.to} already. Resume with"
        " repeat (some may be copied twice) or skip (some may not be copied)"
    )
