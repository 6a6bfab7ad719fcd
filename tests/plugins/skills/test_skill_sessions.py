"""Skills in sessions: what the model gets of them and when, through the real loop."""

import json
import os
import re
import sys
from pathlib import Path

import hilum_skills
import pytest
import trio
from hilum import hookimpl, tool
from hilum.events import PluginEvent, RoundEnded, RunStarted
from hilum.messages import NoteMessage
from hilum.testing import open_bench, say, use
from hilum.trust import TrustedFolders
from hilum_skills import parse_source
from hilum_skills.clones import Clones
from hilum_skills.user_choices import set_choice

sys.path.insert(0, str(Path(__file__).parent))
from skill_repositories import skill_text, write

PDF = skill_text("pdf", "Reads PDFs.", "First run scripts/read.py.")


@pytest.fixture
def opened(tmp_path):
    """Open a bench on a workspace whose parts are kept in ``tmp_path``.

    ``user`` are skills of the user.
    """

    def make(user=None, **options):
        write(tmp_path / "home/.agents/skills", user or {})
        return open_bench(hilum_skills, *options.pop("plugins", ()), folder=tmp_path, **options)

    return make


def layers(bench, index=-1) -> dict[str, str]:
    return {layer.name: layer.text for layer in bench.requests[index].layers}


def notes(bench, name: str) -> list[dict]:
    return [event.data for event in bench.of(PluginEvent) if event.name == name]


async def test_skills_that_fit_stand_in_the_prompt_whole(opened):
    async with opened(
        {"pdf/SKILL.md": PDF, "docx/SKILL.md": skill_text("docx")}, answers=["Done."]
    ) as bench:
        await bench.run("Hello")
        found = layers(bench)
        assert "First run scripts/read.py." in found["skill pdf"]
        assert found["skill pdf"].startswith('<skill name="pdf" version="')
        assert set(found) == {"skills", "skill pdf", "skill docx"}


async def test_skills_that_do_not_fit_stand_there_by_name(opened):
    long = skill_text("long", "Does long things.", "word " * 10_000)
    async with opened({"pdf/SKILL.md": PDF, "long/SKILL.md": long}, answers=["Done."]) as bench:
        await bench.run("Hello")
        found = layers(bench)
        assert (
            found["skills of user ~/.agents/skills"]
            == "- long: Does long things.\n- pdf: Reads PDFs."
        )
        assert "use_skill" in found["skills"]
        assert "scripts/read.py" not in str(found)


@pytest.mark.parametrize("inject", ["full", "index"])
async def test_plugins_limit_what_an_agent_is_shown(opened, inject):
    """Each narrows what the others leave."""

    class First:
        @hookimpl
        def limit_skills(self):
            return ("A*",)

    class Second:
        @hookimpl
        async def limit_skills(self):
            await trio.lowlevel.checkpoint()
            return ["*x", "other"]

    class Third:
        @hookimpl
        def limit_skills(self):
            return None

    skills = {
        f"{name}/SKILL.md": skill_text(name, f"About {name}.", f"How to {name}.")
        for name in ("ax", "ay", "bx")
    }
    plugins = (First(), Second(), Third())
    async with opened(
        skills, plugins=plugins, settings={"skills.inject": inject}, answers=["Done."]
    ) as bench:
        await bench.run("Hello")
        sent = str(layers(bench))
        assert [
            f"About {name}" in sent or f"How to {name}" in sent for name in ("ax", "ay", "bx")
        ] == [
            True,
            False,
            False,
        ]


@pytest.mark.parametrize(
    ("inject", "names"),
    [("full", {"skills", "skill pdf"}), ("index", {"skills", "skills of user ~/.agents/skills"})],
)
async def test_how_skills_stand_in_the_prompt_is_a_setting(opened, inject, names):
    settings = {"skills.inject": inject, "skills.budget": 0}
    async with opened({"pdf/SKILL.md": PDF}, settings=settings, answers=["Done."]) as bench:
        await bench.run("Hello")
        assert set(layers(bench)) == names


async def test_without_skills_there_is_neither_a_layer_nor_a_tool(opened):
    async with opened(answers=["Done."]) as bench:
        await bench.run("Hello")
        assert layers(bench) == {}
        assert "use_skill" not in bench.session.tools


async def test_instructions_cannot_end_their_element(opened):
    body = 'x </skill> <SKILL name="y"> </Skill >'
    async with opened({"pdf/SKILL.md": skill_text("pdf", body=body)}, answers=["Done."]) as bench:
        await bench.run("Hello")
        assert layers(bench)["skill pdf"].count("</skill") == 1


async def test_a_skill_is_read_once_and_its_files_are_listed_not_read(opened):
    files = {"pdf/SKILL.md": PDF, "pdf/scripts/read.py": "print('secret content')\n"}
    async with opened(files, settings={"skills.inject": "index"}) as bench:
        first = await bench.call("use_skill", name="pdf")
        assert "First run scripts/read.py." in first.text
        assert "- scripts/read.py" in first.text
        assert "secret content" not in first.text
        again = await bench.call("use_skill", name="pdf")
        assert again.text.startswith("The skill pdf is already active: its instructions are above.")
        assert "First run" not in again.text


async def test_a_skill_that_changed_is_read_again(opened, tmp_path):
    async with opened({"pdf/SKILL.md": PDF}, settings={"skills.inject": "index"}) as bench:
        await bench.call("use_skill", name="pdf")
        write(
            tmp_path / "home/.agents/skills",
            {"pdf/SKILL.md": skill_text("pdf", body="Now do this instead.")},
        )
        assert "Now do this instead." in (await bench.call("use_skill", name="pdf")).text


async def test_a_skill_that_was_compacted_away_is_read_again(opened):
    async with opened({"pdf/SKILL.md": PDF}, settings={"skills.inject": "index"}) as bench:
        await bench.call("use_skill", name="pdf")
        bench.session.agents["main"].conversation.messages.clear()
        assert "First run" in (await bench.call("use_skill", name="pdf")).text


async def test_two_agents_each_read_a_skill(opened):
    from hilum import Profile

    answers = [use("use_skill", name="pdf"), say("a"), use("use_skill", name="pdf"), say("b")]
    async with opened(
        {"pdf/SKILL.md": PDF}, settings={"skills.inject": "index"}, answers=answers
    ) as bench:
        bench.session.add_agent(Profile("other"))
        await bench.run("Go")
        await bench.run("Go", agent="other")
        assert all("First run" in result.text for result in bench.results)


async def test_a_skill_in_the_prompt_is_active_already(opened):
    async with opened({"pdf/SKILL.md": PDF, "pdf/a.txt": "x"}) as bench:
        result = await bench.call("use_skill", name="pdf")
        assert "already active: its instructions are in your instructions" in result.text
        assert "- a.txt" in result.text


# --- files of skills ------------------------------------------------------------------------------


async def test_files_of_a_skill_are_read_on_demand_and_in_parts(opened, tmp_path):
    lines = "".join(f"line {number}\n" for number in range(1, 3_001))
    files = {
        "pdf/SKILL.md": PDF,
        "pdf/references/a.md": "About forms.\n",
        "pdf/long.txt": lines,
        "pdf/x.bin": b"\0\1",
    }
    async with opened(files) as bench:
        assert (
            await bench.call("use_skill", name="pdf", resource="references/a.md")
        ).text == "About forms."
        absolute = str(bench.folder / "home/.agents/skills/pdf/references/a.md")
        assert (await bench.call("use_skill", name="pdf", resource=absolute)).text == "About forms."
        first = (await bench.call("use_skill", name="pdf", resource="long.txt")).text
        assert first.startswith("line 1\nline 2\n")
        assert "of 3000; read on with start_line=" in first
        rest = (
            await bench.call("use_skill", name="pdf", resource="long.txt", start_line=2_990)
        ).text
        assert rest.split("\n")[0] == "line 2990"
        assert rest.endswith("line 3000")
        assert "binary" in (await bench.call("use_skill", name="pdf", resource="x.bin")).text
        missing = await bench.call("use_skill", name="pdf", resource="references/b.md")
        assert missing.code == "E_FILE_NOT_FOUND"
        assert "- references/a.md" in missing.text
        folder = await bench.call("use_skill", name="pdf", resource="references")
        assert "is a folder" in folder.text


@pytest.mark.parametrize(
    "path",
    ["../secret", "/etc/passwd", "~/secret", "link", "folder/secret", "a/../../secret", "\0"],
)
async def test_no_way_leads_out_of_a_skills_folder(opened, tmp_path, path):
    files = {"pdf/SKILL.md": PDF, "secret": "secret!", "pdf/a/x": ""}
    write(tmp_path / "home", {"secret": "secret!"})
    root = write(tmp_path / "home/.agents/skills", files) / "pdf"
    os.symlink("../secret", root / "link")
    os.symlink("..", root / "folder")
    async with opened() as bench:
        result = await bench.call("use_skill", name="pdf", resource=path)
        assert result.code == "E_PATH_TRAVERSAL"
        assert "secret!" not in result.text
        assert "link" not in (await bench.call("use_skill", name="pdf")).text


async def test_an_unknown_skill_names_those_there_are(opened):
    async with opened({"pdf/SKILL.md": PDF}) as bench:
        result = await bench.call("use_skill", name="docx")
        assert (result.code, "Known: pdf." in result.text) == ("E_NOT_FOUND", True)


# --- changes --------------------------------------------------------------------------------------


class Toggle:
    """A tool that does what a user does meanwhile in another terminal."""

    def __init__(self, action):
        self.action = action

    @tool(risk="read", effect="pure")
    async def meanwhile(self) -> str:
        """Wait."""
        await trio.to_thread.run_sync(self.action)
        return "done"

    @hookimpl
    def provide_tools(self):
        return [self.meanwhile]


async def test_disabling_is_told_at_once_and_the_next_prompt_is_without(opened):
    toggle = Toggle(lambda: set_choice("disabled", "pdf", present=True))
    answers = [use("meanwhile"), use("use_skill", name="pdf"), say("Done."), say("Again.")]
    user = {"pdf/SKILL.md": PDF, "docx/SKILL.md": skill_text("docx")}
    async with opened(user, plugins=[toggle], answers=answers) as bench:
        await bench.run("Go")
        told = [note for event in bench.of(RoundEnded) for note in event.notes]
        assert "Your instructions changed. The part 'skill pdf' no longer holds." in told[0]
        assert "docx" not in told[0]
        assert "skill pdf" in layers(bench, 1)  # what was sent is sent again
        assert (
            bench.requests[1].messages[: len(bench.requests[0].messages)]
            == bench.requests[0].messages
        )
        result = bench.result("use_skill")
        assert (result.code, "disabled" in result.text) == ("E_DENIED", True)
        await bench.run("Again")
        assert set(layers(bench)) == {"skills", "skill docx"}


async def test_in_an_index_only_the_source_of_a_disabled_skill_is_told_anew(opened, tmp_path):
    toggle = Toggle(lambda: set_choice("disabled", "pdf", present=True))
    write(tmp_path / "more", {"one/SKILL.md": skill_text("one")})
    settings = {"skills.inject": "index", "skills.sources": [str(tmp_path / "more")]}
    user = {"pdf/SKILL.md": PDF, "docx/SKILL.md": skill_text("docx")}
    async with opened(
        user, plugins=[toggle], settings=settings, answers=[use("meanwhile"), say("Done.")]
    ) as bench:
        await bench.run("Go")
        note = bench.of(RoundEnded)[0].notes[0]
        assert (
            note
            == "Your instructions changed. The part 'skills of user ~/.agents/skills' now reads:\n- docx: Does a thing."
        )


async def test_a_skill_that_comes_is_told_and_so_is_the_tool(opened, tmp_path):
    toggle = Toggle(lambda: write(tmp_path / "home/.agents/skills", {"pdf/SKILL.md": PDF}))
    async with opened(
        plugins=[toggle], answers=[use("meanwhile"), say("Done."), say("Again.")]
    ) as bench:
        await bench.run("Go")
        told = "\n".join(note for event in bench.of(RoundEnded) for note in event.notes)
        assert "First run scripts/read.py." in told
        assert "New tools: use_skill" in told
        await bench.run("Again")
        assert "skill pdf" in layers(bench)


async def test_nothing_is_told_while_nothing_changes(opened):
    async with opened(
        {"pdf/SKILL.md": PDF},
        plugins=[Toggle(lambda: None)],
        answers=[*[use("meanwhile")] * 4, "Done."],
    ) as bench:
        await bench.run("Go")
        assert not any(event.notes or event.layers for event in bench.of(RoundEnded))


# --- compactions ----------------------------------------------------------------------------------------


async def test_active_skills_are_kept_over_a_compaction(opened):
    from hilum_skills.session_skills import Skills

    user = {"pdf/SKILL.md": PDF, "docx/SKILL.md": skill_text("docx", body="Write it.")}
    async with opened(user, settings={"skills.inject": "index"}) as bench:
        half, agent = bench.session.plugin(Skills), bench.session.agents["main"]
        assert await half.keep_on_compaction(agent) is None
        await bench.call("use_skill", name="pdf")
        kept = await half.keep_on_compaction(agent)
        assert "First run scripts/read.py." in kept
        assert "Write it." not in kept
        agent.conversation.messages[:] = [NoteMessage(f"Summary: things were done.\n\n{kept}")]
        assert await half.keep_on_compaction(agent) == kept  # and over the next one
        assert "already active" in (await bench.call("use_skill", name="pdf")).text
        await trio.to_thread.run_sync(lambda: set_choice("disabled", "pdf", present=True))
        await half.refresh()
        assert await half.keep_on_compaction(agent) is None


async def test_who_cuts_a_conversation_gets_the_skills_in_use(opened):
    import hilum_memory

    user, settings = {"pdf/SKILL.md": PDF}, {"skills.inject": "index"}
    async with opened(user, plugins=[hilum_memory], settings=settings) as bench:
        agent = bench.session.agents["main"]
        await bench.call("use_skill", name="pdf")
        given = [
            value
            for _, value in await bench.session.hooks.gather("keep_on_compaction", agent=agent)
        ]
        assert "First run scripts/read.py." in given[0]


# --- trust ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [".hilum/skills", ".agents/skills", ".claude/skills", ".gemini/skills", ".github/skills"],
)
async def test_skills_of_a_project_are_off_until_it_is_trusted_and_that_is_said_once(
    opened, tmp_path, place
):
    files = {f"{place}/deploy/SKILL.md": skill_text("deploy", body="Push to production.")}
    async with opened(files=files, answers=["One.", "Two.", "Three."]) as bench:
        await bench.run("Go")
        await bench.run("Go")
        assert layers(bench) == {}
        assert len(notes(bench, "skills.untrusted")) == 1
        assert "`hilum trust`" in notes(bench, "skills.untrusted")[0]["say"]
        await trio.to_thread.run_sync(TrustedFolders().add, bench.workspace)
        await bench.run("Go")
        assert "Push to production." in layers(bench)["skill deploy"]


async def test_a_change_in_a_trusted_project_switches_its_skills_off(opened, tmp_path):
    files = {".hilum/skills/deploy/SKILL.md": skill_text("deploy")}
    async with opened(files=files, answers=["One.", "Two."]) as bench:
        await trio.to_thread.run_sync(TrustedFolders().add, bench.workspace)
        await bench.run("Go")
        assert "skill deploy" in layers(bench)
        write(bench.workspace, {".hilum/skills/deploy/scripts/new.sh": "rm -rf /"})
        await bench.run("Go")
        assert layers(bench) == {}


async def test_a_project_can_neither_add_sources_nor_skills_that_are_links_out(opened, tmp_path):
    write(tmp_path / "outside", {"evil/SKILL.md": skill_text("evil")})
    write(
        tmp_path / "workspace",
        {".agents/x": "", ".hilum/settings.toml": '[skills]\nsources = ["owner/name"]\n'},
    )
    os.symlink(tmp_path / "outside", tmp_path / "workspace/.agents/skills")
    from hilum import SettingsError

    with pytest.raises(SettingsError, match=r"skills\.sources"):
        async with opened():
            pass
    (tmp_path / "workspace/.hilum/settings.toml").unlink()
    async with opened(answers=["One."]) as bench:
        TrustedFolders().add(bench.workspace)
        await bench.run("Go")
        assert layers(bench) == {}
        assert "leads out of" in notes(bench, "skills.problems")[0]["say"]


async def test_a_project_comes_before_the_user_and_the_clash_is_told(opened):
    files = {".agents/skills/pdf/SKILL.md": skill_text("pdf", body="The project's way.")}
    async with opened({"pdf/SKILL.md": PDF}, files=files, answers=["One.", "Two."]) as bench:
        await bench.run("Go")
        assert "First run" in layers(bench)["skill pdf"]  # not trusted: the user's stands
        await trio.to_thread.run_sync(TrustedFolders().add, bench.workspace)
        await bench.run("Go")
        assert "The project's way." in layers(bench)["skill pdf"]
        assert (
            "pdf of project .agents/skills takes precedence"
            in notes(bench, "skills.problems")[0]["say"]
        )


async def test_the_same_skill_in_two_places_is_nothing_to_complain_of(opened, tmp_path):
    (tmp_path / "home/.claude").mkdir(parents=True)
    os.symlink(tmp_path / "home/.agents/skills", tmp_path / "home/.claude/skills")
    async with opened({"pdf/SKILL.md": PDF}, answers=["One."]) as bench:
        await bench.run("Go")
        assert set(layers(bench)) == {"skills", "skill pdf"}
        assert notes(bench, "skills.problems") == []


# --- what is broken -------------------------------------------------------------------------------


async def test_what_does_not_load_is_told_once_and_the_rest_works(opened):
    user = {"bad/SKILL.md": "---\nname: bad\n---\nx", "pdf/SKILL.md": PDF}
    async with opened(user, answers=["One.", "Two."]) as bench:
        await bench.run("Go")
        await bench.run("Go")
        assert set(layers(bench)) == {"skills", "skill pdf"}
        (told,) = notes(bench, "skills.problems")
        assert (
            "The skill bad from user ~/.agents/skills is skipped: It has no description."
            in told["say"]
        )


async def test_a_skill_that_only_the_user_invokes_is_not_offered(opened):
    text = "---\nname: deploy\ndescription: d\ndisable-model-invocation: true\n---\nPush.\n"
    async with opened({"deploy/SKILL.md": text}, answers=["One."]) as bench:
        await bench.run("Go")
        assert layers(bench) == {}
        assert "Push." in (await bench.call("use_skill", name="deploy")).text
        half = bench.session.plugin(hilum_skills.Skills)
        assert "Push." in await half.keep_on_compaction(bench.session.agents["main"])


async def test_allowed_tools_approve_nothing(opened):
    text = "---\nname: pdf\ndescription: d\nallowed-tools: dangerous\n---\nx\n"

    @tool(risk="execute")
    def dangerous() -> str:
        """Do it."""
        return "did it"

    class Plugin:
        @hookimpl
        def provide_tools(self):
            return [dangerous]

    async with opened({"pdf/SKILL.md": text}, plugins=[Plugin()], approve="readonly") as bench:
        await bench.call("use_skill", name="pdf")
        assert (await bench.call("dangerous")).code == "E_DENIED"


# --- sources --------------------------------------------------------------------------------------


async def test_a_source_that_is_not_there_is_fetched_before_the_session_begins(opened, repository):
    settings = {"skills.sources": [f"{repository.url}#skills"]}
    async with opened(settings=settings, answers=["One."]) as bench:
        await bench.run("Go")
        assert set(layers(bench)) == {"skills", "skill pdf", "skill docx"}
        assert Clones().find(parse_source(repository.url)).commit == repository.git(
            "rev-parse", "HEAD"
        )


async def test_a_source_that_cannot_be_fetched_is_told_and_skipped(opened, repository):
    settings = {
        "skills.sources": [
            "file:///nowhere.git",
            "owner/../x",
            f"{repository.url}#nothing/here",
            "/no/folder",
        ]
    }
    async with opened(
        {"mine/SKILL.md": skill_text("mine")}, settings=settings, answers=["One."]
    ) as bench:
        await bench.run("Go")
        assert set(layers(bench)) == {"skills", "skill mine"}
        told = "\n".join(note["say"] for note in notes(bench, "skills.problems"))
        assert "Skills of file:///nowhere.git were not fetched: There is no repository" in told
        assert "'owner/../x' cannot be a source of skills" in told
        assert "has no skill in nothing/here" in told
        assert "There is no folder /no/folder." in told


async def test_a_source_that_takes_long_comes_later(opened, tmp_path):
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        settings = {
            "skills.sources": [f"http://127.0.0.1:{silent.getsockname()[1]}/x.git"],
            "skills.wait": 0.1,
        }
        async with opened(
            {"mine/SKILL.md": skill_text("mine")}, settings=settings, answers=["One."]
        ) as bench:
            await bench.run("Go")
            assert set(layers(bench)) == {"skills", "skill mine"}


async def test_a_readme_counts_where_a_repository_has_no_skill(opened, tmp_path):
    sys.path.insert(0, str(Path(__file__).parent))
    from skill_repositories import Repository

    repo = Repository(tmp_path / "style-guide")
    repo.commit(
        {
            "README.md": "# Style\n\nHow we write code.\n",
            "docs/tests.md": "# Tests\n\nHow we test.\n",
        }
    )
    settings = {"skills.sources": [repo.url, f"{repo.url}#docs/tests.md"], "skills.inject": "index"}
    async with opened(settings=settings, answers=["One."]) as bench:
        await bench.run("Go")
        found = layers(bench)
        assert found[f"skills of {repo.url}"] == "- style-guide: How we write code."
        assert found[f"skills of {repo.url}#docs/tests.md"] == "- tests: How we test."


async def test_the_list_of_the_user_that_cannot_be_read_is_told(opened, tmp_path):
    write(tmp_path / "config", {"skills.toml": "sources = 3"})
    async with opened({"pdf/SKILL.md": PDF}, answers=["One."]) as bench:
        await bench.run("Go")
        assert (
            "sources must be a list of strings, not 3" in notes(bench, "skills.problems")[0]["say"]
        )
        assert "skill pdf" in layers(bench)


def test_what_goes_to_the_log_is_plain_data(tmp_path):
    from hilum_skills import load_skill
    from hilum_skills.catalog import CatalogEntry
    from hilum_skills.formatting import entry_data

    write(tmp_path / "pdf", {"SKILL.md": PDF})
    assert (
        json.loads(
            json.dumps(
                entry_data(CatalogEntry(load_skill(tmp_path / "pdf"), "x", "user"), body=True)
            )
        )["name"]
        == "pdf"
    )


async def test_long_instructions_are_read_in_parts(opened):
    """A skill of 100,000 characters comes in parts, each of which says where the next one begins.

    Nothing is lost.
    """
    body = "\n".join(f"Line {number} of the instructions." for number in range(3_000))
    async with opened(
        {"long/SKILL.md": skill_text("long", body=body)}, settings={"skills.inject": "index"}
    ) as bench:
        start, read = 1, ""
        while start:
            text = (await bench.call("use_skill", name="long", start_line=start)).text
            assert len(text) < 35_000
            read += text
            found = re.search(r"read on with start_line=(\d+)", text)
            start = int(found[1]) if found else 0
        assert all(f"Line {number} of" in read for number in range(3_000))


async def test_a_prompt_can_begin_with_the_name_of_a_skill(opened) -> None:
    """`/pdf request` uses the skill; disabled and unknown names stay plain text."""
    files = {"pdf/SKILL.md": PDF, "docx/SKILL.md": skill_text("docx")}
    settings = {"skills.disabled": ["docx"]}
    async with opened(files, settings=settings, answers=["Done."] * 5) as bench:
        listed = [item.name for _, item in bench.session.list_commands()]
        assert listed == ["pdf"]
        cases = [
            ("/pdf fill in form.pdf", "Use the skill pdf.\n\nfill in form.pdf"),
            ("/pdf", "Use the skill pdf."),
            ("/docx write", "/docx write"),
            (" /pdf fill in", " /pdf fill in"),
            ("/pdfs", "/pdfs"),
        ]
        wrong = []
        for prompt, expected in cases:
            await bench.run(prompt)
            sent = bench.of(RunStarted)[-1].text
            if sent != expected:
                wrong.append((prompt, sent))
        assert not wrong
