"""The result of a job: text, changed files, tool calls, usage, finished and unfinished work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hilum import (
    AssistantMessage,
    FileChanges,
    HilumError,
    Message,
    Session,
    ToolMessage,
    ToolResult,
)
from hilum.events import RunEnded

from hilum_agents.runs.jobs import Job
from hilum_agents.runs.progress import RunProgress

# Limits on the findings of an incomplete run: entries of each kind, and characters per entry.
MAX_FINDINGS = 8
MAX_FINDING_CHARACTERS = 600
MAX_ARGUMENTS_SHOWN = 200
_NARROWER = (
    "Use its findings; do the rest yourself, or start a new task for it with a narrower prompt."
)
# Next steps for the owner, by the final status of the job.
NEXT_STEPS = {"partial_success": _NARROWER, "timed_out": _NARROWER}
SUMMARIES = {
    "completed": "The agent has completed its task.",
    "partial_success": "The agent has completed part of its task.",
    "failed": "The agent failed.",
    "stopped": "The agent was stopped.",
    "timed_out": "The agent ran out of time.",
    "interrupted": "The agent was interrupted.",
}
_FILE_TITLES = {
    "files_made": "Files created",
    "files_changed": "Files changed",
    "files_deleted": "Files deleted",
}


def build(session: Session, job: Job, ended: RunEnded, progress: RunProgress) -> dict[str, Any]:
    """Return the data of the event that contains a job's result.

    Args:
        session: The session in which the job ran.
        job: The job.
        ended: The event that ended the job's run.
        progress: The progress of the job's run.
    """
    status = str(ended.state)
    completed = status == "completed"
    # Every field is written, even if it has its default value, because programs read this data.
    return {
        "agent_id": job.id,
        "agent": job.agent,
        "status": status,
        "current_step": SUMMARIES[status],
        "progress": 1.0 if completed else max(job.progress, progress.progress),
        "text": ended.text or progress.answer or ended.commentary,
        "gathered": _findings(session, job, ended),
        **_changed_files(session, job),
        "actions": progress.actions,
        "tools_used": progress.tools,
        "turns": ended.turns,
        "seconds": round(ended.seconds, 3),
        "usage": msgspec.structs.asdict(ended.usage) | {"total": ended.usage.total},
        "cost": progress.cost,
        "error": _error(ended),
        "done": _contents(progress.items, ("completed",)),
        "not_done": _not_done(ended, progress),
        "run": job.run,
        "owner": job.owner,
    }


def _error(ended: RunEnded) -> dict[str, str] | None:
    if not ended.error and not ended.code:
        return None
    return {"code": ended.code, "message": ended.error, "hint": ended.hint}


def _contents(items: Sequence[dict[str, Any]], states: Sequence[str]) -> list[str]:
    """Return the contents of the todo items in the given states."""
    return [str(item.get("content", "")) for item in items if item.get("status") in states]


def _not_done(ended: RunEnded, progress: RunProgress) -> list[str]:
    left = _contents(progress.items, ("pending", "in_progress"))
    if ended.left:
        left.append(ended.left)
    if ended.state != "completed" and not left:
        left.append(ended.error or SUMMARIES[str(ended.state)])
    return left


def _findings(session: Session, job: Job, ended: RunEnded) -> str:
    """Return the findings of an incomplete run: its texts and its most recent tool results."""
    agent = session.agents.get(job.actor)
    # A completed run has its answer, and nobody needs the findings of a run that the user stopped.
    if agent is None or ended.state in ("completed", "stopped"):
        return ""
    conversation = agent.conversation
    messages = conversation.messages[conversation.request or 0 :]
    return "\n".join([*_texts(messages), *_last_results(messages)])


def _texts(messages: Sequence[Message]) -> list[str]:
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    # The last text is the text of the result itself.
    texts = [answer.text.strip() for answer in answers[:-1]]
    lines = [f"- It wrote: {text[:MAX_FINDING_CHARACTERS]}" for text in texts if text]
    return lines[-MAX_FINDINGS:]


def _last_results(messages: Sequence[Message]) -> list[str]:
    arguments: dict[str, str] = {}
    successes: list[ToolResult] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            arguments.update({call.id: call.arguments for call in message.calls})
        elif isinstance(message, ToolMessage):
            successes += [result for result in message.results if not result.code]
    lines = []
    for result in successes[-MAX_FINDINGS:]:
        given = arguments.get(result.call_id, "")[:MAX_ARGUMENTS_SHOWN]
        beginning = " ".join(result.text[:MAX_FINDING_CHARACTERS].split())
        lines.append(f"- {result.name} {given}: {beginning}")
    return lines


def _changed_files(session: Session, job: Job) -> dict[str, list[str]]:
    """Return the files that a run created, changed and deleted, according to the change journal."""
    found: dict[str, list[str]] = {name: [] for name in _FILE_TITLES}
    changes = session.plugin(FileChanges)
    if changes is None or not job.run:
        return found
    try:
        records = changes.records("run", job.run)
    except HilumError:  # the run changed nothing
        return found
    states: dict[str, tuple[bool, bool]] = {}
    for record in records:
        for change in record.changes:
            # The first change shows whether the file existed before the run, and the last change
            # shows whether it exists now.
            existed, _ = states.get(change.path, (change.before is not None, True))
            states[change.path] = existed, change.after is not None
    kinds = {
        (False, True): "files_made",
        (True, True): "files_changed",
        (True, False): "files_deleted",
    }
    for path in sorted(states):
        kind = kinds.get(states[path])  # files that were both created and deleted are omitted
        if kind:
            found[kind].append(path)
    return found


def tell(result: dict[str, Any]) -> str:
    """Return a result as text, for a model or a user."""
    lines = []
    text = result.get("text", "")
    if result["status"] != "completed":
        lines.append(_how_it_ended(result))
        if text:
            lines.append("Its last text:")
    if text:
        lines.append(text)
    if result.get("gathered"):
        lines.append(f"Its findings:\n{result['gathered']}")
    for key, title in _FILE_TITLES.items():
        if result.get(key):
            lines.append(f"{title}: {', '.join(result[key])}")
    if result.get("not_done"):
        lines.append("Not done: " + "; ".join(result["not_done"]))
    return "\n".join(lines) or "The agent wrote no answer."


def _how_it_ended(result: dict[str, Any]) -> str:
    status = result["status"]
    error = result.get("error") or {}
    next_step = NEXT_STEPS.get(status, "")
    if error.get("code") in ("E_DENIED", "E_PLUGIN"):
        # Only the user can permit these calls, so a narrower prompt would not help.
        next_step = error["hint"]
    parts = dict.fromkeys([SUMMARIES[status], error.get("message", ""), next_step])
    return " ".join(filter(None, parts))
