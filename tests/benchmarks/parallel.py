"""How long eight calls of half a second take that a model asks for at once.

Run: ``python tests/benchmarks/parallel.py``.
"""

import os
import statistics
import tempfile

import hilum
import trio
from hilum import hookimpl, tool
from hilum.discovery import entry_points
from hilum.events import ModelAnswered, RoundEnded
from hilum.messages import AssistantMessage, ToolCall
from hilum_replay import WireRequest, serve

CALLS, SECONDS, ROUNDS = 8, 0.5, 10


@tool(risk="read", effect="pure")
async def rest() -> str:
    """Rest for half a second."""
    await trio.sleep(SECONDS)
    return "rested"


class Resting:
    """A plugin with a tool that takes half a second."""

    @hookimpl
    def provide_tools(self):  # type: ignore[no-untyped-def]
        return [rest]


async def measure(name: str, arguments: str, rounds: int) -> list[float]:
    """Give the seconds from the answer to the end of its calls, for some rounds of one run."""

    def script(asked: WireRequest) -> AssistantMessage | str:
        if asked.number > rounds:
            return "Rested."
        return AssistantMessage(
            tuple(ToolCall(f"call-{asked.number:04}-{n}", name, arguments) for n in range(CALLS))
        )

    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(work := f"{folder}/work")
        async with serve(script) as server:
            os.environ |= {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "none"}
            os.environ |= {"HILUM_DATA": f"{folder}/own", "HILUM_CONFIG": f"{folder}/own"}
            installed = list(entry_points("hilum"))
            settings = {"model": "openai/m", "approve": "auto", "turns": rounds + 1}
            async with (
                hilum.open_kernel([*installed, Resting()], settings=settings) as kernel,
                kernel.open_session(work) as session,
            ):
                ended = await session.run("Rest.")
                assert ended.state == "completed", ended
                events = await kernel.store.read(session.id, 0, 10_000)
    answers = [event.at for event in events if isinstance(event, ModelAnswered)]
    rounds_ended = [event.at for event in events if isinstance(event, RoundEnded)]
    return [end - begin for begin, end in zip(answers, rounds_ended, strict=False)]


async def main() -> None:
    """Print the table."""
    print(f"{CALLS} calls of {SECONDS} s            median s   worst s   bar")
    for label, name, arguments in (
        ("in-process tool", "rest", "{}"),
        ("bash -c tool", "run_terminal_cmd", '{"command":"sleep 0.5"}'),
    ):
        seconds = await measure(name, arguments, ROUNDS)
        print(
            f"{label:26}{statistics.median(seconds):10.3f}{max(seconds):10.3f}   0.55 s", flush=True
        )


if __name__ == "__main__":
    trio.run(main)
