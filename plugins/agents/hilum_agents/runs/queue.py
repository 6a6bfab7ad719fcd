"""Who is next: what the user waits for first, then one owner after another, each in its own order.

Nobody waits for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from hilum_agents.runs.records import Entry

PATIENCE = 10
"""How often one that is not urgent is passed over before it is as good as urgent."""


class Queue:
    """The queue of one lane. What it keeps is who waits; where an entry stands is in the log."""

    def __init__(self) -> None:
        self._waiting: dict[str, Entry] = {}
        self._served: Counter[str] = Counter()
        self._passed: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, entry: Entry) -> None:
        """Put one at its owner's end."""
        if not any(other.owner == entry.owner for other in self._waiting.values()):
            # Who comes anew begins where the others are, and has nothing to catch up.
            least = min((self._served[other.owner] for other in self._waiting.values()), default=0)
            self._served[entry.owner] = max(self._served[entry.owner], least)
        self._waiting[entry.id] = entry

    def remove(self, entry: Entry) -> None:
        """Take one out, wherever it stands."""
        self._waiting.pop(entry.id, None)
        self._passed.pop(entry.id, None)

    def take(self, able: Callable[[Entry], bool]) -> Entry | None:
        """Take out who is next of those that can begin now."""
        order = self.order()
        chosen = next((entry for entry in order if able(entry)), None)
        if chosen is not None:
            if chosen.urgent:
                self._passed.update(entry.id for entry in order if not entry.urgent)
            self._served[chosen.owner] += 1
            self.remove(chosen)
        return chosen

    def order(self) -> list[Entry]:
        """Return those that wait in the order in which they will begin, as far as known now."""
        turns = Counter(self._served)
        ranked = []
        for number, entry in enumerate(self._waiting.values()):
            urgent = entry.urgent or self._passed[entry.id] >= PATIENCE
            ranked.append(((not urgent, turns[entry.owner], number), entry))
            turns[entry.owner] += 1
        return [entry for _, entry in sorted(ranked, key=lambda pair: pair[0])]


def places(queues: Iterable[Queue]) -> dict[str, int]:
    """Return the place of each entry that waits, from 1 in each queue."""
    return {entry.id: place for queue in queues for place, entry in enumerate(queue.order(), 1)}
