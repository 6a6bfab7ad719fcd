"""The prompt that asks the user about pending calls, questions and plans.

The prompt is drawn above the composer, which keeps the draft and the focus. Text that the user
types for the composer must never answer the prompt, so these rules decide where a key goes; see
``route_key``:

- The prompt gets the focus when the user presses ``FOCUS_KEY``, or after half a second without a
  key press if the draft is empty. Keys that were pressed before the prompt opened count, too.
- The focus applies to one item only: after an answer, the next item needs the key or the pause
  again.
- A key that arrives within 300 ms after the prompt is drawn or gets the focus does not answer it.
- If the prompt took the focus without a key press, a letter counts only if no other key follows it
  within ``HOLD`` seconds, except Enter as the only key: two keys are part of a text that the user is
  typing. Enter does not choose until the user has moved the selection, because people press Enter
  without looking. The letter of an answer that covers more than one call, or that opens a comment
  with which the call runs, only selects it, and so does each letter after it; Enter chooses.
- Keys that arrive in one read answer nothing (``note_burst``): they may be a paste without brackets.
- In a window that is too small for the head, a part of the item and the choices, no key answers.
- A key that the prompt does not use goes to the composer, which then gets the focus.
- A second step (``CONFIRM_STEPS``) is confirmed only if everything that it covers was on the screen,
  or if the user has opened it with ``v`` or ``w``.

What an event does to the state of the prompt; "again" means that the guard time of 300 ms starts
when the prompt is drawn the next time:

=====================================  ================  =================  ==========
event                                  focus             step               guard
=====================================  ================  =================  ==========
focus key, or pause (``tick``)         prompt            unchanged          from now
focus key within 1 s after the pause   prompt, by key    unchanged          from now
key that the prompt does not use       composer          first              unchanged
answer                                 composer          first, next item   again
Tab: next item                         unchanged         first              again
second step, or text field             unchanged         that step          again
Esc in a second step or text field     unchanged         first              again
Esc in the first step                  composer, until   first              unchanged
                                       the focus key
item ended elsewhere (``update``)      composer          first, next item   again
item changed (``update``)              composer          first              again
item changed while a reason is typed   unchanged         unchanged          unchanged
item changed by the user's editor      unchanged         first              again
editor ended (``end_edit``)            unchanged         unchanged          again
covered or uncovered (``hide``)        composer [1]      first [1]          again
=====================================  ================  =================  ==========

[1] Unchanged after the full-screen view, which the user opened from the prompt, and after an editor.

This module performs no I/O and reads no clock: the caller passes the time in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from hilum_terminal.approval_items import (
    Answer,
    EditCall,
    Item,
    PlanDecision,
    QuestionAnswer,
    Remember,
    Result,
    ShowWhole,
    WaitingCall,
    WaitingPlan,
    WaitingQuestion,
)
from hilum_terminal.approval_options import (
    CONFIRM_STEPS,
    FIELD_STEPS,
    MAX_COVERED,
    PLAN_OPTIONS,
    SELECTED_OPTIONS,
    Option,
    Step,
    call_options,
    confirm_options,
    question_options,
)
from hilum_terminal.approval_rows import (
    COUNTDOWN,
    ApprovalRows,
    ShownItem,
    confirm_text,
    folded_row,
)
from hilum_terminal.approval_rules import (
    describe_covered,
    find_also_covered,
    find_batch,
    find_unchanged,
    grant,
)
from hilum_terminal.keys import Key, Paste
from hilum_terminal.prompts import MIN_COLUMNS, HeldKeys, KeyGuard, LineField, key_label
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import cells, cut, escape_text

FOCUS_KEY = "shift-tab"
"""The key that moves the focus between the composer and the prompt.

Shift-Tab is neither an Emacs command nor a control character for terminals (Ctrl-S, Ctrl-Q,
Ctrl-Z), and every terminal sends it as CSI Z. Alt combinations are unsuitable: on a Mac they type
characters such as å.
"""
IDLE = 1.0
"""Seconds without a key press after which a collapsed prompt expands."""
FOCUS_PAUSE = 0.5
"""Seconds without a key press after which the prompt gets the focus if there is no draft."""
FOCUS_GRACE = 1.0
"""Seconds after the prompt took the focus itself in which the focus key does not take it away."""
NOTICE_TIME = 5.0
"""Seconds for which the prompt shows why a call is no longer pending."""
SELECTED_NOTE = "Press Enter to choose this."
ENTER_NOTE = (
    "Enter does not answer yet. Press the key of a choice, or select one with the arrow keys."
)
HIDDEN_NOTE = "Press w to read all of it before you approve it: not everything fits here."
QUICK_NOTE = "Enter came too quickly after other keys. Press it again."
KEY_NOTES = (SELECTED_NOTE, ENTER_NOTE, HIDDEN_NOTE, QUICK_NOTE)
MIN_ROWS = 3
"""Minimum number of rows that show the head of an item, a part of it, and the choices."""


@attrs.frozen
class Routed:
    """The result of routing a key: keys for the composer, and the user's decisions.

    Attributes:
        composer: Keys and pastes that the composer must handle, in order.
        results: The user's decisions.
        returned: Text that the user wrote about an item that no longer waits. It belongs in the
            draft, but not as a key: in an empty input, some characters are commands.
    """

    composer: tuple[Key | Paste, ...] = ()
    results: tuple[Result, ...] = ()
    returned: str = ""


_MOVES = {"left": -1, "up": -1, "right": 1, "down": 1}


class ApprovalPrompt:
    """The items that await the user's decision, and the state of the prompt that shows them.

    The caller passes the pending items to ``update`` and each key to ``route_key``. The caller
    calls ``tick`` after each of these calls, and at the time that ``next_tick`` returns.

    Attributes:
        focused: Whether keys go to the prompt.
        cursor: Row and column of the text cursor in the rows that were returned last, if the user
            is writing a reason or an answer.

    Args:
        focus_key: The key that gives the prompt the focus.
        focus_label: Name of the focus key, as shown to the user.
    """

    def __init__(self, *, focus_key: str = FOCUS_KEY, focus_label: str = "") -> None:
        self.focused = False
        self.cursor: tuple[int, int] | None = None
        self._focus_key = focus_key
        self._focus_label = focus_label or key_label(focus_key)
        self._items: tuple[Item, ...] = ()
        self._answered: set[str] = set()
        # The item that is open in the user's editor; it cannot be answered meanwhile.
        self._edited = ""
        self._current = ""
        self._step: Step = "choose"
        self._selected = 0
        self._checked: set[int] = set()
        # The calls that "all" listed: a call that arrives later is not allowed together with them.
        self._listed: tuple[WaitingCall, ...] = ()
        # The other calls of which the prompt said last that a lasting approval covers them.
        self._also: tuple[WaitingCall, ...] = ()
        # The text of the second step that the user has opened as a whole.
        self._seen_text = ""
        # The call or plan that the user opened in the full-screen view.
        self._viewed: WaitingCall | WaitingPlan | None = None
        # The texts that the user has begun to write, by the id of their item.
        self._fields: dict[str, LineField] = {}
        self._focused_since = 0.0
        self._guard = KeyGuard()
        self._focused_by_key = False
        self._has_moved = False
        self._may_take_focus = True
        self._last_key: float | None = None
        self._last_typed: float | None = None
        self._held = HeldKeys()
        # The letters that only selected a choice since the prompt took the focus itself. If a text
        # follows, they are its beginning.
        self._selecting: tuple[Key, ...] = ()
        self._notice = ""
        self._notice_since = 0.0
        self._newly_shown: list[str] = []
        self._shown: set[str] = set()
        self._rows = ApprovalRows()

    # What waits

    @property
    def waiting(self) -> tuple[Item, ...]:
        """The items that wait for an answer, oldest first."""
        return tuple(item for item in self._items if item.id not in self._answered)

    @property
    def is_writing(self) -> bool:
        """Whether the user is writing a reason, a comment or an answer, or perhaps a word."""
        return bool(self._held.keys) or (self.focused and self._step in FIELD_STEPS)

    @property
    def current(self) -> Item | None:
        """The item that is shown."""
        return next((item for item in self.waiting if item.id == self._current), None)

    def update(
        self, items: Iterable[Item], now: float, *, ended: str = "", is_reported: bool = False
    ) -> Routed:
        """Set the items that wait for an answer.

        Args:
            items: The items that wait for an answer, oldest first.
            now: Time in seconds.
            ended: Why the shown item no longer waits; if empty, the prompt chooses a text.
            is_reported: Whether the transcript says why, so that the prompt does not.

        Returns:
            What was typed into the prompt for items that no longer wait. It belongs in the draft,
            because nothing that a user types may be lost.
        """
        before = self.current
        self._items = tuple(items)
        waiting = {item.id for item in self._items}
        self._answered &= waiting
        after = self.current
        routed = Routed()
        if before is not None and after is None:
            routed = self._end(before, now, ended, is_reported=is_reported)
        elif before is not None and after is not None and before != after:
            routed = self._change(before, after)
        # A text may also have been begun, and left with Esc, for an item that is not shown.
        lost = [self._fields.pop(each).text for each in [*self._fields] if each not in waiting]
        returned = "\n\n".join(text for text in (*lost, routed.returned) if text)
        if self.current is None:
            self._show_first()
        return attrs.evolve(routed, returned=returned)

    def _end(self, item: Item, now: float, ended: str, *, is_reported: bool) -> Routed:
        """Process the end of the shown item, and return what was typed for it."""
        if not ended:
            expired = 0 < item.deadline <= now
            ended = (
                "the time limit was reached" if expired else "it was answered in another terminal"
            )
        if not is_reported:
            self._show_notice(f"No longer waiting: {ended.rstrip('.')}.", now)
        field = self._fields.pop(item.id, None)
        held = self._take_held()
        # The user's next key may still be meant for the item that vanished, and must not answer
        # another one.
        self._release()
        return Routed(composer=held, returned=field.text if field is not None else "")

    def _change(self, before: Item, after: Item) -> Routed:
        """Process new data about the shown item; return what the user typed before it."""
        if self._step == "comment":
            # Enter would allow something that the user has not read.
            field = self._fields.pop(before.id, None)
            self._release()
            return Routed(returned=field.text if field is not None else "")
        if self._step in FIELD_STEPS:
            # The user continues writing; whatever the text, the call is denied.
            return Routed()
        held = self._take_held()
        is_edit = _edited_part(before) != _edited_part(after)
        if not is_edit:
            # Otherwise, the next key would answer something that the user has not read.
            self._release()
        self._reset_step()
        return Routed(composer=held)

    def reopen(self, identity: str) -> None:
        """Show an item again, because its answer could not be delivered."""
        self._answered.discard(identity)
        if self.current is None:
            self._show_first()

    def end_edit(self, identity: str) -> None:
        """Let an item be answered again, after its new text is shown or the edit failed.

        Until then, a key that was typed for the editor could allow the text from before the edit.
        """
        if self._edited == identity:
            self._edited = ""
            self._guard.reset()

    def hide(self, *, ends_focus: bool = True) -> Routed:
        """Let no key answer the prompt until it is drawn again.

        The face calls this method whenever something begins or ends to cover the prompt: a
        command's question, the full-screen view, or another program that uses the terminal.

        Args:
            ends_focus: Whether the prompt also needs the focus again, because the user did not
                come back to it themselves. An item that is open in an editor keeps the focus.

        Returns:
            A letter that was held. It was not an answer, so it belongs in the draft.
        """
        held = self._take_held()
        self._guard.reset()
        if ends_focus and self._current != self._edited:
            self._release()
        return Routed(composer=held)

    def take_shown(self) -> list[str]:
        """Return the ids of the items that were shown in full for the first time.

        The time limits of these items start now; see ``Session.approval_shown``.
        """
        shown = self._newly_shown
        self._newly_shown = []
        return shown

    def _show_first(self) -> None:
        waiting = self.waiting
        self._current = waiting[0].id if waiting else ""
        self._may_take_focus = True
        self._reset_step()
        if not waiting:
            self._release()

    def _show_next(self) -> None:
        """Show the next item without answering the current one."""
        ids = [item.id for item in self.waiting]
        position = ids.index(self._current)
        self._current = ids[(position + 1) % len(ids)]
        self._reset_step()

    def _reset_step(self) -> None:
        self._set_step("choose")
        self._checked = set()

    def _set_step(self, step: Step) -> None:
        self._step = step
        self._take_held()
        self._guard.reset()
        self._has_moved = False
        if self._notice in KEY_NOTES:
            # The notice was about the keys of the step before.
            self._notice = ""
        # The first choice is always selected, even if the user chose another one last time. In a
        # second step, the first choice goes back.
        self._selected = 0

    def _release(self) -> None:
        """Return the focus to the composer."""
        self.focused = False
        self._take_held()
        if self._step != "choose":
            self._reset_step()

    def _take_held(self) -> tuple[Key, ...]:
        """Return the letters that may be the beginning of a text, and hold them no longer."""
        held = (*self._selecting, *self._held.release())
        self._selecting = ()
        return held

    # Time

    def is_typing(self, now: float) -> bool:
        """Return whether the user is typing in the composer, so that the prompt stays collapsed."""
        if self._last_typed is None or self.focused:
            return False
        # If the clock was set back, the prompt must not stay collapsed forever.
        self._last_typed = min(self._last_typed, now)
        return now < self._last_typed + IDLE

    def _is_idle(self, now: float) -> bool:
        if self._last_key is None:
            return True
        self._last_key = min(self._last_key, now)
        return now >= self._last_key + FOCUS_PAUSE

    def tick(self, now: float, *, draft_empty: bool) -> Routed:
        """Update the prompt for the current time.

        Args:
            now: Time in seconds.
            draft_empty: Whether the composer is empty.
        """
        if self._held.keys and self._guard.holds(now):
            # The item is not visible any more, for example because the window became too small.
            held = self._take_held()
            self._release()
            return Routed(composer=held)
        if self._held.keys:
            # If no other key followed in time, the letter was not the beginning of a word.
            letter = self._held.take_answer(now)
            return Routed() if letter is None else Routed(results=self._choose_by_key(letter))
        may_focus = self._can_focus and not self.focused and self._may_take_focus
        if may_focus and draft_empty and self._is_idle(now):
            self._focus(now, by_key=False)
        return Routed()

    def next_tick(self, now: float) -> float | None:
        """Return the time of the next change by ``tick`` or ``rows``; None if there is none."""
        times = []
        held_until = self._held.next_tick()
        if held_until is not None:
            times.append(held_until)
        if self._notice:
            times.append(self._notice_since + NOTICE_TIME)
        current = self.current
        if current is not None:
            if not self.focused and self._last_key is not None:
                times += [self._last_key + FOCUS_PAUSE, self._last_key + IDLE]
            if current.deadline:
                # In the last minute, the countdown changes every second.
                left = current.deadline - now
                times.append(now + left % 1 if left <= COUNTDOWN else current.deadline - COUNTDOWN)
        coming = [time for time in times if time > now]
        return min(coming, default=None)

    def _show_notice(self, text: str, now: float) -> None:
        self._notice = text
        self._notice_since = now

    @property
    def _can_focus(self) -> bool:
        current = self.current
        return current is not None and current.id != self._edited

    def _focus(self, now: float, *, by_key: bool) -> None:
        self.focused = True
        self._focused_by_key = by_key
        self._focused_since = now
        self._has_moved = False
        self._guard.restart(now)

    # Keys

    def note_key(self, now: float) -> None:
        """Record a key that was pressed elsewhere, for example before the prompt opened."""
        self._last_key = now

    def note_burst(self, now: float) -> None:
        """Let no key answer for a moment, because several keys arrived at once."""
        self._guard.restart(now)

    def handle(self, key: Key | Paste, now: float) -> Routed:
        """Process a key; see ``route_key``."""
        self._last_key = now
        if self.focused:
            return self._handle_focused(key, now)
        is_focus_key = isinstance(key, Key) and key.name == self._focus_key
        if is_focus_key and self._can_focus:
            self._focus(now, by_key=True)
            return Routed()
        self._last_typed = now
        return Routed(composer=(key,))

    def _return(self, key: Key | Paste, now: float) -> Routed:
        """Pass a key, any letter held before it, and the focus to the composer."""
        keys = (*self._take_held(), key)
        self._release()
        self._last_typed = now
        return Routed(composer=keys)

    def _handle_focused(self, key: Key | Paste, now: float) -> Routed:
        if self._step in FIELD_STEPS:
            return self._handle_field(key, now)
        if self._current == self._edited:
            # Typed for the editor, or before the edited text is shown.
            ignored = isinstance(key, Key) and key.name in ("enter", "tab", *_MOVES)
            return Routed() if ignored else Routed(composer=(key,))
        if isinstance(key, Paste):
            return self._return(key, now)
        if self._held.takes(key) and not self._guard.holds(now):
            self._held.hold(key, now)
            return Routed()
        if self._held.keys:
            return self._return(key, now)
        if key.name == self._focus_key and self._has_just_taken_focus(now):
            # The user pressed the key to get the focus.
            self._focus(now, by_key=True)
            return Routed()
        if key.name in ("esc", self._focus_key):
            self._step_back()
            return Routed()
        if not self._uses(key):
            return self._return(key, now)
        if self._guard.holds(now):
            # A letter is part of text that the user is typing. Enter and the arrow keys do nothing,
            # because Enter would send the draft.
            return self._return(key, now) if key.name == "text" else Routed()
        if key.name == "text" and not self._focused_by_key:
            self._held.hold(key, now)
            return Routed()
        if key.name == "enter" and self._marked < 0:
            self._show_notice(ENTER_NOTE, now)
            return Routed()
        return Routed(results=self._choose_by_key(key))

    def _has_just_taken_focus(self, now: float) -> bool:
        """Return whether the prompt has just taken the focus without a key press."""
        is_first_step = self._step == "choose" and not self._has_moved
        # If the clock was set back, the focus is not recent forever.
        self._focused_since = min(self._focused_since, now)
        is_recent = now - self._focused_since < FOCUS_GRACE
        return is_first_step and not self._focused_by_key and is_recent

    def _uses(self, key: Key) -> bool:
        """Return whether the prompt uses a key."""
        if key.name == "text" and key.text == " ":
            return self._is_multiple()
        if key.name == "text":
            return any(option.key == key.text for option in self._options())
        return key.name in ("enter", "tab", *_MOVES)

    def _step_back(self) -> None:
        if self._step in CONFIRM_STEPS:
            self._set_step("choose")
            return
        self._release()
        # The user has just left the prompt, so only the focus key returns the focus.
        self._may_take_focus = False
        self._last_typed = None

    def _choose_by_key(self, key: Key) -> tuple[Result, ...]:
        """Apply a key that the prompt uses."""
        options = self._options()
        if key.name in _MOVES:
            self._selected = (self._selected + _MOVES[key.name]) % len(options)
            self._has_moved = True
            return ()
        if key.name == "tab":
            self._show_next()
            return ()
        if key.text == " " and self._is_multiple():
            self._toggle(self._selected)
            self._has_moved = True
            return ()
        if key.name != "enter":
            return self._choose_by_letter(key.text, options)
        self._selecting = ()
        selected = options[self._selected]
        if not selected.name.startswith("option "):
            return self._choose(selected)
        chosen = {self._selected}
        if self._is_multiple() and self._checked:
            chosen = self._checked
        return self._answer_question(chosen)

    def _choose_by_letter(self, letter: str, options: Sequence[Option]) -> tuple[Result, ...]:
        for index, option in enumerate(options):
            if option.key != letter:
                continue
            is_answer = option.name.startswith("option ") and not self._is_multiple()
            is_selection = is_answer or option.name in SELECTED_OPTIONS or bool(self._selecting)
            if is_selection and not self._focused_by_key:
                # The letter may be the beginning of a text after all.
                self._selecting = (*self._selecting, Key("text", letter))
                self._selected = index
                self._has_moved = True
                self._show_notice(SELECTED_NOTE, self._last_key or 0.0)
                return ()
            return self._choose(option)
        return ()

    def _choose(self, option: Option) -> tuple[Result, ...]:
        item = self.current
        if isinstance(item, WaitingCall):
            return self._choose_for_call(item, option.name)
        if isinstance(item, WaitingPlan):
            return self._choose_for_plan(item, option.name)
        if isinstance(item, WaitingQuestion):
            return self._choose_for_question(item, option)
        return ()

    def _handle_field(self, key: Key | Paste, now: float) -> Routed:
        """Process a key while the user writes a reason or an answer."""
        field = self._field()
        if isinstance(key, Key):
            if key.name == "esc":
                # The text is kept in case the user comes back.
                self._set_step("choose")
                return Routed()
            if key.name == "enter":
                if self._guard.holds(now):
                    self._show_notice(QUICK_NOTE, now)
                    return Routed()
                return Routed(results=self._enter_field(field))
        if field.handle(key):
            return Routed()
        # Keys such as Ctrl-C are for the program; the text and the focus do not change.
        return Routed(composer=(key,))

    def _field(self) -> LineField:
        return self._fields.setdefault(self._current, LineField())

    def _enter_field(self, field: LineField) -> tuple[Result, ...]:
        item = self.current
        text = field.text.strip()
        if isinstance(item, WaitingCall) and self._step == "comment":
            return self._answer([Answer(item.id, True, arguments=item.arguments, comment=text)])
        if isinstance(item, WaitingCall):
            return self._answer([Answer(item.id, False, text)])
        if isinstance(item, WaitingPlan):
            return self._answer([PlanDecision(item.id, "reject", text)])
        if isinstance(item, WaitingQuestion) and text:
            return self._answer_question(self._checked, text)
        return ()

    def _answer(
        self, results: Sequence[Answer | QuestionAnswer | PlanDecision]
    ) -> tuple[Result, ...]:
        """Return the results, and show the next item."""
        for result in results:
            self._answered.add(result.id)
            self._fields.pop(result.id, None)
        self._notice = ""
        # Another key could be meant for the item that was answered, and must not answer the next
        # one.
        self._release()
        self._show_first()
        return tuple(results)

    # Choices

    def _options(self) -> list[Option]:
        """Return the choices in their fixed order, each with its fixed key."""
        item = self.current
        if self._step in CONFIRM_STEPS:
            return confirm_options(self._step, len(self._still_listed()))
        if isinstance(item, WaitingCall):
            waiting = self.waiting
            batch = find_batch(item, waiting)
            also = find_also_covered(item, waiting)
            return call_options(item, batch=len(batch), also=len(also))
        if isinstance(item, WaitingPlan):
            return PLAN_OPTIONS
        if isinstance(item, WaitingQuestion):
            return question_options(item, self._checked)
        return []

    def _still_listed(self) -> list[WaitingCall]:
        """Return the calls that "all" listed and that still wait unchanged."""
        return find_unchanged(self._listed, self.waiting)

    def _choose_for_call(self, item: WaitingCall, name: str) -> tuple[Result, ...]:
        match name:
            case "once":
                return self._answer([Answer(item.id, True, arguments=item.arguments)])
            case "session" if self._shows_covered(item):
                return self._grant(item, "session")
            case "session":
                # The label of the choice does not show everything that an approval covers.
                self._set_step("session")
            case "all":
                self._listed = find_batch(item, self.waiting)
                self._set_step("all")
            case "always":
                self._set_step("always")
            case "confirm" if not self._has_seen_all(item):
                # A part of what the answer would allow is hidden or cut off.
                self._show_notice(HIDDEN_NOTE, self._last_key or 0.0)
            case "confirm" if self._step == "always":
                return self._grant(item, "always")
            case "confirm" if self._step == "session":
                return self._grant(item, "session")
            case "confirm":
                return self._answer([Answer(call.id, True) for call in self._still_listed()])
            case "back":
                self._set_step("choose")
            case "no":
                self._set_step("reason")
            case "comment":
                self._set_step("comment")
            case "edit":
                self._edited = item.id
                return (EditCall(item.id),)
            case "view" | "full":
                is_full = name == "full"
                if self._step not in CONFIRM_STEPS:
                    self._viewed = item
                    return (ShowWhole(item.id, is_full),)
                self._seen_text = confirm_text(self._shown_item(item), item)
                return (ShowWhole(item.id, is_full, self._seen_text),)
        return ()

    def _has_seen_all(self, item: WaitingCall) -> bool:
        """Return whether the user could read everything that a second step allows."""
        if self._rows.shows_all:
            return True
        return self._seen_text == confirm_text(self._shown_item(item), item)

    def _shows_covered(self, item: WaitingCall) -> bool:
        """Return whether the label of a choice shows everything that a lasting approval covers."""
        return self._rows.shows_labels and cells(describe_covered(item)) <= MAX_COVERED

    def _grant(self, item: WaitingCall, remember: Remember) -> tuple[Result, ...]:
        return self._answer(grant(item, self._also, self.waiting, remember))

    def _choose_for_plan(self, item: WaitingPlan, name: str) -> tuple[Result, ...]:
        match name:
            case "accept":
                return self._answer([PlanDecision(item.id, "accept")])
            case "later":
                return self._answer([PlanDecision(item.id, "later")])
            case "edit":
                self._edited = item.id
                return (PlanDecision(item.id, "edit"),)
            case "no":
                self._set_step("reason")
            case "view":
                return (ShowWhole(item.id),)
            case "full":
                self._viewed = item
                return (ShowWhole(item.id, full_screen=True),)
        return ()

    def answer_viewed(self, now: float) -> Routed:
        """Approve the item that the user has read and approved in the full-screen view.

        An item that has changed or ended since the view was opened is not approved.
        """
        item = self.current
        viewed = self._viewed
        self._viewed = None
        if item is None or item != viewed:
            self._show_notice("Not approved: what you have read has changed or ended.", now)
            return Routed()
        if isinstance(item, WaitingCall):
            results = self._answer([Answer(item.id, True, arguments=item.arguments)])
        else:
            results = self._answer([PlanDecision(item.id, "accept")])
        return Routed(results=results)

    def _choose_for_question(self, item: WaitingQuestion, option: Option) -> tuple[Result, ...]:
        match option.name:
            case "own":
                self._set_step("own")
            case "leave":
                return self._answer([QuestionAnswer(item.id)])
            case "view":
                return (ShowWhole(item.id),)
            case "full":
                return (ShowWhole(item.id, full_screen=True),)
            case name:
                self._selected = int(name.removeprefix("option "))
                self._toggle(self._selected)
                # The user has chosen an answer, which Enter may now give.
                self._has_moved = True
                if not item.multiple:
                    self._show_notice(SELECTED_NOTE, self._last_key or 0.0)
        return ()

    def _toggle(self, index: int) -> None:
        item = self.current
        if isinstance(item, WaitingQuestion) and item.multiple and index < len(item.options):
            self._checked ^= {index}

    def _is_multiple(self) -> bool:
        item = self.current
        return isinstance(item, WaitingQuestion) and item.multiple

    def _answer_question(self, indexes: Iterable[int], own: str = "") -> tuple[Result, ...]:
        item = self.current
        if not isinstance(item, WaitingQuestion):
            return ()
        answers = [item.options[index] for index in sorted(indexes)]
        if own:
            answers.append(own)
        return self._answer([QuestionAnswer(item.id, tuple(answers))])

    # Rows

    def rows(self, width: int, max_rows: int, theme: Theme, now: float) -> list[str]:
        """Return the prompt in at most ``max_rows`` rows, or no rows if nothing waits.

        The first call that returns the whole prompt starts the period during which keys do not
        answer the prompt, so call this method only for rows that will be drawn.
        """
        self.cursor = None
        is_too_small = width < MIN_COLUMNS or max_rows < MIN_ROWS
        if is_too_small:
            # What the user cannot read must not be answered.
            self._guard.reset()
        if max_rows <= 0 or width <= 0:
            return []
        item = self.current
        notice = self._notice_rows(width, theme, now)
        if item is None:
            return notice[:max_rows]
        if self.is_typing(now) or is_too_small:
            row = folded_row(
                len(self.waiting),
                width,
                theme,
                is_too_small=is_too_small,
                focus_label=self._focus_label,
            )
            return [row]
        self._guard.drawn(now)
        if item.id not in self._shown:
            self._shown.add(item.id)
            self._newly_shown.append(item.id)
        if max_rows < 8:
            notice = []
        shown = self._shown_item(item)
        self._also = tuple(shown.also)
        rows = self._rows.draw(shown, width, max_rows - len(notice), theme, now)
        if self._rows.cursor is not None:
            cursor_row, column = self._rows.cursor
            self.cursor = (cursor_row + len(notice), column)
        return [cut(row, width) for row in notice + rows]

    def _notice_rows(self, width: int, theme: Theme, now: float) -> list[str]:
        if self._notice and now >= self._notice_since + NOTICE_TIME:
            self._notice = ""
        if not self._notice:
            return []
        return [theme.paint(cut(escape_text(self._notice).replace("\n", " "), width), "dim")]

    def _shown_item(self, item: Item) -> ShownItem:
        waiting = self.waiting
        return ShownItem(
            item,
            position=waiting.index(item) + 1,
            count=len(waiting),
            step=self._step,
            options=self._options(),
            selected=self._selected,
            marked=self._marked,
            focused=self.focused,
            focus_label=self._focus_label,
            listed=self._still_listed(),
            also=find_also_covered(item, waiting),
            field=self._field(),
        )

    @property
    def _marked(self) -> int:
        """Index of the choice that Enter would choose; -1 if Enter does not choose yet."""
        is_first_step = self._step == "choose"
        is_chosen = self._focused_by_key or self._has_moved
        return self._selected if is_chosen or not is_first_step else -1


def route_key(prompt: ApprovalPrompt, key: Key | Paste, now: float) -> Routed:
    """Route a key to the composer, or to the prompt, where it may answer an item.

    Keys reach the prompt only through this function, and only this function returns answers, apart
    from ``ApprovalPrompt.tick`` for a letter that was held.

    Args:
        prompt: The prompt.
        key: The key or paste.
        now: Time in seconds from a monotonic clock.
    """
    return prompt.handle(key, now)


def _edited_part(item: Item) -> tuple[bool, str]:
    """Return the part of an item that the user can change in an editor."""
    match item:
        case WaitingCall(arguments=arguments):
            return arguments is not None, arguments or ""
        case WaitingPlan(edited=edited, text=text):
            return edited, text if edited else ""
    return False, ""
