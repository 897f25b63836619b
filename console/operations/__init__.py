"""All changes to brokers: each function checks the permission, calls the broker and writes an audit row.

The functions are synchronous, for views and workers. They raise Django's PermissionDenied and the errors of
`brokers.admin`; a missing reason raises InvalidValue, like any other invalid field.
"""

from console.operations.check import check_update
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
from console.operations.stops_across import (
    EffectsNotConfirmed,
    NowhereDone,
    preview_across,
    progress_across,
    start_across,
    stop_across,
)

__all__ = [
    "ACTIONS",
    "Aim",
    "Applied",
    "EffectsNotConfirmed",
    "NowhereDone",
    "PolicyChange",
    "apply_changes",
    "apply_file",
    "call_operation",
    "change_selection",
    "check_update",
    "create_object",
    "delete_object",
    "delete_selection",
    "difference",
    "export_policies",
    "is_revertible",
    "policy_scopes",
    "preview_across",
    "preview_changes",
    "preview_stop",
    "previewed",
    "progress",
    "progress_across",
    "queues_of",
    "queues_with_settings",
    "reordered",
    "reversal",
    "revert",
    "save_selection",
    "selection_of",
    "selections_for",
    "set_fields",
    "start_across",
    "start_producers",
    "stop_across",
    "stop_producers",
    "update_object",
]
