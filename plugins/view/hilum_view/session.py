"""The view of a session: a fold over its events and streaming output.

This module does not read the clock, files or the terminal, so the same events create the same view,
both live and after a resume. Unknown events are skipped. Any prefix of a log is a valid input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
from hilum import events as ev
from hilum.errors import BY_POLICY, E_DENIED, RULE, UNATTENDED
from hilum.messages import Image, Thinking, ToolCall, ToolResult, Usage

from hilum_view import agents, plan
from hilum_view.agents import Actor, AgentView, AgentViews
from hilum_view.budgets import SPENT, BudgetViews
from hilum_view.entries import (
    Answer,
    AnyEntry,
    Card,
    ContextSource,
    Notice,
    Outcome,
    Prompt,
    StreamedText,
)
from hilum_view.formatting import changed_files, describe_call, parse_arguments
from hilum_view.images import ImageFacts, describe_images
from hilum_view.notices import describe_retry, make_notice_text
from hilum_view.usage import Totals, usage_of
from hilum_view.waiting import Waiting

Part = Literal[
    "session", "entries", "actors", "agents", "todos", "proposal", "waiting", "usage", "failures"
]
# Maximum number of characters to keep from a running call's output.
MAX_OUTPUT = 4_000
# Maximum length of an agent's title, the same as in the ``agents`` plugin.
MAX_TITLE = 80


class Changes(msgspec.Struct, frozen=True):
    """The changes that an event caused.

    Attributes:
        parts: The parts of the view that changed.
        entries: The entries that were added or changed, oldest first.
        agent: The agent whose status or queue position changed.
    """

    parts: frozenset[Part] = frozenset()
    entries: tuple[AnyEntry, ...] = ()
    agent: AgentView | None = None

    @property
    def card(self) -> Card | None:
        """The call that began or ended."""
        for entry in self.entries:
            if isinstance(entry, Card) and entry.state in ("running", "completed", "failed"):
                return entry
        return None

    @property
    def notice(self) -> Notice | None:
        """The notice that was added."""
        return next((entry for entry in self.entries if isinstance(entry, Notice)), None)


_NOTHING = Changes()
# The fields of a snapshot, in order. `entries`, `agents`, `waiting` and `budgets` become plain lists
# in a snapshot.
_SNAPSHOT_FIELDS = (
    "id",
    "workspace",
    "kind",
    "forked",
    "mode",
    "model",
    "approve",
    "seq",
    "lead",
    "entries",
    "actors",
    "agents",
    "waiting",
    "totals",
    "budgets",
    "failures",
    "files",
    "redacted",
    "unattended",
    "denied_rules",
    "denied_by_policy",
    "effects",
)


class SessionView:
    """The view of a session. Apply all events in order, then read the attributes.

    Only ``apply`` changes the attributes; a face may set ``lead``.

    Args:
        lead: The agent that the user talks to.

    Attributes:
        id: Id of the session.
        workspace: Its folder.
        kind: Its kind.
        forked: Id of the session that this one was forked from.
        mode: Mode of the session; empty until the mode changes.
        model: Model of the session; empty until the model changes.
        approve: Approval policy of the session; empty until the policy changes.
        seq: Number of the last event.
        entries: All entries, oldest first; entries are never removed.
        cards: The tool calls among the entries.
        actors: The session's agents, by name.
        agents: All starts of agents.
        waiting: Approvals and questions that are waiting for the user.
        totals: Total tokens, cost and number of runs for all agents.
        budgets: The budgets that have limits, and how much of each is spent.
        failures: Failures of plugins.
        files: Paths of files changed by calls, in order of their first change.
        files_seq: Number of the event that recorded the last change of files, or its undo.
        redacted: Names of the secrets that were replaced in prompts.
        unattended: Number of calls that were denied because nobody could approve them.
        denied_rules: Rules that would have allowed the denied calls.
        denied_by_policy: Whether the approval policy ``auto`` would have let one of them run.
        effects: Number of successful calls that had effects.
    """

    def __init__(self, lead: str = "main") -> None:
        self.lead = lead
        self.id = ""
        self.workspace = ""
        self.kind = ""
        self.forked = ""
        self.mode = ""
        self.model = ""
        self.approve = ""
        self.seq = 0
        self.entries: list[AnyEntry] = []
        self.cards: list[Card] = []
        self.actors: dict[str, Actor] = {}
        self.agents = AgentViews()
        self.waiting = Waiting()
        self.totals = Totals()
        self.budgets = BudgetViews()
        self.failures: list[ev.PluginFault] = []
        self.files: list[str] = []
        self.files_seq = 0
        self.redacted: list[str] = []
        self.unattended = 0
        self.denied_rules: list[str] = []
        self.denied_by_policy = False
        self.effects = 0
        self._outcomes: dict[str, Outcome] = {}
        # What the user typed, by run, if a plugin replaced the text of the prompt.
        self._typed: dict[str, str] = {}
        # The images of queued prompts by run; the event of the run's start does not have them.
        self._images: dict[str, tuple[ImageFacts, ...]] = {}
        self._answers: dict[str, Answer] = {}
        self._cards: dict[tuple[str, str], Card] = {}
        # The cards that have not ended, kept separately to avoid a search through all cards.
        self._open: dict[tuple[str, str], Card] = {}
        self._known_files: set[str] = set()
        self._parts: set[Part] = set()
        self._changed: list[AnyEntry] = []
        self._moved: AgentView | None = None

    # --- reading ----------------------------------------------------------------------------------

    @property
    def lead_actor(self) -> Actor:
        """The agent that the user talks to."""
        return self.actors.get(self.lead) or Actor(name=self.lead)

    @property
    def outcome(self) -> Outcome | None:
        """The end of the last run of ``lead``; ``None`` before the first run and during runs."""
        return self._outcomes.get(self.lead)

    def running(self, agent: str | None = None) -> list[Card]:
        """Return the running calls of one agent or of all agents."""
        running = [card for card in self._open.values() if card.state == "running"]
        if agent is None:
            return running
        return [card for card in running if card.agent == agent]

    @property
    def open_cards(self) -> list[Card]:
        """The calls that have not ended, oldest first."""
        return list(self._open.values())

    def streaming(self, agent: str = "") -> Answer | None:
        """Return an agent's streaming answer; the default agent is ``lead``."""
        return self._answers.get(agent or self.lead)

    def name_of(self, agent: str) -> str:
        """Return an agent's display name; empty for ``lead``."""
        if agent == self.lead:
            return ""
        view = self.agents.of_actor(agent)
        return view.name if view else agent

    def is_covered(self, card: Card) -> bool:
        """Return whether a call need not be shown because its effect is shown elsewhere."""
        # This check comes before parsing, because faces use this method in each frame, and
        # arguments may be very long.
        if card.code or card.call.name not in ("todo_write", "task", "handover"):
            return False
        arguments = parse_arguments(card.call.arguments)
        if arguments is None:
            return False
        if card.call.name == "todo_write":
            return card.agent == self.lead
        title = ""
        if card.call.name == "task":
            title = " ".join(str(arguments.get("description", "")).split())[:MAX_TITLE]
        return self.agents.has_started(card.agent, title)

    def snapshot(self, entries: int = 0) -> dict[str, Any]:
        """Return the view as plain data, for example for a newly opened web page.

        Args:
            entries: Maximum number of entries, of which the newest are kept; 0 for all.
        """
        data = {name: getattr(self, name) for name in _SNAPSHOT_FIELDS}
        data["entries"] = self.entries[-entries:] if entries else self.entries
        data["agents"] = list(self.agents.all.values())
        data["waiting"] = list(self.waiting)
        data["budgets"] = list(self.budgets.all.values())
        # The snapshot is plain data, so that a later change to the view does not change the
        # snapshot.
        plain: dict[str, Any] = msgspec.to_builtins(data, enc_hook=_encode)
        return plain

    # --- folding ----------------------------------------------------------------------------------

    def apply(self, item: ev.Event | ev.Delta) -> Changes:
        """Apply an event or a chunk of streaming output, and return the changes."""
        if isinstance(item, ev.Delta):
            return self._stream(item)
        self.seq = max(self.seq, item.seq)
        fold = _FOLDS.get(type(item))
        if fold is not None:
            fold(self, item)
        used = usage_of(item)
        if used is not None:
            self._add_usage(item, used)
        self.totals.apply(item)
        self._add_notice(item)
        # Many events change nothing; all of them share one object.
        if not self._parts:
            return _NOTHING
        changes = Changes(frozenset(self._parts), _in_order(self._changed), self._moved)
        self._parts = set()
        self._changed = []
        self._moved = None
        return changes

    def apply_all(self, events: Sequence[ev.Event]) -> SessionView:
        """Apply events, and return this view."""
        for event in events:
            self.apply(event)
        return self

    def _actor(self, event: ev.Event) -> Actor:
        actor = self.actors.get(event.agent)
        if actor is None:
            # A truncated log may lack the event that started the agent.
            actor = self.actors[event.agent] = Actor(name=event.agent)
        self._parts.add("actors")
        return actor

    def _place(self, event: ev.Event) -> dict[str, Any]:
        """Return the fields that all entries have, for an event."""
        return {
            "id": len(self.entries),
            "seq": event.seq,
            "at": event.at,
            "agent": event.agent,
            "run": event.run,
        }

    def _add(self, entry: AnyEntry) -> None:
        self.entries.append(entry)
        self._touch(entry)

    def _touch(self, entry: AnyEntry) -> None:
        self._parts.add("entries")
        self._changed.append(entry)

    def _add_usage(self, event: ev.Event, used: Usage) -> None:
        self._parts.add("usage")
        if not event.agent:
            return
        self._actor(event).usage += used
        view = self.agents.of_actor(event.agent)
        if view is not None and not view.ended:
            view.usage += used
            self._parts.add("agents")

    def _add_notice(self, event: ev.Event) -> None:
        worded = make_notice_text(event)
        if worded is not None:
            self._add(Notice(**worded._asdict(), **self._place(event)))

    # --- streaming output -------------------------------------------------------------------------

    def _stream(self, delta: ev.Delta) -> Changes:
        if delta.kind == "output":
            entry: AnyEntry | None = self._stream_output(delta)
        else:
            entry = self._stream_answer(delta)
        if entry is None:
            return _NOTHING
        return Changes(frozenset(("entries",)), (entry,))

    def _stream_output(self, delta: ev.Delta) -> Card | None:
        card = self._open.get((delta.agent, delta.call_id))
        if card is not None:
            # A command may print gigabytes, so only the last part is kept.
            card.output = (card.output + delta.text)[-MAX_OUTPUT:]
        return card

    def _stream_answer(self, delta: ev.Delta) -> Answer | None:
        answer = self._answers.get(delta.agent)
        # A chunk of an abandoned attempt may arrive late.
        if answer is None or answer.seq != delta.seq:
            return None
        if delta.kind == "text":
            answer.text.add(delta.text)
        elif delta.kind == "thinking":
            answer.thinking.add(delta.text)
        else:
            answer.arguments.setdefault(delta.call_id, StreamedText()).add(delta.text)
            answer.tools[delta.call_id] = delta.tool
        return answer

    def _cut_off_answer(self, event: ev.RunEnded) -> None:
        """Keep the text of an answer that will not be completed."""
        answer = self._answers.pop(event.agent, None)
        if answer is not None:
            answer.clear()
            answer.state = "cut_off"
            answer.text.add(event.unfinished)
            self._touch(answer)

    def _drop_answer(self, agent: str) -> None:
        """Discard an answer that will not be completed."""
        answer = self._answers.pop(agent, None)
        if answer is not None:
            answer.state = "dropped"
            answer.clear()
            self._touch(answer)

    # --- session and agents -----------------------------------------------------------------------

    def _session_opened(self, event: ev.SessionOpened) -> None:
        self.id = event.session
        self.workspace = event.workspace
        self.kind = event.kind
        self.forked = event.forked
        self._parts.add("session")

    def _session_changed(self, event: ev.SessionChanged) -> None:
        for name in ("mode", "model", "approve"):
            value = getattr(event, name)
            if value is not None:
                setattr(self, name, value)
        self._parts.add("session")

    def _agent_started(self, event: ev.AgentStarted) -> None:
        self._actor(event).parent = event.parent

    def _state_changed(self, event: ev.StateChanged) -> None:
        self._actor(event).state = event.state

    def _plugin_failed(self, event: ev.PluginFault) -> None:
        self.failures.append(event)
        self._parts.add("failures")

    def _describe_activity(self, event: ev.Event, doing: str) -> None:
        """Set the activity of the agent start to which an event belongs, if there is one."""
        view = self.agents.of_actor(event.agent)
        if view is not None:
            view.doing = doing
            self._parts.add("agents")

    # --- runs -------------------------------------------------------------------------------------

    def _prompt_queued(self, event: ev.PromptQueued) -> None:
        self._actor(event).queued[event.run] = event.typed or event.text
        if event.typed:
            self._typed[event.run] = event.typed
        if event.images:
            self._images[event.run] = describe_images(event.images, event.seq)

    def _steering_queued(self, event: ev.SteeringQueued) -> None:
        self._actor(event).steering[event.id] = event.text

    def _steering_withdrawn(self, event: ev.SteeringWithdrawn) -> None:
        self._actor(event).steering.pop(event.id, None)

    def _round_ended(self, event: ev.RoundEnded) -> None:
        actor = self._actor(event)
        for identity in event.steering:
            text = actor.steering.pop(identity, None)
            if text is not None:
                steered = Prompt(
                    text=text,
                    model=actor.model,
                    mode=actor.mode,
                    steers=True,
                    **self._place(event),
                )
                self._add(steered)

    def _run_started(self, event: ev.RunStarted) -> None:
        self._begin_run(event)
        # The first part of a prompt is the user's text.
        attached = []
        context = []
        for part in event.message.parts[1:]:
            if isinstance(part, Image):
                continue
            text = part.text
            if part.source == "piped":
                attached.append(text)
            else:
                context.append(ContextSource(part.source, len(text)))
        self._add(
            Prompt(
                text=event.text,
                typed=self._typed.pop(event.run, ""),
                model=event.model,
                mode=event.mode,
                attached="\n".join(attached),
                images=self._images.pop(event.run, ()),
                context=tuple(context),
                repeats=event.repeats.previous if event.repeats is not None else "",
                **self._place(event),
            )
        )
        if event.repeats is not None:
            self._repeat_call(event, event.repeats)

    def _repeat_call(self, event: ev.RunStarted, repeats: ev.RepeatedCall) -> None:
        """Add the card of a repeated call, and refer to it in the card of the failed call."""
        failed = self._cards.get((event.agent, repeats.previous))
        if failed is not None:
            failed.repeated_by = repeats.call.id
            self._touch(failed)
        self._add_card(event, repeats.call).repeats = repeats.previous

    def _run_retried(self, event: ev.RunRetried) -> None:
        self._begin_run(event)
        self._add(
            Prompt(model=event.model, mode=event.mode, retries=event.previous, **self._place(event))
        )

    def _begin_run(self, event: ev.RunStarted | ev.RunRetried) -> None:
        # An incomplete log may lack the end of the earlier run.
        self._end_rest(event.agent)
        actor = self._actor(event)
        actor.queued.pop(event.run, None)
        actor.run = event.run
        actor.activity = "preparing"
        actor.turn = 0
        actor.model = event.model
        actor.mode = event.mode
        actor.retry = ""
        actor.began = event.at
        actor.proposal = None
        self._outcomes.pop(event.agent, None)
        self._parts.add("usage")  # the number of runs

    def _run_ended(self, event: ev.RunEnded) -> None:
        actor = self._actor(event)
        waited = actor.queued.pop(event.run, None) is not None
        is_other = waited and event.run != actor.run
        unread = () if is_other else tuple(actor.steering.values())
        if event.unfinished and not is_other:
            self._cut_off_answer(event)
        outcome = Outcome(end=event, unread=unread, **self._place(event))
        self._add(outcome)
        # If a waiting run ends without having begun, the agent's current run is unaffected.
        if is_other:
            return
        actor.steering.clear()
        actor.activity = event.state
        actor.retry = ""
        self._outcomes[event.agent] = outcome
        self._end_rest(event.agent)

    def _end_rest(self, agent: str) -> None:
        """End the agent's streaming answer, open calls and questions, because its run is over."""
        self._drop_answer(agent)
        if self.waiting.end_run(agent):
            self._parts.add("waiting")
        # The mapping is copied, because the loop removes items from it.
        own_keys = [key for key in self._open if key[0] == agent]
        for key in own_keys:
            card = self._open.pop(key)
            # The log contains no event for the end of such a call.
            card.state = "interrupted"
            card.output = ""
            self._touch(card)

    # --- answers ----------------------------------------------------------------------------------

    def _model_started(self, event: ev.ModelStarted) -> None:
        actor = self._actor(event)
        actor.activity = "thinking"
        actor.retry = ""
        actor.model = event.model
        actor.turn = event.turn
        self._describe_activity(event, f"turn {event.turn}: thinking")
        answer = self._answers.get(event.agent)
        if answer is None:
            answer = Answer(**self._place(event))
            self._answers[event.agent] = answer
            self._add(answer)
        else:
            self._touch(answer)
        answer.clear()
        # Chunks of this attempt have this number; chunks of earlier attempts are ignored.
        answer.seq = event.seq
        answer.model = event.model
        answer.turn = event.turn
        answer.attempt = event.attempt

    def _model_failed(self, event: ev.ModelFailed) -> None:
        self._actor(event).retry = describe_retry(event)
        answer = self._answers.get(event.agent)
        if answer is not None and event.action == "give_up":
            self._drop_answer(event.agent)
        elif answer is not None:
            answer.clear()
            self._touch(answer)

    def _model_answered(self, event: ev.ModelAnswered) -> None:
        actor = self._actor(event)
        message = event.message
        actor.activity = "working" if message.calls else "answering"
        if message.text.strip():
            actor.last_words = message.text
            view = self.agents.of_actor(event.agent)
            if view is not None and not view.ended:
                view.last_words = message.text
        answer = self._answers.pop(event.agent, None)
        if answer is None:
            answer = Answer(turn=actor.turn, **self._place(event))
            self._add(answer)
        else:
            self._touch(answer)
        answer.clear()
        answer.state = "done"
        answer.model = message.model or answer.model
        # The text in the event replaces the streamed text, which may contain secrets.
        answer.text = StreamedText(message.text)
        thoughts = [part.text for part in message.parts if isinstance(part, Thinking)]
        answer.thinking = StreamedText("".join(thoughts))
        answer.usage = event.usage
        answer.seconds = event.seconds
        answer.calls = len(message.calls)
        for call in message.calls:
            self._add_card(event, call)

    # --- calls ------------------------------------------------------------------------------------

    def _add_card(self, event: ev.Event, call: ToolCall) -> Card:
        # Ids are unique only within an answer, so a later call may use the same id and replace this
        # one.
        actor = self.actors.get(event.agent)
        card = Card(call=call, turn=actor.turn if actor else 0, **self._place(event))
        self._cards[event.agent, call.id] = card
        self._open[event.agent, call.id] = card
        self.cards.append(card)
        self._add(card)
        return card

    def _card(self, event: ev.Event, call: ToolCall) -> Card:
        """Return a call's card, which may be missing if the log was not read from the start."""
        card = self._cards.get((event.agent, call.id))
        if card is None:
            return self._add_card(event, call)
        self._touch(card)
        return card

    def _approval_asked(self, event: ev.ApprovalAsked) -> None:
        self.waiting.ask(event)
        self._parts.add("waiting")
        card = self._card(event, event.call)
        card.state = "waiting_for_approval"
        card.risk = event.risk

    def _approval_shown(self, event: ev.ApprovalShown) -> None:
        if self.waiting.show(event):
            self._parts.add("waiting")

    def _approval_answered(self, event: ev.ApprovalAnswered) -> None:
        approval = self.waiting.answer(event.id)
        if approval is None:
            return
        self._parts.add("waiting")
        card = self._cards.get((approval.agent, approval.call_id))
        if card is not None and card.state == "waiting_for_approval":
            card.state = "pending"
            card.decided_by = event.by
            card.decided_name = event.user
            self._touch(card)

    def _call_started(self, event: ev.CallStarted) -> None:
        card = self._card(event, event.call)
        card.state = "running"
        card.began = event.at
        card.risk = event.risk
        card.plugin = event.plugin
        if event.original is not None:
            card.rewritten = event.call.arguments
            card.rewritten_by = event.rewritten_by
        self._describe_activity(event, describe_call(event.call))

    def _call_done(self, event: ev.CallDone) -> None:
        result = event.result
        # The event does not contain the call, which is needed only if the card is missing.
        card = self._card(event, ToolCall(result.call_id, result.name, ""))
        card.state = "failed" if result.code else "completed"
        card.seconds = event.seconds
        card.result = result
        card.images = describe_images(result.parts, event.seq)
        card.output = ""
        self._open.pop((event.agent, result.call_id), None)
        # A call whose run is stopped ends while its question is still open.
        if self.waiting.end_call(event.agent, result.call_id):
            self._parts.add("waiting")
        if result.code == E_DENIED and UNATTENDED in result.text:
            self._count_unattended(result)
        # Faces report a run with denied calls as a partial success only if no other call had an
        # effect.
        elif not result.code and card.risk != "read":
            self.effects += 1
        view = self.agents.of_actor(event.agent)
        if view is not None:
            view.calls += 1
            self._parts.add("agents")

    def _count_unattended(self, result: ToolResult) -> None:
        self.unattended += 1
        if result.data.get(BY_POLICY):
            self.denied_by_policy = True
        rule = str(result.data.get(RULE) or "")
        # Faces suggest each rule once.
        if rule and rule not in self.denied_rules:
            self.denied_rules.append(rule)

    # --- events of plugins ------------------------------------------------------------------------

    def _plugin_event(self, event: ev.PluginEvent) -> None:
        fold = _PLUGIN_FOLDS.get(event.name)
        if fold is not None:
            fold(self, event)

    def _agent_event(self, event: ev.PluginEvent) -> None:
        self._moved = self.agents.apply(event)
        self._parts.add("agents")

    def _budget_spent(self, event: ev.PluginEvent) -> None:
        if self.budgets.apply(event):
            self._parts.add("usage")

    def _todos(self, event: ev.PluginEvent) -> None:
        if self._actor(event).todos.apply(event.data):
            self._parts.add("todos")

    def _question(self, event: ev.PluginEvent) -> None:
        if self.waiting.apply(event):
            self._parts.add("waiting")

    def _proposal(self, event: ev.PluginEvent) -> None:
        actor = self._actor(event)
        text = event.data.get("text")
        # Any plugin can write an event with this name and with different data.
        if event.name == plan.PROPOSED and isinstance(text, str):
            actor.proposal = plan.Proposal(run=event.run, text=text, seq=event.seq)
        else:
            actor.proposal = None
        self._parts.add("proposal")

    def _files_changed(self, event: ev.PluginEvent) -> None:
        self.files_seq = event.seq
        for path in changed_files(event.data):
            # This is a set, because a session may change thousands of files, most of them several
            # times.
            if path not in self._known_files:
                self._known_files.add(path)
                self.files.append(path)
        self._parts.add("session")

    def _prompt_redacted(self, event: ev.PluginEvent) -> None:
        names = event.data.get("names")
        # Any plugin can write an event with this name and with different data.
        if isinstance(names, list | tuple):
            known = dict.fromkeys([*self.redacted, *map(str, names)])
            self.redacted = list(known)
            self._parts.add("session")


def _in_order(entries: list[AnyEntry]) -> tuple[AnyEntry, ...]:
    """Return entries without duplicates, oldest first."""
    if len(entries) < 2:
        return tuple(entries)
    by_id = {entry.id: entry for entry in entries}
    return tuple(by_id[key] for key in sorted(by_id))


def _encode(value: Any) -> Any:
    if isinstance(value, StreamedText):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be part of a snapshot.")


_FOLDS: dict[type[ev.Event], Callable[[SessionView, Any], None]] = {
    ev.SessionOpened: SessionView._session_opened,
    ev.SessionChanged: SessionView._session_changed,
    ev.AgentStarted: SessionView._agent_started,
    ev.StateChanged: SessionView._state_changed,
    ev.PluginFault: SessionView._plugin_failed,
    ev.PromptQueued: SessionView._prompt_queued,
    ev.SteeringQueued: SessionView._steering_queued,
    ev.SteeringWithdrawn: SessionView._steering_withdrawn,
    ev.RoundEnded: SessionView._round_ended,
    ev.RunStarted: SessionView._run_started,
    ev.RunRetried: SessionView._run_retried,
    ev.RunEnded: SessionView._run_ended,
    ev.ModelStarted: SessionView._model_started,
    ev.ModelFailed: SessionView._model_failed,
    ev.ModelAnswered: SessionView._model_answered,
    ev.ApprovalAsked: SessionView._approval_asked,
    ev.ApprovalShown: SessionView._approval_shown,
    ev.ApprovalAnswered: SessionView._approval_answered,
    ev.CallStarted: SessionView._call_started,
    ev.CallDone: SessionView._call_done,
    ev.PluginEvent: SessionView._plugin_event,
}
_PLUGIN_FOLDS: dict[str, Callable[[SessionView, ev.PluginEvent], None]] = {
    **dict.fromkeys(agents.EVENTS, SessionView._agent_event),
    SPENT: SessionView._budget_spent,
    plan.TODOS: SessionView._todos,
    plan.QUESTION_ASKED: SessionView._question,
    plan.QUESTION_ANSWERED: SessionView._question,
    plan.PROPOSED: SessionView._proposal,
    plan.ACCEPTED: SessionView._proposal,
    plan.REJECTED: SessionView._proposal,
    "files.changed": SessionView._files_changed,
    "redaction.prompt": SessionView._prompt_redacted,
}
