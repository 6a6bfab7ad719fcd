"""How much of what was sent is sent again unchanged, over all four wire formats.

Run: ``python tests/benchmarks/prefix.py``.

A real run of many turns, in which rules change and tools come and go. Between two requests of a run
the first, without the brackets that close it, must be the beginning of the second; where that is
not so, the log must hold the break with its cause.
"""

import os
import tempfile

import hilum
import trio
from hilum import hookimpl, tool
from hilum.discovery import entry_points
from hilum.events import ModelStarted, PromptFrozen, RunEnded
from hilum.messages import AssistantMessage, Layer, Text, Thinking, ToolCall
from hilum_replay import WireRequest, serve

APIS = {"chat": "/v1", "responses": "/v1", "anthropic": "", "gemini": "/v1beta"}
TURNS, RUNS = 40, 3


@tool(risk="read", effect="pure")
async def look(number: int) -> str:
    """Look at something."""
    return f"Saw {number}: ümläut \\n\t" + "x" * 500


@tool(risk="read", effect="pure")
async def late(number: int) -> str:
    """Come late."""
    return f"Late {number}."


class Changing:
    """A plugin whose rules and tools change while a run goes on."""

    turn = 0

    @hookimpl
    def provide_tools(self):  # type: ignore[no-untyped-def]
        return [look, late] if self.turn % 16 > 8 else [look]

    @hookimpl
    def build_prompt_layer(self):  # type: ignore[no-untyped-def]
        return Layer(40, "rules", f"Rule {self.turn // 10}.")

    @hookimpl
    def remind(self, agent):  # type: ignore[no-untyped-def]
        self.turn += 1
        agent.session.tools_changed()
        return "Mind the rules." if self.turn % 3 == 0 else None


async def bodies_of(api: str) -> tuple[list[bytes], list[object]]:
    """Run the session; give the bodies as the server got them, and the events."""

    def script(asked: WireRequest) -> AssistantMessage | str:
        if asked.number % TURNS == 0:
            return "Done."
        calls = tuple(
            ToolCall(f"call-{asked.number:05}-{n}", "look", f'{{"number":{n}}}')
            for n in range(asked.number % 3 + 1)
        )
        thinking = (Thinking("Hm."),) if api == "chat" else ()
        return AssistantMessage((*thinking, Text(f"Turn {asked.number} — é.", "model"), *calls))

    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(work := f"{folder}/work")
        async with serve(script, keep=10_000) as server:
            os.environ |= {"HILUM_DATA": f"{folder}/own", "HILUM_CONFIG": f"{folder}/own"}
            provider = {"base_url": server.url + APIS[api], "api": api}
            settings = {"model": "lab/m", "models.providers": {"lab": provider}, "turns": TURNS + 1}
            installed = list(entry_points("hilum"))
            async with (
                hilum.open_kernel([*installed, Changing()], settings=settings) as kernel,
                kernel.open_session(work) as session,
            ):
                for _ in range(RUNS):
                    ended = await session.run("Look around.")
                    assert ended.state == "completed", ended
                events = list(await kernel.store.read(session.id, 0, 100_000))
            assert not server.failures
            return server.bodies, events


def kept(before: bytes, after: bytes) -> int:
    """How many bytes of a body, without what closes it, the next one begins with."""
    before = before.rstrip(b"]}")
    if after.startswith(before):
        return len(before)
    return next(n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)


def excepted(events: list[object]) -> list[bool]:
    """For each request, whether the prompt was built anew before it (by a new run, a compaction, another
    mode or model).
    """
    found, anew = [], False
    for event in events:
        if isinstance(event, PromptFrozen | RunEnded):
            anew = True
        elif isinstance(event, ModelStarted):
            found.append(anew)
            anew = False
    return found


async def main() -> None:
    """Print the table."""
    print(
        "wire format   requests   pairs   bytes already sent   sent again unchanged   breaks logged   bar"
    )
    for api in APIS:
        bodies, events = await bodies_of(api)
        anew = excepted(events)
        assert len(anew) == len(bodies)
        pairs = [(a, b) for a, b, new in zip(bodies, bodies[1:], anew[1:], strict=False) if not new]
        total = sum(len(a.rstrip(b"]}")) for a, _ in pairs)
        same = sum(kept(a, b) for a, b in pairs)
        share = f"{100 * same / total:.3f} %"
        print(
            f"{api:14}{len(bodies):8}{len(pairs):8}{total:21,}{share:>23}{sum(anew):16}   100 %",
            flush=True,
        )


if __name__ == "__main__":
    trio.run(main)
