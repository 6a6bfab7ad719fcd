"""A trio program that works with hilum: it shows what happens and says yes to every edit, but to nothing else."""

import sys

import hilum
import trio
from hilum.events import ApprovalAsked, CallDone, RunEnded


async def main(task: str) -> None:
    async with hilum.open_kernel() as kernel, kernel.open_session(".") as session:
        run = await session.prompt(task)
        async for event in session.events():
            if isinstance(event, ApprovalAsked):
                session.answer(event.id, event.risk == "write", reason="Only edits are allowed here.")
            elif isinstance(event, CallDone):
                print(f"{event.result.name}: {event.result.code or 'ok'}")
            elif isinstance(event, RunEnded):
                break
        result = await run.wait()
        print(result.state, result.text)


trio.run(main, sys.argv[1])
