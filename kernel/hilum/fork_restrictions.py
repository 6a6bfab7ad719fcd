"""Restrictions that a copy of a session takes over from what happened after the copied events.

A copy of earlier events must not allow more than the session allows now: an approval that the user
has revoked stays revoked, and a stricter approval policy stays in force. Otherwise anybody who may
copy a session could undo the user's decision. A copy for somebody who may not approve calls has no
lasting approvals at all, because a later revocation in the original does not reach the copy.
"""

from __future__ import annotations

from collections.abc import Iterable

from hilum.events import (
    AnyEvent,
    ApprovalAnswered,
    ApprovalAsked,
    GrantRevoked,
    SessionChanged,
)

# The approval policies, from the strictest one to the one that allows most.
_FROM_STRICT = ("readonly", "ask_first", "auto")


class ForkRestrictions:
    """Collects the restrictions of a session that a copy of its first events has to keep.

    Args:
        upto: Sequence number of the last event that is copied; ``None`` if all are copied.
        policy: The approval policy of the settings, which is in force until an event changes it.
        grants: Whether the copy keeps the lasting approvals that were not revoked.
    """

    def __init__(self, upto: int | None, policy: str, *, grants: bool = True) -> None:
        self._upto = upto
        self._keeps_grants = grants
        self._asked: dict[str, ApprovalAsked] = {}
        self._granted: dict[tuple[str, str], None] = {}
        self._revoked: list[GrantRevoked] = []
        self._copied_policy = policy
        self._policy = policy

    def apply(self, events: Iterable[AnyEvent]) -> None:
        """Apply events of the original session, in order, copied or not."""
        for event in events:
            is_copied = self._upto is None or event.seq <= self._upto
            if is_copied:
                self._apply_approval(event)
            if isinstance(event, GrantRevoked) and not is_copied:
                self._revoked.append(event)
            elif isinstance(event, SessionChanged) and event.approve is not None:
                self._policy = event.approve
                if is_copied:
                    self._copied_policy = event.approve

    def assume_strictest(self) -> None:
        """Restrict the copy as far as possible, because the later events cannot be read."""
        self._keeps_grants = False
        self._policy = _FROM_STRICT[0]

    def _apply_approval(self, event: AnyEvent) -> None:
        """Record a copied event that gives or revokes a lasting approval."""
        if isinstance(event, ApprovalAsked):
            self._asked[event.id] = event
        elif isinstance(event, GrantRevoked):
            self._granted.pop((event.agent, event.scope), None)
        elif isinstance(event, ApprovalAnswered):
            asked = self._asked.pop(event.id, None)
            if asked is not None and event.accepted and event.remember != "once":
                self._granted[event.agent, asked.scope or asked.call.name] = None

    def events(self) -> list[AnyEvent]:
        """Return the events that restrict the copy, with the sequence numbers of the original."""
        found: list[AnyEvent] = [*self._revoked]
        if not self._keeps_grants:
            # A lasting approval belongs to the agent that asked for it.
            found = [GrantRevoked(agent=agent, scope=scope) for agent, scope in self._granted]
        if _FROM_STRICT.index(self._policy) < _FROM_STRICT.index(self._copied_policy):
            found.append(SessionChanged(approve=self._policy))
        return found
