"""``hilum init``: the agent's way with a model, the draft without one, and existing files."""

import os

import pytest
import trio

MAKEFILE = "build:\n\tcc x.c\ntest: build\n\t./x\n"


@pytest.fixture
def project(cli):
    """``hilum`` in a project with a Makefile."""
    (cli.workspace / "Makefile").write_text(MAKEFILE)
    (cli.workspace / "x.c").write_text("int main;\n")
    closed = "http://127.0.0.1:9/v1"
    names = ("OLLAMA_HOST", "LMSTUDIO_BASE_URL", "LLAMACPP_BASE_URL", "VLLM_BASE_URL")
    cli.env |= dict.fromkeys(names, closed)
    return cli


async def test_without_a_model_a_draft_is_written_once(project):
    """The second time there is nothing to add, and nothing is written."""
    file = project.workspace / "AGENTS.md"
    done = await project("init")
    assert done.code == 0, done
    assert "2 commands from Makefile; C." in done.out
    assert "- Test: `make test`" in file.read_text()
    before = file.stat().st_mtime_ns
    again = await project("init")
    assert (again.code, again.out) == (0, "")
    assert "already contains what hilum found" in again.err
    assert file.stat().st_mtime_ns == before


async def test_an_existing_file_is_shown_what_it_lacks_and_not_changed(project):
    """The diff is the standard output, so that it can be applied."""
    file = project.workspace / "AGENTS.md"
    file.write_text("# X\n\nUse tabs. Run `make gone`.")
    done = await project("init")
    assert done.code == 0, done
    assert file.read_text() == "# X\n\nUse tabs. Run `make gone`."
    assert "+- Test: `make test`" in done.out
    assert "names `make gone`, which does not exist here" in done.err
    assert "hilum init --draft --apply" in done.err
    await trio.run_process(
        ["git", "apply", "-"],
        stdin=done.out.encode(),
        cwd=project.workspace,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(project.folder)},
    )
    applied = file.read_text()
    file.write_text("# X\n\nUse tabs. Run `make gone`.")
    assert (await project("init", "--draft", "--apply")).code == 0
    assert file.read_text() == applied
    assert applied.startswith("# X\n\nUse tabs. Run `make gone`.\n")


async def test_on_a_terminal_the_diff_is_asked_about(project):
    """No, unless the answer is yes."""
    file = project.workspace / "AGENTS.md"
    for answer, changed in (("\n", False), ("y\n", True)):
        file.write_text("# X\n")
        async with project.on_terminal("init", "--draft") as terminal:
            await terminal.see("lines to AGENTS.md? [y/N]")
            terminal.type(answer)
            assert await terminal.end() == 0
        assert ("make test" in file.read_text()) is changed


async def test_with_a_model_the_agent_writes_it_and_the_user_approves(project, asks):
    """The prompt has what was found; the file is written by a call as always."""
    writes = asks("write_file", path="AGENTS.md", content="# X\n\n- Test: `make test`\n")
    async with (
        project.model(writes, "I was sure of everything.") as server,
        project.on_terminal("init", "the", "tests") as terminal,
    ):
        await terminal.see("AGENTS.md")
        await terminal.see("[y]es")
        terminal.type("y\n")
        await terminal.see("I was sure of everything.")
        assert await terminal.end() == 0
    body = server.bodies[0].decode()
    assert "Write the file AGENTS.md in the workspace" in body
    assert "- Test: `make test`" in body
    assert "The user adds: the tests" in body
    assert (project.workspace / "AGENTS.md").read_text() == "# X\n\n- Test: `make test`\n"


async def test_init_works_as_a_prompt_of_any_session(project):
    """Typed, not piped: what another program writes is no command."""
    async with project.model("Done.", "Done.") as server:
        assert (await project("run", "/init")).code == 0
        assert (await project("run", stdin=b"/init")).code == 0
    assert "Write the file AGENTS.md" in server.bodies[0].decode()
    assert "Write the file AGENTS.md" not in server.bodies[1].decode()


async def test_what_cannot_be_written_or_improved_is_an_error(project):
    """Nothing is replaced, whatever AGENTS.md is."""
    file = project.workspace / "AGENTS.md"
    outside = project.folder / "outside.md"
    outside.write_text("mine\n")
    wrong = []
    for make, expected in (
        (lambda: file.symlink_to(outside), "a link out of the project"),
        (lambda: file.symlink_to("missing"), "No such file"),
        (lambda: file.mkdir(), "Is a directory"),
        (lambda: file.write_bytes(b"\xff\xfe"), "it is not UTF-8 text"),
    ):
        make()
        done = await project("init", "--draft", "--apply")
        if done.code != 1 or expected not in done.err:
            wrong.append((expected, done))
        if file.is_dir():
            file.rmdir()
        else:
            file.unlink()
    assert wrong == []
    assert outside.read_text() == "mine\n"
    (project.workspace / "Makefile").unlink()
    (project.workspace / "x.c").unlink()
    done = await project("init")
    assert (done.code, "neither code nor a build file" in done.err) == (1, True), done
    assert not file.exists()


async def test_a_named_model_that_cannot_be_used_is_an_error(project):
    """A draft instead of it would be a surprise."""
    done = await project("init", "--model", "openai/x", "--approve", "auto")
    assert (done.code, "no API key is set" in done.err) == (2, True), done
    done = await project("init", "--apply")
    assert (done.code, "--apply needs --draft" in done.err) == (2, True), done
