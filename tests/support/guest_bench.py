"""Benches with agents that are other programs: the small guests of the tests of hilum-acp."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from hilum.messages import AssistantMessage, Text, Usage
from hilum.testing import Bench, open_bench
from hilum_replay.server import Answer, serve

PROGRAMS = Path(__file__).parents[1] / "plugins/acp/guest_programs"
PLUGINS = "files search shell guard plan agents scheduler models guests".split()


def answer(text: str = "Hello.", used: int = 100) -> Answer:
    """Return the answer of a guest's model, which used a number of tokens."""
    message = AssistantMessage((Text(text, "model"),), "m")
    return Answer(message, Usage(input=used - 10, output=10))


def write_guest(
    folder: Path, name: str = "guest", program: str = "courteous", front: str = ""
) -> None:
    """Write the file of an agent that is one of the small guests.

    Args:
        folder: The folder of the agents' files.
        name: Name of the agent.
        program: ``courteous`` or ``bypassing``.
        front: Further keys of the file.
    """
    # The guests need no packages, and the path of a test's interpreter is of no use to others.
    command = json.dumps(["python3", str(PROGRAMS / f"{program}_guest.py")])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(
        f"---\nkind: agent\nname: {name}\ndescription: Another agent.\nmodel: openai/priced\n"
        f"runner:\n  command: {command}\n{front}\n---\n"
    )


@contextmanager
def use_home(folder: Path) -> Iterator[None]:
    """Use a home folder below a folder; the sandbox looks it up in this process's environment."""
    changed = {"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache")}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@asynccontextmanager
async def open_guest_bench(
    folder: Path,
    *plugins: object,
    guests: Mapping[str, str] | None = None,
    front: str = "",
    script: Callable[[Any], Any] | None = None,
    settings: Mapping[str, object] | None = None,
    only: Sequence[object] = PLUGINS,
    **options: Any,
) -> AsyncIterator[Bench]:
    """Open a bench with guests, and an emulator of their model.

    Args:
        folder: The folder of the bench.
        plugins: Further plugins.
        guests: The program of each guest, by the name of its agent.
        front: Further keys of their files.
        script: A function that returns the model's answer to a guest's request.
        settings: Settings by dotted key.
        only: The plugins that a guest needs.
        options: Other arguments of ``open_bench``.
    """
    for name, program in (guests or {"guest": "courteous"}).items():
        write_guest(folder / "config" / "agents", name, program, front)
    price = {"price": {"input": 1.0, "output": 1.0}}
    with use_home(folder):
        async with (
            serve(script or (lambda request: answer())) as models,
            open_bench(
                *only,
                *plugins,
                folder=folder,
                environ={
                    "HILUM_CONFIG": str(folder / "config"),
                    "HOME": str(folder / "home"),
                    "XDG_CACHE_HOME": str(folder / "cache"),
                    "OPENAI_BASE_URL": f"{models.url}/v1",
                    "OPENAI_API_KEY": "sk-the-users-own-key-0123456789",
                },
                settings={"models.models": {"openai/priced": price}, **(settings or {})},
                **options,
            ) as bench,
        ):
            yield bench
