"""Projects with rules, a user with rules, and what is read of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hilum_rules.discovery import find_paths
from hilum_rules.rule_store import RuleStore
from hilum_rules.settings import RulesSettings

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture
def samples() -> Path:
    return SAMPLES


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home folder, empty."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return home


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a repository."""
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    return root


@pytest.fixture
def put(root: Path) -> Callable[..., None]:
    """Write files, by default below the root of the repository."""

    def put(files: dict[str, str | bytes], below: Path = root) -> None:
        for name, text in files.items():
            (below / name).parent.mkdir(parents=True, exist_ok=True)
            (below / name).write_bytes(text.encode() if isinstance(text, str) else text)

    return put


@pytest.fixture
def current(root: Path, home: Path) -> Callable[..., RuleStore]:
    """Read the rules of the repository, or of a folder in it."""

    def read(folder: str = ".", kind: str = "main", **settings: object) -> RuleStore:
        current = RuleStore(
            find_paths(root / folder, home / "config"), RulesSettings(**settings), kind
        )
        current.load()
        return current

    return read
