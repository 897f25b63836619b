"""The contract of every implementation of `brokers.admin.BrokerAdmin`, as its docstrings state it.

`Contract` is the suite. An implementation runs it with a test class that inherits from it and a fixture `subject`, a
`Subject`: a broker with a virtual host `default`, its admin interface, and what tests do to it that the interface does
not offer. The tests leave nothing behind that would have to be removed from a broker. Each module has the tests of one
area.
"""

from tests.drivers.contract.changes import Changes
from tests.drivers.contract.objects import Objects
from tests.drivers.contract.policies import Policies
from tests.drivers.contract.stops import Stops
from tests.drivers.contract.streams import Streams
from tests.drivers.contract.subject import BROKER, LIMIT, Subject, queue
from tests.drivers.contract.users import Users

__all__ = ["BROKER", "LIMIT", "Contract", "Subject", "queue"]


class Contract(Objects, Changes, Stops, Policies, Users, Streams):
    """The whole suite."""
