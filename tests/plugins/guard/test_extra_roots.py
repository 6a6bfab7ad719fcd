"""Extra roots of a workspace: commands may use them as the workspace, with the same protection."""

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum.events import ApprovalAsked
from hilum.testing import open_bench, use
from hilum_guard import Guard


@pytest.fixture
def extra(tmp_path):
    """A folder beside the workspace, with files of each kind."""
    extra = tmp_path / "extra"
    for name in ("src/a.txt", ".env", ".vscode/tasks.json", "locked/b.txt"):
        path = extra / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as it was\n")
    (extra / ".git" / "hooks").mkdir(parents=True)
    return extra


def command(line):
    return use("run_terminal_cmd", command=line)


async def opened(bench, extra, *calls, **options):
    """Run a session with the folder as an extra root; return its bench."""
    kit = await bench(
        hilum_files,
        hilum_guard,
        hilum_shell,
        answers=[*calls, "Done."],
        settings={"extra_roots": [str(extra)]},
        **options,
    )
    enforced = await kit.session.plugin(Guard).sandbox.enforced()
    if not enforced.protected:
        pytest.skip("needs a sandbox that protects paths")
    await kit.run("Go")
    return kit


async def test_commands_write_to_an_extra_root_without_a_question(bench, extra):
    line = f"echo new > {extra}/src/a.txt && mkdir {extra}/made"
    kit = await opened(bench, extra, command(f"echo new > {extra}/src/a.txt"), command(line))
    assert not kit.of(ApprovalAsked)
    assert [result.code for result in kit.results] == ["", ""]
    assert (extra / "src" / "a.txt").read_text() == "new\n"
    assert (extra / "made").is_dir()


async def test_protected_names_and_secrets_stay_protected_in_an_extra_root(bench, extra):
    writes = [
        f"touch {extra}/.git/hooks/pre-commit",
        f"python3 -c \"open('{extra}/.vscode/tasks.json', 'w')\"",
        f"mkdir {extra}/.hilum/agents",
        f"echo x > {extra}/../outside",
    ]
    reads = [f"python3 -c \"print(open('{extra}' + '/.e' + 'nv').read())\""]
    kit = await opened(bench, extra, *map(command, [*writes, *reads]), approve="auto")
    assert all(result.data["exit_code"] for result in kit.results[:3])
    assert "as it was" not in kit.results[-1].text
    assert (extra / ".vscode" / "tasks.json").read_text() == "as it was\n"
    assert list((extra / ".git" / "hooks").iterdir()) == []
    assert not (extra.parent / "outside").exists()


async def test_a_new_file_that_other_programs_execute_is_made_inert_in_an_extra_root(bench, extra):
    line = f"python3 -c \"open('{extra}/src/.en' + 'vrc', 'w').write('x')\""
    kit = await opened(bench, extra, command(line), approve="auto")
    assert kit.results[0].code == "E_DENIED"
    assert not (extra / "src" / ".envrc").exists()


async def test_a_rule_that_denies_holds_for_commands_in_an_extra_root(bench, extra, tmp_path):
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "permissions.toml").write_text(
        f'deny = ["write_file(/{extra}/locked/**)", "write_file(a.txt)"]\n'
    )
    lines = [
        f"python3 -c \"open('{extra}/loc' + 'ked/b.txt', 'w')\"",
        f"python3 -c \"open('{extra}/src/a' + '.txt', 'w')\"",
        f"echo x > {extra}/src/a.txt",
    ]
    environ = {"HILUM_CONFIG": str(tmp_path / "config")}
    kit = await opened(bench, extra, *map(command, lines), approve="auto", environ=environ)
    assert all(result.code or result.data["exit_code"] for result in kit.results)
    assert (extra / "locked" / "b.txt").read_text() == "as it was\n"
    assert (extra / "src" / "a.txt").read_text() == "as it was\n"


async def test_deleting_an_extra_root_is_as_grave_as_deleting_the_workspace(bench, extra):
    kit = await opened(bench, extra, command(f"rm -rf {extra}"), approve="auto")
    assert kit.results[0].code == "E_BLOCKED"
    assert extra.exists()


async def test_a_write_outside_is_explained_to_the_model(tmp_path):
    line = "python3 -c \"open('/usr/x', 'w')\""
    async with open_bench(
        hilum_guard,
        hilum_shell,
        workspace=tmp_path,
        answers=[command(line), "Done."],
        approve="auto",
    ) as kit:
        enforced = await kit.session.plugin(Guard).sandbox.enforced()
        if enforced.by != "bubblewrap":
            pytest.skip("needs bubblewrap")
        await kit.run("Go")
        assert "guard.writable" in kit.results[0].text
