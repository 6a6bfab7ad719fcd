"""The plan of an agent as a fold over the session's events: its list, what was done for each item,
what it proposes.
"""

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
    """A plan that was worked out in plan mode and waits for the user: the run that made it, and its
    answer.
    """

    run: str
    text: str


class AgentPlan(msgspec.Struct, eq=False):
    """See the module; ``apply`` is the only thing that changes it.

    Attributes:
        items: The list, without the items' calls.
        calls: Calls made while an item was in progress, by the item's id and when it was made.
        run: The run the agent is on, empty between runs.
        written: The run in which the list was last written.
        accepted: The run in which an accepted plan is carried out.
        mode: The mode its prompt was last built for.
        rounds: Rounds of calls since the list was last written.
        dropped: Items that a stop has cancelled, which the model was not told of.
        proposal: A plan that waits for the user.
        owed: The event that is yet to tell what the end of a run did, empty for none.
        ended: The run that ended last.
        child: Whether it is a sub-agent: what it works out goes to its parent, and is no proposal.
    """

    items: tuple[Item, ...] = ()
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
    child: bool = False
    _running: dict[str, ItemCall] = {}

    @property
    def open(self) -> list[Item]:
        """The items that are not over."""
        return [item for item in self.items if item.open]

    def shown(self) -> tuple[Item, ...]:
        """The items with their calls."""
        replace = msgspec.structs.replace
        return tuple(
            replace(item, calls=tuple(self.calls.get((item.id, item.made), ())))
            for item in self.items
        )

    def apply(self, event: Event) -> None:
        """Fold an event of this agent's."""
        match event:
            case ev.AgentStarted():
                self.child = bool(event.parent)
            case ev.RunStarted():
                self.run = event.run
                self.mode = event.mode or self.mode
                self.owed = ""
                self.proposal = None
                self.dropped = ()
                self.rounds = 0
            case ev.LayersSealed():
                self.mode = event.mode or self.mode
            case ev.CallStarted(call=call) if (
                call.name not in OWN_TOOLS and call.id not in self._running
            ):
                self._running[call.id] = one = ItemCall(call.id, call.name)
                for item in self.items:
                    if item.status == "in_progress":
                        self.calls.setdefault((item.id, item.made), []).append(one)
            case ev.CallDone(result=result) if ended := self._running.pop(result.call_id, None):
                ended.done = True
                ended.code = result.code
                ended.seconds = event.seconds
            case ev.RoundEnded():
                self.rounds += not event.objected
            case ev.RunEnded() if event.run == self.run:
                self._run_ended(event)
            case ev.PluginEvent():
                self._own(event)

    def _run_ended(self, event: ev.RunEnded) -> None:
        self.run = ""
        self.ended = event.run
        if event.state == "stopped":
            self.dropped = tuple(self.open)
            self.items = tuple(
                item.moved("cancelled", event.at) if item.open else item for item in self.items
            )
            self.owed = TODOS if self.dropped else ""
        elif event.state == "completed" and self.mode == PLAN_MODE and not self.child:
            self.proposal = Proposal(event.run, event.text)
            self.owed = PROPOSED
        elif self.open:
            self.owed = LEFT

    def _own(self, event: ev.PluginEvent) -> None:
        if event.name == TODOS:
            try:
                self.items = msgspec.convert(event.data.get("items"), tuple[Item, ...])
            except msgspec.ValidationError:  # of a later version, or of somebody else
                return
            if event.data.get("cause") == "model":
                self.written = event.run
                self.rounds = 0
            kept = {(item.id, item.made) for item in self.items}
            self.calls = {key: calls for key, calls in self.calls.items() if key in kept}
        elif event.name in (ACCEPTED, REJECTED):
            self.proposal = None
            self.accepted = event.run if event.name == ACCEPTED else self.accepted
        if event.name == self.owed:
            self.owed = ""
