"""The result of a run: what it said, which files it made and changed, what it did, what is done and
what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from hilum import AssistantMessage, HilumError, ToolMessage
from hilum.events import RunEnded

from hilum_agents.runs.records import Entry
from hilum_agents.runs.watch import Watch

if TYPE_CHECKING:
    from hilum import Session

# What comes back of a run that did not complete: entries of each kind, and characters of each.
MAX_RESULTS = 8
MAX_SAID = 600
MAX_ARGUMENTS = 200
MAX_FOUND = 600
NEXT = {
    "partial_success": (
        "Use what it found; do the rest yourself, or start a new task for it with a narrower"
        " prompt."
    ),
    "timed_out": (
        "Use what it found; do the rest yourself, or start a new task for it with a narrower"
        " prompt."
    ),
}
SAID = {
    "completed": "It is done.",
    "partial_success": "It is done in part.",
    "failed": "It failed.",
    "stopped": "It was stopped.",
    "timed_out": "It ran out of time.",
    "interrupted": "It was cut off.",
}


def build(
    session: Session, entry: Entry, ended: RunEnded, watch: Watch, status: str
) -> dict[str, Any]:
    """Return the data of the event that holds a result.

    Args:
        session: The session it ran in.
        entry: What was started.
        ended: How its run ended.
        watch: What was seen of it.
        status: Its final state.
    """
    files = _files(session, entry)
    items = [(str(item.get("content", "")), item.get("status")) for item in watch.items]
    done = [text for text, state in items if state == "completed"]
    left = [text for text, state in items if state in ("pending", "in_progress")]
    left += [ended.left] if ended.left else []
    if status != "completed" and not left:
        left = [ended.error or SAID[status]]
    if ended.error or ended.code:
        error = {"code": ended.code, "message": ended.error, "hint": ended.hint}
    else:
        error = None
    # Every field is written, also those that have their default: programs read this.
    usage = msgspec.structs.asdict(ended.usage) | {"total": ended.usage.total}
    return {
        "agent_id": entry.id,
        "agent": entry.agent,
        "status": status,
        "current_step": SAID[status],
        "progress": 1.0 if status == "completed" else max(entry.progress, watch.progress),
        "text": ended.text or watch.seen or ended.commentary,
        "gathered": _gathered(session, entry, ended),
        **files,
        "actions": watch.actions,
        "tools_used": watch.tools,
        "turns": ended.turns,
        "seconds": round(ended.seconds, 3),
        "usage": usage,
        "cost": watch.cost,
        "error": error,
        "done": done,
        "not_done": left,
        "run": entry.run,
        "owner": entry.owner,
    }


def _gathered(session: Session, entry: Entry, ended: RunEnded) -> str:
    """Return what a run that did not complete found out: what it said on its way, and the
    beginnings of its last results.
    """
    agent = session.agents.get(entry.actor)
    if ended.state in ("completed", "stopped") or agent is None:
        return ""
    conversation = agent.conversation
    messages = conversation.messages[conversation.request or 0 :]
    said = [message.text.strip() for message in messages if isinstance(message, AssistantMessage)]
    calls = {
        call.id: call
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    }
    results = [
        result
        for message in messages
        if isinstance(message, ToolMessage)
        for result in message.results
    ]
    # The last thing it said is the text of the result.
    lines = [f"- It said: {text[:MAX_SAID]}" for text in said[:-1] if text][-MAX_RESULTS:]
    for result in [result for result in results if not result.code][-MAX_RESULTS:]:
        arguments = calls[result.call_id].arguments if result.call_id in calls else ""
        lines.append(
            f"- {result.name} {arguments[:MAX_ARGUMENTS]}:"
            f" {' '.join(result.text[:MAX_FOUND].split())}"
        )
    return "\n".join(lines)


def _files(session: Session, entry: Entry) -> dict[str, list[str]]:
    """Return the files its run made, changed and deleted, as the journal of changes knows them."""
    from hilum_files import Changes

    changes = session.half(Changes)
    kinds = dict[str, tuple[bool, bool]]()
    if changes is None or not entry.run:
        return {"files_made": [], "files_changed": [], "files_deleted": []}
    try:
        records = changes.records("run", entry.run)
    except HilumError:  # it changed nothing
        records = []
    for record in records:
        for change in record.changes:
            first, _ = kinds.get(change.path, (change.before is not None, True))
            kinds[change.path] = first, change.after is not None
    return {
        "files_made": sorted(
            path for path, (before, after) in kinds.items() if after and not before
        ),
        "files_changed": sorted(
            path for path, (before, after) in kinds.items() if after and before
        ),
        "files_deleted": sorted(
            path for path, (before, after) in kinds.items() if before and not after
        ),
    }


def tell(result: dict[str, Any]) -> str:
    """Return a result as a model, or a user, reads it."""
    status = result["status"]
    error = result.get("error")
    text = result.get("text", "")
    lines = []
    if status != "completed":
        # Calls that could not run are for the user to let run; a narrower prompt would not help.
        refused = error is not None and error["code"] in ("E_DENIED", "E_PLUGIN")
        follows = error["hint"] if error is not None and refused else NEXT.get(status, "")
        parts = [SAID[status], error["message"] if error else "", follows]
        lines.append(" ".join(part for part in parts if part))
        if text:
            lines.append("What it said last:")
    lines += [text] if text else []
    if result.get("gathered"):
        lines.append(f"What it gathered:\n{result['gathered']}")
    for title, key in (
        ("Files made", "files_made"),
        ("Files changed", "files_changed"),
        ("Files deleted", "files_deleted"),
    ):
        if result.get(key):
            lines.append(f"{title}: {', '.join(result[key])}")
    if result.get("not_done"):
        lines.append("Not done: " + "; ".join(result["not_done"]))
    return "\n".join(lines) or "It said nothing."
