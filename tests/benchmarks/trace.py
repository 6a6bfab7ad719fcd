"""What traces cost: reading them, and what the log has to record for them.

``python tests/benchmarks/trace.py`` prints a table with the bars. It writes a session of 5,000 turns
through the real store: runs of twenty turns, in each a call, some with an approval, a retry, a slow
hook or a sub-agent. Then it measures the command `hilum trace` as a process, the size of the page,
and, if Chromium is installed, how soon the page can be used and how long its frames take. The share
of a turn that the timing of hooks takes is measured in a session with all plugins.
"""

from collections.abc import Iterator
from pathlib import Path

from hilum import events as ev
from hilum.messages import AssistantMessage, Layer, Text, ToolCall, ToolResult, Usage, UserMessage
from hilum.store import SessionInfo
from hilum_store import SqliteStore
from msgspec.structs import replace

TURNS = 5_000
RUN_TURNS = 20
SESSION = "20260101-0000-bench"
BEGAN = 1_767_225_600.0


def make_turns(count: int) -> Iterator[tuple[float, ev.Event]]:
    """Yield the events of so many turns, each with the seconds since the one before."""
    yield 0.0, ev.SessionOpened(session=SESSION, workspace="/work", version="0.1.0")
    yield 0.0, ev.AgentStarted()
    for number in range(count):
        turn = number % RUN_TURNS + 1
        if turn == 1:
            yield 5.0, ev.PromptQueued(text=f"Prompt {number}: change the shop.")
            message = UserMessage((Text("Change the shop."),))
            yield 0.01, ev.RunStarted(text=f"Prompt {number}", message=message, model="a/b")
            layers = (Layer(0, "meta", "You are hilum. " * 400),)
            yield 0.01, ev.PromptFrozen(layers=layers, tools=(), changed=("layer meta",))
        yield 0.01, ev.ModelStarted(turn=turn, model="a/b", estimate=9_000)
        if number % 50 == 7:
            yield (
                1.0,
                ev.ModelFailed(
                    attempt=1,
                    model="a/b",
                    kind="server",
                    code="E_MODEL",
                    message="503",
                    action="retry",
                    wait=1.0,
                ),
            )
            yield 1.0, ev.ModelStarted(attempt=2, turn=turn, model="a/b", estimate=9_000)
        call = ToolCall(f"c{number}", "read_file", f'{{"path": "part{number}.py"}}')
        answer = AssistantMessage((Text("I look at it. " * 20), call), "a/b", "calls")
        usage = Usage(9_000, 8_500, output=120, cost=0.004)
        yield 2.5, ev.ModelAnswered(message=answer, usage=usage, first=0.8, seconds=2.5)
        if number % 25 == 3:
            yield 0.01, ev.ApprovalAsked(id=f"a{number}", call=call, risk="write")
            yield 4.0, ev.ApprovalAnswered(id=f"a{number}", accepted=True)
        if number % 40 == 11:
            yield (
                0.08,
                ev.HookCalled(plugin="lint", hook="check_result", seconds=0.08, call=call.id),
            )
        yield 0.01, ev.CallStarted(call=call, risk="read", effect="pure", plugin="files")
        result = ToolResult(call.id, call.name, (Text("x = 1\n" * 340),))
        yield 0.2, ev.CallDone(result=result, seconds=0.2)
        yield 0.01, ev.RoundEnded()
        if turn == RUN_TURNS:
            yield 0.01, ev.RunEnded(state="completed", text="Done.", turns=turn)


def make_events(count: int = TURNS) -> list[ev.Event]:
    """Return the numbered events of a session of so many turns."""
    events: list[ev.Event] = []
    at = BEGAN
    run = 0
    for wait, event in make_turns(count):
        at += wait
        run += isinstance(event, ev.PromptQueued)
        agent = "" if isinstance(event, ev.SessionOpened) else "main"
        name = f"r{run}" if run else ""
        events.append(replace(event, seq=len(events) + 1, at=at, agent=agent, run=name))
    return events


async def write_session(path: Path, workspace: str, events: list[ev.Event]) -> None:
    """Write a session into a new session file."""
    store = SqliteStore(path)
    log = await store.create(SessionInfo(SESSION, workspace, created=BEGAN))
    for first in range(0, len(events), 1000):
        log.append(events[first : first + 1000])
    await log.close()
    await store.close()
