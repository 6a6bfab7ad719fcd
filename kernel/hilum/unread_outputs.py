"""Outputs of the user's commands that the main agent has not read.

They belong to the session, so that the main agent reads each of them once, with the next prompt,
whichever face the command and the prompt come from. The log has them, too, so that a session that is
closed before the next prompt still has them when it is opened again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

ATTACHED = "shell_line.attached"
"""Name of the event that stores an output; its data are the arguments of ``UnreadOutputs.add``."""

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

    def restore(self, data: Mapping[str, Any]) -> None:
        """Add the output of an event ``ATTACHED``.

        Data of another form are ignored, because any plugin can write an event with this name.
        """
        identity = data.get("identity")
        text = data.get("text")
        if isinstance(identity, str) and isinstance(text, str):
            self.add(identity, text)

    def remove(self, identities: Iterable[str]) -> None:
        """Remove outputs that a prompt in the log contains."""
        for identity in identities:
            self._texts.pop(identity, None)

    def _forget_oldest(self) -> int:
        forgotten = 0
        while len(self._texts) > 1 and sum(map(len, self._texts.values())) > MAX_UNREAD:
            del self._texts[next(iter(self._texts))]
            forgotten += 1
        return forgotten
