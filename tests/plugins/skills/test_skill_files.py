"""Skills are read leniently, and checked strictly where the user asks for that."""

import os
import sys
from pathlib import Path

import pytest
from hilum_skills import load_skill, validate
from hilum_skills.discovery import find_skills
from skills_ref.validator import validate as oracle

sys.path.insert(0, str(Path(__file__).parent))
from skill_repositories import skill_text, write


def one(tmp_path: Path, text: str | bytes, folder: str = "pdf", file: str = "SKILL.md") -> Path:
    write(tmp_path / folder, {file: text})
    return tmp_path / folder


def said(skill) -> str:
    return "\n".join(f"{problem.line}: {problem.message}" for problem in skill.problems)


def test_a_skill_is_read_with_everything_it_says(tmp_path):
    text = (
        "---\nname: pdf\ndescription: >\n  Reads PDFs.\n  Use for forms.\nlicense: MIT\ncompatibility: Needs poppler\n"
        "allowed-tools: Bash(git add:*, git commit:*) Read, Grep\nmetadata:\n  version: 1.10\nodd: yes\n---\n# PDF\n\nRead.\n"
    )
    folder = one(tmp_path, text)
    write(folder, {"scripts/a.py": "", "references/b.md": "", ".hidden": "", "node_modules/x": ""})
    skill = load_skill(folder)
    assert (skill.name, skill.description, skill.error, skill.problems) == (
        "pdf",
        "Reads PDFs. Use for forms.",
        "",
        (),
    )
    assert skill.body == "# PDF\n\nRead."
    assert skill.allowed_tools == ("Bash(git add:*, git commit:*)", "Read", "Grep")
    assert skill.fields["metadata"] == {"version": "1.10"}
    assert skill.fields["odd"] == "yes"
    assert skill.resources() == ["references/b.md", "scripts/a.py"]
    assert load_skill(folder / "SKILL.md") == skill


LENIENT = {
    "another name than the folder": (
        skill_text("docx"),
        "docx",
        "2: The name 'docx' differs from the folder's, 'pdf'.",
    ),
    "no name": ("---\ndescription: d\n---\nb", "pdf", "1: The name is missing; 'pdf' is used."),
    "a name that is too long": (
        skill_text("x" * 70),
        "x" * 70,
        "2: The name has more than 64 characters.",
    ),
    "a description that is too long": (
        skill_text("pdf", "d" * 1100),
        "pdf",
        "3: The description has more than 1024",
    ),
    "a colon": (
        skill_text("pdf", "Use when: always"),
        "pdf",
        "3: The value of 'description' is not YAML",
    ),
    "hooks": (
        "---\nname: pdf\ndescription: d\nhooks:\n  a: b\n---\nb",
        "pdf",
        "4: hilum does not run a skill's hooks.",
    ),
    "no body": ("---\nname: pdf\ndescription: d\n---\n", "pdf", "5: It has no instructions"),
    "no end": (
        "---\nname: pdf\ndescription: d\n\nBody",
        "pdf",
        "1: The front matter has no closing '---' line",
    ),
    "Latin-1": (skill_text("pdf", "caf\xe9").encode("latin-1"), "pdf", "3: The file is not UTF-8"),
    "twice": (
        "---\nname: pdf\nname: pdf\ndescription: d\n---\nb",
        "pdf",
        "3: The key 'name' is repeated here",
    ),
}


@pytest.mark.parametrize("case", LENIENT)
def test_what_is_odd_loads_and_is_told(tmp_path, case):
    text, name, message = LENIENT[case]
    skill = load_skill(one(tmp_path, text))
    assert (skill.name, skill.error) == (name, "")
    assert message in said(skill)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("---\nname: pdf\n---\nb", "It has no description"),
        ("---\nname: pdf\ndescription: ''\n---\nb", "It has no description"),
        ("# Title\n", "it has no front matter"),
        ("", "it has no front matter"),
        (b"\0" * 2_000_000, "more than 1,000,000"),
    ],
)
def test_what_cannot_be_used_does_not_load_and_says_why(tmp_path, text, why):
    skill = load_skill(one(tmp_path, text))
    assert why in skill.error


def test_what_is_no_file_does_not_load(tmp_path):
    assert "There is no SKILL.md" in load_skill(tmp_path).error
    assert (
        "There is no SKILL.md" in load_skill(tmp_path / "missing").error
        or load_skill(tmp_path / "missing").error
    )
    os.mkfifo(tmp_path / "SKILL.md")
    assert "not a regular file" in load_skill(tmp_path).error


def test_other_letters_in_the_name_of_the_file_are_told(tmp_path):
    skill = load_skill(one(tmp_path, skill_text("pdf"), file="skill.md"))
    assert skill.error == ""
    assert "should be called SKILL.md" in said(skill)


def test_a_file_that_is_no_skill_is_described_by_its_first_words(tmp_path):
    write(tmp_path, {"guide.md": "# Guide\n\n![x](y)\n\nHow to do\nthings.\n\nMore."})
    skill = load_skill(tmp_path / "guide.md", described=False)
    assert (skill.name, skill.description, skill.error) == ("guide", "How to do things.", "")


# --- finding --------------------------------------------------------------------------------------


def test_skills_are_found_below_a_folder_but_not_in_skills_or_hidden_places(tmp_path):
    names = (
        "a",
        "deep/er/b",
        "node_modules/c",
        ".git/d",
        "a/examples/e",
        "1/2/3/4/5/f",
        "1/2/3/4/5/6/g",
    )
    for name in names:
        write(tmp_path / name, {"SKILL.md": skill_text(name.rpartition("/")[2])})
    found = find_skills(tmp_path, None)
    assert sorted(skill.name for skill in found.skills) == ["a", "b", "f"]


def test_a_scan_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("hilum_skills.discovery.MAX_FOLDERS", 10)
    for number in range(30):
        (tmp_path / f"{number:02}").mkdir()
    found = find_skills(tmp_path, None)
    assert "more than 10 folders" in found.complaints[0]


def test_the_number_of_skills_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("hilum_skills.discovery.MAX_SKILLS", 3)
    for number in range(5):
        write(tmp_path / f"s{number}", {"SKILL.md": skill_text(f"s{number}")})
    found = find_skills(tmp_path, None)
    assert [skill.name for skill in found.skills] == ["s0", "s1", "s2"]
    assert "more than 3 skills" in found.complaints[0]


def test_links_are_followed_only_where_they_may_lead(tmp_path):
    write(tmp_path / "outside/evil", {"SKILL.md": skill_text("evil")})
    root = write(tmp_path / "project/.agents/skills", {"good/SKILL.md": skill_text("good")})
    os.symlink(tmp_path / "outside/evil", root / "evil")
    (root / "file").mkdir()
    os.symlink(tmp_path / "outside/evil/SKILL.md", root / "file/SKILL.md")
    os.symlink(root, root / "loop")
    bounded = find_skills(root, tmp_path / "project")
    assert [skill.name for skill in bounded.skills] == ["good"]
    assert len([c for c in bounded.complaints if "leads out of" in c]) == 2
    assert sorted(skill.name for skill in find_skills(root, None).skills) == [
        "evil",
        "evil",
        "good",
    ]


# --- the specification ----------------------------------------------------------------------------

STRICT = {
    "valid": skill_text("pdf"),
    "all fields": "---\nname: pdf\ndescription: d\nlicense: MIT\ncompatibility: x\nallowed-tools: Read Bash(git:*)\n"
    "metadata:\n  a: b\n---\nb\n",
    "another name": skill_text("docx"),
    "capital letters": skill_text("PDF"),
    "hyphen first": skill_text("-pdf"),
    "hyphens": skill_text("p--df"),
    "underscore": skill_text("p_df"),
    "long name": skill_text("x" * 65),
    "no name": "---\ndescription: d\n---\nb\n",
    "no description": "---\nname: pdf\n---\nb\n",
    "empty description": "---\nname: pdf\ndescription: ''\n---\nb\n",
    "long description": skill_text("pdf", "d" * 1025),
    "longest description": skill_text("pdf", "d" * 1024),
    "long compatibility": "---\nname: pdf\ndescription: d\ncompatibility: "
    + "c" * 501
    + "\n---\nb\n",
    "another field": "---\nname: pdf\ndescription: d\nmodel: opus\n---\nb\n",
    "not YAML": skill_text("pdf", "a: b: c"),
    "no front matter": "# Title\n",
    "not closed": "---\nname: pdf\ndescription: d\n",
    "not a mapping": "---\n- a\n---\nb\n",
    "twice": "---\nname: pdf\nname: pdf\ndescription: d\n---\nb\n",
    "a list for a name": "---\nname: [pdf]\ndescription: d\n---\nb\n",
    "umlauts": skill_text("pdf", "Ünïcödé 中文"),
}


@pytest.mark.parametrize("case", STRICT)
def test_the_validator_says_what_that_of_the_specification_says(tmp_path, case):
    folder = one(tmp_path, STRICT[case])
    expected = oracle(folder)
    found = [problem for problem in validate(folder) if problem.fatal]
    assert bool(found) == bool(expected), (found, expected)


def test_the_validator_takes_names_of_other_alphabets(tmp_path):
    assert not validate(one(tmp_path, skill_text("技能-über"), folder="技能-über"))
    assert not oracle(tmp_path / "技能-über")


def test_the_validator_is_stricter_where_the_specification_is(tmp_path):
    named = one(tmp_path, skill_text("pdf"), file="skill.md")
    assert [problem.fatal for problem in validate(named)] == [
        True
    ]  # the reference takes it, the specification does not
    empty = one(tmp_path, "---\nname: x\ndescription: d\ncompatibility: ''\n---\nb", folder="x")
    assert any("compatibility" in problem.message for problem in validate(empty))


def test_the_validator_advises_on_length(tmp_path):
    found = validate(one(tmp_path, skill_text("pdf", body="line\n" * 600)))
    assert [problem.fatal for problem in found] == [False]
    assert "500 lines" in found[0].message
