"""The only writers to brokers: each checks the permission, calls the broker and leaves an audit row.

All are synchronous, for views and workers. They raise Django's PermissionDenied and the errors of `brokers.admin`;
a missing reason is an InvalidValue like any other field.
"""

from console.operations.actor import ADMINISTER, OPERATE, Actor
from console.operations.check import check_update
from console.operations.objects import call_operation, create_object, delete_object, update_object
from console.operations.stops import preview_stop, start_producers, stop_producers

__all__ = [
    "ADMINISTER",
    "OPERATE",
    "Actor",
    "call_operation",
    "check_update",
    "create_object",
    "delete_object",
    "preview_stop",
    "start_producers",
    "stop_producers",
    "update_object",
]
