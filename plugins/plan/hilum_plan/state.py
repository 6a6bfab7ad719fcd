"""An agent's plan, folded from the session's events: its todo list, calls and proposal."""

from __future__ import annotations

import msgspec
from hilum import events as ev
from hilum.events import Event

from hilum_plan.items import Item, ItemCall

TODOS = "plan.todos"
LEFT = "plan.left_over"
PROPOSED = "plan.proposed"
ACCEPTED = "plan.accepted"
REJECTED = "plan.rejected"
PLAN_MODE = "plan"
OWN_TOOLS = ("todo_write", "ask_question")


class Proposal(msgspec.Struct, frozen=True):
    """A plan made in plan mode that awaits the user's decision.

    Attributes:
        run: The run that made the plan.
        text: Its answer.
    """

    run: str
    text: str


class AgentPlan(msgspec.Struct, eq=False):
    """An agent's plan; only ``apply`` changes it.

    Attributes:
        items: The list, without the items' calls.
        calls: Calls made while an item was in progress, keyed by the item's id and time of
            creation.
        run: The current run of the agent; empty between runs.
        written: The run in which the model last changed the list.
        accepted: The run that carries out the accepted plan.
        mode: The mode for which the agent's prompt was last built.
        rounds: Number of rounds of calls since the model last changed the list.
        dropped: Items that were cancelled by a stop, about which the model has not been informed
            yet.
        proposal: A plan that awaits the user's decision.
        owed: Name of the event that must still be written after the last run; empty for none.
        ended: The run that ended last.
        compacted: Whether the conversation was compacted since the model last changed the list, so
            that the model no longer sees the finished items.
        child: Whether this is a sub-agent, whose results go to its parent and are not proposals.
    """

    items: tuple[Item, ...] = ()
    # msgspec copies these empty defaults for each instance.
    calls: dict[tuple[str, float], list[ItemCall]] = {}
    run: str = ""
    written: str = ""
    accepted: str = ""
    mode: str = ""
    rounds: int = 0
    dropped: tuple[Item, ...] = ()
    proposal: Proposal | None = None
    owed: str = ""
    ended: str = ""
    compacted: bool = False
    child: bool = False
    _running: dict[str, ItemCall] = {}

    @property
    def open(self) -> list[Item]:
        """The unfinished items."""
        return [item for item in self.items if item.open]

    def items_with_calls(self) -> tuple[Item, ...]:
        """Return the items with their calls."""
        found = []
        for item in self.items:
            calls = tuple(self.calls.get((item.id, item.made), ()))
            found.append(msgspec.structs.replace(item, calls=calls))
        return tuple(found)

    def apply(self, event: Event) -> None:
        """Apply an event of this agent."""
        match event:
            case ev.AgentStarted():
                self.child = bool(event.parent)
            case ev.RunStarted():
                self._start_run(event)
            # When the mode changes, the prompt is frozen again.
            case ev.PromptFrozen():
                self.mode = event.mode or self.mode
            case ev.CallStarted(call=call) if call.name not in OWN_TOOLS:
                self._start_call(call.id, call.name)
            case ev.CallDone():
                self._finish_call(event)
            case ev.Compacted(upto=upto) if upto:
                self.compacted = True
            case ev.RoundEnded():
                # If a plugin objected to an answer, the round had no calls that could have changed
                # the list.
                self.rounds += not event.objected
            # The end of an earlier run may be written after the next one has started.
            case ev.RunEnded() if event.run == self.run:
                self._end_run(event)
            case ev.PluginEvent():
                self._apply_own(event)

    def _start_run(self, event: ev.RunStarted) -> None:
        self.run = event.run
        self.mode = event.mode or self.mode
        self.owed = ""
        self.proposal = None
        self.dropped = ()
        self.rounds = 0

    def _start_call(self, identity: str, name: str) -> None:
        if identity in self._running:
            return  # a resumed session starts the call again
        call = ItemCall(identity, name)
        self._running[identity] = call
        for item in self.items:
            if item.status == "in_progress":
                self.calls.setdefault((item.id, item.made), []).append(call)

    def _finish_call(self, event: ev.CallDone) -> None:
        call = self._running.pop(event.result.call_id, None)
        if call is not None:
            call.done = True
            call.code = event.result.code
            call.seconds = event.seconds

    def _end_run(self, event: ev.RunEnded) -> None:
        self.run = ""
        self.ended = event.run
        if event.state == "stopped":
            self.dropped = tuple(self.open)
            # The event's time is used, not the current time, because folding the log again must
            # produce the same list.
            self.items = cancel_open(self.items, event.at)
            self.owed = TODOS if self.dropped else ""
        # Only a completed run makes a proposal: an interrupted one has no plan to accept.
        elif event.state == "completed" and self.mode == PLAN_MODE and not self.child:
            self.proposal = Proposal(event.run, event.text)
            self.owed = PROPOSED
        elif self.open:
            self.owed = LEFT

    def _apply_own(self, event: ev.PluginEvent) -> None:
        if event.name == TODOS:
            self._apply_todos(event)
        elif event.name in (ACCEPTED, REJECTED):
            self.proposal = None
            if event.name == ACCEPTED:
                self.accepted = event.run
        if event.name == self.owed:
            self.owed = ""

    def _apply_todos(self, event: ev.PluginEvent) -> None:
        try:
            self.items = msgspec.convert(event.data.get("items"), tuple[Item, ...])
        except msgspec.ValidationError:  # the event is from a later version or another plugin
            return
        if event.data.get("cause") == "model":
            self.written = event.run
            self.rounds = 0
            self.compacted = False
        # Otherwise, calls of removed items would accumulate in long sessions.
        kept = {(item.id, item.made) for item in self.items}
        self.calls = {key: calls for key, calls in self.calls.items() if key in kept}


def cancel_open(items: tuple[Item, ...], now: float) -> tuple[Item, ...]:
    """Return the items, with all open items cancelled."""
    return tuple(item.with_status("cancelled", now) if item.open else item for item in items)
