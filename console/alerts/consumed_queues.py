"""Which queues have had consumers, for the condition that a queue has lost them.

The database has them, so that a queue that loses its consumers while no evaluator runs is found after its restart. They
are recorded only while a rule with the condition exists; a new rule starts without a past.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokers.model import ObjectName
from console.alerts.models import ConsumedQueue, Rule
from console.alerts.queue_conditions import CONSUMERS_LOST
from console.alerts.transitions import within

_BATCH = 500


@dataclass(slots=True)
class ConsumedQueues:
    """The queues of all brokers. The database is read once per broker: only the evaluator writes it."""

    _by_broker: dict[str, set[str]] = field(default_factory=dict)
    _rules: dict[str, set[int]] = field(default_factory=dict)  # that recorded them, by broker

    def update(
        self, broker: str, rules: Iterable[Rule], rows: Iterable[Mapping[str, Any]], *, complete: bool
    ) -> Collection[str]:
        """Record the queues in the scope of `rules` that have consumers now, and return all that have had them, as text
        of object names. `complete`: queues without a row have been deleted."""
        mine = [rule for rule in rules if _records(rule)]
        before = self._of(broker)
        numbers = {rule.pk for rule in mine}
        if not numbers & self._rules.get(broker, numbers):  # no rule, or only new ones
            self._remove(broker, set(before))
        self._rules[broker] = numbers
        if not mine:
            return before
        new, present = [], set()
        for row in rows:
            name = row["object"]
            present.add(name)
            if row.get("consumers") and name not in before:
                about = ObjectName.parse(name)
                if any(within(rule, broker, about) for rule in mine):
                    new.append(name)
        if new:
            made = [ConsumedQueue(broker=broker, object=name) for name in new]
            ConsumedQueue.objects.bulk_create(made, _BATCH, ignore_conflicts=True)
            before |= set(new)
        if complete:
            self._remove(broker, before - present)
        return before

    def forget(self, broker: str) -> None:
        """Remove the queues of a broker, which is configured no more or has no rule."""
        self._remove(broker, self._of(broker))

    @staticmethod
    def forget_without_rules() -> None:
        """Remove all if no rule records them any more. In the transaction that changes or deletes a rule: the evaluator
        finds that only if it runs before the next rule is created."""
        if not any(map(_records, Rule.objects.all())):
            ConsumedQueue.objects.all().delete()

    def _of(self, broker: str) -> set[str]:
        if broker not in self._by_broker:
            found = ConsumedQueue.objects.filter(broker=broker).values_list("object", flat=True)
            self._by_broker[broker] = set(found)
        return self._by_broker[broker]

    def _remove(self, broker: str, names: Collection[str]) -> None:
        gone = list(names)
        for first in range(0, len(gone), _BATCH):
            ConsumedQueue.objects.filter(broker=broker, object__in=gone[first : first + _BATCH]).delete()
        self._by_broker[broker].difference_update(gone)


def _records(rule: Rule) -> bool:
    return rule.enabled and CONSUMERS_LOST in rule.kinds
