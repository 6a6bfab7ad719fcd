"""A rule about a path, a host or a category holds for every tool and command with the same
effect.
"""

import json

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum import tool
from hilum.errors import E_DENIED
from hilum.events import ApprovalAsked
from hilum.testing import plugin
from hilum_guard import judge_command
from hilum_guard.effects.resolved_effects import Effect, ResolvedEffects, resolve_effects
from hilum_guard.rules.matching import CallFacts, fit, parse
from hypothesis import given
from hypothesis import strategies as st

PLUGINS = (hilum_guard, hilum_files, hilum_shell)
FILES = {"docs/x.md": "old\n", "src/a.py": "a\n", "notes.txt": "n\n"}


def user_rules(kit, **lists):
    """Write the user's rules."""
    lines = [f"{effect} = {json.dumps(rules)}\n" for effect, rules in lists.items()]
    (kit.folder / "config" / "permissions.toml").write_text("".join(lines))


WRITERS = [
    ("write_file", {"path": "docs/x.md", "content": "new"}),
    ("write_file", {"path": "docs/sub/new.md", "content": "new"}),
    ("edit_file", {"path": "docs/x.md", "old_string": "old", "new_string": "new"}),
    ("multi_edit", {"path": "docs/x.md", "edits": [{"old_string": "old", "new_string": "new"}]}),
    ("delete_file", {"path": "docs/x.md"}),
    *[
        ("run_terminal_cmd", {"command": command})
        for command in [
            "echo new > docs/x.md", "echo new >> docs/x.md", "echo new | tee docs/x.md", "cp notes.txt docs/x.md",
            "cp notes.txt docs/", "cp -t docs notes.txt", "mv notes.txt docs/", "mv docs/x.md notes2.txt", "mv docs gone",
            "rm docs/x.md", "rm -r docs", "cd docs && rm x.md", "sed -i s/old/new/ docs/x.md", "truncate -s 0 docs/x.md",
            "touch docs/y", "mkdir docs/z", "ln -s ../notes.txt docs/l", "dd if=notes.txt of=docs/x.md",
            "sort -o docs/x.md notes.txt", "bash -c 'echo new > docs/x.md'", "find docs -delete", "rm ./docs/../docs/x.md",
            "rm DOCS/x.md", "git rm -f docs/x.md", "perl -i -pe s/old/new/ docs/x.md", "chmod 777 docs/x.md",
            "find . -name x.md -exec rm docs/x.md ';'", "rm docs/*.md", "install -m 644 notes.txt docs/x.md",
            "uniq notes.txt docs/new", "yq -i .a=1 docs/x.md", "iconv -o docs/new notes.txt", "xxd notes.txt docs/new",
            "git bundle create docs/new HEAD",
            "git checkout -- docs/x.md", "wget -O docs/x.md http://h.example/", "curl -o docs/x.md http://h.example/",
        ]
    ],
]  # fmt: skip


@pytest.mark.parametrize("rule", ["write_file(docs/**)", "edit_file(docs/**)", "write(docs/**)"])
async def test_who_denies_writing_a_path_denies_it_to_every_tool_and_command(bench, rule):
    """Whichever writing tool the rule names: nothing below the folder changes."""
    kit = await bench(*PLUGINS, approve="auto", files=FILES)
    user_rules(kit, deny=[rule], allow=["*"])
    for name, arguments in WRITERS:
        assert (await kit.call(name, **arguments)).code == E_DENIED, arguments
        assert (kit.workspace / "docs" / "x.md").read_text() == "old\n"


async def test_a_program_that_cannot_be_read_finds_the_path_read_only(bench):
    """The sandbox holds what exists; without one the command is asked."""
    kit = await bench(*PLUGINS, approve="auto", files=FILES)
    user_rules(kit, deny=["write_file(docs/**)"])
    enforced = await kit.session.plugin(hilum_guard.Guard).sandbox.enforced()
    if not enforced.protected:
        pytest.skip("no sandbox holds protected paths here")
    script = "import pathlib; pathlib.Path('src/b').write_text('b'); pathlib.Path('docs/y.md').write_text('new')"
    result = await kit.call("run_terminal_cmd", command=f'python3 -c "{script}"')
    assert "Read-only file system" in result.text
    assert (kit.workspace / "src" / "b").read_text() == "b"
    assert not (kit.workspace / "docs" / "y.md").exists()


async def test_without_a_sandbox_what_cannot_be_read_is_asked(bench, asked):
    """Even where the user lets commands run without one."""
    kit = await bench(*PLUGINS, approve="auto", files=FILES,
                      settings={"guard.sandbox": "off", "guard.unsandboxed": "run"})  # fmt: skip
    user_rules(kit, deny=["write_file(docs/**)"])
    event = await asked(kit, "run_terminal_cmd", command="python3 -c 'print(1)'")
    assert "rule may deny it" in event.reason
    assert (await kit.call("run_terminal_cmd", command="cat notes.txt")).code == ""


async def test_who_denies_reading_a_path_denies_it_to_commands(bench):
    """By name, and by redirection."""
    kit = await bench(*PLUGINS, approve="auto", files=FILES)
    user_rules(kit, deny=["read_file(docs/**)"])
    for command in ("cat docs/x.md", "grep old docs/x.md", "cp docs/x.md y", "base64 < docs/x.md"):
        assert (await kit.call("run_terminal_cmd", command=command)).code == E_DENIED, command
    assert (await kit.call("run_terminal_cmd", command="cat notes.txt")).code == ""
    assert (await kit.call("write_file", path="docs/new.md", content="")).code == ""


async def test_deleting_can_be_denied_alone(bench):
    """Who may not delete may still write."""
    kit = await bench(*PLUGINS, approve="auto", files=FILES)
    user_rules(kit, deny=["delete_file(docs/**)"])
    assert (await kit.call("run_terminal_cmd", command="rm docs/x.md")).code == E_DENIED
    assert (await kit.call("run_terminal_cmd", command="mv docs/x.md y")).code == E_DENIED
    assert (await kit.call("write_file", path="docs/new.md", content="new")).code == ""


@tool(risk="network", effect="pure")
def visit(url: str) -> str:
    """Visit."""
    return f"been at {url}"


CONTACTING = [
    "curl https://h.example/x",
    "git clone https://h.example/r",
    "ssh me@h.example",
    "wget h.example/a",
    "scp a me@h.example:/tmp",
    "bash -c 'curl -s http://a.h.example:80'",
    "git push git@h.example:a/b",
]


@pytest.mark.parametrize(
    "rule", ["network", "network(domain:h.example)", "visit(domain:h.example)"]
)
async def test_who_denies_the_network_or_a_host_denies_it_to_tools_and_commands(bench, rule):
    """As far as the command can be read."""
    kit = await bench(*PLUGINS, plugin("web", visit), approve="auto")
    user_rules(kit, deny=[rule], allow=["*"])
    assert (await kit.call("visit", url="https://h.example/")).code == E_DENIED
    for command in CONTACTING:
        assert (await kit.call("run_terminal_cmd", command=command)).code == E_DENIED, command
    assert (await kit.call("run_terminal_cmd", command="true")).code == ""


@pytest.mark.parametrize(
    ("category", "name", "arguments"),
    [
        ("read", "read_file", {"path": "notes.txt"}),
        ("write", "write_file", {"path": "new", "content": ""}),
        ("execute", "run_terminal_cmd", {"command": "git init"}),
        ("network", "visit", {"url": "https://h.example/"}),
    ],
)
async def test_a_category_works_in_every_list(bench, asked, category, name, arguments):
    """Deny refuses, ask asks, allow lets run, all under the policy that would do otherwise."""
    kit = await bench(*PLUGINS, plugin("web", visit), approve="ask_first", files=FILES)
    user_rules(kit, deny=[category])
    assert (await kit.call(name, **arguments)).code == E_DENIED
    user_rules(kit, ask=[category])
    assert category in (await asked(kit, name, **arguments)).reason
    user_rules(kit, allow=[category])
    before = len(kit.of(ApprovalAsked))
    assert (await kit.call(name, **arguments)).code == ""
    assert len(kit.of(ApprovalAsked)) == before


async def test_a_category_allows_what_a_plain_command_writes(bench, asked):
    """`cp` below the folder runs; what also writes elsewhere is asked."""
    kit = await bench(*PLUGINS, approve="ask_first", files=FILES)
    user_rules(kit, allow=["write(docs/**)"])
    assert (await kit.call("run_terminal_cmd", command="cp notes.txt docs/n.txt")).code == ""
    assert kit.of(ApprovalAsked) == []
    await asked(kit, "run_terminal_cmd", command="cp notes.txt src/")
    await asked(kit, "run_terminal_cmd", command="cp notes.txt docs/n.txt; make")


@pytest.mark.parametrize(
    ("wrong", "near"), [("wirte_file(docs/**)", "write_file"), ("netwrok", "network"), ("Bash", "")]
)
async def test_a_rule_that_names_no_tool_is_a_mistake_and_nothing_is_changed(bench, wrong, near):
    """A typo in a rule that denies must not pass in silence."""
    kit = await bench(*PLUGINS, approve="auto", files=FILES)
    user_rules(kit, deny=[wrong])
    result = await kit.call("write_file", path="docs/x.md", content="")
    assert result.code == E_DENIED
    assert f"line 1: deny[1]: there is no tool {wrong.partition('(')[0]!r}" in result.text
    assert near in result.text
    user_rules(kit, deny=["tracker__anything", "mcp__tracker"])
    assert (await kit.call("write_file", path="docs/new.md", content="")).code == ""


# --- the same effect, the same verdict ------------------------------------------------------------

NAMES = st.sampled_from(["docs", "src", "a.md", "b.lock", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
PATTERNS = st.one_of(
    PATHS, PATHS.map(lambda path: f"/{path}"), PATHS.map(lambda path: f"{path}/**"), st.sampled_from(["*.md", "**/c", "d*"])
)  # fmt: skip


def by_command(command, root):
    """The case of a command."""
    read = judge_command(command, workspace=root)
    return CallFacts("run_terminal_cmd", {"command": command}, command=read, category="execute",
                resolved=resolve_effects(read.commands, str(root), complete=read.complete))  # fmt: skip


def by_tool(tool, kind, path):
    """The case of a file tool."""
    category = "read" if kind == "read" else "write"
    return CallFacts(
        tool,
        {},
        (path,),
        category=category,
        resolved=ResolvedEffects((Effect(kind, path, deep=kind == "delete"),)),
    )


@given(
    path=PATHS,
    pattern=PATTERNS,
    effect=st.sampled_from(["deny", "ask"]),
    tool=st.sampled_from(["write_file", "edit_file", "write"]),
)
def test_one_effect_one_verdict_for_writing(tmp_path_factory, path, pattern, effect, tool):
    """Random rules and paths: the tools that write and the commands that write get one answer."""
    root = tmp_path_factory.getbasetemp()
    rule = parse(f"{tool}({pattern})", effect)
    cases = [by_tool("write_file", "write", path), by_tool("edit_file", "write", path)]
    cases += [
        by_command(f"{command} {path}", root)
        for command in ("echo >", "touch", "tee", "truncate -s 0", "sed -i p")
    ]
    assert len({fit(rule, case) for case in cases}) == 1


@given(
    path=PATHS,
    pattern=PATTERNS,
    effect=st.sampled_from(["deny", "ask"]),
    tool=st.sampled_from(["delete_file", "write_file", "write"]),
)
def test_one_effect_one_verdict_for_deleting(tmp_path_factory, path, pattern, effect, tool):
    """The same for deleting, a folder with what is in it included."""
    root = tmp_path_factory.getbasetemp()
    rule = parse(f"{tool}({pattern})", effect)
    cases = [by_tool("delete_file", "delete", path)]
    cases += [
        by_command(f"{command} {path}", root)
        for command in ("rm -r", "unlink", "cd . && rm -rf", "git rm -r")
    ]
    assert len({fit(rule, case) for case in cases}) == 1


@given(
    path=PATHS,
    pattern=PATTERNS,
    effect=st.sampled_from(["deny", "ask"]),
    tool=st.sampled_from(["read_file", "read"]),
)
def test_one_effect_one_verdict_for_reading(tmp_path_factory, path, pattern, effect, tool):
    """The same for reading."""
    root = tmp_path_factory.getbasetemp()
    rule = parse(f"{tool}({pattern})", effect)
    cases = [by_tool("read_file", "read", path)]
    cases += [
        by_command(f"{command} {path}", root) for command in ("cat", "wc -l", "grep x", "base64 <")
    ]
    assert len({fit(rule, case) for case in cases}) == 1


@pytest.mark.parametrize("command", ["sed -n 'w docs/new' notes.txt", "sed 's/a/b/w docs/new' notes.txt", "sed -f s notes.txt",
                                     "sed s/a/b/w/ notes.txt",
                                     "sed '1e touch docs/x' notes.txt", "sed -n -e p -e 'w docs/new' notes.txt",
                                     "openssl rand -out docs/new 1"])  # fmt: skip
def test_a_script_that_is_not_plain_is_unread(tmp_path, command):
    """It may write anything."""
    assert resolve_effects(
        judge_command(command, workspace=tmp_path).commands, str(tmp_path), complete=True
    ).unread


@pytest.mark.parametrize(
    "command",
    [
        "sed -n '1,5p' notes.txt",
        "sed s/a/b/g notes.txt",
        r"sed 's/\./x/' notes.txt",
        "sed -n '/a/,/b/p' notes.txt",
    ],
)
def test_a_plain_script_is_read(tmp_path, command):
    """Printing and replacing."""
    assert not resolve_effects(
        judge_command(command, workspace=tmp_path).commands, str(tmp_path), complete=True
    ).unread


def test_a_pattern_that_fits_too_much_is_unread(tmp_path, monkeypatch):
    """The work is bounded, whatever the pattern."""
    for number in range(40):
        (tmp_path / str(number)).mkdir()
    monkeypatch.setattr("hilum_guard.effects.resolved_effects.MAX_VISITED", 30)
    assert resolve_effects(
        judge_command("cp */zzq* .", workspace=tmp_path).commands, str(tmp_path), complete=True
    ).unread


@pytest.mark.parametrize(
    "command",
    [
        "git -C . status",
        "git -C . log",
        "git -C . push",
        "git -C docs status",
        "git ls-files -o docs",
    ],
)
def test_the_folder_that_git_works_in_is_not_written(tmp_path, command):
    """``-C`` says where git works: looking at a repository changes no file in it."""
    (tmp_path / "docs").mkdir()
    case = by_command(command, tmp_path.resolve())
    assert fit(parse("write_file(docs/**)", "deny"), case) == fit(
        parse("write_file(docs/**)", "deny"), by_command("git status", tmp_path)
    )


@pytest.mark.parametrize(
    "command",
    [
        "git -C docs rm -f x.md",
        "git -C docs checkout -- x.md",
        "git -C docs log --output=x.md",
        "git -C src -C ../docs mv x.md y.md",
        "git -C . restore docs/x.md",
    ],
)
def test_what_git_writes_in_another_folder_is_found_there(tmp_path, command):
    """Paths after ``-C DIR`` are relative to that folder."""
    for name in ("docs", "src"):
        (tmp_path / name).mkdir()
    rule, root = parse("write_file(docs/**)", "deny"), tmp_path.resolve()
    assert fit(rule, by_command(command, root)) == fit(rule, by_command("rm docs/x.md", root))
    assert fit(rule, by_command(command.replace("docs", "other"), root)) == ""


@pytest.mark.parametrize("name", ["web_fetch", "network"])
def test_a_bare_host_of_a_web_tool_is_a_host(name):
    """Nobody means a path there; an address gets the right spelling."""
    assert parse(f"{name}(example.com)", "deny") == parse(f"{name}(domain:example.com)", "deny")
    assert parse(f"{name}(*.example.com)", "deny").about_hosts
    with pytest.raises(ValueError, match=rf"write {name}\(domain:example.com\)"):
        parse(f"{name}(https://example.com/a)", "deny")
    assert not parse("write_file(example.com)", "deny").about_hosts
