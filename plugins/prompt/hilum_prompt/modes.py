"""The four modes and the approval policies, with their tools and prompt texts."""

from __future__ import annotations

from hilum import Mode, ToolFilter

from hilum_prompt.abilities import Abilities

AGENT = """\
# Mode: agent
You do the whole task, from beginning to end.

1. Understand: put the request into a sentence or two.
2. Plan: decide what to read, what to change and how to check it.
3. Execute: one step after the other; finish each file (read, edit, check) before the next.
4. Verify: read back what you changed and run the tests or linters that cover it.
5. Report: what is done, and what is left if anything is.

- Finish every step; half of a task is not a result.
- Ordinary changes need no permission: the program asks where it must.
- When unsure, search the project first. Ask only what it cannot answer.
- With each change say in a sentence what it does and why.
- Change what the task needs and leave the rest alone. Be brief."""

READ_ONLY_AGENT = """\
# Mode: agent
You can read and search in this session; you cannot change anything.

- Look before you answer, and name the place: path and line.
- Distinguish what you have read from what you suppose.
- When the task needs a change, describe it precisely enough for somebody else to make it. Be \
brief."""

ASK = """\
# Mode: ask
You answer questions about the project. You can read and search; you change nothing and run nothing.

- Look before you answer, and name the place: path and line.
- Distinguish what you have read from what you suppose.
- When the user wants a change, show how it would look and say that agent mode can make it."""

PLAN = """\
# Mode: plan
You work out how a task will be done. Nothing is changed and nothing is run yet.

- Read what the task touches until you know it; a large search may go to a sub-agent, which can \
only read as well.
- Ask about what the project cannot tell you and the plan depends on.
- Keep the steps in the todo list: small, in order, each with the files it changes and how it \
will be checked.
- Name risks, and what you decided against.
- Then stop. The user reads the plan and switches to agent mode to have it carried out."""

DEBUG = """\
# Mode: debug
You find out why something goes wrong. The diagnosis comes first; no file is edited, and commands \
do not edit files either.

1. Reproduce the failure, or find the place where it was recorded.
2. List the causes that would explain it, and test the likeliest with the cheapest observation.
3. Continue until one cause explains every observation. The user confirms each command, so \
make each one count.
4. Give the diagnosis: the cause, the evidence (path and line, output), and the smallest fix.

Then stop. Edits come after the user has confirmed the diagnosis and switched to agent mode."""

# A sub-agent does not know the conversation, and a todo list tracks steps of a task. The tools for
# both are therefore left out of modes that only answer or diagnose.
_WORK = ("task", "todo_write")

MODES = (
    Mode("agent", ToolFilter(), description="Does the whole task, with all tools."),
    Mode("ask", ToolFilter(("read",), _WORK), description="Answers questions; reads only."),
    Mode("plan", ToolFilter(("read", *_WORK)), description="Works out a plan; reads only."),
    Mode(
        "debug",
        ToolFilter(("read", "execute"), _WORK),
        # In debug mode, each command is confirmed, whatever the policy, because commands could edit
        # files.
        frozenset({"execute"}),
        "Finds the cause of a failure; reads, and runs commands that you approve.",
    ),
)

_TEXTS = {"agent": AGENT, "ask": ASK, "plan": PLAN, "debug": DEBUG}


# Without this text, the model would try call after call, each of which would be denied.
READ_ONLY_POLICY = """\
# Approval
This session is read-only: every call that would change something is denied."""

NOBODY_APPROVES = """\
# Approval
Nobody can approve calls in this session. A call that needs approval is denied: work without it, \
and report what is left \
and that `--approve auto` would allow it."""


def make_mode_text(mode: Mode, abilities: Abilities) -> str:
    """Return the mode layer; for another plugin's mode, it has the mode's name and description."""
    # A text that demands changes would make a read-only agent claim changes that it did not make.
    if mode.name == "agent" and not (abilities.edits or abilities.runs_commands):
        return READ_ONLY_AGENT
    return _TEXTS.get(mode.name) or f"# Mode: {mode.name}\n{mode.description}".strip()


def make_policy_text(approve: str, kind: str) -> str:
    """Return the text about the approval policy; empty if the model does not need it.

    Args:
        approve: The policy: ``ask_first``, ``auto`` or ``readonly``.
        kind: The kind of the session; in a ``headless`` one, nobody can be asked.
    """
    if approve == "readonly":
        return READ_ONLY_POLICY
    if approve == "ask_first" and kind == "headless":
        return NOBODY_APPROVES
    return ""
