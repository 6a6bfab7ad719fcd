"""Runners for tests of ``hilum batch``: functions that carry out a task instead of a session.

The prompt says what to do, so that a test can decide it for each task.
"""

import os
import time
from pathlib import Path

import trio


async def act(assignment, folder):
    """Carry out the prompt: a word, and arguments."""
    word, *rest = assignment.task.prompt.split()
    executions = Path(os.environ["EXECUTIONS"]) if "EXECUTIONS" in os.environ else None
    if executions is not None:
        # An append is atomic.
        with open(executions, "a") as file:  # noqa: ASYNC230
            file.write(f"{assignment.task.id} {assignment.attempt} {os.getpid()}\n")
    if word == "write":
        (folder / rest[0]).write_text("written\n")
    elif word == "dawdle":
        (folder / rest[0]).write_text("written\n")
        await trio.sleep_forever()
    elif word == "wait":
        await trio.sleep(float(rest[0]))
    elif word == "until":
        # The test creates the file.
        while not os.path.exists(rest[0]):  # noqa: ASYNC110, ASYNC240
            await trio.sleep(0.02)
    elif word == "block":
        while True:
            time.sleep(1000)  # noqa: ASYNC251  (it hangs)
    elif word == "die" and assignment.attempt <= int(rest[0]):
        os.kill(os.getpid(), 9)
    elif word == "full" and assignment.attempt <= int(rest[0]):
        raise OSError(28, os.strerror(28))
    elif word == "fail":
        raise ValueError("this runner fails")
    return f"{word} done"


async def do_nothing(assignment, folder):
    """Do nothing."""
    return ""
