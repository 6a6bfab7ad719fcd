"""Turns the events of a session into the updates of the protocol.

The same code serves the running session and the replay of its history, so an editor shows the same
after a reload. Nothing here waits or sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
from hilum import events as ev
from hilum.command import escape_terminal
from hilum.errors import CALL_NOT_RUN, CALL_UNCERTAIN, E_CMD_FAIL
from hilum_view import (
    Answer,
    Card,
    Changes,
    Notice,
    Outcome,
    PlanDecision,
    Prompt,
    SessionView,
    parse_arguments,
    read_plan_decision,
    read_question,
    read_question_end,
)

from hilum_acp.messages import ClientAbilities
from hilum_acp.rpc_errors import describe_failure, join_hint
from hilum_acp.tool_calls import (
    cut,
    escape_markdown,
    find_kind,
    find_locations,
    find_status,
    make_content,
    make_text_content,
    make_title,
    name_call,
)

Update = dict[str, Any]
OUTPUT_SECONDS = 0.1
"""Minimum time between two updates with the output of a running call."""
OUTPUT_RATE = 20_000
"""Maximum number of characters of a call's output per second: each update has all that is shown."""
MAX_TITLE = 80
MAX_TAIL = 64
"""Number of characters at the end of what was sent that are looked up in the complete text."""
MIN_TAIL = 8
"""Fewer characters may occur in a text by chance."""
MAX_REPLACEMENT = 500
"""How many characters more than the secrets their replacements in a text have at most."""
# Notices that matter to a user whose editor shows no notices.
_SAID_IN_CHAT = ("error", "fallback", "plugin_failed", "said", "user_needed")
# Such a call only waits until another program, which works as an agent, has something new.
_HIDDEN_CALLS = ("guest_wait",)
_ENDED = ("completed", "failed", "interrupted")
_PLAN_STATUSES = {
    "pending": "pending",
    "blocked": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "failed": "completed",
}


@attrs.define
class _SentAnswer:
    """What was sent of an answer."""

    message: str
    pieces: list[str] = attrs.field(factory=list)
    thoughts: list[str] = attrs.field(factory=list)

    @property
    def sent_text(self) -> str:
        self.pieces = ["".join(self.pieces)]
        return self.pieces[0]

    @property
    def sent_thinking(self) -> str:
        self.thoughts = ["".join(self.thoughts)]
        return self.thoughts[0]


@attrs.define
class _OpenCall:
    """A call that has not ended.

    Attributes:
        card: The call.
        sent: What was sent of it.
        has_output: Whether there is output that was not sent.
        next_output: When the next output may be sent.
    """

    card: Card
    sent: Update
    has_output: bool = False
    next_output: float = 0.0


class UpdateMaker:
    """Makes the updates of one session.

    Args:
        root: The session's folder.
        abilities: What the client understands.
        clock: Returns the time in seconds.
        find_window: Returns the size of a model's context window in tokens; 0 if unknown.

    Attributes:
        view: The view of the session, which ``make`` keeps up to date.
        own_runs: Ids of the runs that the client prompted, whose prompts it knows.
        prompted: The agent that the user prompted last.
        is_replaying: Whether the events are the session's history.
    """

    def __init__(
        self,
        root: Path,
        abilities: ClientAbilities,
        clock: Callable[[], float],
        find_window: Callable[[str], int],
    ) -> None:
        self.view = SessionView()
        self.own_runs: set[str] = set()
        self.is_replaying = False
        self.prompted = self.view.lead
        # The runs of other agents that the user has called by name, as in `@explore …`. Their
        # answers are for the user; those of agents that other agents start are not.
        self._called_runs: set[str] = set()
        # The tokens of the conversation with the main agent, and its window; None if not known.
        self._context: tuple[int, int] | None = None
        # The notices that are quoted in the conversation.
        self._quoted: set[str] = set()
        # The texts of the questions that are open, by id.
        self._questions: dict[str, str] = {}
        self._root = root
        self._abilities = abilities
        self._clock = clock
        self._find_window = find_window
        # Only what has not ended is kept, because a session may have thousands of calls.
        self._answers: dict[int, _SentAnswer] = {}
        self._calls: dict[str, _OpenCall] = {}
        # The terminals in which open calls are shown, by agent and id of the call.
        self._terminals: dict[tuple[str, str], str] = {}
        self._has_title = False

    def make(self, item: ev.AnyEvent | ev.Delta) -> list[Update]:
        """Apply an event or a piece of output to the view, and return the updates for it."""
        changes = self.view.apply(item)
        if isinstance(item, ev.Delta):
            return list(self._stream(item, changes))
        self._note_called(item)
        updates: list[Update] = []
        for entry in changes.entries:
            if isinstance(entry, Prompt):
                updates += self._prompt(entry)
            elif isinstance(entry, Answer):
                updates += self._answer(entry)
            elif isinstance(entry, Card):
                updates += self._card(entry, is_new=entry.seq == item.seq)
            elif isinstance(entry, Notice):
                updates += self._notice(entry)
            elif isinstance(entry, Outcome):
                updates += self._outcome(entry)
        if "todos" in changes.parts and self._is_for_user(item):
            updates.append(self._plan(item.agent))
        if isinstance(item, ev.ModelAnswered) and self._is_for_user(item):
            updates += self._usage(item)
        if isinstance(item, ev.PluginEvent):
            updates += self._plugin_event(item)
        if isinstance(item, ev.Compacted) and self._abilities.compaction:
            updates.append(_make_compaction(item))
        if isinstance(item, ev.RunEnded):
            self._called_runs.discard(item.run)
        return updates

    def _note_called(self, event: ev.Event) -> None:
        """Remember the run of an agent that the user calls by name."""
        if isinstance(event, ev.PromptQueued):
            # Only a prompt of the user has a text that differs from the one that was typed.
            is_called = event.agent != self.view.lead and bool(event.typed)
        elif isinstance(event, ev.RunRetried):
            is_called = event.agent == self.prompted != self.view.lead
        else:
            return
        if is_called:
            self._called_runs.add(event.run)
        if is_called or event.agent == self.view.lead:
            self.prompted = event.agent

    def _is_for_user(self, item: ev.Event | Prompt | Answer | Outcome | Card) -> bool:
        """Return whether something belongs to the conversation with the user."""
        return item.agent == self.view.lead or item.run in self._called_runs

    # --- messages ---------------------------------------------------------------------------------

    def _prompt(self, entry: Prompt) -> Iterator[Update]:
        if not self._is_for_user(entry):
            return
        text = entry.typed or entry.text
        is_known = entry.run in self.own_runs and not entry.steers
        if text and not (is_known and not self.is_replaying):
            yield make_chunk("user_message_chunk", text, f"user-{entry.id}")
        if text and not self._has_title:
            self._has_title = True
            title = " ".join(text.split())[:MAX_TITLE]
            yield {"sessionUpdate": "session_info_update", "title": title}

    def _stream(self, delta: ev.Delta, changes: Changes) -> Iterator[Update]:
        for entry in changes.entries:
            if isinstance(entry, Card):
                yield from self._output(entry)
            elif isinstance(entry, Answer) and self._is_for_user(entry) and delta.text:
                sent = self._sent(entry)
                if delta.kind == "text":
                    sent.pieces.append(delta.text)
                    yield make_chunk("agent_message_chunk", delta.text, sent.message)
                elif delta.kind == "thinking":
                    sent.thoughts.append(delta.text)
                    yield make_chunk("agent_thought_chunk", delta.text, f"{sent.message}-thought")

    def _sent(self, entry: Answer) -> _SentAnswer:
        # A new attempt begins a new message, because what was sent cannot be taken back.
        message = f"answer-{entry.id}-{entry.attempt}"
        sent = self._answers.get(entry.id)
        if sent is None or sent.message != message:
            sent = self._answers[entry.id] = _SentAnswer(message)
        return sent

    def _answer(self, entry: Answer) -> Iterator[Update]:
        if not self._is_for_user(entry) or entry.state == "streaming":
            return
        sent = self._sent(entry)
        del self._answers[entry.id]
        if entry.state != "done":
            return
        thought = f"{sent.message}-thought"
        yield from _rest("agent_thought_chunk", str(entry.thinking), sent.sent_thinking, thought)
        yield from _rest("agent_message_chunk", str(entry.text), sent.sent_text, sent.message)

    def _notice(self, entry: Notice) -> Iterator[Update]:
        if entry.about in ("compacted", "settings", "rejected"):
            return
        # The protocol: notices are live events and no part of the history.
        if self.is_replaying and self._abilities.notices:
            return
        text = join_hint(entry.text, entry.hint)
        if self._abilities.notices:
            first, _, rest = text.strip().partition("\n")
            notice = {"sessionUpdate": "notice", "severity": entry.level, "title": first or "hilum"}
            if rest.strip():
                notice["description"] = rest.strip()
            yield notice
        elif entry.about in _SAID_IN_CHAT:
            # Each process that opened the session may have reported the same problem.
            if self.is_replaying and text in self._quoted:
                return
            self._quoted.add(text)
            # Notices quote programs and servers.
            quoted = "\n".join(f"> {line}" for line in escape_markdown(text).splitlines())
            yield make_chunk("agent_message_chunk", f"\n{quoted}\n\n", f"notice-{entry.id}")

    def _outcome(self, entry: Outcome) -> Iterator[Update]:
        if not self._is_for_user(entry) or entry.end.state in ("completed", "stopped"):
            return
        if entry.end.state == "partial_success":
            text = entry.text
        elif self.is_replaying:
            # The running client has read this in the response to its prompt.
            text = describe_failure(entry.end)
        else:
            return
        chunk = f"\n[{escape_markdown(text)}]\n"
        yield make_chunk("agent_message_chunk", chunk, f"end-{entry.id}")

    # --- questions and plans ----------------------------------------------------------------------

    def _plugin_event(self, event: ev.PluginEvent) -> Iterator[Update]:
        """Yield what the log says of the user's questions and decisions."""
        question = read_question(event)
        if question is not None:
            self._questions[question.id] = question.question
        end = read_question_end(event)
        if end is not None:
            text = self._questions.pop(end.id, "")
            # An editor that could not ask has nothing else that shows the question.
            if text and end.by == "shown":
                chunk = f"\n**Question:** {escape_markdown(text)}\n\n"
                yield make_chunk("agent_message_chunk", chunk, f"question-{end.id}")
        decision = read_plan_decision(event)
        if decision is not None and self._is_for_user(event):
            yield {
                "sessionUpdate": "tool_call",
                **describe_plan_request(decision.plan),
                "status": "completed",
                "content": [make_text_content(escape_markdown(_describe_decision(decision)))],
            }

    # --- calls ------------------------------------------------------------------------------------

    def _card(self, card: Card, *, is_new: bool) -> Iterator[Update]:
        if card.call.name in _HIDDEN_CALLS and not card.code:
            return
        # The todo list is sent as a plan, and its call only if it failed.
        is_plan = card.call.name == "todo_write" and self._is_for_user(card)
        if is_plan and not card.code:
            return
        identity = name_call(card)
        state = self.describe(card)
        is_over = card.state in _ENDED
        known = self._calls.get(identity)
        if known is not None:
            changed = {key: value for key, value in state.items() if known.sent.get(key) != value}
            known.sent.update(changed)
            if changed:
                yield {"sessionUpdate": "tool_call_update", "toolCallId": identity, **changed}
        elif is_new or is_plan:
            arguments = parse_arguments(card.arguments)
            state["rawInput"] = card.arguments if arguments is None else arguments
            yield {"sessionUpdate": "tool_call", "toolCallId": identity, **_without_empty(state)}
        elif not is_over:
            # It had ended with an interrupted run, and now continues.
            yield {"sessionUpdate": "tool_call_update", "toolCallId": identity, **state}
        if is_over:
            self._calls.pop(identity, None)
            self._terminals.pop((card.agent, card.call.id), None)
        elif known is None:
            self._calls[identity] = _OpenCall(card, state)

    def interrupt_calls(self) -> Iterator[Update]:
        """Yield updates for the calls that have not ended, because nothing carries them out now.

        If the run is continued, they are sent in their new state.
        """
        for identity, call in self._calls.items():
            content = [make_text_content(_describe_interruption(call.card))]
            call.sent |= {"status": "failed", "content": content}
            yield {
                "sessionUpdate": "tool_call_update",
                "toolCallId": identity,
                "status": "failed",
                "content": content,
            }

    def forget_sent(self) -> None:
        """Make the next update of each call describe it wholly, because none was sent before."""
        for call in self._calls.values():
            call.sent = {}

    def describe(self, card: Card) -> Update:
        """Return the members that describe a call, without its id and arguments."""
        described = {
            "title": make_title(card, self.view.name_of(card.agent), self._root),
            "name": card.call.name,
            "kind": find_kind(card),
            "status": find_status(card),
            "locations": find_locations(card, self._root),
            "content": self._make_content(card),
        }
        if card.ended and self._find_terminal(card):
            # For clients that show no terminals once they are released.
            described["rawOutput"] = escape_terminal(cut(card.text))
        return described

    def _make_content(self, card: Card) -> list[dict[str, Any]]:
        """Return what is shown of a call: its terminal, if it has one, or its output as text."""
        terminal = self._find_terminal(card)
        if not terminal:
            return make_content(card, self._root)
        content: list[dict[str, Any]] = [{"type": "terminal", "terminalId": terminal}]
        # The terminal shows how a command ends, but not why a call was refused or stopped.
        if card.code not in ("", E_CMD_FAIL):
            content += make_content(card, self._root)
        return content

    def _find_terminal(self, card: Card) -> str:
        return self._terminals.get((card.agent, card.call.id), "")

    def show_terminal(self, agent: str, call: str, terminal: str) -> Iterator[Update]:
        """Show a running call in a terminal from now on, unless it has ended.

        Args:
            agent: The agent that made the call.
            call: The id of the call.
            terminal: The id of the terminal.

        Yields:
            The update that shows it.
        """
        for identity, opened in self._calls.items():
            card = opened.card
            if (card.agent, card.call.id) == (agent, call) and card.state not in _ENDED:
                self._terminals[agent, call] = terminal
                content = self._make_content(card)
                opened.sent["content"] = content
                opened.has_output = False
                yield {
                    "sessionUpdate": "tool_call_update",
                    "toolCallId": identity,
                    "content": content,
                }
                return

    def has_terminal(self, agent: str, call: str) -> bool:
        """Return whether a call that has not ended is shown in a terminal."""
        return (agent, call) in self._terminals

    def _output(self, card: Card) -> Iterator[Update]:
        call = self._calls.get(name_call(card))
        if call is not None:
            call.has_output = True
            yield from self.take_output()

    def take_output(self) -> Iterator[Update]:
        """Yield updates with the output of running calls, as far as it may be sent now."""
        for identity, call in list(self._calls.items()):
            # The call may have ended while the previous update was sent.
            if identity in self._calls and call.has_output and self._clock() >= call.next_output:
                yield from self._take_output_of(identity, call)

    def _take_output_of(self, identity: str, call: _OpenCall) -> Iterator[Update]:
        call.has_output = False
        content = self._make_content(call.card)
        if content == call.sent.get("content"):
            return
        call.sent["content"] = content
        # In the protocol, content replaces the earlier content, so each update has all of it.
        pause = max(OUTPUT_SECONDS, len(call.card.output) / OUTPUT_RATE)
        call.next_output = self._clock() + pause
        yield {"sessionUpdate": "tool_call_update", "toolCallId": identity, "content": content}

    def find_next_output(self) -> float | None:
        """Return when ``take_output`` has something to send; ``None`` if nothing waits."""
        times = [call.next_output for call in self._calls.values() if call.has_output]
        return min(times, default=None)

    # --- state ------------------------------------------------------------------------------------

    def _plan(self, agent: str) -> Update:
        entries = []
        for todo in self.view.actors[agent].todos.items:
            status = _PLAN_STATUSES.get(todo.status)
            if status is not None:
                entry = {"content": todo.content, "priority": "medium", "status": status}
                entries.append(entry)
        return {"sessionUpdate": "plan", "entries": entries}

    def _usage(self, event: ev.ModelAnswered) -> Iterator[Update]:
        actor = self.view.actors[event.agent]
        size = self._find_window(actor.model or event.message.model)
        # Some servers count no tokens. The context of an agent that the user calls is another one.
        if event.agent == self.view.lead and size and event.usage.total:
            self._context = (event.usage.total, size)
        if self._context is None:
            return
        used, size = self._context
        usage: Update = {"sessionUpdate": "usage_update", "used": used, "size": size}
        cost = self.view.totals.usage.cost
        if cost is not None:
            usage["cost"] = {"amount": cost, "currency": "USD"}
        yield usage


def make_chunk(kind: str, text: str, message: str) -> Update:
    """Return an update with a piece of a message."""
    content = {"type": "text", "text": text}
    return {"sessionUpdate": kind, "content": content, "messageId": message}


def describe_plan_request(plan: str) -> Update:
    """Return the members with which the question about a plan is shown as a call.

    Args:
        plan: Id of the run that proposed the plan.
    """
    return {"toolCallId": f"plan-{plan}", "title": "Carry out this plan?", "kind": "switch_mode"}


def _describe_interruption(card: Card) -> str:
    """Return what became of a call that had not ended when hilum did."""
    return f"This {CALL_UNCERTAIN}" if card.began else f"This {CALL_NOT_RUN} hilum ended."


def _describe_decision(decision: PlanDecision) -> str:
    if decision.accepted:
        return (
            "You accepted the plan, with changes." if decision.edited else "You accepted the plan."
        )
    if decision.reason.strip():
        return f"You rejected the plan: {decision.reason.strip()}"
    return "You rejected the plan. Its open items are cancelled."


def _rest(kind: str, text: str, sent: str, message: str) -> Iterator[Update]:
    """Yield the part of a complete text that was not streamed."""
    if text == sent:
        return
    if text.startswith(sent):
        yield make_chunk(kind, text[len(sent) :], message)
        return
    rest = _find_rest(text, sent)
    if rest is None:
        # Pieces are missing in the middle, because the editor read too slowly.
        yield make_chunk(kind, text, f"{message}-complete")
    elif rest:
        yield make_chunk(kind, rest, message)


def _find_rest(text: str, sent: str) -> str | None:
    """Return what follows the sent pieces in a complete text in which secrets were replaced.

    Returns:
        The rest; ``None`` if the complete text has more than replacements in place of what was
        sent.
    """
    same = _count_same(text, sent)
    # What was sent after the last secret occurs in both texts.
    tail = sent[max(same, len(sent) - MAX_TAIL) :]
    while len(tail) >= MIN_TAIL:
        start = text.rfind(tail, same)
        if start >= 0:
            end = start + len(tail)
            return text[end:] if end - len(sent) <= MAX_REPLACEMENT else None
        tail = tail[len(tail) // 2 + 1 :]
    return text[same:] if len(text) - len(sent) <= MAX_REPLACEMENT else None


def _count_same(one: str, other: str) -> int:
    """Return how many characters at the beginning of two texts are the same."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))


def _make_compaction(event: ev.Compacted) -> Update:
    update: Update = {
        "sessionUpdate": "compaction_update",
        "compactionId": f"compaction-{event.seq}",
        "status": "completed",
    }
    if event.summary:
        update["summary"] = [{"type": "text", "text": event.summary}]
    return update


def _without_empty(state: Update) -> Update:
    return {key: value for key, value in state.items() if value not in ([], None)}
