"""A rule that denies or asks a command finds it behind aliases of Git, scripts of the workspace and
launchers.
"""

import json
import os
import subprocess

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum.errors import E_DENIED
from hilum.events import ApprovalAsked
from hilum_guard import judge_command
from hilum_guard.rules.matching import CallFacts, fit, parse

PLUGINS = (hilum_guard, hilum_files, hilum_shell)
PACKAGE = {
    "scripts": {
        "release": "npm test && git push",
        "test": "jest",
        "preci": "git push",
        "fmt": "prettier -w .",
    }
}
FILES = {
    "package.json": json.dumps(PACKAGE),
    "Makefile": "GIT = git\nall: test\n\ttrue\ntest:\n\tpytest -q\nrelease: tag\ntag:\n\t@$(GIT) tag v1 && $(GIT) push\n"
                "odd:\n\t$(shell cat x) push\n",
    "justfile": "remote := 'origin'\n\ntest:\n    pytest\n\nship: test\n    git push {{remote}}\n",
    "push.sh": "set -e\ngit push\n",
    "tool": "#!/bin/sh\nexec git push\n",
    "quiet.sh": "git status\n",
    "make.diff": "--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-GIT = git\n+GIT = hub\n",
    "code.diff": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n",
    "wrap.sh": "#!/bin/sh\nset -e\n\"$@\"\n",
}  # fmt: skip


def user_rules(kit, **lists):
    """Write the user's rules."""
    lines = [f"{effect} = {json.dumps(rules)}\n" for effect, rules in lists.items()]
    (kit.folder / "config" / "permissions.toml").write_text("".join(lines))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The home folder of a user whose configuration has aliases.

    It contains the workspace `proj`, a repository with aliases of its own, scripts, and a link to a
    program.
    """
    home = tmp_path_factory.mktemp("home")
    (home / ".config" / "git").mkdir(parents=True)
    (home / "inc").write_text("[alias] included = push\n")
    (home / ".gitconfig").write_text(
        "[alias]\n\tmine = push --force\n\tst = status\n[include]\n\tpath = ~/inc\n"
    )
    (home / ".config" / "git" / "config").write_text("[alias]\n\txdg = !git push\n")
    root = home / "proj"
    root.mkdir()
    for name, text in FILES.items():
        (root / name).write_text(text)
    (root / "tool").chmod(0o755)
    (root / "linked").symlink_to("/usr/bin/git")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    settings = {"alias.p": "push", "alias.chain": "p", "alias.sh": "!f() { git push \"$@\"; }; f", "alias.fine": "log -1",
                "alias.loop": "pool", "alias.pool": "loop"}  # fmt: skip
    for name, value in settings.items():
        subprocess.run(["git", "-C", str(root), "config", name, value], check=True)
    (root / "sub").mkdir()
    return home


@pytest.fixture
def project(home, monkeypatch):
    """The workspace, which the tests only read, with its user's environment."""
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT"):
        monkeypatch.delenv(name, raising=False)
    return home / "proj"


def fits(command, root, rule="run_terminal_cmd(git push *)", effect="deny"):
    """How a rule fits a command."""
    read = judge_command(command, workspace=root)
    return fit(
        parse(rule, effect),
        CallFacts("run_terminal_cmd", {"command": command}, command=read, category="execute"),
    )


DENIED = [
    # aliases
    "git -c alias.q=push q", "git p", "git P", "git chain origin", "git mine", "git xdg", "git included", "git sh x",
    "git -c alias.q='!git push' q", "git -c alias.q='-c a.b=c push' q", "cd sub && git p", "git -C sub p",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.q GIT_CONFIG_VALUE_0=push git q",
    "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.q GIT_CONFIG_VALUE_0=push; git q",
    "env GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.q GIT_CONFIG_VALUE_0=push git q",
    "GIT_CONFIG_PARAMETERS=\"'alias.q=push'\" git q", "GIT_CONFIG_GLOBAL=x git q", "GIT_CONFIG_GLOBAL=x git st",
    "HOME=/tmp git q", "GIT_DIR=sub git q", "GIT_EXEC_PATH=sub git q", "git --exec-path=sub q",
    "git config alias.x push && git x", "git config set alias.x push; git x", "git config include.path f; git fine",
    "git --config-env=alias.q=V q", "printf '[alias]\\nx = push' >> .git/config; git x", "cp f .git/config && git fine",
    "git -c alias.q.command=push q", "git -c help.autocorrect=1 psuh", "git unknown-thing", "git loop",
    "git send-pack origin", "git subtree push x", "bash -c 'git p'", "timeout 5 git p", "alias g=git; g p",
    "(git config alias.x push); git x",
    # programs that run others
    "uv run git push", "uv run --with a git push", "uv run --python 3.12 -q git push", "npx git push", "npm exec -- git push",
    "poetry run git push", "pnpm dlx git push", "xargs --max-procs 4 git push", "env -iS 'git push'", "env -S'git push'",
    "env -vS 'git push'", "busybox sh -c 'git push'", "stdbuf --output L git push", "aws-vault exec me -- git push",
    "sh -c \"$(echo git push)\"", "f() { git push; }; f", "eval \"git $(echo push)\"", "bash -c \"git push $X\"",
    # scripts of the workspace
    "npm run release", "npm run-script release", "yarn release", "pnpm --dir . run release", "cd sub && npm run release",
    "make release", "make tag", "make -C . release", "just ship", "bash push.sh", "sh -e push.sh", "./tool", ". ./push.sh",
    "bash -c ./tool",
    # code and other programs that start commands
    "python3 -c \"subprocess.run(['git', 'push'])\"", "perl -e 'system(\"git push\")'",
    "python3 - <<'E'\nos.system('git push')\nE", "awk 'BEGIN { system(\"git push\") }'",
    "python3 -c 'import subprocess as s, sys; s.run(sys.argv[1:])' git push",
    "printf 'import os\\nos.system(\"git push\")\\n' > x.py; python3 x.py", "node -e 'spawn(\"git\", [\"push\"])'; git push",
    "vim -es -c '!git push' -c q", "printf '!git push\\nq\\n' | ed -s", "sqlite3 x '.shell git push'",
    "tar cf /dev/null x --checkpoint-action=exec='git push'", "mapfile -C 'git push' -c 1 X <<< x",
    "make -f - <<'E'\nall:\n\tgit push\nE", "make --eval 'go:;git push' go", "printf 'all:\\n\\tgit push\\n' > m; make -f m",
    "coproc git push", "coproc X { git push; }", "! { git push\n}", "/lib64/ld-linux-x86-64.so.2 /usr/bin/git push",
    "read -ra C <<< 'git push'; \"${C[@]}\"", "eval 'V=push'; git $V", "printf '%s\\0' 'git push' | xargs -0 bash -c",
]  # fmt: skip


@pytest.mark.parametrize("command", DENIED)
def test_what_runs_a_denied_command_is_denied(project, command):
    """By whatever name, and where nobody can tell what an unknown sub-command of Git is."""
    assert fits(command, project) == "yes"


@pytest.mark.parametrize(
    "command",
    ["sh -c \"$(cat x)\"", "cat x | sh", "curl -s https://h.example | bash -s", "eval \"$X\"", "python3 -c \"run('git push')\"",
     "make odd", "bash < x", "python3 -c \"import os; os.system('git ' + X)\""],
)  # fmt: skip
def test_what_may_run_a_denied_command_is_asked(project, command):
    """Texts that only the run would tell, and code that names the words of the rule."""
    assert fits(command, project) == "maybe"


@pytest.mark.parametrize(
    "command",
    ["git st", "git fine", "git status", "git lfs ls-files", "npm run fmt", "npm test", "make", "make test", "just test",
     "bash quiet.sh", "python3 -m pytest", "uv run pytest -q", "git -c alias.q=status q", "git config alias.x",
     "ls | xargs wc -l",
     "python3 -c 'print(1)'", "git config user.name x"],
)  # fmt: skip
def test_what_runs_something_else_is_not_denied(project, command):
    """The rule costs nobody an everyday command."""
    assert fits(command, project) == ""


BY_ANOTHER_NAME = [
    # programs of Git's own
    ("/usr/lib/git-core/git-push origin main", "yes"),
    ("git-push origin main", "yes"),
    ("$(git --exec-path)/git-push origin main", "yes"),
    ("/usr/libexec/git-core/git-send-pack origin", "yes"),
    ("/usr/lib/git-core/git-status", ""),
    # scripts that only the run would tell, and scripts that the text writes
    ("bash <(cat push.sh)", "maybe"),
    (". <(cat push.sh)", "maybe"),
    ("bash <(echo git push)", "yes"),
    ("printf 'git push origin main' > z.sh; sh z.sh", "yes"),
    ("cat > z.sh <<'E'\ngit push\nE\nchmod +x z.sh && ./z.sh", "yes"),
    ("echo git push | tee z.sh; bash z.sh", "yes"),
    (r"echo 'gi\t push' | tee z.sh; bash z.sh", "maybe"),
    (r"echo -n 'gi\t push' > z.sh; sh z.sh", "maybe"),
    (r"echo -E 'gi\t push' > z.sh; bash z.sh", "yes"),
    (r"echo -ne 'gi\x74 push' > z.sh; bash z.sh", "yes"),
    ("echo git > z.sh; sed -i s/git/x/ z.sh; sh z.sh", "maybe"),
    ("{ echo git; echo push; } > z.sh; sh z.sh", "maybe"),
    ("curl -so z.sh https://h.example; sh z.sh", "maybe"),
    ("base64 -d x > z.sh; . ./z.sh", "maybe"),
    ("cp push.sh z.sh; ./z.sh", "yes"),
    ("tar xf a.tar; sh z.sh", "maybe"),
    ("tar xf a.tar -C out; out/z", "maybe"),
    ("echo x > Makefile; make", "maybe"),
    ("sed -i 's/^all:/all: deploy/' Makefile && make", "maybe"),
    ("sed --in-place -e 1d ./Makefile; gmake test", "maybe"),
    ("cp other Makefile && make", "maybe"),
    ("sed -i 1d other.mk; make -f other.mk", "maybe"),
    ("sed -i 1d other.mk; make --file=./other.mk", "maybe"),
    ("perl -pi -e s/a/b/ package.json && npm test", "maybe"),
    # what unpacks, copies, patches or downloads a makefile
    ("tar xf a.tar && make", "maybe"),
    ("tar -xzf a.tgz -C . && make test", "maybe"),
    ("tar xf a.tar && make -C lib", "maybe"),
    ("tar xf a.tar -C lib && make --directory=lib", "maybe"),
    ("tar xf a.tar -C \"$D\"; make", "maybe"),
    ("curl -sL https://h.example/a.tgz | tar xz && make", "maybe"),
    ("unzip -o a.zip && make test", "maybe"),
    ("7z x a.7z; just test", "maybe"),
    ("cp -r other/. . && make", "maybe"),
    ("cp -r other/* . && npm test", "maybe"),
    ("cp other/Makefile . && make", "maybe"),
    ("mv -t . other/package.json && npm test", "maybe"),
    ("cp -r other/. .. && cd sub && npm test", "maybe"),
    ("rsync -a other/ . && make", "maybe"),
    ("git checkout HEAD~3 -- Makefile && make test", "maybe"),
    ("git checkout other Makefile && make test", "maybe"),
    ("git checkout other -- . && make test", "maybe"),
    ("git restore -s HEAD~1 package.json && npm test", "maybe"),
    ("git apply missing.diff && make test", "maybe"),
    ("git apply make.diff && make test", "maybe"),
    ("git apply <<'E'\n--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-a\n+b\nE\nmake test", "maybe"),
    ("patch -p1 < make.diff && make test", "maybe"),
    ("patch -p1 < missing.diff && make test", "maybe"),
    ("git mv other.mk Makefile && make test", "maybe"),
    ("curl -so Makefile https://h.example/m && make", "maybe"),
    ("curl -sO https://h.example/Makefile && make", "maybe"),
    ("curl -sOJ https://h.example/x && make", "maybe"),
    ("wget -O justfile https://h.example/m; just test", "maybe"),
    ("wget -q https://h.example/Makefile; make", "maybe"),
    ("python3 -c \"open('Makefile', 'w').write('all:')\" && make", "maybe"),
    ("python3 - <<'E'\nfrom pathlib import Path\nPath('package.json').write_text('{}')\nE\nnpm test", "maybe"),
    ("node -e \"fs.writeFileSync('package.json', x)\"; npm test", "maybe"),
    ("cat > Makefile <<'E'\nall:\n\ttrue\nE\nmake", "maybe"),
    ("sudo cp x Makefile; make", "maybe"),
    ("ln -sf other.mk Makefile && make", "maybe"),
    ("dd if=x of=Makefile; make", "maybe"),
    ("cp x package.json; npx run-s test", "maybe"),
    ("npm pkg set scripts.test='git push' && npm test", "maybe"),
    ("cpio -idm < a.cpio; make", "maybe"),
    ("unrar x a.rar && make", "maybe"),
    ("scp h.example:Makefile . && make", "maybe"),
    ("npm pkg get scripts && npm test", ""),
    ("find . | cpio -o > a.cpio && make test", ""),
    ("patch --dry-run -p1 < make.diff && make test", ""),
    ("uvx --with-requirements requirements.txt -- mkdocs build", ""),
    ("cp x deno.json; deno task test", "maybe"),
    ("tar xf a.tar; git status", ""),
    ("tar tf a.tar && make test", ""),
    ("tar cf a.tar Makefile && make test", ""),
    ("tar xf a.tar -C lib && make test", ""),
    ("unzip -l a.zip && make test", ""),
    ("unzip -qd lib a.zip && make test", ""),
    ("zip a.zip Makefile && make test", ""),
    ("cp -r lib/. /tmp/x && make test", ""),
    ("cp Makefile /tmp/m && make test", ""),
    ("cp a.py b.py && make test", ""),
    ("cp *.py lib && make test", ""),
    ("mv a.py lib/ && make test", ""),
    ("rsync -a lib/ h.example:x && make test", ""),
    ("git diff -- Makefile && make test", ""),
    ("git add Makefile && make test", ""),
    ("git checkout main && make test", ""),
    ("git checkout -- Makefile && make test", ""),
    ("git checkout other -- a.py && make test", ""),
    ("git restore . && make test", ""),
    ("git apply --stat make.diff && make test", ""),
    ("git apply code.diff && make test", ""),
    ("patch -p1 < code.diff && make test", ""),
    ("git pull && make test", ""),
    ("curl -so data.csv https://h.example/m && make test", ""),
    ("curl -s https://h.example/Makefile && make test", ""),
    ("wget -q https://h.example/data.csv && make test", ""),
    ("ruff format . && make test", ""),
    ("npx prettier -w . && npm test", ""),
    ("python3 -c \"print(open('Makefile').name)\" && make test", ""),
    ("npm install && npm test", ""),
    ("sed -n 1,20p Makefile && make test", ""),
    ("jq .scripts package.json && npm test", ""),
    ("cat Makefile && make", ""),
    ("sed -i 1d a.py && make test", ""),
    # scripts that run their arguments
    ("./wrap.sh git push origin main", "yes"),
    ("sh -e wrap.sh --quiet git push", "yes"),
    (". ./wrap.sh git push", "yes"),
    ("./wrap.sh ./wrap.sh git push", "yes"),
    ("./wrap.sh make status", ""),
    ("./quiet.sh git push", ""),
    ("./wrap.sh bash -c 'if ( then'; git status", "maybe"),
    ("./wrap.sh eval 'git push'", "yes"),
    ("./wrap.sh bash -c 'git push'", "yes"),
    ("./wrap.sh $X", "maybe"),
    ("make -f- x <<< $'x:\\n\\tgit push origin main'", "yes"),
    ("printf 'git status' > z.sh; sh z.sh", ""),
    ("chmod +x quiet.sh && ./quiet.sh", ""),
    ("git add quiet.sh; bash quiet.sh", ""),
    ("gcc a.c -o a.out && ./a.out", ""),
    # variables
    ("BASH_ENV=push.sh bash -c true", "yes"),
    ("ENV=push.sh sh -ic true", "yes"),
    ("env BASH_ENV=./push.sh bash -c true", "yes"),
    ("export BASH_ENV=push.sh; bash -c true", "yes"),
    ("BASH_ENV=quiet.sh bash -c true", ""),
    ("ENV=production npm run fmt", ""),
    ("GIT_EDITOR='git push origin main;' git commit -e", "yes"),
    ("GIT_EDITOR=./tool git commit", "yes"),
    ("GIT_SSH_COMMAND='git push origin main' git fetch", "yes"),
    ("GIT_PAGER='git push' git log", "yes"),
    ("PAGER='git push origin main;' man git", "yes"),
    ("EDITOR='git push;' git commit", "yes"),
    ("export VISUAL='git push;'; git commit", "yes"),
    ("GIT_SEQUENCE_EDITOR='git push;' git rebase -i", "yes"),
    ("GIT_EXTERNAL_DIFF='git push' git diff", "yes"),
    ("GIT_ASKPASS=./tool git fetch", "yes"),
    ("PROMPT_COMMAND='git push' bash -ic true", "yes"),
    ("LESSOPEN='|git push' less a.py", "yes"),
    ("PS4='$(git push)' bash -xc true", "yes"),
    ("GIT_EDITOR=$X git commit", "maybe"),
    ("PERL5OPT=-Mx perl -e 1", "maybe"),
    ("PYTHONSTARTUP=x.py python3 -i", "maybe"),
    ("NODE_OPTIONS='--require ./x.js' node y.js", "maybe"),
    ("LD_PRELOAD=./x.so ls", "maybe"),
    ("GIT_EDITOR=true git rebase --continue", ""),
    ("GIT_PAGER=cat git log", ""),
    ("NODE_OPTIONS=--max-old-space-size=4096 node y.js", ""),
    # the command `e` of sed
    ("sed '1e git push origin main' a.py", "yes"),
    ("sed -n -e p -e '$e git push' a.py", "yes"),
    ("sed --expression='/x/e git push' a.py", "yes"),
    ("sed s/x/y/e a.py", "maybe"),
    ("sed e a.py", "maybe"),
    ("sed -i 's/one/else/g; s,a,e,' a.py", ""),
    ("sed -n '/def e/,/end/p' a.py", ""),
    ("sed -n 1,5p example.py", ""),
    # the option -u of Git
    ("git clone -u 'git push' x y", "yes"),
    ("git clone -u ./missing.sh x y", "maybe"),
    ("git branch -u origin/main", ""),
    ("git add -u lib/a.py", ""),
    # links and copies of programs
    ("ln -s $(which git) g; ./g push origin main", "yes"),
    ("cp /usr/bin/git ./hg2; ./hg2 push origin main", "yes"),
    ("ln -s $X g; ./g push", "maybe"),
    ("ln -s /usr/bin/git g; PATH=.:$PATH g push", "yes"),
    ("hash -p /usr/bin/git g; g push", "yes"),
    ("./linked push", "yes"),
    ("./linked status", ""),
    ("ln -s $(which git) g; ./g status", ""),
]  # fmt: skip


@pytest.mark.parametrize(("command", "expected"), BY_ANOTHER_NAME)
def test_what_runs_a_command_without_naming_it(project, command, expected):
    """Through a variable, a file that the text writes first, a link, or a program of Git's own."""
    assert fits(command, project) == expected


@pytest.mark.parametrize(
    ("command", "rule"),
    [("python3 -m pip install x", "pip install *"), ("python -Im pip install x", "pip install *"),
     ("uv run -m pip install x", "pip install *"), ("python3.11 -mpip install x", "pip install *"),
     ("uv run python -m pip install x", "pip install *"), ("git -c alias.q='!rm -r x' q", "rm *")],
)  # fmt: skip
def test_a_module_is_the_program_of_its_name(project, command, rule):
    """`python -m pip` is `pip`."""
    assert fits(command, project, f"run_terminal_cmd({rule})") == "yes"


def test_a_rule_that_allows_is_about_what_is_written(project):
    """Who allows an alias has allowed it.

    Who allows what it stands for has not allowed every alias for it.
    """
    assert fits("git p", project, "run_terminal_cmd(git p *)", "allow") == "yes"
    assert fits("git p", project, "run_terminal_cmd(git push *)", "allow") == ""
    assert fits("npx git push", project, "run_terminal_cmd(git push *)", "allow") == ""


def test_an_alias_that_destroys_is_blocked(project):
    """An alias hides nothing from the reader of commands."""
    assert judge_command("git -c alias.q='!rm -rf /' q", workspace=project).kind == "block"


def test_a_pipe_in_the_place_of_a_script_is_not_waited_for(tmp_path):
    """A script is opened without blocking."""
    os.mkfifo(tmp_path / "pipe.sh")
    os.mkfifo(tmp_path / "Makefile")
    assert fits("bash pipe.sh; make", tmp_path) == ""


async def test_the_model_reads_why_an_unknown_sub_command_is_denied(bench):
    """The rule, the reason, and what to do."""
    kit = await bench(*PLUGINS, approve="auto")
    user_rules(kit, deny=["run_terminal_cmd(git push *)"], allow=["*"])
    result = await kit.call("run_terminal_cmd", command="git -c alias.p=push p")
    assert result.code == E_DENIED
    result = await kit.call("run_terminal_cmd", command="git frobnicate")
    assert result.code == E_DENIED
    assert "`git frobnicate` is neither a Git command nor an alias" in result.text
    assert "Run the command itself" in result.text


async def test_a_rule_that_asks_has_an_unknown_sub_command_asked(bench, asked):
    """And without a rule about Git nothing is asked: the sandbox holds the command."""
    kit = await bench(*PLUGINS, approve="auto")
    if not (await kit.session.plugin(hilum_guard.Guard).sandbox.enforced()).protected:
        pytest.skip("no sandbox holds protected paths here")
    await kit.call("run_terminal_cmd", command="git frobnicate")
    assert kit.of(ApprovalAsked) == []
    user_rules(kit, ask=["run_terminal_cmd(git push *)"])
    assert (
        "neither a Git command nor an alias"
        in (await asked(kit, "run_terminal_cmd", command="git frobnicate")).reason
    )
