"""Formats items that wait for the user as plain lines, and parses the lines that answer them.

An answer is a whole word on a separate line. Every other line is text for the agent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import attrs
from hilum_view import format_duration

from hilum_terminal.approval_items import (
    Answer,
    EditCall,
    Item,
    PlanDecision,
    QuestionAnswer,
    Result,
    ShowWhole,
    WaitingCall,
    WaitingPlan,
    WaitingQuestion,
)
from hilum_terminal.approval_rules import (
    EDITED_NOTE,
    describe_covered,
    find_lasting_problem,
    find_rule_problem,
    grant,
)
from hilum_terminal.row_layout import exact_rows
from hilum_terminal.styles import PLAIN
from hilum_terminal.text_width import escape_text, one_line, wrap_text

MAX_ROWS = 40
"""Maximum number of rows of a description in a question; the answer ``view`` writes all rows."""
TAIL_ROWS = 10
"""Number of rows to show from the end of a long description, which padding must not hide."""

# The choices, or the second step of "always".
PlainStep = Literal["choose", "always"]
_LETTERS = ("y", "n", "s", "a", "e", "l", "v")
_NO = re.compile(r"no\b[\s,.:;]*(.*)", re.IGNORECASE)


@attrs.define(eq=False)
class AskedItem:
    """A written question to the user about an item.

    Attributes:
        item: The item as it was shown to the user.
        step: The step of the question.
        count: Number of items that were waiting when the question was written.
        seconds: Time limit for the answer in seconds; 0 for none.
        unconfined: Whether the item is a command that would run without a sandbox.
        also: Other waiting calls that a lasting approval covers.
        is_open: Whether a line can answer the question yet; a line that was typed before the user
            could read the question must not.
    """

    item: Item
    step: PlainStep = "choose"
    count: int = 1
    seconds: float = 0.0
    unconfined: bool = False
    also: tuple[WaitingCall, ...] = ()
    is_open: bool = False


@attrs.frozen
class NextStep:
    """A request from the user to go to another step of the question."""

    step: PlainStep


@attrs.frozen
class Misfit:
    """A line that was meant as an answer but is not a valid one.

    Attributes:
        text: What the user should type instead.
    """

    text: str


Reply = tuple[Result, ...] | NextStep | Misfit


def allows_something(reply: Reply) -> bool:
    """Return whether a reply lets a call run or a plan be carried out."""
    if not isinstance(reply, tuple):
        return False
    return any(
        (isinstance(result, Answer) and result.accepted)
        or (isinstance(result, PlanDecision) and result.decision == "accept")
        for result in reply
    )


# --- questions ------------------------------------------------------------------------------------


def question_rows(asked: AskedItem, width: int) -> list[str]:
    """Return the lines of a question, with the answers to choose from."""
    if asked.step == "always":
        return _always_rows(asked, width)
    item = asked.item
    if isinstance(item, WaitingCall):
        rows = _call_rows(item, asked, width)
    elif isinstance(item, WaitingQuestion):
        rows = wrap_text(_head("Question", "", asked), width)
        rows += wrap_text(escape_text(item.question), width)
    else:
        title = "your version" if item.edited else ""
        rows = wrap_text(_head("Plan", title, asked), width)
        rows += _shortened(wrap_text(escape_text(item.text), width))
    return rows + answer_rows(asked, width)


def _head(kind: str, title: str, asked: AskedItem) -> str:
    place = f" (1 of {asked.count})" if asked.count > 1 else ""
    agent = f", from the agent {one_line(asked.item.agent, 30)}" if asked.item.agent else ""
    end = f": {title}" if title else ""
    return f"{kind}{place}{agent}{end}"


def _call_rows(item: WaitingCall, asked: AskedItem, width: int) -> list[str]:
    rows = wrap_text(_head("Approval needed", one_line(item.tool), asked), width)
    if item.why:
        rows += wrap_text(f"Why: {escape_text(item.why)}", width)
    kind = "Danger" if item.dangerous else "Note"
    for mark in item.marks:
        rows += wrap_text(f"{kind}: {escape_text(mark)}", width)
    if item.arguments is not None:
        rows += wrap_text(EDITED_NOTE, width)
    indent = "  " if width >= 30 else ""
    body = _shortened(_description(item, width - len(indent)))
    rows += [f"{indent}{row}" for row in body]
    if item.folder:
        rows += wrap_text(f"Folder: {escape_text(item.folder)}", width)
    if asked.unconfined:
        rows += wrap_text("Sandbox: no sandbox. The command can do what you can do.", width)
    elif item.sandbox:
        rows += wrap_text(f"Sandbox: {escape_text(item.sandbox)}", width)
    return rows


def _description(item: WaitingCall, width: int) -> list[str]:
    if item.make_rows is not None:
        return list(item.make_rows(width, PLAIN))
    return exact_rows(item.description or item.title, width)


def _shortened(rows: Sequence[str]) -> list[str]:
    if len(rows) <= MAX_ROWS:
        return list(rows)
    head = MAX_ROWS - TAIL_ROWS
    left_out = len(rows) - MAX_ROWS
    return [*rows[:head], f"… {left_out:,} lines left out; view shows all", *rows[-TAIL_ROWS:]]


def answer_rows(asked: AskedItem, width: int) -> list[str]:
    """Return the lines that list the answers."""
    item = asked.item
    rows = ["Type one of these, then Enter:"]
    for answer in _list_answers(asked):
        rows += wrap_text(answer, width)
    if asked.seconds > 0:
        end = "the call is denied"
        if isinstance(item, WaitingQuestion):
            end = item.without_answer
        rows += wrap_text(
            f"After {format_duration(asked.seconds)} without an answer, {end}.", width
        )
    return rows


def answers_left(asked: AskedItem) -> str:
    """Return a sentence that names the answers to a question that is still open."""
    if asked.step != "choose":
        return "The question is still open: yes, or no."
    # A list of other calls that an answer covers is not an answer.
    answers = [answer for answer in _list_answers(asked) if not answer.startswith("- ")]
    return f"The question is still open: {'; '.join(each.partition(':')[0] for each in answers)}."


def _list_answers(asked: AskedItem) -> list[str]:
    """Return the answers to a question, each with what it means."""
    item = asked.item
    if isinstance(item, WaitingCall):
        answers = _call_answers(item, asked)
    elif isinstance(item, WaitingPlan):
        answers = [
            "yes: carry it out",
            "no, optionally with a reason: reject the plan",
            "edit: change the plan in your editor first",
            "later: decide later; the word plan asks again",
            "view: the whole plan",
        ]
    else:
        answers = [f"{number}: {one_line(text)}" for number, text in enumerate(item.options, 1)]
        if item.multiple and len(answers) > 1:
            answers.append("1, 2: several of them")
        answers += ["= and your own answer", f"skip: {item.without_answer}"]
        for word in ("yes", "no"):
            option = item.find_option(word)
            if option:
                answers.append(f"{word}: {one_line(option)}")
    return answers


def _call_answers(item: WaitingCall, asked: AskedItem) -> list[str]:
    answers = ["yes: this call, once"]
    if not find_lasting_problem(item):
        answers.append(f"session: {describe_covered(item)}, until this session ends")
        if asked.also:
            answers[-1] += ". This includes other calls that wait now:"
            answers += [f"- {one_line(call.description) or call.title}" for call in asked.also]
    if not find_rule_problem(item):
        answers.append("always: the same in later sessions; you see the rule first")
    answers.append("no, optionally with a reason: deny the call")
    answers.append("edit: change the call in your editor first")
    answers.append("view: the whole call")
    return answers


def _always_rows(asked: AskedItem, width: int) -> list[str]:
    item = asked.item
    assert isinstance(item, WaitingCall)
    rows = ["This rule is stored:"]
    rows += exact_rows(item.scope, width)
    rows += wrap_text(
        f"It allows {describe_covered(item)} in this folder, also in later sessions, until you"
        " remove it with /permissions.",
        width,
    )
    if asked.also:
        rows += wrap_text("It also allows these calls that wait now:", width)
        for call in asked.also:
            rows += wrap_text(f"- {one_line(call.description) or call.title}", width)
    return rows + wrap_text("Type yes to store it, or no to go back, then Enter.", width)


# --- answers --------------------------------------------------------------------------------------


def read_reply(asked: AskedItem, line: str, waiting: Sequence[Item] = ()) -> Reply | None:
    """Parse a line as the reply to a question; return None if it is text for the agent.

    Args:
        asked: The question.
        line: The line.
        waiting: The items that wait now; other calls that a lasting approval listed are approved
            only if they still wait unchanged.
    """
    text = line.strip()
    item = asked.item
    if isinstance(item, WaitingQuestion):
        return _read_choice(item, text)
    if text.lower() in _LETTERS:
        # A user who knows the full terminal types the letter of an answer.
        words = _words(asked)
        meant = [word for word in words if word[0] == text.lower()]
        return Misfit(f"Please type the whole word: {', '.join(meant or words)}")
    if isinstance(item, WaitingPlan):
        return _read_plan_decision(item, text)
    if asked.step == "always":
        return _read_confirmation(item, asked, text, waiting)
    return _read_decision(item, asked, text, waiting)


def _words(asked: AskedItem) -> list[str]:
    """Return the words that answer a question about a call or a plan."""
    if asked.step == "always":
        return ["yes", "no"]
    if isinstance(asked.item, WaitingPlan):
        return ["yes", "no", "edit", "later", "view"]
    words = ["yes", "no", "edit", "view"]
    if isinstance(asked.item, WaitingCall) and not find_lasting_problem(asked.item):
        words.append("session")
    if isinstance(asked.item, WaitingCall) and not find_rule_problem(asked.item):
        words.append("always")
    return words


def _read_decision(
    item: WaitingCall, asked: AskedItem, text: str, waiting: Sequence[Item]
) -> Reply | None:
    denial = _NO.fullmatch(text)
    if denial is not None:
        return (Answer(item.id, False, denial[1].strip()),)
    match text.lower():
        case "yes":
            return (Answer(item.id, True, arguments=item.arguments),)
        case "session":
            problem = find_lasting_problem(item)
            if problem:
                return Misfit(f"{problem} Type yes or no.")
            return tuple(grant(item, asked.also, waiting, "session"))
        case "always":
            problem = find_rule_problem(item)
            return Misfit(f"{problem} Type yes or no.") if problem else NextStep("always")
        case "edit":
            return (EditCall(item.id),)
        case "view":
            return (ShowWhole(item.id),)
    return None


def _read_confirmation(
    item: WaitingCall, asked: AskedItem, text: str, waiting: Sequence[Item]
) -> Reply | None:
    match text.lower():
        case "yes":
            return tuple(grant(item, asked.also, waiting, "always"))
        case "no":
            return NextStep("choose")
    return None


def _read_plan_decision(item: WaitingPlan, text: str) -> Reply | None:
    denial = _NO.fullmatch(text)
    if denial is not None:
        return (PlanDecision(item.id, "reject", denial[1].strip()),)
    match text.lower():
        case "yes":
            return (PlanDecision(item.id, "accept"),)
        case "edit":
            return (PlanDecision(item.id, "edit"),)
        case "later":
            return (PlanDecision(item.id, "later"),)
        case "view":
            return (ShowWhole(item.id),)
    return None


def _read_choice(item: WaitingQuestion, text: str) -> Reply | None:
    if text.startswith("="):
        own = text[1:].strip()
        return (
            (QuestionAnswer(item.id, (own,)),) if own else Misfit("Type your answer after the =.")
        )
    if text.lower() == "skip":
        return (QuestionAnswer(item.id),)
    chosen = item.find_option(text.lower())
    if chosen:
        return (QuestionAnswer(item.id, (chosen,)),)
    if text.lower() in ("y", "n") and item.find_option("yes") and item.find_option("no"):
        return Misfit("Please type the whole word: yes, no")
    if not re.fullmatch(r"[0-9]{1,3}([\s,]+[0-9]{1,3})*", text):
        return None
    numbers = list(dict.fromkeys(int(number) for number in re.findall("[0-9]+", text)))
    if not item.options:
        return None
    if any(not 1 <= number <= len(item.options) for number in numbers):
        return Misfit(f"Type a number from 1 to {len(item.options)}.")
    if len(numbers) > 1 and not item.multiple:
        return Misfit("Only one answer can be chosen. Type its number.")
    return (QuestionAnswer(item.id, tuple(item.options[number - 1] for number in numbers)),)


def cancel(asked: AskedItem) -> Reply:
    """Return the reply that Ctrl-D gives to a question."""
    match asked.item:
        case WaitingCall() if asked.step == "always":
            return NextStep("choose")
        case WaitingCall(id=identity):
            return (Answer(identity, False),)
        case WaitingPlan(id=identity):
            return (PlanDecision(identity, "later"),)
        case WaitingQuestion(id=identity):
            return (QuestionAnswer(identity),)


def describe_result(result: Result) -> str:
    """Return a sentence that confirms a decision; empty if the effect is visible immediately."""
    match result:
        case Answer(accepted=False):
            return "Denied."
        case Answer(remember="session"):
            return "Allowed until this session ends."
        case Answer(remember="always"):
            return "Allowed, including in later sessions."
        case Answer():
            return "Allowed once."
        case QuestionAnswer(answers=()):
            return "Not answered."
        case QuestionAnswer():
            return "Answered."
        case PlanDecision(decision="later"):
            return "The plan is undecided. Type plan to be asked again."
    return ""
