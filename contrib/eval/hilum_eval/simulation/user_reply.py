"""What a user answers."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Reply:
    """What a user answers to a question.

    Args:
        text: ``allow``, ``reject``, or the text of an answer.
        reason: The reason for a rejection, which the agent reads.
        delay: Seconds until the user answers.
        message: What the user writes to the agent after the answer, during the run.
    """

    text: str = "allow"
    reason: str = ""
    delay: float = 0.0
    message: str = ""
