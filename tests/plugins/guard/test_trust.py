"""Trust in folders: nothing that can execute before the user's word, and again after each
change.
"""

import os

import pytest
from hilum import UsageError
from hilum_agents.places import _PROJECT as AGENTS
from hilum_guard import Trust, distrust, trusted
from hilum_guard.brought import FOLDERS
from hilum_guard.trust import executable
from hilum_skills.catalog import FOLDERS as SKILLS


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
        lambda p: (
            (p / ".hilum/new/deep").mkdir(parents=True) or (p / ".hilum/new/deep/x").write_text("")
        ),
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


def test_every_folder_that_skills_and_agents_are_read_from_counts():
    assert {*SKILLS, *(name for name, _ in AGENTS)} <= {*FOLDERS, ".hilum/skills", ".hilum/agents"}


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder != ".hilum"])
def test_a_change_in_the_folders_of_other_programs_asks_again_and_is_named(project, folder):
    """What is new, changed, gone; what is beside these folders is not theirs."""
    first, second = project / folder / "a" / "SKILL.md", project / folder / "b.md"
    first.parent.mkdir(parents=True)
    first.write_text("Be brief.")
    assert f"{folder}/a/SKILL.md" in Trust().add(project)
    assert distrust(project) == ""
    (project / folder.partition("/")[0] / "other.json").write_text("{}")
    assert trusted(project)
    first.write_text("Be evil.")
    second.write_text("New.")
    (project / ".hilum/plugins/own.py").unlink()
    assert not trusted(project)
    assert sorted(Trust().changes(project)) == [
        f"changed {folder}/a/SKILL.md", "gone .hilum/plugins/own.py", f"new {folder}/b.md"
    ]  # fmt: skip
    assert f"changed {folder}/a/SKILL.md" in distrust(project)
    Trust().add(project)
    assert (trusted(project), Trust().changes(project)) == (True, [])


def test_a_link_within_the_project_counts_for_what_it_leads_to(project):
    """One set of skills for several programs is common.

    What is linked to may not change unasked either.
    """
    (project / "skills" / "x").mkdir(parents=True)
    (project / "skills" / "x" / "SKILL.md").write_text("a")
    (project / ".claude").mkdir()
    (project / ".claude" / "skills").symlink_to("../skills")
    assert ".claude/skills/x/SKILL.md" in Trust().add(project)
    (project / "skills" / "x" / "SKILL.md").write_text("b")
    assert Trust().changes(project) == ["changed .claude/skills/x/SKILL.md"]


@pytest.mark.parametrize("target", ["/etc", "..", "nowhere"])
def test_a_link_that_leads_elsewhere_cannot_be_vouched_for(project, target):
    """Out of the project, in a circle, to nothing."""
    (project / ".claude" / "skills" / "x").mkdir(parents=True)
    (project / ".claude" / "skills" / "x" / "link").symlink_to(target)
    with pytest.raises(UsageError, match="link"):
        Trust().add(project)
    assert "cannot be vouched for" in distrust(project) or not trusted(project)


def test_a_folder_of_others_that_is_a_link_out_is_read_by_nobody_and_hinders_nothing(
    project, tmp_path
):
    (tmp_path / "mine").mkdir()
    (project / ".claude").symlink_to(tmp_path / "mine")
    (tmp_path / "mine" / "skills").mkdir()
    assert ".claude/skills" in Trust().add(project)
    (tmp_path / "mine" / "skills" / "x.md").write_text("")
    assert trusted(project)
    (project / ".claude").unlink()
    (project / ".claude" / "skills").mkdir(parents=True)
    assert Trust().changes(project) == ["gone .claude/skills"]


def test_a_change_that_keeps_size_and_time_is_seen(project):
    """Contents are read again only where the status of a file changed.

    The time of that cannot be set back.
    """
    path = project / ".hilum/plugins/own.py"
    Trust().add(project)
    before = path.stat()
    path.write_text("print('hellO')\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert not trusted(project)


def test_contents_are_not_read_twice(project, monkeypatch):
    """A project is asked for before each model call."""
    from hilum_guard import brought

    monkeypatch.setattr(brought, "_SETTLED", -1)
    Trust().add(project)
    monkeypatch.setattr("hilum_guard.brought.open", None, raising=False)
    assert trusted(project)
    (project / ".hilum/plugins/own.py").write_text("print('more')\n")
    with pytest.raises(TypeError):
        trusted(project)


def test_what_changed_is_not_guessed(project):
    """A list that is gone, damaged or of another time names nothing; trust does not hang on it."""
    Trust().add(project)
    (listed,) = (Trust().config / "trust").iterdir()
    listed.write_text('{".hilum/plugins/own.py": 3}')
    assert trusted(project)
    (project / ".hilum/plugins/own.py").write_text("")
    assert Trust().changes(project) == []
    assert distrust(project).startswith(
        "What this project brings along changed since you trusted it. Look at it"
    )
    assert Trust().remove(project)
    assert not listed.exists()
