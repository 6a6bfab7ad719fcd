"""The option ``--hilum-corpus`` of pytest, which replays recorded sessions with a plugin loaded.

In every run, with the option or without, pytest ignores the files of recordings.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hilum import HilumError

from hilum_replay.sessions.recording import SESSION_FILE
from hilum_replay.sessions.uncollected_files import (
    check_start,
    describe_module,
    find_module,
    find_recording,
    is_recording,
)

STANDARD = "standard"
"""The name of the corpus in this package."""
_CORPUS = Path(__file__).parent.parent / "corpus"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("hilum")
    group.addoption(
        "--hilum-corpus",
        action="append",
        default=[],
        metavar="DIR",
        help=f"replay the recorded sessions in a folder, or those of hilum ({STANDARD})",
    )
    group.addoption(
        "--hilum-plugin",
        action="append",
        default=[],
        metavar="NAME",
        help="a plugin to load in these replays: a name or a file",
    )


def find_corpus(name: str) -> Path:
    """Return the folder of a corpus.

    Raises:
        pytest.UsageError: There is no such folder, or it contains no recordings.
    """
    folder = _CORPUS if name == STANDARD else Path(name)
    if not any(folder.glob(f"*/{SESSION_FILE}")):
        raise pytest.UsageError(
            f"--hilum-corpus: {name} is not {STANDARD!r} or a folder with recorded sessions."
            " `hilum sessions export ID --test NAME -o DIR` writes them."
        )
    return folder


# A wrapper runs before all other implementations: those of pytest change the import path and load
# conftest files, and those of other plugins import modules that settings name.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Check where pytest starts before it loads the first conftest file."""
    check_start(early_config)
    return (yield)


# The first answer counts, and a conftest file may implement this hook.
@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore the files of recorded sessions, which may contain the tests of the recorded project.

    Raises:
        pytest.Collector.CollectError: A recording contains a module that a test file beside it could
            import.
    """
    if is_recording(collection_path):
        module = find_module(collection_path)
        if module is not None:
            raise pytest.Collector.CollectError(describe_module(module))
        return True
    is_link_into_recording = collection_path.is_symlink() and find_recording(collection_path)
    return True if is_link_into_recording else None


def pytest_collection(session: pytest.Session) -> None:
    """Check the options before anything is collected."""
    for name in session.config.getoption("--hilum-corpus"):
        find_corpus(name)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add a test for each recorded session."""
    for name in config.getoption("--hilum-corpus"):
        corpus = Corpus.from_parent(session, name=f"hilum-corpus {name}", path=find_corpus(name))
        items.extend(corpus.collect())


class Corpus(pytest.Collector):
    """A folder of recorded sessions."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each recorded session."""
        for file in sorted(self.path.glob(f"*/{SESSION_FILE}")):
            yield RecordedSessionItem.from_parent(self, name=file.parent.name, path=file.parent)


class RecordedSessionItem(pytest.Item):
    """A test that replays a recorded session."""

    def runtest(self) -> None:
        """Replay the session with the plugins that the options name."""
        from hilum_replay.sessions.session_test import check_session  # imports trio

        factory = self.config._tmp_path_factory  # type: ignore[attr-defined]
        workspace = factory.mktemp("corpus") / "workspace"
        plugins = tuple(self.config.getoption("--hilum-plugin"))
        check_session(self.path, workspace, plugins=plugins)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        """Return the difference, without the frames of the replay."""
        if isinstance(excinfo.value, HilumError):
            error = excinfo.value
            return f"{error.code}: {error.message}\n{error.hint}".strip()
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the test is defined."""
        return self.path / SESSION_FILE, 0, f"corpus: {self.name}"
