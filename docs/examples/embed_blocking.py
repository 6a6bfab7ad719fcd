"""A synchronous script that gives hilum a task."""

import sys

import hilum.blocking

with hilum.blocking.open_kernel() as kernel, kernel.open_session(".", approve="auto") as session:
    result = session.run(sys.argv[1])
    print(result.state, result.text)
    print(f"{result.turns} turns, {result.usage.total} tokens; session {session.id}")
