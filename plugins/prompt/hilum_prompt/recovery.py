"""The recovery layer: what to do when something fails, one line for each recovery loop.

The layer is used only in agent mode.
"""

from __future__ import annotations

from hilum_prompt.abilities import Abilities

OPENING = """\
# When something fails
Read the error, change its cause, retry. The same call failed three times, \
nothing changed, is refused (E_REPEATED): change the cause, take another way, or explain and ask.
"""

EDITS = """\
- Text not found (E_NOT_FOUND): read the file again, copy `old_string` from it, retry.
- Several matches (E_MULTIPLE_MATCHES): add lines around the right place until the text occurs once.
- File changed since you read it (E_STALE), or not as written (E_READBACK_FAIL): read it again \
and keep the changes of others.
"""

COMMANDS = """\
- Command failed (E_CMD_FAIL): read its output and fix the cause. If a package or program is \
missing, install it where \
commands have network access; otherwise tell the user what to install.
"""

ALL = """\
- File missing (E_FILE_NOT_FOUND): try the suggested paths, then search. If it stays missing, let \
the user confirm the path.
- Timed out (E_TIMEOUT): it is not repeated automatically. Narrow it, or give it more time.
- Outside the workspace (E_PATH_TRAVERSAL): use a path inside it.
- Blocked, denied or rejected (E_BLOCKED, E_DENIED, E_REJECTED): that is an answer. Do not reach \
the same effect another way; \
change the plan or ask.
- Nobody answered (E_APPROVAL_TIMEOUT): no "no". Say what waits.
- Bad arguments (E_BAD_ARGS): correct what the message names.
- Interrupted (E_INTERRUPTED): check what it did before you repeat it.
- The program handles a silent model, rate limits, refused keys; resume where you were.
- Few turns left: leave things working, and say what is done and what is left.
"""


def make_recovery_text(abilities: Abilities) -> str:
    """Return the recovery layer for what an agent can do."""
    edits = EDITS if abilities.edits else ""
    commands = COMMANDS if abilities.runs_commands else ""
    return f"{OPENING}\n{edits}{commands}{ALL}"
