"""The only writers to brokers: each checks the permission, calls the broker and leaves an audit row.

All are synchronous, for views and workers. They raise Django's PermissionDenied and the errors of `brokers.admin`;
a missing reason is an InvalidValue like any other field.
"""

from console.operations.actor import Actor
from console.operations.bulk import (
    Selection,
    begin_bulk,
    begin_undo,
    interrupt_bulk,
    is_seen,
    is_stalled,
    preview_bulk,
    resume_bulk,
    selected,
    undo_changes,
)
from console.operations.check import check_update
from console.operations.history import HISTORY_WORKS, run_history
from console.operations.objects import call_operation, create_object, delete_object, update_object
from console.operations.policies import (
    ACTIONS,
    Applied,
    PolicyChange,
    apply_changes,
    policy_scopes,
    preview_changes,
    queues_with_settings,
    reordered,
    set_fields,
)
from console.operations.policy_import import apply_file, difference, export_policies, previewed
from console.operations.reversal import is_revertible, reversal, revert
from console.operations.selections import (
    change_selection,
    delete_selection,
    queues_of,
    save_selection,
    selection_of,
    selections_for,
)
from console.operations.stops import Aim, preview_stop, progress, start_producers, stop_producers

__all__ = [
    "ACTIONS",
    "HISTORY_WORKS",
    "Actor",
    "Aim",
    "Applied",
    "PolicyChange",
    "Selection",
    "apply_changes",
    "apply_file",
    "begin_bulk",
    "begin_undo",
    "call_operation",
    "change_selection",
    "check_update",
    "create_object",
    "delete_object",
    "delete_selection",
    "difference",
    "export_policies",
    "interrupt_bulk",
    "is_revertible",
    "is_seen",
    "is_stalled",
    "policy_scopes",
    "preview_bulk",
    "preview_changes",
    "preview_stop",
    "previewed",
    "progress",
    "queues_of",
    "queues_with_settings",
    "reordered",
    "resume_bulk",
    "reversal",
    "revert",
    "run_history",
    "save_selection",
    "selected",
    "selection_of",
    "selections_for",
    "set_fields",
    "start_producers",
    "stop_producers",
    "undo_changes",
    "update_object",
]
