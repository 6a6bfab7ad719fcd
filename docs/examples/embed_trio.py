"""A trio program that gives hilum tasks, prints each call, and approves edits but nothing else."""

import sys

import hilum
import trio
from hilum.events import ApprovalAsked, CallDone


async def work(session: hilum.Session, task: str) -> None:
    run = await session.prompt(task)
    async for event in run.events():
        if isinstance(event, ApprovalAsked):
            session.answer(event.id, event.risk == "write", reason="Only edits are allowed here.")
        elif isinstance(event, CallDone):
            print(f"{event.result.name}: {event.result.code or 'ok'}")
    result = await run.wait()
    print(result.state, result.text)


async def main(tasks: list[str]) -> None:
    async with hilum.open_standard_session(".") as session:
        for task in tasks:
            await work(session, task)


trio.run(main, sys.argv[1:])
