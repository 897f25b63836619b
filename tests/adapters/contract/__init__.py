"""The contract of every broker behind an adapter, with what the broker has as its parameter.

`AdapterContract` is the suite. It is driven by the types that the broker declares: what they have must work as the
interface says, and what they lack must be absent everywhere. A test class inherits from it and has a fixture `subject`,
a `Subject`: the broker's admin interface, and what tests do to the broker past the adapter. It runs against a broker in
memory with several sets of capabilities, and against a real broker of each kind. `tests/drivers/contract` is the
contract of a broker that has everything.
"""

from tests.adapters.contract.changes import Changes
from tests.adapters.contract.declared import Declared
from tests.adapters.contract.predictions import Predictions
from tests.adapters.contract.stops import Stops
from tests.adapters.contract.streams import Streams
from tests.adapters.contract.subject import Subject

__all__ = ["AdapterContract", "Subject"]


class AdapterContract(Declared, Changes, Predictions, Stops, Streams):
    """The whole suite."""
