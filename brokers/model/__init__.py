"""The model of managed objects: each type with its attributes, operations and notifications, and the names of objects.

One declaration serves all: management answers (GET-TYPES, GET-ATTRIBUTES, GET-OPERATIONS), the HTTP API's schema, forms
and the object browser are derived from it, so a new attribute is one line in a type and one value where the object is
read. `declarations.py` has the parts of a declaration, `types.py` the list of types, `patterns.py` the matching of
patterns of queue names. Declarations and the syntax of names only: no value of a running broker, no I/O.

Other packages import from here; modules of this package import from each other.
"""

from brokers.model.client_types import PRODUCER_STATES
from brokers.model.declarations import (
    Attribute,
    Kind,
    ManagedType,
    Notification,
    Operation,
    check_arguments,
    check_attributes,
    parse_count,
    parse_level,
)
from brokers.model.object_names import ObjectName, object_name, queue_named, scope_label
from brokers.model.policy_fields import POLICY
from brokers.model.queue_types import QUEUE_STATES
from brokers.model.types import NOTIFICATIONS, TYPES

__all__ = [
    "NOTIFICATIONS",
    "POLICY",
    "PRODUCER_STATES",
    "QUEUE_STATES",
    "TYPES",
    "Attribute",
    "Kind",
    "ManagedType",
    "Notification",
    "ObjectName",
    "Operation",
    "check_arguments",
    "check_attributes",
    "object_name",
    "parse_count",
    "parse_level",
    "queue_named",
    "scope_label",
]
