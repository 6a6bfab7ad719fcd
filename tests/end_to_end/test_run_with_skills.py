"""``hilum skills`` and ``hilum run``: a skill goes from a repository into the prompt."""

import os
import subprocess
from pathlib import Path

import pytest

SKILL = """---
name: greet
description: Greets people. Use when somebody is to be greeted.
---
Run scripts/greet.sh in the folder of this skill.
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one skill."""
    root = tmp_path / "origin"
    (root / "greet/scripts").mkdir(parents=True)
    (root / "greet/SKILL.md").write_text(SKILL)
    (root / "greet/scripts/greet.sh").write_text("#!/bin/sh\necho hello from a skill\n")
    (root / "greet/scripts/greet.sh").chmod(0o755)
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "c"]):
        subprocess.run(["git", *words], cwd=root, env=env, check=True)
    return root


async def test_a_skill_of_a_repository_is_in_the_prompt_of_every_run(cli, repository):
    """Added once, used by every run, also when the repository is gone."""
    added = await cli("skills", "add", f"file://{repository}")
    assert added.code == 0, added.err
    assert "greet  [on]" in added.out
    repository.rename(repository.with_name("gone"))
    seen = []

    def script(request):
        seen.append(request)
        return "Greeted."

    async with cli.model(script):
        done = await cli("run", "greet me")
        assert (done.code, done.out, done.err.count("!")) == (0, "Greeted.\n", 0), done.err
        await cli("skills", "disable", "greet")
        await cli("run", "greet me")
        await cli("skills", "enable", "greet")
        await cli("run", "--set", "skills.inject=index", "greet me")
    text = [request.body.decode() for request in seen]
    assert ["Run scripts/greet.sh in the folder of this skill." in each for each in text] == [
        True,
        False,
        False,
    ]
    assert ["- greet: Greets people." in each for each in text] == [False, False, True]
    assert ["use_skill" in each for each in text] == [True, False, True]


async def test_what_is_wrong_with_skills_is_told_and_stops_nothing(cli):
    """Skills of a project that is not trusted, a file that does not load, a source that is not
    there.
    """
    for name, text in (
        (".agents/skills/greet", SKILL),
        ("../.agents/skills/bad", "no front matter"),
    ):
        (cli.workspace / name).mkdir(parents=True)
        (cli.workspace / name / "SKILL.md").write_text(text)
    cli.write_settings('[skills]\nsources = ["file:///nowhere.git"]\n')
    async with cli.model("Done."):
        done = await cli("run", "do")
    assert (done.code, done.out) == (0, "Done.\n"), done.err
    assert (
        "Skills of this project are off: greet. You do not trust this project yet. `hilum trust` trusts it."
        in done.err
    )
    assert (
        "The skill bad from user ~/.agents/skills is skipped: It has no description: it has no front matter."
        in done.err
    )
    assert "Skills of file:///nowhere.git were not fetched: There is no repository" in done.err
