"""Which requests to models count, and which may have been charged without an answer.

The bill and the budgets both follow these rules, so that their sums agree.
"""

from __future__ import annotations

from typing import NamedTuple

from hilum.events import (
    CallDone,
    CallStarted,
    Event,
    ModelFailed,
    ModelStarted,
    ModelUsed,
    RunEnded,
    RunsCutOff,
    SessionReopened,
)
from hilum.messages import check_number

# The purpose of the event that charges a sub-agent's usage to the agent that started it. The usage
# was counted when the sub-agent's model answered.
SUB_AGENT = "agent "
# Failures after which the provider may have charged for the request, although it sent no counts.
MAYBE_CHARGED = frozenset(("server", "broken", "timeout", "too_slow", "runaway"))

# Tools of hilum-agents whose calls last until a sub-agent has answered.
WAITING_TOOLS = frozenset(("task",))

# The purpose of the requests of another program that works as an agent (see `hilum_acp.guests`).
GUEST = "guest"
# The beginning of the names of models that are such programs.
GUEST_MODELS = "guest/"


def request_seconds(event: ModelUsed) -> float:
    """Return the seconds that a plugin's request adds to the time of a session.

    The program of an agent makes its requests while hilum waits for its answer or for its next
    call, whose times contain those of the requests.
    """
    return 0.0 if event.purpose == GUEST else check_number(event.seconds)


def is_delegated(model: str) -> bool:
    """Return whether the "model" is the program of an agent.

    hilum's request to the program then goes to no provider. The program's own requests count.
    """
    return model.startswith(GUEST_MODELS)


class Unanswered(NamedTuple):
    """A request without an answer, for which the provider may charge.

    Attributes:
        sent: The event that reported the request.
        at: Unix time at which it ended.
        reason: The kind of failure (see ``ModelError``), or ``stopped``.
    """

    sent: ModelStarted
    at: float
    reason: str

    @property
    def seconds(self) -> float:
        """Seconds from the request to its end."""
        return max(self.at - self.sent.at, 0.0)

    @property
    def estimate(self) -> int:
        """The estimated number of tokens in the request that the provider may charge for."""
        return 0 if is_delegated(self.sent.model) else check_number(self.sent.estimate)


class SentRequests:
    """The requests of agents that were sent and have not ended."""

    def __init__(self) -> None:
        self._sent: dict[str, ModelStarted] = {}
        # By agent, when the process that had sent the request ended.
        self._cut_off: dict[str, float] = {}

    def apply(self, event: Event) -> Unanswered | None:
        """Fold an event of a request, and return the request that ends without an answer, if any.

        Call ``answer`` for answers.
        """
        match event:
            case ModelStarted():
                # A process that was killed left an earlier request without an answer.
                unanswered = self._end(event, "stopped")
                self._sent[event.agent] = event
                return unanswered
            case ModelFailed():
                unanswered = self._end(event, event.kind)
                return unanswered if event.kind in MAYBE_CHARGED else None
            case RunEnded():
                return self._end(event, "stopped")
            case RunsCutOff() | SessionReopened() if event.last:
                for agent in self._sent:
                    self._cut_off.setdefault(agent, event.last)
        return None

    def answer(self, agent: str) -> ModelStarted | None:
        """End the request of an agent, which was answered, and return it."""
        self._cut_off.pop(agent, None)
        return self._sent.pop(agent, None)

    def _end(self, event: Event, reason: str) -> Unanswered | None:
        # The time in which no process had the session open is not part of the request.
        at = self._cut_off.pop(event.agent, event.at)
        sent = self._sent.pop(event.agent, None)
        return None if sent is None else Unanswered(sent, at, reason)


class CallTimes:
    """The seconds that calls of tools add to the time of a session."""

    def __init__(self) -> None:
        # The starts of the calls that are running, by agent and id of the call.
        self._started: dict[tuple[str, str], float] = {}
        # The seconds for which calls ran in processes that were killed.
        self._cut_off: dict[tuple[str, str], float] = {}

    def apply(self, event: Event) -> None:
        """Fold an event. Call ``end`` for the ends of calls."""
        match event:
            case CallStarted():
                self._started[event.agent, event.call.id] = event.at
            case RunsCutOff() | SessionReopened() if event.last:
                for key, start in self._started.items():
                    spent = max(event.last - start, 0.0)
                    self._cut_off[key] = self._cut_off.get(key, 0.0) + spent
                self._started.clear()

    def end(self, event: CallDone) -> float:
        """Return the seconds for which a call ran, in all processes that ran it.

        A call that waits for a sub-agent adds nothing, because the sub-agent's own requests and
        calls count.
        """
        key = (event.agent, event.result.call_id)
        self._started.pop(key, None)
        cut_off = self._cut_off.pop(key, 0.0)
        if event.result.name in WAITING_TOOLS:
            return 0.0
        return check_number(event.seconds) + check_number(cut_off)
