"""A rule about a path, or about the network, holds for every spelling of a command: clusters,
abbreviations, other options.
"""

import os

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum.errors import E_DENIED
from hilum.events import ApprovalAsked
from hilum.testing import say, use
from hilum_guard import judge_command
from hilum_guard.effects.resolved_effects import resolve_effects
from hilum_guard.programs.options import SYNTAX, parse, valued_only
from hilum_guard.rules.matching import CallFacts, fit
from hilum_guard.rules.matching import parse as rule_of

PLUGINS = (hilum_guard, hilum_files, hilum_shell)
FILES = {
    "secret.txt": "s\n", "private/k.txt": "k\n", "private/1": "one\n", "sub/x": "x\n", "docs/a.md": "a\n",
    "docs/0001": "m\n", "evil.md": "e\n",
}  # fmt: skip
SECRET = "read_file(secret.txt)"
PRIVATE = "read_file(private/**)"
DOCS = "write_file(docs/**)"

READ = [
    ("cat secret.txt", SECRET), ("grep -e s secret.txt", SECRET), ("grep -ie x secret.txt", SECRET),
    ("grep -iex secret.txt", SECRET), ("grep --regexp=x secret.txt", SECRET), ("grep --regex x secret.txt", SECRET),
    ("grep --file=secret.txt evil.md", SECRET), ("grep -f secret.txt evil.md", SECRET), ("grep -ifsecret.txt x", SECRET),
    ("sed -ne p secret.txt", SECRET), ("sed -n -e p secret.txt", SECRET), ("sed --expr=p secret.txt", SECRET),
    ("uniq -w 30 secret.txt", SECRET), ("uniq -cw30 secret.txt", SECRET), ("uniq --skip-fields 1 secret.txt", SECRET),
    ("xxd -g 1 secret.txt", SECRET), ("xxd -c 8 secret.txt", SECRET), ("od -A x secret.txt", SECRET),
    ("date -f secret.txt", SECRET), ("date --file secret.txt", SECRET), ("date -uf secret.txt", SECRET),
    ("file -f secret.txt", SECRET), ("file --files-from=secret.txt", SECRET), ("wc --files0-from=secret.txt", SECRET),
    ("wc --files0 secret.txt", SECRET), ("du --files0-from=secret.txt", SECRET), ("sort --files0-from=secret.txt", SECRET),
    ("head -n 1 secret.txt", SECRET), ("head -qn1 secret.txt", SECRET), ("head -1 secret.txt", SECRET),
    ("tail --lines 1 secret.txt", SECRET), ("cut -d : -f 1 secret.txt", SECRET), ("base64 -w 0 secret.txt", SECRET),
    ("diff -U 3 secret.txt evil.md", SECRET),
    ("cat -- secret.txt", SECRET), ("rg -ie s secret.txt", SECRET), ("sort -k 1 secret.txt", SECRET),
    ("diff -rN private sub", PRIVATE), ("diff --recursive private sub", PRIVATE), ("grep -d recurse x private", PRIVATE),
    ("grep -drecurse x private", PRIVATE), ("grep --directories=recurse x private", PRIVATE), ("grep -inr x private", PRIVATE),
    ("cd private && cat 1", PRIVATE), ("cat private/1", PRIVATE), ("cat < private/1", PRIVATE),
    ("cat /dev/../ROOT/secret.txt", SECRET), ("cat /dev/.././ROOT/private/1", PRIVATE),
    ("cat /proc/self/cwd/secret.txt", SECRET), ("echo $(<secret.txt)", SECRET), ("x=`< secret.txt`", SECRET),
]  # fmt: skip
WRITE = [
    "cp -vt docs evil.md", "cp -vtdocs evil.md", "cp --target=docs evil.md", "mv -ft docs evil.md", "ln -sft docs evil.md",
    "install -vt docs evil.md", "cd docs && rm 0001", "rm docs/0001", "cd docs && echo x > 7", "chmod -w docs/a.md",
    "chmod -x docs/a.md", "chmod -R a+x docs", "chmod --reference=evil.md docs/a.md", "chown --reference evil.md docs/a.md",
    "chown -h me docs/a.md", "setfacl -b docs/a.md", "chattr -i docs/a.md", "touch -d now docs/b", "truncate -cs 0 docs/a.md",
    "sort -uo docs/b evil.md", "sort --outp docs/b evil.md", "sort -uodocs/b evil.md", "uniq -c evil.md docs/b",
    "git init docs", "git init -q docs/new", "echo x > /dev/../ROOT/docs/b", "tee -a docs/b", "mkdir -pm 700 docs/c",
    "black docs/a.md", "prettier --write docs/a.md", "git checkout docs/a.md",
]  # fmt: skip
UNTOUCHED = [
    ("grep -ie x evil.md", SECRET), ("uniq -w 30 evil.md", SECRET), ("chmod 755 evil.md", DOCS), ("chmod -w evil.md", DOCS),
    ("git init -q .", DOCS), ("git init", DOCS), ("echo x 2>&1", DOCS), ("cat evil.md > /dev/null", DOCS),
    ("cp -vt sub evil.md", DOCS), ("grep -r x sub 2>/dev/null", DOCS), ("date +%s", SECRET), ("wc -l evil.md", SECRET),
    ("diff -u evil.md sub/x", PRIVATE), ("cd sub && cat 1", PRIVATE), ("file -b evil.md", SECRET),
]  # fmt: skip
DOUBTED = [
    ("awk -F : 1 secret.txt", SECRET), ("awk -f p.awk secret.txt", SECRET),
    ("cat /dev/../proc/self/root/ROOT/secret.txt", SECRET),
    ("cat --frobnicate secret.txt evil.md", SECRET), ("grep --frobnicate x evil.md", SECRET), ("uniq -Q 1 evil.md", SECRET),
    ("cp --frobnicate docs evil.md", DOCS), ("date --frobnicate=secret.txt", SECRET), ("cat /proc/7/cwd/secret.txt", SECRET),
    ("touch --frobnicate evil.md", DOCS), ("cat /dev/fd/../cwd/secret.txt", SECRET),
]  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A workspace, which the tests only read."""
    root = tmp_path_factory.mktemp("workspace")
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return root.resolve()


def fits(command, rule, root):
    """How a command fits a rule that denies."""
    read = judge_command(command.replace("ROOT", str(root).lstrip("/")), workspace=root)
    found = resolve_effects(read.all_commands, str(root), complete=read.complete)
    case = CallFacts(
        "run_terminal_cmd", {"command": command}, command=read, category="execute", resolved=found
    )
    return fit(rule_of(rule, "deny"), case)


@pytest.mark.parametrize(("command", "rule"), [*READ, *[(command, DOCS) for command in WRITE]])
def test_a_spelling_passes_no_rule(root, command, rule):
    """What reads or writes the path is what the rule denies."""
    assert fits(command, rule, root) == "yes"


@pytest.mark.parametrize(("command", "rule"), UNTOUCHED)
def test_a_command_that_leaves_the_path_alone_is_not_denied(root, command, rule):
    """No rule means these; what a search below a folder finds is held by the sandbox."""
    assert fits(command, rule, root) in ("", "unread" if " -r " in command else "")


@pytest.mark.parametrize(("command", "rule"), DOUBTED)
def test_an_option_that_is_not_known_leaves_the_command_in_doubt(root, command, rule):
    """Nobody can tell then which of its words are files."""
    assert fits(command, rule, root) in ("yes", "maybe", "unread")


NETWORK = [
    ("uv run python x.py", ""), ("git commit -m push", ""), ("git log --grep push", ""), ("git branch fetch", ""),
    ("uv pip list", ""), ("npm run info", ""), ("docker ps search", ""), ("git -c a.b=push status", ""),
    ("git --no-pager log", ""), ("git submodule status", ""), ("pip list", ""), ("cargo build search", ""),
    ("git push", "yes"), ("git -C sub push", "yes"), ("git -c a.b=c fetch", "yes"), ("git --git-dir x pull", "yes"),
    ("git --no-pager fetch", "yes"), ("git --frobnicate x fetch", "yes"), ("uv pip install x", "yes"),
    ("uv --directory sub sync", "yes"), ("npm --prefix sub install", "yes"), ("docker --host x pull y", "yes"),
    ("docker compose pull", "yes"), ("git submodule update", "yes"), ("pip -q install x", "yes"), ("pacman -Syu", "yes"),
    ("cargo +nightly install x", "yes"), ("uv tool install x", "yes"), ("apt-get -y install x", "yes"),
    ("git lfs pull", "yes"), ("uv self update", "yes"), ("uv python install 3.13", "yes"), ("git remote update", "yes"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "expected"), NETWORK)
def test_a_rule_about_the_network_means_the_sub_command(root, command, expected):
    """The first operand after the options, not any word."""
    assert (fits(command, "network", root) == "yes") == (expected == "yes")


@pytest.mark.parametrize(
    ("program", "words", "options", "operands", "unknown"),
    [
        ("grep", "-ie x f", [("-i", ""), ("-e", "x")], ["f"], []),
        ("grep", "-iex f", [("-i", ""), ("-e", "x")], ["f"], []),
        ("grep", "--regex x f", [("--regexp", "x")], ["f"], []),
        ("grep", "--regexp=x f", [("--regexp", "x")], ["f"], []),
        ("grep", "f -- -e g", [], ["f", "-e", "g"], []),
        ("grep", "--ex x f", [("--ex", "")], ["x", "f"], ["--ex"]),
        ("grep", "-5 x f", [("-#", "5")], ["x", "f"], []),
        ("cp", "-vt d f", [("-v", ""), ("-t", "d")], ["f"], []),
        ("cp", "-vtd f", [("-v", ""), ("-t", "d")], ["f"], []),
        ("sed", "-ni.bak p f", [("-n", ""), ("-i", ".bak")], ["p", "f"], []),
        ("cat", "-Q -", [("-Q", "")], ["-"], ["-Q"]),
    ],
)
def test_options_are_parted_from_operands(program, words, options, operands, unknown):
    """Clusters, attached values, abbreviations, and what is not known."""
    found = parse(words.split(), SYNTAX[program])
    assert list(found.options) == options
    assert list(found.operands) == operands
    assert list(found.unknown) == unknown


def test_a_flag_that_begins_another_option_is_no_abbreviation():
    """`tar --list` takes no value, though `--listed-incremental` does."""
    found = parse(
        ["--list", "--file", "x.tar"], valued_only(frozenset(("--listed-incremental", "--file")))
    )
    assert found.options == (("--list", ""), ("--file", "x.tar"))


# --- files of secrets -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["cat .env", "grep -ie API .env", "sed -ne p .env", "uniq -w 30 .env"]
)
async def test_an_approved_command_sees_the_file_whatever_its_spelling(bench, command):
    """The question names the file, and after a yes the command reads it."""
    kit = await bench(*PLUGINS, approve="ask_first", files={".env": "API=word\n"})
    kit.model.next(use("run_terminal_cmd", command=command), say("ok"))
    run = await kit.start("x")
    event = await kit.wait_for(ApprovalAsked)
    assert ".env" in event.reason
    kit.session.answer(event.id, True)
    with kit.guard():
        await run.wait()
    assert "API=" in kit.results[-1].text


async def test_one_text_in_two_folders_sees_both_files(bench):
    """What was approved for a folder is not what was approved for another one."""
    kit = await bench(
        *PLUGINS, approve="ask_first", files={"a/.env": "A=one\n", "b/.env": "B=two\n"}
    )
    calls = [
        use("run_terminal_cmd", command="cat .env", working_directory=folder)
        for folder in ("a", "b")
    ]
    kit.model.next(calls[0] + calls[1], say("ok"))
    run = await kit.start("x")
    answered = set()
    with kit.guard():
        while len(answered) < 2:
            event = await kit.wait_for(ApprovalAsked, where=lambda each: each.id not in answered)
            answered.add(event.id)
            kit.session.answer(event.id, True)
        await run.wait()
    texts = "".join(result.text for result in kit.results)
    assert "A=" in texts
    assert "B=" in texts
    assert "Permission denied" not in texts


# --- harmless commands ----------------------------------------------------------------------------


def test_a_search_that_may_find_a_secret_is_not_harmless(tmp_path):
    """At whatever depth; what the sandbox hides nowhere (dependencies) is passed over."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".venv" / "certs").mkdir(parents=True)
    (tmp_path / ".venv" / "certs" / "cacert.pem").write_text("x")
    assert judge_command("grep -r KEY .", workspace=tmp_path).kind == "auto"
    (tmp_path / "a" / "b" / ".env").write_text("KEY=x")
    assert judge_command("grep -r KEY .", workspace=tmp_path).kind == "ask"
    assert os.path.exists(tmp_path / "a" / "b" / ".env")


async def test_a_search_below_a_folder_is_asked_where_a_rule_asks(bench, asked):
    """It may read a file that a rule has asked."""
    kit = await bench(*PLUGINS, approve="auto", files=FILES)
    (kit.folder / "config" / "permissions.toml").write_text(f'ask = ["{PRIVATE}"]\n')
    event = await asked(kit, "run_terminal_cmd", command="grep -r one .")
    assert PRIVATE in event.reason
    assert (await kit.call("run_terminal_cmd", command="cat evil.md")).code == ""


async def test_a_denied_path_is_refused_by_a_spelling(bench):
    """Through all of the gate."""
    kit = await bench(
        *PLUGINS,
        approve="auto",
        files=FILES,
        settings={"guard.sandbox": "off", "guard.unsandboxed": "run"},
    )
    (kit.folder / "config" / "permissions.toml").write_text(f'deny = ["{SECRET}", "{DOCS}"]\n')
    for command in ("grep -ie x secret.txt", "cd docs && rm 0001", "cp -vt docs evil.md"):
        assert (await kit.call("run_terminal_cmd", command=command)).code == E_DENIED


def _fit_command(rule, command, tmp_path, effect="deny"):
    verdict = judge_command(command, workspace=tmp_path)
    facts = CallFacts("run_terminal_cmd", {"command": command}, command=verdict)
    return fit(rule_of(rule, effect), facts)


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("rm -rf *", "rm -rf x"),
        ("rm -rf *", "rm -fr x"),
        ("rm -rf *", "rm -r -f x"),
        ("rm -rf *", "rm -f x -r"),
        ("rm -rf *", "rm --recursive --force x"),
        ("rm -rf *", "rm --recurs --force x"),
        ("rm -rf *", "rm -R --force x"),
        ("rm -rf *", "rm -rfv x"),
        ("rm -rf *", "rm -vfr -- x"),
        ("rm -rf *", "rm x -rf"),
        ("rm -rf *", "/bin/rm x y -fr"),
        ("rm -rf *", "sudo rm -fr x"),
        ("rm -rf *", "bash -c 'rm -fr x'"),
        ("rm -rf", "rm -fr x"),
        ("rm -r -f *", "rm -fr x"),
        ("rm --recursive *", "rm -fr x"),
        ("rm -rf /", "rm -f -r /"),
        ("chmod -R 777 *", "chmod 777 --recursive x"),
        ("sed -i *", "sed --in-place s/a/b/ x"),
    ],
)
def test_a_rule_holds_for_every_order_and_spelling_of_options(pattern, command, tmp_path):
    assert _fit_command(f"run_terminal_cmd({pattern})", command, tmp_path) == "yes"


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("rm -rf *", "rm -f x"),
        ("rm -rf *", "rm -r x"),
        ("rm -rf *", "rm -r -- -f"),
        ("rm -rf *", "ls -rf x"),
        ("rm -rf /", "rm -fr x"),
        ("ls -r *", "ls --recursive x"),
        ("rm -rf *", "cp -rf x y"),
    ],
)
def test_other_options_do_not_match(pattern, command, tmp_path):
    assert _fit_command(f"run_terminal_cmd({pattern})", command, tmp_path) == ""


def test_an_unknown_word_may_be_the_missing_option(tmp_path):
    assert _fit_command("run_terminal_cmd(rm -rf *)", "rm -f x $MORE", tmp_path) == "maybe"


def test_an_allowing_rule_holds_only_as_written(tmp_path):
    rule = "run_terminal_cmd(rm -rf build)"
    assert _fit_command(rule, "rm -rf build", tmp_path, "allow") == "yes"
    assert _fit_command(rule, "rm -fr build", tmp_path, "allow") == ""
