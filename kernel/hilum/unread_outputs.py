"""Outputs of the user's commands that the main agent has not read.

They belong to the session, so that the main agent reads each of them once, with the next prompt,
whichever face the command and the prompt come from.
"""

from __future__ import annotations

from collections.abc import Mapping

MAX_UNREAD = 120_000
"""Number of characters of all outputs that the agent reads with one prompt."""


class UnreadOutputs:
    """The outputs that the main agent reads with its next prompt, oldest first."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def __contains__(self, identity: str) -> bool:
        return identity in self._texts

    def add(self, identity: str, text: str) -> int:
        """Add an output, and remove the oldest ones if all together are too long.

        Args:
            identity: Id of the command.
            text: The command and its output, in the form in which the agent reads them.

        Returns:
            The number of removed outputs. The newest one always stays.
        """
        self._texts[identity] = text
        return self._forget_oldest()

    def take(self) -> Mapping[str, str]:
        """Remove and return all outputs, by id."""
        taken = self._texts
        self._texts = {}
        return taken

    def put_back(self, taken: Mapping[str, str]) -> None:
        """Add outputs again before all others, because no agent has read them."""
        self._texts = {**taken, **self._texts}
        self._forget_oldest()

    def _forget_oldest(self) -> int:
        forgotten = 0
        while len(self._texts) > 1 and sum(map(len, self._texts.values())) > MAX_UNREAD:
            del self._texts[next(iter(self._texts))]
            forgotten += 1
        return forgotten
