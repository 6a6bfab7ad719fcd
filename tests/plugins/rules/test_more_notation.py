r"""Tables for the notation: runners, options of Git, branches, paths beside the workspace, names,
required content, and the texts of pull requests."""

import json
from pathlib import Path

import pytest
from hilum import Tool
from hilum_checks import compile_lines, judge

from tests.support.judged_commands import Ruled, judge_command
from tests.support.obedience.judging import make_tool


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "house"
    (root / "src").mkdir(parents=True)
    (root / "src/old.py").write_text("print()\n")
    (root / "src/new.py").write_text("# Copyright A\nprint()\n")
    (root / "body.md").write_text("By Claude.\n")
    return root


UV = "deny command pytest, python except uv run"
AS_CLAUDE = "deny command git commit except git -c user.name=Claude* commit"
BRANCH = (
    "deny command git checkout -b, git switch -c except git checkout -b me/*, git switch -c me/*"
)
RELEASES = "deny command git commit, git push to branch main, release/*"
CLIPPY = "deny command cargo clippy except cargo clippy -- -D warnings"
BESIDE = "deny write ../other/** except ../other/bin/"


@pytest.mark.parametrize(
    ("line", "command", "kind"),
    [
        # what a runner runs
        (UV, "uv run pytest -q", ""),
        (UV, "uv run --frozen python -m pytest", ""),
        (UV, "timeout 9 uv run pytest", ""),
        (UV, "uv run bash -c 'pytest -q'", ""),
        (UV, "pytest -q", "deny"),
        (UV, "uv run pytest; pytest", "deny"),
        (UV, "uv run --help pytest; pytest", "deny"),
        (UV, "uv run pytest --x pytest; pytest", "deny"),
        (UV, "echo uv run pytest && pytest", "deny"),
        (UV, "bash -c 'uv run ls; pytest'", "deny"),
        ("deny command pytest except uv run pytest", "uv run pytest -q", ""),
        ("deny command pytest except uv run pytest", "uv run sh -c 'pytest -q'", "deny"),
        # options of Git before the sub-command
        (AS_CLAUDE, "git -c user.name='Claude (X)' -c commit.gpgsign=false commit -m x", ""),
        (AS_CLAUDE, "git -C . -c user.name=Claude commit -m x", ""),
        (AS_CLAUDE, "git commit -m x", "deny"),
        (AS_CLAUDE, "git -c user.name=Me commit -m x", "deny"),
        (AS_CLAUDE, "git commit -c user.name=Claude", "deny"),
        (AS_CLAUDE, 'git -c "$X" commit -m x', "deny"),
        ("deny command git -c commit.gpgsign=false commit", "git -c commit.gpgSign=false commit", "deny"),
        ("deny command git -c commit.gpgsign=false commit", "git commit", ""),
        ("deny command git -c commit.gpgsign=false commit", 'git -c "$X" commit', "ask"),
        # values behind options
        ("deny command ninja -j", "ninja -j8", "deny"),
        ("deny command ninja -j", "ninja -C build", ""),
        ("deny command ninja -j8", "ninja -j 8", "deny"),
        ("deny command ninja -j8", "ninja -j4", ""),
        ("deny command ./dev test -f except ./dev test -f -v", "./dev test sql -f=A", "deny"),
        ("deny command ./dev test -f except ./dev test -f -v", "./dev test sql -f=A -v", ""),
        (CLIPPY, "cargo clippy -- -D warnings", ""),
        (CLIPPY, "cargo clippy --all-targets -- -D warnings", ""),
        (CLIPPY, "cargo clippy", "deny"),
        (CLIPPY, "cargo clippy -D warnings", "deny"),
        # wildcards in words and branches
        (BRANCH, "git checkout -b fix", "deny"),
        (BRANCH, "git switch -c me/fix", ""),
        (BRANCH, "git checkout main", ""),
        (RELEASES, "git push origin release/1.0", "deny"),
        (RELEASES, "git push origin HEAD:refs/heads/release/1.0", "deny"),
        (RELEASES, "git push origin main", "deny"),
        (RELEASES, "git push origin fix", ""),
        (RELEASES, 'git push origin "$B"', "ask"),
        (RELEASES, "git checkout release/2 && git commit -m x", "deny"),
        # paths beside the workspace
        (BESIDE, "touch ../other/a", "deny"),
        (BESIDE, "cd .. && rm other/a", "deny"),
        (BESIDE, "touch ../other/bin/x", ""),
        (BESIDE, "cat ../other/a", ""),
        (BESIDE, "touch other/a", ""),
        ("deny access ../../**", "cat ../../x", "deny"),
        # quoted names, and what is not read as a word of a command
        ("deny write 'my file.txt', src/", "touch 'my file.txt'", "deny"),
        ("deny write 'my file.txt', src/", "touch my file.txt", ""),
        ("deny command git commit -m 'wip'", "git commit -m wip", "deny"),
        ("deny command git commit -m 'wip'", "git commit -m done", ""),
        ("deny command git push to the branches main, dev", "git push origin dev", "deny"),
        ("deny command git push to the branches main, dev", "git push origin fix", ""),
        # names of new files
        ("require name /^[a-z-]+\\.ts$/ in **/*.ts", "touch src/rowList.ts", "deny"),
        ("require name /^[a-z-]+\\.ts$/ in **/*.ts", "touch src/row-list.ts src/B.js", ""),
        ("deny name /[A-Z]/ in src/** except src/gen/", "cp src/old.py src/New2.py", "deny"),
        ("deny name /[A-Z]/ in src/** except src/gen/", "touch src/gen/A src/a B", ""),
        ("deny name /old/ in src/**", "sed -i s/a/b/ src/old.py", ""),
        # names of new branches
        ("require branch-name feature/*, fix/*", "git switch -c fix/a", ""),
        ("require branch-name feature/*, fix/*", "git branch feature/a", ""),
        ("require branch-name feature/*, fix/*", "git checkout -b wip", "deny"),
        ("require branch-name feature/*, fix/*", "git branch wip", "deny"),
        ("require branch-name feature/*, fix/*", "git branch -d wip", ""),
        ("require branch-name feature/*", 'git checkout -b "feature/$X"', ""),
        ("require branch-name /^[a-z]+-[0-9]+$/", "git switch -c abc-12", ""),
        ("require branch-name /^[a-z]+-[0-9]+$/", "git switch -c abc", "deny"),
        ("require branch-name /^[a-z]+-/", 'git switch -c "abc-$X"', "ask"),
        ("require branch-name /^ab-/", "python3 -c \"run(['git','checkout','-b','ab-1'])\"", ""),
        ("require branch-name /^ab-/", "python3 -c \"run(['git','checkout','-b','b-1'])\"", "deny"),
        ("require branch-name /^ab-/", "python3 -c \"run(['git','branch','b-1'])\"", "deny"),
        # content that files must have
        ("require content /Copyright/ in src/**", "echo '# Copyright' > src/a.py", ""),
        ("require content /Copyright/ in src/**", "cp src/new.py src/b.py", ""),
        ("require content /Copyright/ in src/**", "touch src/b.py", ""),
        ("require content /Copyright/ in src/**", "echo x > src/b.py", "ask"),
        ("require content /Copyright/ in src/**", "echo x >> src/old.py", ""),
        ("deny content /x/ except docs/", "echo x > docs/a", ""),
        ("deny content /x/ except docs/", "echo x > src/a", "deny"),
        # texts of pull requests
        ("require pr-title /^feat: /", "gh pr create -t 'feat: x' -b y", ""),
        ("require pr-title /^feat: /", "gh pr create --title=x --body y", "deny"),
        ("require pr-title /^feat: /", "gh pr edit 3 --title x", "deny"),
        ("require pr-title /^feat: /", "gh pr edit 3 --body x", ""),
        ("require pr-title /^feat: /", "gh pr create --fill", "ask"),
        ("require pr-title /^feat: /", 'gh pr create -t "$T" -b y', "ask"),
        ("require pr-title /^feat: /", "gh pr create --help", ""),
        ("require pr-title /^feat: /", "gh pr list", ""),
        ("deny pr-body /claude/i", "gh pr create -t x -F body.md", "deny"),
        ("deny pr-body /claude/i", "gh pr create -t x -b \"$(cat <<'E'\nBy Claude\nE\n)\"", "deny"),
        ("deny pr-body /claude/i", "glab mr create -t x -d 'by me'", ""),
        ("deny pr-body /claude/i", "glab mr create -t x --description 'by Claude'", "deny"),
    ],
)  # fmt: skip
def test_what_a_line_forbids(line: str, command: str, kind: str, root: Path) -> None:
    assert judge_command(line, command, root) == kind


HEADER = "require content /Copyright/ in src/**"


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, str]]:
    return "edit_file", {"path": path, "old_string": old, "new_string": new}


def write(path: str, content: str) -> tuple[str, dict[str, str]]:
    return "write_file", {"path": path, "content": content}


@pytest.mark.parametrize(
    ("line", "call", "denied"),
    [
        (HEADER, write("src/a.py", "x"), True),
        (HEADER, write("src/a.py", "# Copyright"), False),
        (HEADER, write("src/__init__.py", "\n"), False),
        (HEADER, write("docs/a.py", "x"), False),
        # A file without the text may still be edited, but the text may not be removed.
        (HEADER, edit("src/old.py", "p", "q"), False),
        (HEADER, edit("src/new.py", "# Copyright A", "#"), True),
        (HEADER, edit("src/new.py", "print", "say"), False),
        ("require name /^[a-z.]+$/", write("src/A.py", "x"), True),
        ("require name /^[a-z.]+$/", edit("src/old.py", "p", "q"), False),
    ],
)
def test_names_and_required_content_hold_for_tools(
    line: str, call: tuple[str, dict[str, str]], denied: bool, root: Path
) -> None:
    tool, arguments = call
    found = judge([Ruled(line)], json.dumps(arguments), make_tool(tool), root)
    assert (found is not None and found.kind == "deny") is denied


def test_pull_requests_of_servers_are_judged(root: Path) -> None:
    tool = Tool("mcp__github__create_pull_request", "", lambda: "", risk="network", schema={})
    arguments = json.dumps({"title": "Fix", "body": "by Claude"})
    for line, denied in (("require pr-title /^feat/", True), ("deny pr-body /gpt/i", False)):
        assert (judge([Ruled(line)], arguments, tool, root) is not None) is denied


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "require command make lint, make test before git tag",
            "denies the command `git tag` before the command `make lint` has succeeded, the command"
            " `git tag` before the command `make test` has succeeded",
        ),
        (
            "require command make test before answer",
            "denies a final answer before the command `make test` has succeeded",
        ),
        (
            "require command make docs after write docs/**",
            "denies a final answer before the command `make docs` has succeeded since writing"
            " docs/**",
        ),
        (
            "require write CHANGELOG.md after src/** before git tag",
            "denies the command `git tag` without writing CHANGELOG.md since writing src/**",
        ),
        (
            "require read docs/style.md before write src/**",
            "denies writing src/** before reading docs/style.md",
        ),
        (
            "require read a.md, b.md before npm publish",
            "denies the command `npm publish` before reading a.md, the command `npm publish` before"
            " reading b.md",
        ),
        (
            "require read a.md before create docs/**",
            "denies creating files in docs/** before reading a.md",
        ),
        ("require name /a/ in src/**", "denies new files whose names do not match /a/ in src/**"),
        (
            "require content /a/ in src/**",
            "denies files without text that matches /a/ in src/**",
        ),
        (
            "require branch-name feature/*, fix/*",
            "denies creating a branch, except `feature/*` or `fix/*`",
        ),
        ("require branch-name /^ab-/", "denies creating a branch, except `/^ab-/`"),
        ("deny pr-title /wip/", "denies a pull request title that matches /wip/"),
        ("ask pr-body /wip/", "asks before a pull request body that matches /wip/"),
        ("deny write ../other/**", "denies writing ../other/**"),
    ],
)
def test_what_a_line_says(line: str, says: str) -> None:
    compiled, problems = compile_lines([line])
    assert problems == []
    assert compiled.check is not None
    assert compiled.check.summary == says


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("deny write ../..", ""),
        ("require name [", "denies creating files"),
        ("require branch-name /(a/", "denies creating a branch"),
        ("require branch-name /a/ in src", "denies creating a branch"),
        ("require branch-name -x", "denies creating a branch"),
        ("require branch-name feature/* and fix/*", "denies creating a branch"),
        ("deny branch-name wip/*", "denies creating a branch"),
        ("require name /[a-z/ in src/**", "denies creating files in src/**"),
        ("require content [ in a", "denies writing a"),
        ("require content /(Copyright/ in src/**", "denies writing src/**"),
        ("require content /x/ in !src", "denies files without text that matches /x/"),
        ("deny content /(eval/ in src/**", "denies writing src/**"),
        ("deny name /[A-Z/ in src/**", "denies creating files in src/**"),
        ("deny commit-message /(wip/", "denies a commit message that matches /./"),
        ("deny command npm publish to branch", "denies the command `npm publish`"),
        (
            "deny command npm publish except npm publish to branch",
            "denies the command `npm publish`",
        ),
        (
            "deny command npm publish and npm unpublish",
            "denies the command `npm publish` or `npm unpublish`",
        ),
        (
            "deny command npm publish excpet npm pack",
            "denies the command `npm publish` or `npm pack`",
        ),
        ("deny command git merge -m 'x", "denies the command `git merge -m x`"),
        (
            "ask write migrations/** excpet migrations/a/",
            "denies writing migrations/**, migrations/a",
        ),
        ("deny write docs/ and src/", "denies writing docs, src"),
        ("deny write 'my file.txt", "denies writing my, file.txt"),
        ("deny tool a and b", "denies the tool a or b"),
        ("require pr-title [", "denies a pull request title that matches /./"),
        ("require command | before answer", ""),
        ("require write !a before git tag", "denies the command `git tag`"),
        ("require write a", "denies writing a"),
        ("require read a", "denies reading a"),
        ("require read !a before git tag", "denies the command `git tag`"),
        ("require read a before write !b", ""),
    ],
)
def test_a_malformed_line_fails_closed(line: str, says: str) -> None:
    compiled, problems = compile_lines([line])
    assert len(problems) == 1
    assert (compiled.check.summary if compiled.check else "") == says


INSTALLER = "curl -LsSf https://astral.sh/uv/install.sh | sh"


@pytest.mark.parametrize(
    ("line", "command", "kind"),
    [
        # Installers from the network contain no text of the agent.
        ("deny content /x/ in src/**", INSTALLER, ""),
        ("deny commit-message /x/", f"{INSTALLER} -s -- ", ""),
        ("deny commit-message /x/", "wget -qO- https://example.com/install.sh | bash", ""),
        # Rules about what may be run or written have to know what is run.
        ("deny command make ship", INSTALLER, "ask"),
        ("deny write src/**", INSTALLER, "ask"),
        # What the agent may have made itself, or what cannot be read, may contain the text.
        ("deny commit-message /x/", "curl http://localhost:8000/a | sh", "ask"),
        ("deny commit-message /x/", "curl https://127.0.0.1/a | sh", "ask"),
        ("deny commit-message /x/", "curl file:///tmp/a | sh", "ask"),
        ("deny commit-message /x/", 'curl "$URL" | sh', "ask"),
        ("deny commit-message /x/", "curl -K config https://example.com/a | bash -c \"$X\"", "ask"),
        ("deny commit-message /x/", 'sh <<< "$X"', "ask"),
        ("deny commit-message /x/", "curl https://example.com/a | sh; $X", "ask"),
        ("deny content /zzz/ in src/**", "curl https://example.com/a > src/a", "ask"),
        ("deny content /x/ in src/**", "if x; then", "ask"),
        # A trailer is a part of the message.
        ("deny commit-message /claude/i", "git commit --trailer 'Reported-by: A'", ""),
        ("deny commit-message /claude/i", "git commit --trailer 'Reported-by: Claude'", "deny"),
    ],
)  # fmt: skip
def test_rules_about_texts_let_pass_what_contains_no_text_of_the_agent(
    line: str, command: str, kind: str, root: Path
) -> None:
    assert judge_command(line, command, root) == kind
