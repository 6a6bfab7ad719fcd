"""Trust in folders: no file of a project is executed before the user trusts the folder, nor after a
change.
"""

import os

import pytest
from hilum import UsageError
from hilum.trust import (
    PROJECT_FOLDERS,
    TrustedFolders,
    explain_distrust,
    files,
    is_trusted,
    list_files,
)
from hilum_agents.folders import PROJECT_FOLDERS as AGENTS
from hilum_commands.sources import PROJECT_FOLDERS as COMMANDS
from hilum_commands.template import split_template
from hilum_skills.catalog import SKILL_FOLDERS as SKILLS


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a plugin of its own."""
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    plugin = tmp_path / "project" / ".hilum" / "plugins" / "own.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("print('hello')\n")
    return tmp_path / "project"


def test_a_folder_is_untrusted_until_the_user_trusts_it(project):
    """The trust holds for every path that leads to the folder."""
    assert not is_trusted(project)
    assert TrustedFolders().add(project) == [".hilum/plugins/own.py"]
    assert is_trusted(project)
    (project.parent / "link").symlink_to(project)
    assert is_trusted(project.parent / "link")
    assert TrustedFolders().remove(project)
    assert not is_trusted(project)
    assert not TrustedFolders().remove(project)


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
def test_any_change_of_an_executable_file_ends_trust(project, change):
    """A link out of the project or a pipe cannot be trusted at all."""
    TrustedFolders().add(project)
    change(project)
    assert not is_trusted(project)


def test_rules_and_permissions_may_change(project):
    """Rules are text for the prompt, and permissions and settings of a project can only narrow."""
    TrustedFolders().add(project)
    (project / ".hilum" / "rules").mkdir()
    (project / ".hilum" / "rules" / "style.md").write_text("Be brief.")
    (project / ".hilum" / "permissions.toml").write_text('deny = ["write_file"]')
    assert is_trusted(project)


def test_trust_does_not_extend_to_other_folders(project, tmp_path):
    """A copy, a folder inside the project and a project that links to its ``.hilum`` are not trusted."""
    import shutil

    TrustedFolders().add(project)
    shutil.copytree(project, tmp_path / "copy")
    (project / "inner").mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".hilum").symlink_to(project / ".hilum")
    assert not is_trusted(tmp_path / "copy")
    assert not is_trusted(project / "inner")
    with pytest.raises(UsageError, match="cannot be trusted"):
        TrustedFolders().add(tmp_path / "linked")


def test_trust_in_an_empty_folder_ends_with_its_first_file(tmp_path, monkeypatch):
    """The user has trusted the folder without this file."""
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    project = tmp_path / "bare"
    project.mkdir()
    assert TrustedFolders().add(project) == []
    assert is_trusted(project)
    (project / ".hilum").mkdir()
    (project / ".hilum" / "hooks.toml").write_text("")
    assert TrustedFolders().state(project) == "changed"


def test_the_digest_separates_names_from_contents(project):
    """Moving a character from the content to the name changes the digest."""
    (project / ".hilum" / "a").write_text("bc")
    first = TrustedFolders()
    first.add(project)
    (project / ".hilum" / "a").rename(project / ".hilum" / "ab")
    (project / ".hilum" / "ab").write_text("c")
    assert not is_trusted(project)


def test_a_project_with_too_many_files_cannot_be_trusted(project):
    """The number of files that are hashed is limited."""
    for number in range(2001):
        (project / ".hilum" / f"{number}").write_text("")
    with pytest.raises(UsageError, match="more than"):
        list_files(project)
    assert not is_trusted(project)


@pytest.mark.parametrize("text", ["folders = 3", "[folders]\nx = 1", "[[", "\0"])
def test_with_a_damaged_file_no_folder_is_trusted(project, text):
    """The error names the file and what to do."""
    TrustedFolders().add(project)
    TrustedFolders().file.write_text(text)
    assert not is_trusted(project)
    with pytest.raises(UsageError, match="Correct or remove"):
        TrustedFolders().folders()


def test_the_folders_of_skills_agents_and_commands_count():
    """Every folder of a project is hashed if it has skills, agents or commands with a shell."""
    # Prompts of Copilot and Cursor cannot run anything.
    commands = [name for name, dialect in COMMANDS if dialect not in ("copilot", "cursor")]
    assert {*SKILLS, *(name for name, _ in AGENTS), *commands} <= {
        *PROJECT_FOLDERS,
        ".hilum/skills",
        ".hilum/agents",
        ".hilum/commands",
    }
    for dialect in ("copilot", "cursor"):
        assert split_template("!`id` !{id}", dialect) == ("!`id` !{id}",)


@pytest.mark.parametrize("folder", [folder for folder in PROJECT_FOLDERS if folder != ".hilum"])
def test_a_change_in_the_folders_of_other_programs_ends_trust_and_is_named(project, folder):
    """New, changed and removed files are listed; files beside these folders do not count."""
    first, second = project / folder / "a" / "SKILL.md", project / folder / "b.md"
    first.parent.mkdir(parents=True)
    first.write_text("Be brief.")
    assert f"{folder}/a/SKILL.md" in TrustedFolders().add(project)
    assert explain_distrust(project) == ""
    (project / folder.partition("/")[0] / "other.json").write_text("{}")
    assert is_trusted(project)
    first.write_text("Be evil.")
    second.write_text("New.")
    (project / ".hilum/plugins/own.py").unlink()
    assert not is_trusted(project)
    assert sorted(TrustedFolders().changes(project)) == [
        f"changed {folder}/a/SKILL.md", "gone .hilum/plugins/own.py", f"new {folder}/b.md"
    ]  # fmt: skip
    assert f"changed {folder}/a/SKILL.md" in explain_distrust(project)
    TrustedFolders().add(project)
    assert (is_trusted(project), TrustedFolders().changes(project)) == (True, [])


def test_the_target_of_a_link_inside_the_project_counts(project):
    """Several programs often share one set of skills through links."""
    (project / "skills" / "x").mkdir(parents=True)
    (project / "skills" / "x" / "SKILL.md").write_text("a")
    (project / ".claude").mkdir()
    (project / ".claude" / "skills").symlink_to("../skills")
    assert ".claude/skills/x/SKILL.md" in TrustedFolders().add(project)
    (project / "skills" / "x" / "SKILL.md").write_text("b")
    assert TrustedFolders().changes(project) == ["changed .claude/skills/x/SKILL.md"]


@pytest.mark.parametrize("target", ["/etc", "..", "nowhere"])
def test_other_links_cannot_be_trusted(project, target):
    """A link may not lead out of the project, in a circle or to nothing."""
    (project / ".claude" / "skills" / "x").mkdir(parents=True)
    (project / ".claude" / "skills" / "x" / "link").symlink_to(target)
    with pytest.raises(UsageError, match="link"):
        TrustedFolders().add(project)
    assert "cannot be trusted" in explain_distrust(project) or not is_trusted(project)


def test_a_linked_folder_of_another_program_is_not_read(project, tmp_path):
    """hilum reads no skills from there, so its files do not count and do not prevent trust."""
    (tmp_path / "mine").mkdir()
    (project / ".claude").symlink_to(tmp_path / "mine")
    (tmp_path / "mine" / "skills").mkdir()
    assert ".claude/skills" in TrustedFolders().add(project)
    (tmp_path / "mine" / "skills" / "x.md").write_text("")
    assert is_trusted(project)
    (project / ".claude").unlink()
    (project / ".claude" / "skills").mkdir(parents=True)
    assert TrustedFolders().changes(project) == ["gone .claude/skills"]


def test_a_change_that_keeps_size_and_modification_time_ends_trust(project):
    """A program can set back a file's modification time, but not the time of its status change."""
    path = project / ".hilum/plugins/own.py"
    TrustedFolders().add(project)
    before = path.stat()
    path.write_text("print('hellO')\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert not is_trusted(project)


def test_unchanged_contents_are_not_read_twice(project, monkeypatch):
    """Trust is checked before each model call, so an unchanged file costs one ``stat``."""
    monkeypatch.setattr(files, "_CACHED_AFTER_NS", -1)
    TrustedFolders().add(project)
    monkeypatch.setattr("hilum.trust.files.open", None, raising=False)
    assert is_trusted(project)
    (project / ".hilum/plugins/own.py").write_text("print('more')\n")
    with pytest.raises(TypeError):
        is_trusted(project)


def test_changes_are_not_named_without_a_valid_list(project):
    """The list of files only explains a change; a damaged one does not affect trust."""
    TrustedFolders().add(project)
    (listed,) = (TrustedFolders().config / "trust").iterdir()
    listed.write_text('{".hilum/plugins/own.py": 3}')
    assert is_trusted(project)
    (project / ".hilum/plugins/own.py").write_text("")
    assert TrustedFolders().changes(project) == []
    assert explain_distrust(project).startswith(
        "Files of this project changed since you trusted it. Review them"
    )
    assert TrustedFolders().remove(project)
    assert not listed.exists()
