"""An MCP server for tests, over stdio or HTTP: tools, resources, prompts, progress, changes of the
list, questions.
"""

import sys

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from pydantic import BaseModel

server = MCPServer("tests", instructions="Call add for sums.")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f645400000"
    "000049454e44ae426082"
)


class Sum(BaseModel):
    total: int


class Name(BaseModel):
    name: str
    age: int
    sure: bool = True


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
def echo(call: str) -> str:
    """Say it again."""
    return call


@server.tool()
def picture() -> Image:
    """Show a picture."""
    return Image(data=PIXEL, format="png")


@server.tool()
def wrong() -> str:
    """Fail."""
    raise ValueError("it went wrong")


@server.tool()
async def slow(ctx: Context, steps: int, seconds: float = 0.05) -> str:
    """Take a while."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        await anyio.sleep(seconds)
    return "done"


@server.tool()
async def stuck(path: str) -> str:
    """Never end; writes what became of it to a file."""
    try:
        await anyio.Path(path).write_text("begun")
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.Path(path).write_text("cancelled")


@server.tool()
def die(code: int = 3) -> str:
    """End the server at once."""
    import os

    print("the server gives up", file=sys.stderr, flush=True)
    os._exit(code)


@server.tool()
async def grow(ctx: Context, name: str = "grown") -> str:
    """Have one more tool."""

    def grown() -> str:
        """It was not there."""
        return "grown up"

    server.add_tool(grown, name=name)
    await ctx.notify_tools_changed()  # to those who listen, as in the second era
    await ctx.session.send_tool_list_changed()
    return "One more tool."


@server.tool()
async def who(ctx: Context) -> str:
    """Ask the user."""
    found = await ctx.elicit("Who are you?", Name)
    return f"{found.action} {getattr(found, 'data', None)}"


@server.tool()
async def roots(ctx: Context) -> str:
    """Give the folders."""
    return " ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@server.tool()
async def think(ctx: Context, about: str) -> str:
    """Ask the client's model."""
    import mcp_types as t

    message = t.SamplingMessage(role="user", content=t.TextContent(type="text", text=about))
    answer = await ctx.session.create_message([message], max_tokens=100, system_prompt="Be brief.")
    return f"{answer.model}: {answer.content.text}"


@server.resource("note://{name}")
def note(name: str) -> str:
    """A note."""
    return f"the note {name}"


@server.resource("all://notes")
def notes() -> str:
    """All notes."""
    return "one, two"


@server.prompt()
def review(path: str, tone: str = "kind") -> str:
    """Review a file."""
    return f"Review {path}, and be {tone}."


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    elif sys.argv[1:2] == ["sse"]:
        server.run("sse", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
