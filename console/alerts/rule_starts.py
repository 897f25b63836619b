"""From which event of a broker on a rule applies: a new rule, and one that is enabled again, starts without a past.

The position in a broker's events can be old: it stays while there is no rule, and while no evaluator runs. The
evaluator gives a rule its start when it finds it: the newest event of its previous look at the broker, so that none
after the creation of the rule is missed; at its first look, the newest event.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from console.alerts.models import Rule
from console.links.registry import BrokerLink


def journal_now(link: BrokerLink) -> str:
    """Return the identity of the journal of a connected broker; empty: not known."""
    return str((link.broker or {}).get("journal") or "") if link.connected else ""


@dataclass(slots=True)
class RuleStarts:
    """The starts of all rules. `_newest`: journal and newest event of each broker at the previous look."""

    _newest: dict[str, tuple[str, int]] = field(default_factory=dict)

    def look(self, link: BrokerLink) -> int:
        """Return the start of rules that are new now."""
        journal, newest = journal_now(link), link.newest_event
        if not journal:
            return newest
        before, number = self._newest.get(link.slug, (journal, newest))
        self._newest[link.slug] = journal, newest
        return min(number, newest) if before == journal else newest

    def give(self, slug: str, rules: Iterable[Rule], start: int) -> int:
        """Give new rules their start at a broker, and return the earliest start of all rules that can apply to it."""
        earliest: int | None = None
        for rule in rules:
            if rule.broker not in ("", slug) or not rule.enabled:
                continue
            if rule.starts is not None and slug not in rule.starts:
                _save(rule, slug, start)
            its = start_of(rule, slug)
            earliest = its if earliest is None else min(earliest, its)
        return 0 if earliest is None else earliest

    def set_back(self, slug: str, rules: Iterable[Rule], after: int) -> None:
        """Begin again after an event: the broker uses the numbers of its events again."""
        self._newest.pop(slug, None)
        for rule in rules:
            if start_of(rule, slug) > after:
                _save(rule, slug, after)


def start_of(rule: Rule, slug: str) -> int:
    """Return the number of the event after which a rule applies; 0 for rules of an earlier release."""
    return int((rule.starts or {}).get(slug, 0))


def _save(rule: Rule, slug: str, start: int) -> None:
    rule.starts = {**(rule.starts or {}), slug: start}
    Rule.objects.filter(pk=rule.pk).update(starts=rule.starts)
