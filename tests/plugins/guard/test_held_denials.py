"""What a project's files forbade at the start of a session is forbidden until it ends."""

import json

import hilum_files
import hilum_guard
import hilum_rules
import hilum_shell
import pytest
from hilum.errors import E_DENIED
from hilum.events import PluginEvent
from hilum.store import MemoryStore
from hilum.testing import open_bench

PLUGINS = (hilum_guard, hilum_files, hilum_shell)
CLAUDE = ".claude/settings.json"
OWN = ".hilum/permissions.toml"
FILES = {
    CLAUDE: json.dumps({"permissions": {"deny": ["Edit(config/**)"]}}),
    ".gemini/settings.json": json.dumps({"excludeTools": ["replace", "write_file"]}),
    ".cursorignore": "config/\n",
    OWN: 'deny = ["write_file(config/**)"]\n',
}


def notes(kit):
    """Return what the user was told."""
    return "\n".join(event.data.get("say", "") for event in kit.of(PluginEvent))


async def write(kit, path="config/a"):
    return await kit.call("write_file", path=path, content="x")


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("how", ["deleted", "emptied"])
async def test_a_denial_holds_although_its_file_has_gone(bench, path, how):
    kit = await bench(*PLUGINS, approve="auto", files={path: FILES[path]})
    tool = "read_file" if path == ".cursorignore" else "write_file"
    file = kit.workspace / path
    if how == "deleted":
        file.unlink()
    else:
        file.write_text("" if path in (OWN, ".cursorignore") else "{}")
    given = {"path": "config/a"} if tool == "read_file" else {"path": "config/a", "content": "x"}
    result = await kit.call(tool, **given)
    assert result.code == E_DENIED, result.text
    assert "no longer in the file" in result.text
    assert notes(kit).count("in force until the session ends") == 1
    assert path in notes(kit)


async def test_an_approved_deletion_ends_no_denial(bench, asked):
    """This is how an agent got rid of the rules that denied it something."""
    kit = await bench(*PLUGINS, approve="auto", files={CLAUDE: FILES[CLAUDE]})
    await kit.call("read_file", path=CLAUDE)
    await asked(kit, "delete_file", accept=True, path=CLAUDE)
    assert not (kit.workspace / CLAUDE).exists()
    assert (await write(kit)).code == E_DENIED
    assert (await write(kit, "src/a")).code == ""


async def test_a_rule_that_moves_within_its_file_is_not_lost(bench):
    kit = await bench(*PLUGINS, approve="auto", files={CLAUDE: FILES[CLAUDE]})
    text = json.dumps({"permissions": {"deny": ["Read(b)", "Edit(config/**)"]}}, indent=4)
    (kit.workspace / CLAUDE).write_text(text)
    assert (await write(kit)).code == E_DENIED
    assert "in force until" not in notes(kit)
    assert (await kit.call("read_file", path="b")).code == E_DENIED


async def test_changes_of_the_users_own_rules_apply_at_once(bench):
    kit = await bench(*PLUGINS, approve="auto")
    file = kit.folder / "config/permissions.toml"
    file.write_text('deny = ["write_file"]\n')
    assert (await write(kit)).code == E_DENIED
    file.write_text("")
    assert (await write(kit)).code == ""


async def test_the_user_can_end_them(tmp_path):
    given = {"approve": "auto", "files": {CLAUDE: FILES[CLAUDE]}, "folder": tmp_path}
    async with open_bench(*PLUGINS, hilum_rules, **given) as kit:
        (kit.workspace / CLAUDE).unlink()
        assert (await write(kit)).code == E_DENIED
        assert "Read again" in (await kit.run("/reload-rules")).text
        assert "No longer in force, because no file contains it" in notes(kit)
        assert (await write(kit)).code == ""


async def test_a_resumed_session_holds_them(tmp_path):
    store = MemoryStore()
    given = {"approve": "auto", "store": store, "folder": tmp_path}
    async with open_bench(*PLUGINS, hilum_rules, files={CLAUDE: FILES[CLAUDE]}, **given) as kit:
        assert (await write(kit)).code == E_DENIED
        session = kit.session.id
    (tmp_path / "workspace" / CLAUDE).unlink()
    async with open_bench(*PLUGINS, hilum_rules, resume=session, **given) as kit:
        assert (await write(kit)).code == E_DENIED
        await kit.run("/reload-rules")
        assert (await write(kit)).code == ""
    async with open_bench(*PLUGINS, hilum_rules, resume=session, **given) as kit:
        assert (await write(kit, "config/b")).code == ""
    async with open_bench(*PLUGINS, **given) as kit:
        assert (await write(kit, "config/c")).code == ""
