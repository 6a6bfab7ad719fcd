"""Asks the editor's user for approval of a call, with the choices that the terminal has.

No problem approves anything: an editor that leaves has not answered, and an answer that cannot be
understood rejects the call.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
from hilum import (
    ApprovalFacts,
    Session,
    ToolError,
    UsageError,
    find_approval_facts,
    says_the_same,
)
from hilum.command import escape_terminal
from hilum.hooks import describe_error
from hilum_view import Approval, Card, parse_arguments
from msgspec.structs import replace

from hilum_acp.client import Client
from hilum_acp.editor_files import read_for_preview
from hilum_acp.json_rpc import ConnectionLost, RpcError
from hilum_acp.tool_calls import (
    Preview,
    escape_markdown,
    fence,
    find_arguments_in_title,
    find_kind,
    find_locations,
    make_text_content,
    make_title,
    name_call,
    preview_change,
)

_logger = logging.getLogger("hilum.acp")
Remember = Literal["once", "session", "always"]
_HEAD = "── "
"""Begins the first line of a description, which names the tool."""
_GUEST_NAMES = ("action", "terminal")
"""Arguments of a guest's call with which it names the call; they say nothing to people."""
_HOW_TO_ALLOW = re.compile(r" To always allow it: hilum permissions allow .*$")
_NOT_HARMLESS = re.compile(r" is not on the list of harmless commands\.$")
_DELETES = re.compile(r"^   deletes .* \(([\d,]+ lines?)\)$")
MAX_NAME = 120
"""Maximum number of characters of a choice, which editors show as a button."""


@attrs.frozen
class Choice:
    """A choice of the user.

    Attributes:
        id: Its id in the protocol.
        kind: Its kind in the protocol, by which editors choose an icon.
        name: The text that the user sees, in full.
        accepted: Whether the call may run.
        remember: How long the approval lasts.
        asks_reason: Whether the user then writes why the call may not run.
    """

    id: str
    kind: str
    name: str
    accepted: bool = False
    remember: Remember = "once"
    asks_reason: bool = False


async def ask_approval(
    client: Client, session: Session, approval: Approval, card: Card | None, agent: str
) -> None:
    """Ask for approval of a call, and give the session the answer.

    Args:
        client: The editor.
        session: The session.
        approval: The approval.
        card: The call in the view of the session.
        agent: Display name of the agent that made the call; empty for the user's main agent.
    """
    facts = await _find_facts(session, approval)
    choices = list_choices(approval, facts, can_ask_reason=client.abilities.forms)
    try:
        # The clock begins when the user can see the question.
        session.approval_shown(approval.id)
    except UsageError:
        return  # it has ended meanwhile
    options = [
        {"optionId": choice.id, "name": _cut(choice.name), "kind": choice.kind}
        for choice in choices
    ]
    try:
        shown = await _describe(session, approval, card, agent, facts, choices)
        params = {"sessionId": session.id, "toolCall": shown, "options": options}
        result = await client.connection.request("session/request_permission", params)
        await _give_answer(client, session, approval, card, choices, result)
    except ConnectionLost:
        # Nobody has answered: the call stays open in the log, and is asked about again if the
        # session is continued.
        return
    except RpcError as error:
        reason = f"The editor could not ask: {error.message}"
        _answer(session, approval.id, accepted=False, reason=reason, by="headless")
    except Exception as error:
        # A call that cannot be shown must neither run nor end the session for the editor.
        _logger.exception("The call %s could not be shown.", approval.call.name)
        reason = f"The call could not be shown in the editor: {describe_error(error)}."
        _answer(session, approval.id, accepted=False, reason=reason, by="headless")


def list_choices(approval: Approval, facts: ApprovalFacts, *, can_ask_reason: bool) -> list[Choice]:
    """Return the choices for a call.

    Args:
        approval: The approval.
        facts: What the user must know.
        can_ask_reason: Whether the editor can ask why the call may not run.
    """
    choices = [Choice("allow_once", "allow_once", "Allow once", accepted=True)]
    if not facts.once_only:
        scope = escape_terminal(approval.scope)
        covers = facts.covers or scope or f"all calls of {approval.call.name}"
        name = f"Allow for this session: {covers}"
        choices.append(Choice("allow_session", "allow_always", name, True, "session"))
        if approval.scope:
            name = f"Always allow: {scope}"
            choices.append(Choice("allow_always", "allow_always", name, True, "always"))
    choices.append(Choice("reject_once", "reject_once", "Reject"))
    if can_ask_reason:
        name = "Reject, with a reason…"
        choices.append(Choice("reject_reason", "reject_once", name, asks_reason=True))
    return choices


async def _find_facts(session: Session, approval: Approval) -> ApprovalFacts:
    """Return what the user must know of a call; the notes above the text have the reason."""
    return await find_approval_facts(replace(approval.question, reason=""), session)


async def _describe(
    session: Session,
    approval: Approval,
    card: Card | None,
    agent: str,
    facts: ApprovalFacts,
    choices: Sequence[Choice],
) -> dict[str, Any]:
    """Return the call as the question shows it: wholly, whatever the choices and diffs leave out."""
    root = session.workspace.root
    arguments = parse_arguments(approval.call.arguments)
    # The view may lack the call only in a damaged log.
    shown = card or Card(id=0, call=approval.call, agent=approval.agent, risk=approval.risk)
    # A plugin may have changed the arguments: the user decides on the call that will run.
    shown = Card(id=shown.id, call=approval.call, agent=approval.agent, risk=approval.risk)
    locations = find_locations(shown, root)
    content: list[dict[str, Any]] = []
    title = make_title(shown, "", root)
    notes = _make_notes(approval, facts, title)
    if notes:
        content.append(make_text_content("\n\n".join(notes)))
    preview = Preview()
    if locations and arguments is not None:
        path = locations[0]["path"]
        before = await _read_before(session, path)
        preview = preview_change(approval.call.name, arguments, path, before)
    content += preview.diffs
    if preview.diffs and preview.missing:
        missing = escape_markdown(preview.missing)
        content.append(make_text_content(f"**The diffs do not show: {missing}. The whole call:**"))
        content.append(make_text_content(fence(facts.text)))
    elif not preview.diffs:
        rest = _describe_untitled_arguments(shown, root, facts.text)
        if rest:
            content.append(make_text_content(fence(rest)))
    content += _show_cut_choices(choices)
    return {
        "toolCallId": name_call(shown),
        "title": make_title(shown, agent, root),
        "name": approval.call.name,
        "kind": find_kind(shown),
        "status": "pending",
        "locations": locations,
        "content": content,
        "rawInput": approval.call.arguments if arguments is None else arguments,
    }


def _describe_untitled_arguments(card: Card, root: Path, text: str) -> str:
    """Return what the title of a call does not say of it; empty if it says all.

    Args:
        card: The call.
        root: The session's folder.
        text: The description of the call, with a row for each argument on one line.
    """
    head, *rows = text.split("\n")
    if not head.startswith(_HEAD):
        return text
    arguments = dict(parse_arguments(card.arguments) or {})
    said = find_arguments_in_title(card, root)
    hidden = [key for key in _GUEST_NAMES if key in arguments]
    if not card.call.name.startswith("guest_"):
        hidden = []
    elif arguments.get("title") == arguments.get("command"):
        hidden.append("title")
    for key in dict.fromkeys([*said, *hidden]):
        _drop_argument(rows, key, arguments.get(key))
    if "path" in said:
        rows = [_DELETES.sub(r"   The file has \1.", row) for row in rows]
    return "\n".join(row.removeprefix("   ") for row in rows)


def _drop_argument(rows: list[str], name: str, value: object) -> None:
    """Remove the rows of an argument from the description of a call."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    wanted = [f"   {name}: {text}"]
    if "\n" in text:
        wanted = [f"   {name}:", *(f"     {row}" for row in text.split("\n"))]
    # Rows of other arguments are indented further, so none can pass for this one.
    for start in range(len(rows)):
        if rows[start : start + len(wanted)] == wanted:
            del rows[start : start + len(wanted)]
            return


def _make_notes(approval: Approval, facts: ApprovalFacts, title: str) -> list[str]:
    """Return what is dangerous in a call, and why it needs approval, in Markdown.

    The texts quote commands and paths, which a model wrote.

    Args:
        approval: The approval.
        facts: What the user must know.
        title: The title of the call, which is not repeated.
    """
    notes = []
    for danger in facts.dangers:
        if not danger.grave and says_the_same(danger.text, title):
            continue
        mark = "⚠ " if danger.grave else ""
        text = danger.text.removesuffix(f" ({title})")
        notes.append(f"**{mark}{escape_markdown(text)}**")
    reason = approval.reason
    if approval.scope and not facts.once_only:
        # One of the choices does this.
        reason = _HOW_TO_ALLOW.sub("", reason)
    is_said = any(says_the_same(reason, danger.text) for danger in facts.dangers)
    if any(danger.grave for danger in facts.dangers):
        is_said = is_said or _NOT_HARMLESS.search(reason) is not None
    if reason and not is_said:
        notes.append(escape_markdown(reason))
    return notes


def _show_cut_choices(choices: Sequence[Choice]) -> list[dict[str, Any]]:
    """Return the choices in full whose names are too long for a button."""
    cut = [choice.name for choice in choices if _cut(choice.name) != choice.name]
    if not cut:
        return []
    return [make_text_content(f"**The choices in full:**\n\n{fence(chr(10).join(cut))}")]


async def _read_before(session: Session, path: str) -> str | None:
    """Return the text of a file that a call would replace; ``None`` if it has none."""
    try:
        unsaved = await read_for_preview(session, path)
        return unsaved if unsaved is not None else await session.workspace.read_text(path)
    except ToolError:
        return None


async def _give_answer(
    client: Client,
    session: Session,
    approval: Approval,
    card: Card | None,
    choices: Sequence[Choice],
    result: object,
) -> None:
    outcome = result.get("outcome") if isinstance(result, dict) else None
    if isinstance(outcome, dict) and outcome.get("outcome") == "cancelled":
        # The protocol: the turn was cancelled before the user answered.
        session.stop()
        return
    chosen = None
    if isinstance(outcome, dict) and outcome.get("outcome") == "selected":
        chosen = next((each for each in choices if each.id == outcome.get("optionId")), None)
    if chosen is None:
        reason = "The editor gave an answer that was not among the choices."
        _answer(session, approval.id, accepted=False, reason=reason, by="headless")
        return
    reason = ""
    if chosen.asks_reason:
        reason = await _ask_reason(client, session, card)
    _answer(session, approval.id, accepted=chosen.accepted, reason=reason, remember=chosen.remember)


async def _ask_reason(client: Client, session: Session, card: Card | None) -> str:
    """Return why the user rejects a call; empty if the user does not say."""
    properties = {"reason": {"type": "string", "title": "Reason"}}
    call = name_call(card) if card is not None else ""
    try:
        form = await client.fill_form(
            session.id, "Why may this not run? The agent reads your answer.", properties, call=call
        )
    except RpcError:
        return ""
    reason = (form or {}).get("reason")
    return reason if isinstance(reason, str) else ""


def _answer(
    session: Session,
    approval: str,
    *,
    accepted: bool,
    reason: str,
    by: str = "user",
    remember: Remember = "once",
) -> None:
    try:
        session.answer(approval, accepted, reason=reason, by=by, remember=remember)
    except UsageError:
        pass  # it has expired, or its run has ended


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_NAME else f"{line[: MAX_NAME - 1]}…"
