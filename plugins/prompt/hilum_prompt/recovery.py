"""The recovery layer: what to do when something fails, one line for each recovery loop. Only in agent mode."""

from __future__ import annotations

RECOVERY = """\
# When something fails
Never make the identical call again. Read the error, change what caused it, then retry.

- Text not found (E_NOT_FOUND): read the file again, take `old_string` from what is there now, retry.
- Several matches (E_MULTIPLE_MATCHES): add lines from around the right place until the text occurs once.
- File changed since you read it (E_STALE), or not as written (E_READBACK_FAIL): read it again and fit your change to what \
it holds now, keeping the changes of others.
- File missing (E_FILE_NOT_FOUND): try the near paths, then search. If it stays missing, let the user confirm the path.
- Command failed (E_CMD_FAIL): read its output and errors and mend the cause. Install a package or program that is missing, \
then run the command again.
- Timed out (E_TIMEOUT): nothing re-runs it for you. Narrow it, or give it longer; what never ends cannot be waited for.
- Outside the workspace (E_PATH_TRAVERSAL): use a path inside it.
- Blocked, denied or rejected (E_BLOCKED, E_DENIED, E_REJECTED): that is an answer. Take no other way to the same effect; \
change the plan or ask.
- Bad arguments (E_BAD_ARGS): the message names the place; correct that.
- Cut off (E_INTERRUPTED): find out what it did before you do it again.
- A silent model, a rate limit or a refused key is the program's to handle. Afterwards go on where you were.
- Turns running out: leave things working, and say what is done and what is left.

After three failures at the same thing, stop. Explain to the user what you tried and what stands in the way, and ask how to \
go on."""
