"""Types of ``hilum.blocking``: the kernel's classes, synchronous. A test compares both."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, type_check_only

from hilum import kernel, runs, session
from hilum.events import AnyEvent, Delta, RunEnded
from hilum.journal import Kinds
from hilum.messages import Image
from hilum.store import Store
from hilum.tools import Tool

@type_check_only
class Run(runs.Run):
    session: Session
    def wait(self) -> RunEnded: ...  # type: ignore[override]
    def events(self, *, deltas: bool = False) -> Iterator[AnyEvent | Delta]: ...  # type: ignore[override]

@type_check_only
class Session(session.Session):
    kernel: Kernel
    def events(  # type: ignore[override]
        self,
        after: int = 0,
        *,
        deltas: bool = False,
        kinds: Kinds = (),
    ) -> Iterator[AnyEvent | Delta]: ...
    def wait_for_request(self) -> None: ...  # type: ignore[override]
    def steer(self, text: str, *, agent: str = "main") -> str: ...  # type: ignore[override]
    def prompt(  # type: ignore[override]
        self,
        text: str,
        *,
        agent: str = "main",
        state: Mapping[str, object] | None = None,
        piped: bool = False,
        attached: str = "",
        images: Sequence[Image] = (),
    ) -> Run: ...
    def run(  # type: ignore[override]
        self,
        text: str,
        *,
        agent: str = "main",
        state: Mapping[str, object] | None = None,
        piped: bool = False,
        attached: str = "",
        images: Sequence[Image] = (),
    ) -> RunEnded: ...
    def resume(self) -> list[Run]: ...  # type: ignore[override]
    def retry(self, agent: str = "main") -> Run: ...  # type: ignore[override]
    def repeat_call(self, call: str) -> Run: ...  # type: ignore[override]

@type_check_only
class Kernel(kernel.Kernel):
    def open_session(  # type: ignore[override]
        self,
        workspace: str | os.PathLike[str] = ".",
        *,
        resume: str = "",
        kind: str = "",
        attended: bool | None = None,
        mode: str | None = None,
        model: str | None = None,
        approve: str | None = None,
    ) -> AbstractContextManager[Session]: ...
    def fork(  # type: ignore[override]
        self, session: str, upto: int | None = None, *, queued: bool = True, grants: bool = True
    ) -> str: ...

def open_kernel(
    plugins: Sequence[object] | None = None,
    *,
    extra_plugins: Sequence[object] = (),
    without: Sequence[str] = (),
    tools: Iterable[Tool | Callable[..., Any]] = (),
    model: str = "",
    settings: Mapping[str, object] | None = None,
    workspace: str | os.PathLike[str] | None = None,
    store: Store | None = None,
    environ: Mapping[str, str] = os.environ,
    project_plugins: Sequence[str] = (),
    required: Sequence[str] = (),
    project_settings: bool = True,
    expects_prompt: bool = False,
) -> AbstractContextManager[Kernel]: ...
def open_standard_session(
    workspace: str | os.PathLike[str] = ".",
    *,
    resume: str = "",
    kind: str = "",
    attended: bool | None = None,
    mode: str | None = None,
    model: str = "",
    approve: str | None = None,
    plugins: Sequence[object] | None = None,
    extra_plugins: Sequence[object] = (),
    without: Sequence[str] = (),
    tools: Iterable[Tool | Callable[..., Any]] = (),
    required: Sequence[str] = (),
    settings: Mapping[str, object] | None = None,
    store: Store | None = None,
    environ: Mapping[str, str] = os.environ,
    needs_model: bool = True,
    prepare: Callable[[kernel.Kernel], object] | None = None,
    share: bool = False,
    project_settings: bool = True,
    expects_prompt: bool = False,
) -> AbstractContextManager[Session]: ...
