"""``hilum skills``: a real git, folders of nobody."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from hilum.__main__ import main

sys.path.insert(0, str(Path(__file__).parent))
from skill_repositories import Repository, skill_text, write


class Command:
    """Runs the command as the script does, in this process."""

    def __init__(self, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.workspace, self.capsys, self.err = workspace, capsys, ""

    def __call__(self, *words: str, code: int = 0) -> str:
        got = main(["skills", *words])
        out, self.err = self.capsys.readouterr()
        assert got == code, (got, out, self.err)
        return out


@pytest.fixture
def skills(tmp_path, home, monkeypatch, capsys):
    (tmp_path / "workspace").mkdir()
    monkeypatch.chdir(tmp_path / "workspace")
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("HILUM_DATA", str(tmp_path / "data"))
    return Command(tmp_path / "workspace", capsys)


def test_help_and_an_empty_list_say_what_to_do(skills):
    assert "hilum skills add owner/name" in skills("--help")
    assert "There are no skills. `hilum skills add owner/name` adds some" in skills()


def test_a_repository_is_added_listed_shown_updated_and_removed(skills, repository):
    added = skills("add", f"{repository.url}#skills")
    assert f"{repository.url}#skills is added." in added
    assert "pdf  [on]\n      Reads PDF files. Use for PDFs." in added
    assert "connecting" in skills.err
    assert "was already added" in skills("add", f"{repository.url}#skills")
    listed = skills("list")
    assert repository.git("rev-parse", "HEAD")[:10] in listed
    data = json.loads(skills("list", "--json"))
    assert {skill["name"]: skill["state"] for skill in data["skills"]} == {
        "pdf": "on",
        "docx": "on",
    }
    assert data["sources"][0]["commit"] == repository.git("rev-parse", "HEAD")
    shown = skills("show", "pdf")
    assert "scripts/read.py" in shown
    assert "Run scripts/read.py first." in shown
    assert json.loads(skills("show", "pdf", "--json"))["files"] == [
        "references/forms.md",
        "scripts/read.py",
    ]
    assert "nothing new" in skills("update")
    repository.commit({"skills/new/SKILL.md": skill_text("new")})
    assert ": updated (" in skills("update", f"{repository.url}#skills")
    assert "new  [on]" in skills()
    skills("remove", f"{repository.url}#skills")
    assert "There are no skills." in skills()
    assert not list((Path.home() / ".cache/hilum/skills").glob("*/heads.json"))


def test_a_folder_is_used_where_it_is(skills, tmp_path):
    write(tmp_path / "mine", {"one/SKILL.md": skill_text("one", body="First.")})
    skills("add", str(tmp_path / "mine"))
    write(tmp_path / "mine", {"one/SKILL.md": skill_text("one", body="Second.")})
    assert "Second." in skills("show", "one")
    skills("remove", str(tmp_path / "mine"))
    assert (tmp_path / "mine/one/SKILL.md").exists()
    skills("add", str(tmp_path / "missing"), code=2)
    assert "There is no" in skills.err


def test_two_refs_of_one_repository_share_what_was_fetched(skills, repository):
    repository.git("tag", "v1")
    repository.commit({"skills/new/SKILL.md": skill_text("new")})
    skills("add", f"{repository.url}@v1#skills/pdf", f"{repository.url}#skills/new")
    cache = Path.home() / ".cache/hilum/skills"
    assert len(list(cache.glob("*/heads.json"))) == 1
    skills("remove", f"{repository.url}@v1#skills/pdf")
    assert "new  [on]" in skills()


def test_skills_are_switched_off_and_on(skills, repository):
    skills("add", repository.url)
    assert skills("disable", "pdf", "docx") == "pdf is disabled.\ndocx is disabled.\n"
    assert "already" in skills("disable", "pdf")
    assert "pdf  [off]" in skills()
    assert skills("enable", "pdf") == "pdf is enabled.\n"
    assert "pdf  [on]" in skills()
    skills("disable", "dpf", code=2)
    assert "Did you mean pdf?" in skills.err
    write(skills.workspace.parent, {"config/settings.toml": '[skills]\ndisabled = ["pdf"]\n'})
    skills("enable", "pdf", code=2)
    assert "skills.disabled" in skills.err


def test_what_cannot_be_fetched_is_told_and_not_kept(skills, repository):
    for source, said in (
        ("file:///nowhere.git", "There is no repository"),
        (f"{repository.url}@gone", "has no 'gone'"),
    ):
        skills("add", source, code=1)
        assert said in skills.err
    for source in ("--upload-pack=touch x", "ext::sh -c x", "owner/../name"):
        skills("add", "--", source, code=2)
        assert "cannot be a source of skills" in skills.err
    assert "There are no skills." in skills()


def test_without_the_server_everything_else_works(skills, repository):
    skills("add", repository.url)
    shutil.rmtree(repository.path)
    assert "the version fetched before is still used" in skills("update", code=1)
    assert "pdf  [on]" in skills()
    skills("update", "owner/name", code=2)
    assert "no repository 'owner/name'" in skills.err


def test_skills_of_a_project_are_listed_as_not_trusted(skills):
    write(skills.workspace, {".agents/skills/x/SKILL.md": skill_text("x")})
    listed = skills()
    assert "x  [NOT TRUSTED]" in listed
    assert "hilum trust" in listed


def test_a_skill_is_validated(skills, tmp_path):
    write(
        tmp_path,
        {"pdf/SKILL.md": skill_text("pdf"), "bad/SKILL.md": "---\nname: Bad\nmodel: x\n---\nb\n"},
    )
    assert skills("validate", str(tmp_path / "pdf")) == f"{tmp_path}/pdf: valid\n"
    said = skills("validate", str(tmp_path / "bad"), code=1)
    assert "error  line 2: The name must be in lowercase." in said
    assert "error  line 3: The field 'model' is not in the specification." in said
    assert "The description is missing." in said
    data = json.loads(
        skills("validate", "--json", str(tmp_path / "pdf"), str(tmp_path / "none"), code=1)
    )
    assert data[str(tmp_path / "pdf")] == []


def test_what_a_repository_says_sends_no_escape_codes(skills, tmp_path):
    repo = Repository(tmp_path / "evil")
    evil, quoted = "\x1b]0;owned\x07\x9b2Jx\u202ey", r"\x1b]0;owned\x07\x9b2Jx\u202ey"
    repo.commit(
        {
            "SKILL.md": f'---\nname: "evil{quoted}"\ndescription: "{quoted}"\n---\n{evil}\n',
            f"a{evil}.md": "x",
        }
    )
    source = f"{repo.url}#SKILL.md"
    name = "evil\ufffd]0;owned\ufffd\ufffd2Jx\ufffdy"
    said = [
        skills("add", source),
        skills("list"),
        skills("show", name),
        skills("validate", str(repo.path), code=1),
    ]
    said += [skills("list", "--json"), skills("show", name, "--json"), skills("disable", name)]
    skills("show", "evil]0;owned2Jxy", code=2)
    assert "Did you mean evil" in skills.err
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set("".join(said) + skills.err)
    assert json.loads(said[5])["body"] == evil


def test_tools_that_a_skill_names_are_shown(skills, tmp_path):
    write(
        tmp_path / "s/pdf",
        {"SKILL.md": "---\nname: pdf\ndescription: d\nallowed-tools: Bash(git:*) Read\n---\nb\n"},
    )
    skills("add", str(tmp_path / "s"))
    assert (
        "tools: Bash(git:*), Read (listed by the skill; this does not approve any call)"
        in skills("show", "pdf")
    )


WRONG = [
    "add",
    "show",
    "list x",
    "fly",
    "list --odd",
    "show x",
    "remove owner/x",
    "-C /nowhere",
    "disable x",
]


@pytest.mark.parametrize("words", WRONG)
def test_wrong_usage_is_told(skills, words):
    skills(*words.split(), code=2)
    assert skills.err.startswith("hilum: E_")


def refused(skills: Command, *words: str) -> str:
    """Run what is refused; gives what was said."""
    assert main(["skills", *words])
    return skills.capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda path: (
                path.with_suffix(".txt").write_text("root:x:0:0") and path.with_suffix(".txt")
            ),
            "not a Markdown file",
        ),
        (lambda path: path.write_text("root:x:0:0") and path, "not a Markdown file"),
        (
            lambda path: (
                path.with_suffix(".md").write_bytes(b"\x7fELF\0\1") and path.with_suffix(".md")
            ),
            "not UTF-8 text",
        ),
        (lambda path: path.with_suffix(".md").touch() or path.with_suffix(".md"), "empty"),
        (lambda path: path.mkdir() or path, "no SKILL.md in it"),
        (lambda path: os.mkfifo(path) or path, "cannot be read"),
        (
            lambda path: path.mkdir() or ((path / "SKILL.md").write_text("Be brief.") and path),
            "no description",
        ),
    ],
    ids=["text", "no suffix", "binary", "empty", "no skill", "pipe", "no front matter"],
)
def test_what_is_no_skill_is_not_added(skills, tmp_path, make, said):
    """The error says what was looked for, and nothing is kept."""
    path = make(tmp_path / "thing")
    told = refused(skills, "add", str(path))
    assert said in told
    assert "SKILL.md that has a name and a description" in told
    assert "thing" not in skills("list")


def test_a_markdown_file_is_a_skill_by_its_first_words(skills, tmp_path):
    (tmp_path / "style.md").write_text("# Style\n\nHow we write code.\n")
    assert "How we write code." in skills("add", str(tmp_path / "style.md"))


def test_a_whole_home_is_no_folder_of_skills(skills, tmp_path):
    for place in ("~", "/"):
        assert "whole home" in refused(skills, "add", place)


def test_a_folder_that_is_named_like_a_repository_is_asked_about(skills, tmp_path, monkeypatch):
    """What lies here must not be fetched from a stranger's repository of that name."""
    (tmp_path / "skills" / "pdf").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert "./skills/pdf" in refused(skills, "add", "skills/pdf")


@pytest.mark.parametrize("words", [("update",), ("add", "./x")])
def test_a_list_of_sources_that_cannot_be_read_is_told(skills, tmp_path, words):
    write(tmp_path / "workspace", {"x/SKILL.md": skill_text("x")})
    (tmp_path / "config").mkdir()
    chosen = tmp_path / "config/skills.toml"
    for make in (lambda: chosen.write_text("sources = 5"), lambda: os.mkfifo(chosen), chosen.mkdir):
        make()
        skills(*words, code=2)
        assert "skills.toml cannot be read: " in skills.err
        assert "Correct or remove the file." in skills.err
        assert "skills.toml cannot be read: " in skills()
        chosen.rmdir() if chosen.is_dir() else chosen.unlink()


def test_every_mistake_in_the_list_of_sources_is_reported_at_once(skills, tmp_path):
    """Each with its key, what was found and what is expected; nothing in the file takes effect."""
    write(tmp_path / "config", {"skills.toml": 'sources = [3]\ndisabled = "pdf"\nsource = []'})
    skills("update", code=2)
    assert "sources must contain only strings, not 3" in skills.err
    assert "disabled must be a list of strings, not 'pdf'" in skills.err
    assert "source is not a known key (known: sources and disabled)" in skills.err


def test_a_skill_that_git_lfs_keeps_is_told(skills, tmp_path):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"
    write(tmp_path / "workspace", {"x/SKILL.md": pointer})
    skills("add", "./x", code=2)
    assert "it is a Git LFS pointer" in skills.err
