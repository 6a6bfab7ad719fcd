"""The option ``--hilum-corpus`` of pytest, which replays recorded sessions with a plugin loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hilum import HilumError

from hilum_replay.sessions.recording import SESSION_FILE

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


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore the files of recorded sessions, which may contain the tests of the recorded project."""
    return True if (collection_path / SESSION_FILE).is_file() else None


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
