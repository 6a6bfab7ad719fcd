"""An asyncio program that gives hilum a tool and a task, and waits for at most a minute."""

import asyncio
import sys

import hilum


class Shop:
    """A plugin: any object with hook implementations."""

    def __init__(self) -> None:
        @hilum.aio.tool(risk="read", effect="pure")
        async def stock(item: str) -> str:
            """Return how many of an item are in stock.

            Args:
                item: Name of the item.
            """
            await asyncio.sleep(0)  # whatever this program awaits: a database, a web service
            return f"12 {item}"

        self.tools = [stock]

    @hilum.hookimpl
    def provide_tools(self) -> list[hilum.Tool]:
        return self.tools


async def main(task: str) -> None:
    async with (
        hilum.aio.open_kernel(["models", "prompt", Shop()]) as kernel,
        kernel.open_session(".") as session,
        asyncio.timeout(60),
    ):
        result = await session.run(task)
        print(result.state, result.text)


asyncio.run(main(sys.argv[1]))
