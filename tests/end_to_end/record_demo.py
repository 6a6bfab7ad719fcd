"""Records the cassette of ``hilum demo``: ``python tests/end_to_end/record_demo.py``.

The model's answers are in this file; everything else is real: the answers go through a gateway,
real tools run on the real program, and the recorder writes the exchange. Values that differ between
runs (times, digests of prompt and tools) are removed, so that recording again produces the same
file.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hilum
import hilum_replay
import msgspec
import trio
from hilum.messages import AssistantMessage, Text, ToolCall, Usage
from hilum_cli.demo import CASSETTE, EXPECTED, PLUGINS, TESTS, copy_project, diff, run_options

if TYPE_CHECKING:
    from hilum_replay import Cassette, WireRequest

# The assumption of a model that has not read the file.
GUESS = """    def minutes(self):
        return self.end - self.start
"""
GUESS_NEW = GUESS.replace("self.end - self.start", "(self.end - self.start) % 1440")
NOW = '''        """How long it took."""
        return self.end - self.start
'''
NEW = '''        """How long it took; work that ends before it began went on past midnight."""
        return (self.end - self.start) % DAY
'''
FIRST = 0.5
SECONDS = 1.1
_TIMES = re.compile(r"\b\d+\.\d+ ?s\b")


def answers() -> Iterator[tuple[str, list[tuple[str, dict[str, object]]]]]:
    """Yield the answers, each as a text and the calls that follow it."""
    yield (
        "I'll look at the project and see what its tests say.",
        [("list_directory", {"path": ".", "depth": 2}), ("run_terminal_cmd", {"command": TESTS})],
    )
    yield (
        (
            "Three tests fail, all of them where work ends past midnight: 22:15-00:45 gives -1290"
            " minutes. I'll look for where the length of an entry is computed."
        ),
        [("run_terminal_cmd", {"command": "grep -rn minutes tally --include='*.py' | sort"})],
    )
    yield (
        "It is the property `minutes` of an entry. I'll make it count on into the next day.",
        [("edit_file", {"path": "tally/entries.py", "old_string": GUESS, "new_string": GUESS_NEW})],
    )
    yield (
        "I have not read the file yet, only guessed at it. I'll read it.",
        [("read_file", {"path": "tally/entries.py", "start_line": 1, "end_line": 35})],
    )
    yield (
        "There it is, and `DAY` exists already. I'll take the difference modulo a day.",
        [("edit_file", {"path": "tally/entries.py", "old_string": NOW, "new_string": NEW})],
    )
    yield "Now the tests again.", [("run_terminal_cmd", {"command": TESTS})]
    yield (
        (
            "Fixed. An entry that runs past midnight, such as 22:15-00:45, ends on the next day,"
            " but its length was computed as if it ended on the same one, which gave -1290 minutes."
            " `Entry.minutes` in `tally/entries.py` now counts modulo 24 hours. All 7 tests pass; 3"
            " of them failed before."
        ),
        [],
    )


async def record() -> tuple[Cassette, str]:
    """Run the scripted model, and return the cassette and the diff of the program."""
    script = iter(enumerate(answers(), 1))

    def answer(request: WireRequest) -> hilum_replay.Answer:
        turn, (text, calls) = next(script)
        made = [
            ToolCall(f"call_{turn}_{n}", name, json.dumps(args))
            for n, (name, args) in enumerate(calls, 1)
        ]
        message = AssistantMessage((Text(text, "model"), *made), stop="calls" if made else "end")
        # There is no real token count; hilum itself estimates four bytes per token.
        size = len(text) + sum(len(call.arguments) for call in made)
        return hilum_replay.Answer(message, Usage(input=len(request.body) // 4, output=size // 4))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = run_options(copy_project(folder / "tally"), folder)
        recorder = hilum_replay.Recorder(title="A time sheet past midnight")
        async with hilum_replay.serve(answer) as server:
            provider = {"recorded": {"base_url": f"{server.url}/v1", "api": "chat"}}
            async with (
                hilum.open_kernel(
                    [plugin for plugin in PLUGINS if plugin != "store"],
                    model=options.model,
                    settings={"models.providers": provider},
                    environ=options.environ,
                ) as kernel,
                kernel.open_session(options.workspace, kind="headless", approve="auto") as session,
            ):
                await session.run(options.prompt)
                for event in session.journal.since(0):
                    recorder.feed(event)
        return steady(recorder.cassette), diff(Path(options.workspace))


def steady(cassette: Cassette) -> Cassette:
    """Remove values that differ between recordings."""
    ids = [call.id for exchange in cassette.exchanges for call in exchange.answer.calls]
    named = {identity: f"call_{number}" for number, identity in enumerate(ids, 1)}
    exchanges = []
    for number, exchange in enumerate(cassette.exchanges):
        parts = [
            msgspec.structs.replace(part, id=named[part.id]) if isinstance(part, ToolCall) else part
            for part in exchange.answer.parts
        ]
        sent = [
            msgspec.structs.replace(
                item, text=_TIMES.sub("0.1 s", item.text), call=named.get(item.call, item.call)
            )
            for item in exchange.sent
        ]
        change = {
            "answer": msgspec.structs.replace(exchange.answer, parts=tuple(parts)),
            "sent": tuple(sent),
            # The system prompt changes with each version; the demo compares only the shape.
            "layers": None,
            "tools": None,
            "first": FIRST,
            "seconds": SECONDS if number else FIRST,
        }
        exchanges.append(msgspec.structs.replace(exchange, **change))
    return msgspec.structs.replace(cassette, exchanges=tuple(exchanges), hilum="")


def main() -> None:
    """Write the cassette and the diff to the package."""
    cassette, change = trio.run(record)
    hilum_replay.save(cassette, CASSETTE)
    EXPECTED.write_text(change, encoding="utf-8")


if __name__ == "__main__":
    main()
