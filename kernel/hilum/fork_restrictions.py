"""Restrictions that a copy of a session takes over from what happened after the copied events.

A copy of earlier events must not allow more than the session allows now: an approval that the user
has revoked stays revoked, and a stricter approval policy stays in force. Otherwise anybody who may
copy a session could undo the user's decision.
"""

from __future__ import annotations

from collections.abc import Iterable

from hilum.events import AnyEvent, GrantRevoked, SessionChanged

# The approval policies, from the strictest one to the one that allows most.
_FROM_STRICT = ("readonly", "ask_first", "auto")


class ForkRestrictions:
    """Collects the restrictions of a session that a copy of its first events has to keep.

    Args:
        upto: Sequence number of the last event that is copied; ``None`` if all are copied.
        policy: The approval policy of the settings, which is in force until an event changes it.
    """

    def __init__(self, upto: int | None, policy: str) -> None:
        self._upto = upto
        self._revoked: list[GrantRevoked] = []
        self._copied_policy = policy
        self._policy = policy

    def apply(self, events: Iterable[AnyEvent]) -> None:
        """Apply events of the original session, in order, copied or not."""
        for event in events:
            is_copied = self._upto is None or event.seq <= self._upto
            if isinstance(event, GrantRevoked) and not is_copied:
                self._revoked.append(event)
            elif isinstance(event, SessionChanged) and event.approve is not None:
                self._policy = event.approve
                if is_copied:
                    self._copied_policy = event.approve

    def events(self) -> list[AnyEvent]:
        """Return the events that restrict the copy, with the sequence numbers of the original."""
        found: list[AnyEvent] = [*self._revoked]
        if _FROM_STRICT.index(self._policy) < _FROM_STRICT.index(self._copied_policy):
            found.append(SessionChanged(approve=self._policy))
        return found
