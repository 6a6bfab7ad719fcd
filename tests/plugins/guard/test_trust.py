"""Trust in folders: nothing that can execute before the user's word, and again after each change."""

import os

import pytest
from hilum import UsageError
from hilum_guard import Trust, trusted
from hilum_guard.trust import executable


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project that brings a plugin along."""
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    plugin = tmp_path / "project" / ".hilum" / "plugins" / "own.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("print('hello')\n")
    return tmp_path / "project"


def test_a_folder_is_untrusted_until_the_user_says_otherwise(project):
    """And trusted from then on, by whatever path it is named."""
    assert not trusted(project)
    assert Trust().add(project) == [".hilum/plugins/own.py"]
    assert trusted(project)
    (project.parent / "link").symlink_to(project)
    assert trusted(project.parent / "link")
    assert Trust().remove(project)
    assert not trusted(project)
    assert not Trust().remove(project)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: (p / ".hilum/plugins/own.py").write_text("print('evil')\n"),
        lambda p: (p / ".hilum/plugins/own.py").chmod(0o755),
        lambda p: (p / ".hilum/mcp.toml").write_text(""),
        lambda p: (p / ".hilum/plugins/own.py").rename(p / ".hilum/plugins/own2.py"),
        lambda p: (p / ".hilum/plugins/own.py").unlink(),
        lambda p: (p / ".hilum/new/deep").mkdir(parents=True) or (p / ".hilum/new/deep/x").write_text(""),
        lambda p: (p / ".hilum/link").symlink_to("/etc"),
        lambda p: os.mkfifo(p / ".hilum/pipe"),
    ],
    ids=["content", "mode", "new file", "name", "removed", "deep", "link", "pipe"],
)
def test_any_change_of_what_can_execute_ends_trust(project, change):
    """Asked again; a link or a pipe cannot be vouched for at all."""
    Trust().add(project)
    change(project)
    assert not trusted(project)


def test_text_and_what_only_narrows_may_change(project):
    """Rules for the prompt, permissions and settings."""
    Trust().add(project)
    (project / ".hilum" / "rules").mkdir()
    (project / ".hilum" / "rules" / "style.md").write_text("Be brief.")
    (project / ".hilum" / "permissions.toml").write_text('deny = ["write_file"]')
    assert trusted(project)


def test_trust_is_not_borrowed(project, tmp_path):
    """Neither by a copy elsewhere, nor by a folder inside, nor by a link as ``.hilum``."""
    import shutil

    Trust().add(project)
    shutil.copytree(project, tmp_path / "copy")
    (project / "inner").mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".hilum").symlink_to(project / ".hilum")
    assert not trusted(tmp_path / "copy")
    assert not trusted(project / "inner")
    with pytest.raises(UsageError, match="cannot be vouched for"):
        Trust().add(tmp_path / "linked")


def test_a_folder_without_anything_is_asked_again_when_something_comes(tmp_path, monkeypatch):
    """Trust in nothing is no trust in what comes later."""
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    project = tmp_path / "bare"
    project.mkdir()
    assert Trust().add(project) == []
    assert trusted(project)
    (project / ".hilum").mkdir()
    (project / ".hilum" / "hooks.toml").write_text("")
    assert Trust().state(project) == "changed"


def test_names_and_contents_cannot_be_traded(project):
    """The digest knows where a name ends and a content begins."""
    (project / ".hilum" / "a").write_text("bc")
    first = Trust()
    first.add(project)
    (project / ".hilum" / "a").rename(project / ".hilum" / "ab")
    (project / ".hilum" / "ab").write_text("c")
    assert not trusted(project)


def test_too_much_is_not_vouched_for(project):
    """A bounded look, and a no beyond it."""
    for number in range(2001):
        (project / ".hilum" / f"{number}").write_text("")
    with pytest.raises(UsageError, match="more than"):
        executable(project)
    assert not trusted(project)


@pytest.mark.parametrize("text", ["folders = 3", "[folders]\nx = 1", "[[", "\0"])
def test_a_damaged_list_trusts_nothing(project, text):
    """And says what is wrong."""
    Trust().add(project)
    Trust().file.write_text(text)
    assert not trusted(project)
    with pytest.raises(UsageError, match="Mend or remove"):
        Trust().folders()
