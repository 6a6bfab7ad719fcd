"""Folders of skills as somebody may lay them out who means harm."""

import os

import pytest
from hilum_skills import load_skill
from hilum_skills.discovery import find_skills


def test_a_folder_of_any_name_gives_a_name_in_one_line_that_can_be_sent(tmp_path):
    for name in (b"new\nline", b"bad\xff", b"tab\there"):
        folder = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
        os.mkdir(folder)
        with open(os.path.join(folder, "SKILL.md"), "w", encoding="utf-8") as file:
            file.write("---\ndescription: d\n---\nbody\n")
        skill = load_skill(folder)
        assert skill.error == ""
        skill.name.encode()
        assert len(skill.name.splitlines()) == 1


@pytest.mark.parametrize("name", ["loop", "loop/SKILL.md", "one"])
def test_links_in_a_circle_are_no_skill_and_no_error(tmp_path, name):
    (tmp_path / "loop").symlink_to("back")
    (tmp_path / "back").symlink_to("loop")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "SKILL.md").symlink_to("SKILL.md")
    assert load_skill(tmp_path / name).error


def test_links_in_a_circle_cost_no_other_skill(tmp_path):
    (tmp_path / "loop").symlink_to("back")
    (tmp_path / "back").symlink_to("loop")
    (tmp_path / "up").symlink_to(".")
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "SKILL.md").write_text("---\nname: good\ndescription: d\n---\nbody\n")
    assert {skill.name for skill in find_skills(tmp_path, tmp_path).skills} == {"good"}
