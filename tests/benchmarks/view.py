"""What the view of a session costs: folding an event beside reading it from its line of the log.

``python tests/benchmarks/view.py`` prints a table. The history is made of turns with a streamed
answer and a call, so that it holds what long sessions hold; an event late in a long session must
cost what an early one costs. Everything is compared within one run.
"""

import argparse
import statistics
import time
from collections.abc import Iterator

from hilum import events as ev
from hilum.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage, UserMessage
from hilum_view import SessionView
from msgspec.structs import replace

ROUNDS = 7


def history(count: int) -> list[ev.Event]:
    """Make about this many events: runs of twenty turns, in each a call with 2 KB of result."""
    events: list[ev.Event] = []
    for event in turns():
        if len(events) >= count:
            return events
        events.append(event)
    raise AssertionError("turns never end")


def turns() -> Iterator[ev.Event]:
    """Yield events for ever, numbered."""
    seq = 0
    for number in range(1_000_000):
        run = f"r{number // 20}"
        for event in one_turn(number, run):
            seq += 1
            yield ev.decode(ev.encode(replaced(event, seq, run)))


def replaced(event: ev.Event, seq: int, run: str) -> ev.Event:
    """Put an event in its place."""
    return replace(event, seq=seq, at=float(seq), agent="main", run=run)


def one_turn(number: int, run: str) -> Iterator[ev.Event]:
    """Yield the events of a turn; every twentieth begins a run."""
    if number % 20 == 0:
        if number:
            yield ev.RunEnded(state="completed", text="Done.")
        yield ev.RunStarted(text="Go on.", message=UserMessage((Text("Go on."),)), model="a/b")
    arguments = f'{{"path": "part{number}.py", "start_line": {number}}}'
    call = ToolCall(f"c{number}", "read_file", arguments)
    message = AssistantMessage((Text("I look at it. " * 20), call), "a/b", "calls")
    yield ev.ModelStarted(turn=number % 20 + 1, model="a/b", estimate=1000)
    yield ev.ModelAnswered(message=message, usage=Usage(1000, 900, output=80))
    yield ev.CallStarted(call=call, risk="read", effect="pure", plugin="files")
    yield ev.CallDone(result=ToolResult(call.id, call.name, (Text("x = 1\n" * 340),)))
    yield ev.RoundEnded()


def best(function, *arguments) -> float:
    """Return the least seconds of some rounds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - began)
    return min(times)


def fold(events: list[ev.Event]) -> None:
    """Fold them all."""
    SessionView().apply_all(events)


def read(lines: list[bytes]) -> None:
    """Decode them all."""
    for line in lines:
        ev.decode(line)


def late_beside_early(events: list[ev.Event]) -> float:
    """Return what the last tenth costs beside the first tenth, both folded in one view."""
    tenth = len(events) // 10
    ratios = []
    for _ in range(ROUNDS):
        view = SessionView()
        began = time.perf_counter()
        view.apply_all(events[:tenth])
        early = time.perf_counter() - began
        view.apply_all(events[tenth:-tenth])
        began = time.perf_counter()
        view.apply_all(events[-tenth:])
        ratios.append((time.perf_counter() - began) / early)
    return statistics.median(ratios)


def stream(pieces: int) -> float:
    """Return the seconds that it takes to stream an answer of so many pieces."""
    view = SessionView()
    view.apply(ev.ModelStarted(seq=1, agent="main", turn=1))
    delta = ev.Delta(1, "main", "", "text", "a few words ")
    began = time.perf_counter()
    for _ in range(pieces):
        view.apply(delta)
        view.streaming().text.tail(4_000)
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--events", type=int, default=10_000)
    count = parser.parse_args().events
    events = history(count)
    lines = [ev.encode(event) for event in events]
    folded = best(fold, events)
    decoded = best(read, lines)
    each = 1_000_000 / count
    print(f"{count:,} events: folded {folded * each:.1f} us, decoded {decoded * each:.1f} us each")
    print(f"ratio of folding to decoding: {folded / decoded:.2f}, bar: 6.00")
    print(f"ratio of the last tenth to the first: {late_beside_early(events):.2f}, bar: 1.50")
    ratio = min(stream(40_000) / 40 for _ in range(3)) / min(stream(1_000) for _ in range(3))
    print(f"ratio of a piece of a long answer to one of a short: {ratio:.2f}, bar: 1.50")


if __name__ == "__main__":
    main()
