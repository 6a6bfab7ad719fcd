"""Projects with language servers, installed as a project's own: real ones, and one that misbehaves."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hilum.testing import Bench, open_bench

BIN = Path(sys.executable).parent
FAKE = Path(__file__).with_name("fake_server.py")


@pytest.fixture(autouse=True)
def no_other_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the servers of this machine: the tests bring their own."""
    servers = ("pyright-langserver", "basedpyright-langserver", "typescript-language-server", "tsc")
    folders = os.environ["PATH"].split(os.pathsep)
    kept = [each for each in folders if not any((Path(each) / name).exists() for name in servers)]
    monkeypatch.setenv("PATH", os.pathsep.join(kept))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "proj"
    root.mkdir()
    return root


@pytest.fixture
def put(root: Path) -> Callable[..., None]:
    """Write files into the project."""

    def put(files: dict[str, str]) -> None:
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    return put


@pytest.fixture
def install(root: Path) -> Callable[..., None]:
    """Put programs of this environment into the project's own."""

    def install(*names: str) -> None:
        (root / ".venv/bin").mkdir(parents=True, exist_ok=True)
        for name in names:
            (root / ".venv/bin" / name).symlink_to(BIN / name)

    return install


@pytest.fixture
def misbehave(root: Path) -> Callable[..., None]:
    """Install a server under the name of ty that misbehaves in a certain way."""

    def misbehave(*ways: str) -> None:
        program = root / ".venv/bin/ty"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S {FAKE} {' '.join(ways)}\n")
        program.chmod(0o755)

    return misbehave


@pytest.fixture
def misbehave_as_clangd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a server under the name of clangd, which reads a project in the background."""

    def misbehave_as_clangd(*ways: str) -> None:
        program = tmp_path / "bin/clangd"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S {FAKE} {' '.join(ways)}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")

    return misbehave_as_clangd


@pytest.fixture
def opened(root: Path) -> Callable[..., AbstractAsyncContextManager[Bench]]:
    """Open a bench in the project, which is trusted unless said otherwise."""

    @asynccontextmanager
    async def opened(
        *plugins: object,
        trusted: bool = True,
        answers: Any = (),
        approve: Any = "auto",
        environ: Any = None,
        **settings: Any,
    ) -> AsyncIterator[Bench]:
        chosen = {"lint.trusted": [str(root)] if trusted else [], **settings}
        names = ("lint", "lsp", "files", *plugins)
        async with open_bench(
            *names,
            answers=answers,
            settings=chosen,
            workspace=root,
            approve=approve,
            environ=environ,
        ) as bench:
            yield bench

    return opened
