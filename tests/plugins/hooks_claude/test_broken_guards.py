"""Guards whose settings file has a mistake: a slip in a file must not switch a guard off."""

import pytest
from hilum.settings import change
from hilum_hooks_claude.approvals import DESCRIBED, Decisions, decisions_file
from hilum_hooks_claude.command import main
from hilum_hooks_claude.listing import read_hooks
from hilum_hooks_claude.settings_files import MAX_FILE_BYTES
from hook_places import group

SETTINGS = ".claude/settings.json"
GUARD = {"PreToolUse": group("echo guarded >&2; exit 2", "Write")}
# What people do to a file by mistake.
SLIPS = {
    "no last bracket": lambda text: text.rstrip().removesuffix("}"),
    "merge markers": lambda text: f"<<<<<<< HEAD\n{text}\n=======\n{text}\n>>>>>>> other\n",
    "cut off": lambda text: '{"hooks": {',
    "type": lambda text: text.replace('"type": "command"', '"type": "comand"'),
    "key": lambda text: text.replace('"command":', '"cmd":'),
    "no list": lambda text: text.replace('"hooks": [', '"hook": ['),
    "event": lambda text: text.replace("PreToolUse", "PreTooluse"),
    "too large": lambda text: text + " " * MAX_FILE_BYTES,
}


def spoil(file, slip):
    """Make a mistake in a settings file."""
    text = file.read_text()
    file.write_text(SLIPS[slip](text))
    assert file.read_text() != text


async def write(place, name="write_file", **arguments):
    """Return the result of a call in a session that nobody attends, and the notes to the user."""
    arguments = arguments or {"path": "a.txt", "content": "x"}
    async with place.open(kind="headless", settings={"approve": "auto"}) as bench:
        result = await bench.call(name, **arguments)
        lines = [each.data.get("say", "") for each in bench.events if hasattr(each, "data")]
    return result, "\n".join(lines)


@pytest.mark.parametrize("slip", SLIPS)
async def test_approved_guard_denies_its_calls_while_its_file_is_broken(place, slip):
    place.project_hooks(GUARD)
    result, _ = await write(place)
    assert "guarded" in result.text
    file = place.project / SETTINGS
    intact = file.read_text()
    spoil(file, slip)
    assert "cannot be read" in [each.state for each in read_hooks(place.project)[0]]
    result, said = await write(place)
    assert result.code == "E_DENIED"
    assert f"You approved it, but {SETTINGS}" in result.text
    assert not (place.project / "a.txt").exists()
    assert "Your approved guard for Write cannot be read" in said
    # Calls that it did not guard are not denied.
    result, _ = await write(place, "run_terminal_cmd", command="echo reached")
    assert "reached" in result.text
    file.write_text(intact)
    result, _ = await write(place)
    assert "guarded" in result.text


async def test_guard_that_was_removed_or_never_approved_denies_nothing(place):
    place.project_hooks(GUARD)
    (place.project / SETTINGS).write_text('{"hooks": {}}')
    result, _ = await write(place, path="b.txt", content="x")
    assert not result.code
    place.project_hooks(GUARD, approved=False)
    assert main(["refuse", "-C", str(place.project)]) == 0
    spoil(place.project / SETTINGS, "type")
    result, said = await write(place)
    assert not result.code
    assert f"The guard for Write in {SETTINGS} does not run. Correct the file." in said


async def test_lost_guard_is_listed_and_can_be_refused(place, capsys):
    place.project_hooks(GUARD)
    spoil(place.project / SETTINGS, "no last bracket")
    folder = ["-C", str(place.project)]
    assert main(folder) == 1
    assert "calls are denied until it can be read" in capsys.readouterr().out
    assert main(["refuse", *folder]) == 0
    result, _ = await write(place)
    assert not result.code


async def test_approval_without_a_description_may_be_any_guard(place):
    place.project_hooks(GUARD)
    (identity,) = Decisions.load().described[str(place.project)]
    change(decisions_file(), [DESCRIBED, str(place.project), identity], None)
    spoil(place.project / SETTINGS, "no last bracket")
    result, _ = await write(place)
    assert result.code == "E_DENIED"


@pytest.mark.parametrize("slip", SLIPS)
async def test_calls_need_approval_while_the_users_file_is_broken(place, slip):
    spoil(place.user_hooks(GUARD), slip)
    result, said = await write(place)
    if slip == "cut off":
        assert not result.code  # nothing says that it contained a guard
        return
    assert result.code == "E_DENIED"
    # A file that is too large may also contain deny rules.
    if slip != "too large":
        assert "~/.claude/settings.json may deny it, but does not run" in result.text
    assert "in ~/.claude/settings.json does not run. Correct the file. Until then" in said
    for tool, arguments in (
        ("read_file", {"path": "b.txt"}),
        ("run_terminal_cmd", {"command": "ls"}),
    ):
        (place.project / "b.txt").write_text("reached")
        result, _ = await write(place, tool, **arguments)
        assert not result.code


async def test_matchers_in_a_broken_file_also_cover_reading(place):
    spoil(place.user_hooks({"PreToolUse": group("exit 2", "Read|Grep")}), "no last bracket")
    (place.project / "b.txt").write_text("reached")
    result, _ = await write(place, "read_file", path="b.txt")
    assert result.code == "E_DENIED"


async def test_user_may_let_calls_pass_a_broken_guard(place):
    spoil(place.user_hooks(GUARD), "type")
    settings = {"approve": "auto", "hooks_claude.failing_guard": "pass"}
    async with place.open(kind="headless", settings=settings) as bench:
        result = await bench.call("write_file", path="a.txt", content="x")
    assert not result.code


@pytest.mark.parametrize("table", ["null", "{}", '{"Stop": [{"hooks": [{"type": "comand"}]}]}'])
async def test_broken_file_without_guards_asks_nothing(place, table):
    file = place.user_hooks({})
    file.write_text(f'{{"hooks": {table},,}}')
    result, _ = await write(place)
    assert not result.code


@pytest.mark.parametrize("kind", ["http", "prompt", "agent", "mcp_tool"])
async def test_guard_of_a_type_that_does_not_run_is_named(place, kind):
    entry = {"type": kind, "url": "https://example.com"}
    place.user_hooks({"PreToolUse": [{"matcher": "Write", "hooks": [entry]}]})
    result, said = await write(place)
    assert not result.code
    assert "The guard for Write (~/.claude/settings.json:7) does not run" in said
    assert "`hilum permissions deny`" in said
