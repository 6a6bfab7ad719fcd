"""How much of a long session's prompts a provider's cache can hold:
``python tests/benchmarks/cache.py``.

A session of 20 runs and 300 turns over HTTP, with all plugins, over all four wire formats; 12 times
a rule is edited or a skill switched in the middle of a run, every few turns a note on the todo list
comes, two compactions are made. The bytes of each request are put in the order in which providers cache
them (tools, system, messages); what the next request begins with is kept. Each break must be
explained by the log: by a compaction, or by the layers and tools that it names as changed.
"""

import json
import os
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import hilum
import trio
from hilum import hookimpl, tool
from hilum.discovery import entry_points
from hilum.events import Compacted, ModelStarted, PromptFrozen
from hilum.messages import AssistantMessage, Text, ToolCall
from hilum_replay import WireRequest, serve
from hilum_skills.user_choices import set_choice

APIS = {"chat": "/v1", "responses": "/v1", "anthropic": "", "gemini": "/v1beta"}
RUNS, TURNS = 20, 15
EDITS = [n * 24 + 5 for n in range(12)]
COMPACTIONS = {7, 14}
SUMMARY = "\n".join(
    f"## {name}\nWhat src/app.py needs.\n"
    for name in ("Goal", "Decisions", "Files", "Facts", "Open work")
)


@tool(risk="read", effect="pure")
async def look(number: int) -> str:
    """Look at something."""
    return f"Saw {number}.\n" + "    total += value  # and so on, as files go\n" * (5 + number % 30)


class Work:
    """What the agent works with: a tool, and a todo list that moves on."""

    turn = 0

    @hookimpl
    def provide_tools(self):  # type: ignore[no-untyped-def]
        return [look]

    @hookimpl
    def remind(self):  # type: ignore[no-untyped-def]
        self.turn += 1
        return f"Todo: item {self.turn // 4} is in progress." if self.turn % 4 == 0 else None


def furnish(work: Path, own: Path) -> None:
    """Write rules for the folder, and skills of the user."""
    work.mkdir()
    (work / "AGENTS.md").write_text(
        "# Style\n" + "".join(f"- Keep functions of kind {n} short.\n" for n in range(40))
    )
    for number in range(10):
        skill = own / "skills" / f"skill-{number}"
        skill.mkdir(parents=True)
        text = (
            f"---\nname: skill-{number}\ndescription: Does thing {number}.\n---\n"
            + "Do it step by step.\n" * 10
        )
        (skill / "SKILL.md").write_text(text)


def edit(work: Path, number: int) -> None:
    """Edit a rule, or switch a skill, in turns."""
    if number % 2:
        set_choice("disabled", "skill-3", present=number % 4 == 1)
    else:
        with (work / "AGENTS.md").open("a") as file:
            file.write(f"- Rule {number} came later.\n")


async def bodies_of(api: str) -> tuple[list[bytes], list[Any]]:
    """Run the session; give the bodies of the agent's requests, and the events."""
    number = 0

    def script(asked: WireRequest) -> AssistantMessage | str:
        nonlocal number
        if b"You summarize the earlier part" in server.bodies[-1]:
            return SUMMARY
        number += 1
        if number in EDITS:
            edit(work, EDITS.index(number))
        if number % TURNS == 0:
            return "Done."
        return AssistantMessage(
            (
                Text(f"Turn {number}.", "model"),
                ToolCall(f"call-{number:05}", "look", f'{{"number":{number}}}'),
            )
        )

    with tempfile.TemporaryDirectory() as folder:
        work, own = Path(folder, "work"), Path(folder, "own")
        furnish(work, own)
        async with serve(script, keep=10_000) as server:
            os.environ |= {"HILUM_DATA": str(own), "HILUM_CONFIG": str(own), "HOME": folder}
            provider = {"base_url": server.url + APIS[api], "api": api}
            settings = {"model": "lab/m", "models.providers": {"lab": provider}, "turns": TURNS + 1}
            settings["models.models"] = {
                "lab/m": {"window": 400_000}
            }  # so that only those compactions come that are asked for
            async with (
                hilum.open_kernel([*entry_points("hilum"), Work()], settings=settings) as kernel,
                kernel.open_session(work) as session,
            ):
                for run in range(RUNS):
                    if run in COMPACTIONS:
                        session.compact()
                    ended = await session.run("Look around, and see what the total is made of.")
                    assert ended.state == "completed", ended
                events = list(await kernel.store.read(session.id, 0, 100_000))
            assert not server.failures
            return [
                body for body in server.bodies if b"You summarize the earlier part" not in body
            ], events


def ordered(body: bytes) -> bytes:
    """The bytes of a request in the order of caching: tools, system, messages."""
    data = json.loads(body)
    messages = data.get("messages") or data.get("input") or data.get("contents")
    system = [m for m in messages if m.get("role") == "system"] or [
        data.get(key) for key in ("system", "instructions", "systemInstruction")
    ]
    said = [m for m in messages if m.get("role") != "system"]
    return "".join(
        json.dumps(part, ensure_ascii=False)[:-1] for part in (data.get("tools"), system, said)
    ).encode()


def prefix(before: bytes, after: bytes) -> int:
    """How many bytes of a request the next one begins with."""
    if after.startswith(before):
        return len(before)
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if before[:middle] == after[:middle] else (low, middle - 1)
    return low


def causes(events: list[Any]) -> list[str]:
    """For each request why the prompt before it was built anew, empty if it was not.

    And what changed.
    """
    found, why, compacted = [], "", ""
    for event in events:
        if isinstance(event, Compacted):
            compacted = f"compaction ({event.cause})"
        elif isinstance(event, PromptFrozen):
            why = compacted or (
                f"{event.cause}: {', '.join(event.changed)}" if event.changed else ""
            )
        elif isinstance(event, ModelStarted):
            found.append(why)
            why = compacted = ""
    return found


async def main() -> None:
    """Print the table."""
    shares = []
    print(
        "wire format   requests   within runs   all    bar            breaks: by cause, unexplained"
    )
    for api in APIS:
        bodies, events = await bodies_of(api)
        why, sent = causes(events), [ordered(body) for body in bodies]
        assert len(why) == len(sent), (len(why), len(sent))
        total, same, inside, whole, broken, unexplained = 0, 0, 0, 0, Counter[str](), 0
        for number, (before, after) in enumerate(pairwise(sent), 1):
            found = prefix(before, after)
            total, same = total + len(before), same + found
            if number % TURNS:
                inside, whole = inside + len(before), whole + found
            if found < len(before):
                broken[why[number]] += 1
                unexplained += not why[number]
        shares.append((whole / inside, same / total, unexplained))
        told = "; ".join(f"{count} × {cause}" for cause, count in broken.items())
        print(
            f"{api:14}{len(sent):8}{whole / inside:13.2%}{same / total:9.2%}   100 %, 95 %   {told}; {unexplained}",
            flush=True,
        )
    sys.exit(any(inside < 1 or all_ < 0.95 or unexplained for inside, all_, unexplained in shares))


if __name__ == "__main__":
    trio.run(main)
