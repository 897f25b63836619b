"""Types of managed objects as one kind of broker has them: the declared ones without what it lacks, and with the real
effect of its operations. Consoles follow these, and never ask which kind a broker is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from brokers.admin import EffectNotConfirmed
from brokers.model import TYPES, Attribute, Kind, ManagedType, Operation
from brokers.model.stop_operations import CLIENT_ARGUMENTS

#: What consoles show of `version`: no broker of these kinds has one.
LAST_WRITER = (
    "A hash of the attributes that can be changed. This broker has no versions of its own: a change made from another"
    " state is refused, but of two that are made within one round trip to the broker, the last writer wins."
)


@dataclass(frozen=True, slots=True)
class Capability:
    """What a kind of broker has of one managed type.

    `attributes`: the names it reports; `version` and the keys are added. `writable`: those of them that can be changed.
    `operations`: name -> as it works here. `text_keys`: keys that are texts here, such as a connection's name, and
    numbers in Headgate's own broker. `choices`: of attributes that have fewer here. `descriptions`: of attributes that
    mean something else here.
    """

    attributes: Collection[str]
    writable: Collection[str] = ()
    operations: Mapping[str, Capable] = field(default_factory=dict)
    creatable: bool = False
    deletable: bool = False
    text_keys: Collection[str] = ()
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capable:
    """An operation of this kind of broker. `lacks`: arguments that it does not have, besides `CLIENT_ARGUMENTS`: no
    adapter can stop single clients. `producer_effect`: what a stop does to producers: hold, trickle, reject or cut.
    `remark`: a sentence on what an operator must know."""

    lacks: Collection[str] = ()
    producer_effect: str = ""
    remark: str = ""


#: A start of producers: none of these brokers can start them in stages.
STARTS = Capable(lacks=("rate", "step_ms", "halt"))
#: Attributes of queues: the limits in force.
LEVELS = tuple(
    f"effective_{level}_{unit}" for level in ("capacity", "stop", "resume") for unit in ("messages", "bytes")
)
#: Attributes of the broker and of virtual hosts: sums over their queues, which every kind has.
TOTALS = ("queues", "overfull_queues", "stopped_queues", "depth_messages", "depth_bytes", "consumers", "stops")


def types_of(capabilities: Mapping[str, Capability]) -> dict[str, ManagedType]:
    """Return the types of a broker with these capabilities, in the declared order."""
    return {name: _restricted(TYPES[name], capabilities[name]) for name in TYPES if name in capabilities}


def _restricted(declared: ManagedType, here: Capability) -> ManagedType:
    unknown = {*here.attributes, *here.writable} - {a.name for a in declared.attributes}
    if unknown:
        raise ValueError(f"{declared.name} has no attribute {', '.join(sorted(unknown))}")
    shown = {*here.attributes, *here.writable, *declared.keys, "version"}
    attributes = tuple(_attribute(a, declared, here) for a in declared.attributes if a.name in shown)
    capable = dict(here.operations)
    if "stop-producers" in capable:  # the core previews whatever an adapter can stop
        capable["preview-stop"] = Capable(lacks=capable["stop-producers"].lacks)
    operations = tuple(_operation(o, capable[o.name]) for o in declared.operations if o.name in capable)
    return replace(
        declared,
        attributes=attributes,
        operations=operations,
        creatable=here.creatable,
        deletable=here.deletable,
        searched=tuple(name for name in declared.searched if name in shown),
    )


def _attribute(attribute: Attribute, declared: ManagedType, here: Capability) -> Attribute:
    kind = Kind.STRING if attribute.name in here.text_keys else attribute.kind
    is_key = attribute.name in declared.keys
    description = LAST_WRITER if attribute.name == "version" else attribute.description
    return replace(
        attribute,
        kind=kind,
        choices=here.choices.get(attribute.name, attribute.choices),
        description=here.descriptions.get(attribute.name, description),
        writable=attribute.name in here.writable,
        creatable=here.creatable and (is_key or attribute.creatable),
        required=here.creatable and is_key and attribute.required,
        nullable=not is_key and attribute.name != "version",  # what could not be read is unknown
    )


def _operation(operation: Operation, here: Capable) -> Operation:
    arguments = tuple(a for a in operation.arguments if a.name not in {*here.lacks, *CLIENT_ARGUMENTS})
    effect = here.producer_effect or operation.producer_effect
    return replace(operation, arguments=arguments, producer_effect=effect, remark=here.remark)


def check_effect(operation: Operation, named: str) -> None:
    """Raise EffectNotConfirmed if a request for a stop expects another effect than it has here; not named is hold."""
    if operation.producer_effect and (named or "hold") != operation.producer_effect:
        remark = operation.remark or f"on this broker a stop has the effect {operation.producer_effect}"
        raise EffectNotConfirmed(remark, operation.producer_effect)
