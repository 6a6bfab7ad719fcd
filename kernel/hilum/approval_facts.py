"""Finds what the user must know of a call that waits for approval, for every face."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
import trio

from hilum.events import ApprovalAsked
from hilum.hooks import PLUGIN_EXCEPTIONS, describe_error
from hilum.services import Danger, find_approval_texts

if TYPE_CHECKING:
    from hilum.session import Session

T = TypeVar("T")


class ApprovalFacts(msgspec.Struct, frozen=True):
    """What the user must know of a call.

    Attributes:
        text: What the call does, with every argument in full; the arguments as the model wrote them
            if the call could not be described.
        covers: Which calls a lasting approval covers; empty if the call could not be described.
        file: The file in which an approval with ``always`` is stored as a rule; empty if it would
            not be stored.
        dangers: What is dangerous or notable, the most important first.
    """

    text: str
    covers: str
    file: str
    dangers: Sequence[Danger]

    @property
    def once_only(self) -> bool:
        """Whether only this call may be approved, and no lasting approval given."""
        return is_once_only(self.dangers)


async def find_approval_facts(asked: ApprovalAsked, session: Session) -> ApprovalFacts:
    """Return what the user must know of a call; a call that cannot be described is dangerous.

    Args:
        asked: The question.
        session: The session in which the call would run.
    """
    dangers = await find_approval_dangers(asked, session)
    try:
        texts = find_approval_texts()
        # The description may need to read files.
        text = await _run_in_thread(texts.describe_call, asked, session)
        covers = texts.describe_scope(asked)
        file = texts.find_rule_file(asked, session)
    except PLUGIN_EXCEPTIONS as error:
        problem = _describe_problem(error)
        others = [danger for danger in dangers if danger != problem]
        return ApprovalFacts(asked.call.arguments, "", "", [problem, *others])
    return ApprovalFacts(text, covers, file, dangers)


async def find_approval_dangers(asked: ApprovalAsked, session: Session) -> Sequence[Danger]:
    """Return what is dangerous or notable in a call; a call that cannot be judged is dangerous.

    Args:
        asked: The question.
        session: The session in which the call would run.
    """
    try:
        dangers = await _run_in_thread(find_approval_texts().find_dangers, asked, session)
    except PLUGIN_EXCEPTIONS as error:
        return [_describe_problem(error)]
    if asked.once_only and not is_once_only(dangers):
        # Another gate than the one with the texts refuses lasting approvals.
        return [Danger("needs approval each time", grave=True), *dangers]
    return dangers


def is_once_only(dangers: Sequence[Danger]) -> bool:
    """Return whether only this call may be approved, because something in it is dangerous."""
    return any(danger.grave for danger in dangers)


def says_the_same(one: str, other: str) -> bool:
    """Return whether two texts about a call say the same, whatever their form.

    "It deletes a.", "deletes a (rm -r a)" and the title "Delete a" do.

    Args:
        one: A reason, danger or title.
        other: Another one.
    """
    return _find_words(one) == _find_words(other)


def _find_words(text: str) -> list[str]:
    # The command in parentheses is the one that the question shows.
    words = re.findall(r"\w+", re.sub(r" \([^()]*\)\W*$", "", text.lower()))
    words = words[1:] if words[:1] == ["it"] else words
    return [words[0].removesuffix("s"), *words[1:]] if words else []


async def _run_in_thread(
    function: Callable[[ApprovalAsked, Session], T], asked: ApprovalAsked, session: Session
) -> T:
    return await trio.to_thread.run_sync(function, asked, session)


def _describe_problem(error: BaseException) -> Danger:
    return Danger(f"The call could not be described: {describe_error(error)}.", grave=True)
