"""Turn the user's lasting approvals into rules."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import trio
from hilum import HilumError, Session
from hilum.events import ApprovalAnswered, ApprovalAsked, Delta, Event

from hilum_guard.rules import rule_files


class LastingApprovals:
    """The approvals in a session that outlast the session.

    Args:
        session: The session.
        config: The user's configuration folder.
    """

    def __init__(self, session: Session, config: Path) -> None:
        self._session = session
        self._config = config
        # Scopes that the guard offered, by call, each with whether a rule may make later questions
        # unnecessary.
        self._offered: dict[tuple[str, str], bool] = {}
        self._asked: dict[str, ApprovalAsked] = {}
        self._read = 0
        self._wanted = trio.Event()

    def offer(self, call_id: str, scope: str, *, can_be_kept: bool) -> None:
        """Record the scope that an approval question offers.

        Args:
            call_id: The call that the question is about.
            scope: The rule that a lasting approval would create.
            can_be_kept: Whether that rule would make later questions unnecessary.
        """
        self._offered[call_id, scope] = can_be_kept
        if not self._wanted.is_set():
            # The question and its answer are logged later, so earlier events need not be read.
            self._read = self._session.journal.last
            self._wanted.set()

    def can_keep(self, call_id: str, scope: str) -> bool:
        """Return whether a lasting approval of a call would be stored as a rule."""
        return self._offered.get((call_id, scope), False)

    async def follow(self) -> None:
        """Turn lasting approvals into rules, until cancelled."""
        await self._wanted.wait()  # most sessions never ask, so they need not read all events
        async for event in self._session.events(self._read):
            if not isinstance(event, Delta):
                await self._take(event)

    async def finish(self) -> None:
        """Turn the most recent lasting approvals into rules."""
        while self._wanted.is_set() and (events := self._session.journal.since(self._read)):
            for event in events:
                await self._take(event)

    async def _take(self, event: Event) -> None:
        self._read = event.seq
        if isinstance(event, ApprovalAsked):
            self._asked[event.id] = event
        elif isinstance(event, ApprovalAnswered):
            asked = self._asked.pop(event.id, None)
            if asked and event.accepted and event.remember == "always":
                await self._keep(asked)

    async def _keep(self, asked: ApprovalAsked) -> None:
        rule = asked.scope
        # Only scopes that this guard offered become rules, because the scopes of another gate may
        # have another meaning.
        can_be_kept = self._offered.get((asked.call.id, rule))
        if can_be_kept is None:  # another gate asked the question
            return
        if not can_be_kept:
            why = "because of another rule or a secret in it, approval is needed each time"
            self._note_not_kept(rule, f": {why} (hilum permissions list).")
            return
        root = self._session.workspace.root
        try:
            await trio.to_thread.run_sync(rule_files.add, self._config, root, "allow", rule)
        except HilumError as error:
            self._note_not_kept(rule, f". {error}")
            return
        file = rule_files.user_file(self._config)
        say = (
            f"Saved as a rule for this folder in {file}: allow {rule}. hilum permissions remove"
            " deletes it."
        )
        self._session.note("guard.rule_kept", say=say, rule=rule, file=str(file))

    def find_stored(self, scopes: Collection[str]) -> list[str]:
        """Return which scopes are stored as rules of the user for the workspace. Blocks."""
        found = rule_files.load(self._config, self._session.workspace.root, kind=self._session.kind)
        own = {rule.text for rule in found.rules if rule.effect == "allow" and not rule.everywhere}
        return [scope for scope in scopes if scope in own]

    def remove_stored(self, scope: str) -> bool:
        """Remove the rule for a scope, and return whether there was one. Blocks."""
        return rule_files.remove(self._config, self._session.workspace.root, "allow", scope)

    def _note_not_kept(self, rule: str, why: str) -> None:
        say = f"{rule} was not saved as a rule{why}"
        self._session.note("guard.rule_not_kept", say=say, rule=rule)
