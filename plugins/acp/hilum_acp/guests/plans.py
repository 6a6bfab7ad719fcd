"""The plan of a guest, translated into the todo list of an agent."""

from __future__ import annotations

MAX_TODOS = 50
MAX_TODO = 200  # characters
_STATES = ("pending", "in_progress", "completed")


def read_todos(entries: object) -> list[dict[str, str]]:
    """Return the todos of a plan; what is no entry of a plan is left out."""
    listed = entries if isinstance(entries, list) else []
    todos = []
    for number, entry in enumerate(listed[:MAX_TODOS], 1):
        if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
            continue
        status = entry.get("status")
        if status not in _STATES:
            status = "pending"
        content = " ".join(entry["content"].split())[:MAX_TODO] or "…"
        todos.append({"id": str(number), "content": content, "status": status})
    return todos
