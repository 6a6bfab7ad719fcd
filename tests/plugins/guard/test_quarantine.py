"""What the quarantine keeps of the files that it rewrites and replaces."""

import errno
import os
import stat
from pathlib import Path

import pytest
from hilum_guard.repositories import git_metadata
from hilum_guard.repositories.git_metadata import Entry
from hilum_guard.watching.quarantine import Quarantine

CONFIG = '[remote "origin"]\n\turl = https://user:token@example.org/x\n[core]\n\tfsmonitor = evil\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    return tmp_path.resolve()


@pytest.fixture
def config(root: Path) -> Path:
    path = root / "sub/config"
    path.write_text(CONFIG)
    return path


def clean(root: Path) -> list[str]:
    """Remove the setting from the configuration, and return the sentences."""
    entry = Entry("setting", f"{root}/sub/config", "core.fsmonitor=evil")
    return Quarantine([str(root)]).make_inert([entry], [])


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_a_file_that_is_rewritten_keeps_its_mode_and_owner(
    root: Path, config: Path, mode: int
) -> None:
    config.chmod(mode)
    if os.geteuid() == 0:
        os.chown(config, 1234, 5678)
    before = config.stat()
    assert "fsmonitor=evil" in clean(root)[0]
    after = config.stat()
    assert "evil" not in config.read_text()
    assert stat.S_IMODE(after.st_mode) == mode
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert (root / "sub/config.quarantined").read_text() == CONFIG


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_without_hard_links_the_old_file_is_copied(
    root: Path, config: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    config.chmod(0o600)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    clean(root)
    kept = root / "sub/config.quarantined"
    assert kept.read_text() == CONFIG
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "evil" not in config.read_text()


def test_a_file_that_cannot_be_replaced_keeps_its_name(
    root: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "rename", refuse)
    assert "could not be made inert" in clean(root)[0]
    assert config.read_text() == CONFIG
    assert os.listdir(root / "sub") == ["config"]


def test_a_kept_file_is_never_overwritten(
    root: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command creates the file whose name was free a moment ago."""
    link = os.link

    def link_after_another(source: str, target: str, **options: int) -> None:
        other = root / "sub/config.quarantined"
        if not other.exists():
            other.write_text("the command's")
        link(source, target, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", link_after_another)
    assert "config.2.quarantined" in clean(root)[0]
    assert (root / "sub/config.quarantined").read_text() == "the command's"
    assert (root / "sub/config.2.quarantined").read_text() == CONFIG


def test_a_file_that_is_too_large_is_renamed_as_a_whole(root: Path, config: Path) -> None:
    text = CONFIG + "# padding\n" * 110_000
    config.write_text(text)
    (entry,) = git_metadata._find_settings(str(config), str(root / "sub"))
    quarantine = Quarantine([str(root)])
    (sentence,) = quarantine.make_inert([entry], [])
    assert sentence == (
        "sub/config cannot be examined, because it is too large or cannot be read. It is now"
        " sub/config.quarantined."
    )
    assert not config.exists()
    assert (root / "sub/config.quarantined").read_text() == text
    assert list(quarantine.renamed) == [(str(config), f"{config}.quarantined")]


@pytest.mark.parametrize("text", ["gitdir:  /a folder \n", "gitdir: a\x01b\n", "gitdir: \n\n/x\n"])
def test_a_pointer_of_unusual_syntax_is_restored_as_it_was(root: Path, text: str) -> None:
    path = root / "sub/.git"
    path.write_text(text)
    pointer = git_metadata.read_pointer(str(path))
    assert pointer.is_unusual
    before = Entry("pointer", str(path), pointer.detail)
    path.write_text("gitdir: /elsewhere\n")
    quarantine = Quarantine([str(root)])
    quarantine.make_inert([Entry("pointer", str(path), "/elsewhere")], [before])
    assert path.read_text() == text
    assert quarantine.restored == {before}


def test_a_pointer_that_is_too_large_is_left_to_the_user(root: Path) -> None:
    path = root / "sub/.git"
    path.write_text("gitdir: " + "/x" * 600_000)
    before = Entry("pointer", str(path), git_metadata.read_pointer(str(path)).detail)
    assert len(before.detail) == 64
    path.write_text("gitdir: /elsewhere\n")
    quarantine = Quarantine([str(root)])
    new = Entry("pointer", str(path), "/elsewhere")
    (sentence,) = quarantine.make_inert([new], [before])
    assert sentence.endswith("Write your own sub/.git again: it was too large to be kept.")
    assert not path.exists()
    assert quarantine.restored == set()
