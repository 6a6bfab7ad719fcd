"""A session with everything that hilum-context asks, in a project of its own.

And what the model was sent.
"""

import re
import shlex
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hilum import Text, UserMessage
from hilum.events import PluginEvent
from hilum.testing import Bench, open_bench

PLUGINS = ("files", "guard", "search", "shell", "lint", "context")
_BLOCK = re.compile(r'<(\w+)(?: path="([^"]*)")?(?: line="(\d+)")?>\n(.*)\n</\1>', re.DOTALL)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "proj"
    root.mkdir()
    return root


@pytest.fixture
def put(root: Path) -> Callable[..., None]:
    """Write files into the project."""

    def put(files: dict[str, str | bytes]) -> None:
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(text.encode() if isinstance(text, str) else text)

    return put


@pytest.fixture
def git(root: Path) -> Callable[[str], None]:
    """Run Git in the project, as somebody."""

    def git(command: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(
            ["git", *who, *shlex.split(command)], cwd=root, check=True, stdout=subprocess.DEVNULL
        )

    return git


@pytest.fixture
def opened(root: Path) -> Callable[..., AbstractAsyncContextManager[Bench]]:
    """Open a bench in the project, without sandbox and snapshots unless settings say otherwise."""

    @asynccontextmanager
    async def opened(
        *more: Any, plugins: tuple[str, ...] = PLUGINS, **options: Any
    ) -> AsyncIterator[Bench]:
        settings = {
            "context.timeout": 20,
            "context.search_timeout": 20,
            **options.pop("settings", {}),
        }
        # What is the same in every prompt has a test of its own.
        settings.setdefault("context.environment", False)
        if "guard" in plugins:
            settings.setdefault("guard.sandbox", "off")
        if "files" in plugins:
            settings.setdefault("files.snapshots", False)
        options = {"workspace": root, "answers": ["Yes."] * 9, "faults": True, **options}
        async with open_bench(*plugins, *more, settings=settings, **options) as bench:
            yield bench

    return opened


class Sent:
    """What the last request carried of context.

    Attributes:
        text: The user's message, all of it.
        blocks: Tag, path, line and text of each block, in their order.
        event: The data of the last ``context.gathered``.
    """

    def __init__(self, bench: Bench) -> None:
        message = [each for each in bench.requests[-1].messages if isinstance(each, UserMessage)][
            -1
        ]
        texts = [part for part in message.parts if isinstance(part, Text)]
        self.text = "\n".join(part.text for part in texts)
        self.blocks = []
        for part in texts:
            if part.source.startswith("context:"):
                found = _BLOCK.fullmatch(part.text)
                assert found, part.text
                assert part.source == f"context:{found[1]}"
                self.blocks.append((found[1], found[2] or "", int(found[3] or 0), found[4]))
        events = [event.data for event in bench.of(PluginEvent) if event.name == "context.gathered"]
        self.event = events[-1] if events else {}

    def of(self, tag: str) -> list[tuple[str, int, str]]:
        """Path, line and text of the blocks with a tag."""
        return [block[1:] for block in self.blocks if block[0] == tag]

    @property
    def left_out(self) -> dict[str, str]:
        """Why something was left out, by path."""
        return {each["path"]: each["why"] for each in self.event["left_out"]}


@pytest.fixture
def ask() -> Callable[..., Any]:
    """Prompt a bench with a state, and give what was sent."""

    async def ask(bench: Bench, text: str = "Go on.", **state: Any) -> Sent:
        await bench.run(text, state=state)
        return Sent(bench)

    return ask
