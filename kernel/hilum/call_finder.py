"""Finding a failed call in the log, in order to repeat it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import trio
from msgspec.structs import replace

from hilum import events as ev
from hilum.agents import Agent
from hilum.deferred_tools import unwrap, wrap
from hilum.errors import E_BAD_ARGS, E_BUSY, E_UNKNOWN, ToolError, UsageError
from hilum.messages import ToolCall, ToolResult
from hilum.redaction import PLACEHOLDER, WITHHELD
from hilum.refusals import describe_call

if TYPE_CHECKING:
    from hilum.session import Session

_LOST = "Its arguments contained a secret, which is not stored."


class CallFinder:
    """The last call with a certain id, as found in the events of a session.

    Models may use the id of an earlier call again.

    Args:
        identity: The id of the call.

    Attributes:
        agent: Name of the agent that made the call.
        call: The call as in the log; ``None`` if there is none with this id.
        result: Its result; ``None`` while it has not ended.
    """

    def __init__(self, identity: str) -> None:
        self.agent: str = ""
        self.call: ToolCall | None = None
        self.result: ToolResult | None = None
        self._identity = identity
        self._has_secret = False
        self._approval = ""
        self._edited: str | None = None

    def apply_all(self, events: Iterable[ev.Event]) -> None:
        """Apply events of the session, in order."""
        for event in events:
            self._apply(event)

    def _apply(self, event: ev.Event) -> None:
        if isinstance(event, ev.ModelAnswered):
            for call in event.message.calls:
                if call.id == self._identity:
                    self._begin(event.agent, call, has_secret=call.id in event.withheld)
        elif isinstance(event, ev.RunStarted):
            if event.repeats is not None and event.repeats.call.id == self._identity:
                self._begin(event.agent, event.repeats.call, has_secret=False)
        elif event.agent != self.agent:
            return
        elif isinstance(event, ev.ApprovalAsked):
            if event.call.id == self._identity:
                self._approval = event.id
        elif isinstance(event, ev.ApprovalAnswered):
            if event.id == self._approval:
                self._edited = event.arguments
        elif isinstance(event, ev.CallDone) and event.result.call_id == self._identity:
            self.result = event.result

    def _begin(self, agent: str, call: ToolCall, *, has_secret: bool) -> None:
        self.agent = agent
        self.call = call
        self.result = None
        self._has_secret = has_secret
        self._approval = ""
        self._edited = None

    def copy_call(self, identity: str) -> ToolCall:
        """Return the call to repeat, with the arguments that the user wrote if there are any.

        Args:
            identity: The id of the new call.

        Raises:
            UsageError: There is no call with this id, it has not failed, or its arguments are not
                in the log.
        """
        call = self.call
        if call is None:
            raise UsageError(
                f"There is no call {self._identity!r} in this session.",
                code=E_UNKNOWN,
                hint="The id is that of a call in this session, as in its events.",
            )
        title = describe_call(call)
        if self.result is None:
            hint = "Wait until it has ended."
            raise UsageError(f"`{title}` has not ended yet.", code=E_BUSY, hint=hint)
        if not self.result.code:
            hint = "Only failed calls can be repeated. Ask the agent to do it again."
            raise UsageError(f"`{title}` did not fail.", code=E_BAD_ARGS, hint=hint)
        if self._edited is not None:
            call = _with_arguments(call, self._edited)
        is_incomplete = PLACEHOLDER.search(call.arguments) or WITHHELD in call.arguments
        if self._has_secret or is_incomplete or call.problem:
            problem = f"`{title}` cannot be repeated. {call.problem or _LOST}"
            raise UsageError(problem, code=E_BAD_ARGS, hint="Ask the agent to call it again.")
        # A vendor's fields belong to the response that contained the call.
        return ToolCall(identity, call.name, call.arguments)


async def find_call(session: Session, identity: str) -> CallFinder:
    """Find the last call with a certain id in the log of a session.

    Args:
        session: The session.
        identity: The id of the call.
    """
    journal = session.journal
    found = CallFinder(identity)
    last = 0
    while last < journal.last:
        if journal.has_in_memory(last):
            page: Sequence[ev.AnyEvent] = journal.since(last)
        else:
            # The store reads in a thread, so that other tasks can run meanwhile.
            page = await session.kernel.store.read(session.id, last)
        if not page:
            break
        found.apply_all(page)
        last = page[-1].seq
        await trio.lowlevel.checkpoint()
    return found


def _with_arguments(call: ToolCall, arguments: str) -> ToolCall:
    """Return a call with the arguments that the user wrote for its tool."""
    try:
        inner = unwrap(call)
    except ToolError:
        return call
    return wrap(call, replace(inner, arguments=arguments))


def check_not_repeated(agent: Agent, identity: str) -> None:
    """Check that a call is not being repeated already.

    Raises:
        UsageError: The repeated call waits, or it is running.
    """
    conversation = agent.conversation
    repeated = [prompt.repeats for prompt in conversation.queue]
    if conversation.run is not None:
        repeated.append(conversation.run.repeats)
    if any(repeat is not None and repeat.previous == identity for repeat in repeated):
        raise UsageError(
            "The call is being repeated already.", code=E_BUSY, hint="Wait until it has ended."
        )
