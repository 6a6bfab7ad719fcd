"""Calls whose words, lists and code show that they keep a rule; next to each, one that breaks it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hilum_checks import compile_rule, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
WRITE = make_tool("write_file")
FILES = """
    README.md src/a.py src/app/b.py tests/test_a.py vendor/x/a.py packages/a/a.ts pnpm-lock.yaml
    deploy/secrets.yaml deploy/app.yaml data/i.csv models/v1.bin infra/dev/a.tfstate
""".split()


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=False).check
        assert self.check is not None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project").resolve() / "workspace"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("old\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        (*author, "commit", "-qm", "1"),
        ("branch", "side"),
    ):
        subprocess.run(["git", *words], cwd=root, check=True)
    return root


def find_verdict(root: Path, sentence: str, call: str | tuple[str, str]) -> Any:
    rules = [Ruled(sentence)]
    if isinstance(call, str):
        return judge(rules, json.dumps({"command": call}), SHELL, root)
    path, content = call
    return judge(rules, json.dumps({"path": path, "content": content}), WRITE, root)


VENDOR = "Never edit `vendor/`."
LOCK = "Never touch `pnpm-lock.yaml`."
MODELS = "Never delete files in `models/`."
SECRET = "Never read `deploy/secrets.yaml`."
STATE = "Don't read or modify `*.tfstate` files."
STYLE = "Use conventional commits."
SERVER = "Never start the dev server."
REBASE = "Never run `git rebase`."
PULL = "Never use `git rebase`; use `git pull --rebase` instead."
DATA = "Never commit files from `data/` or `models/`."
INLINE = "Never use inline styles."
EVAL = "Never use `eval()`."
PRINT = "Never use `print()`."
DOCUMENTS = "Do not create README or other markdown files unless I ask for them."
INSTALL = "Don't install packages without checking with me first."
LOOP = 'while read -r f; do sed -i s/a/b/ "$f"; done'
NODE = "const fs=require('fs');const p='src/a.ts';"


def python(code: str) -> str:
    return f"python3 - <<'E'\n{code}\nE"


KEEPS = [
    # Lists of files below a folder, of files with a text, and of changed files.
    (VENDOR, f"rg -l a src | {LOOP}"),
    (VENDOR, f"rg -l a src tests | {LOOP}"),
    (LOCK, f"rg -l a packages | {LOOP}"),
    (VENDOR, "sed -i s/a/b/ $(rg -l a src)"),
    (VENDOR, "for f in $(git ls-files src); do sed -i s/a/b/ $f; done"),
    (VENDOR, "grep -rl absent . | xargs sed -i s/a/b/"),
    (VENDOR, "rg -l old | grep -v vendor | xargs sed -i s/a/b/"),
    (VENDOR, "rg -l old | grep -vE 'vendor|tests' | xargs sed -i s/a/b/"),
    (VENDOR, "uv run ruff format $(git diff --name-only)"),
    (VENDOR, "ruff format $(git diff --name-only --diff-filter=d main -- '*.py')"),
    (VENDOR, "git diff --name-only main...HEAD | xargs sed -i s/a/b/"),
    (VENDOR, "black $(git ls-files -m)"),
    (VENDOR, "git status --porcelain | awk '{print $2}' | xargs sed -i s/a/b/"),
    (VENDOR, f"git diff --name-only | {LOOP}"),
    (DOCUMENTS, "git diff --name-only | grep -E 'tsx?$' | xargs npx eslint --fix"),
    (MODELS, "rm $(rg -l a src)"),
    (STATE, f"rg -l a src | {LOOP}"),
    (EVAL, f"rg -l a src | {LOOP}"),
    (INSTALL, "npx eslint $(git diff --name-only main -- '*.ts')"),
    (INSTALL, "npx vitest run $FILES"),
    (VENDOR, "git diff --name-only origin/main -- src | xargs sed -i s/a/b/"),
    (VENDOR, "cd src && git ls-files -m | xargs sed -i s/a/b/"),
    (VENDOR, "perl -pi -e 's/a/b/' $(git ls-files src)"),
    ("Never use `npm`.", "perl -pi -e 's/a/b/' $(git ls-files src)"),
    (LOCK, 'tmp=$(mktemp) && sed s/a/b/ src/a.py > "$tmp" && mv "$tmp" src/a.py'),
    (EVAL, 'tmp=$(mktemp) && sed s/a/b/ src/a.js > "$tmp" && mv "$tmp" src/a.js'),
    ("Don't touch `a-cli`.", "cargo build --release -p a-cli"),
    ("Use `uv`, never `pip`.", "git ls-files '*.py' | xargs -r python3 -m py_compile"),
    ("Never use `--no-verify`.", 'git branch | while read -r b; do git log -1 "$b"; done'),
    ("Never use `--no-verify`.", "git log --format=%H -3 | xargs -I{} git show --stat {}"),
    # What a command leaves out, and what Git shows.
    (SECRET, "zip -r /tmp/a.zip . -x data/i.csv deploy/secrets.yaml"),
    (SECRET, "zip -r /tmp/a.zip . -x '*.git*' 'deploy/*'"),
    (STATE, "git grep -n old"),
    (STATE, "git grep -C 3 old -- src"),
    (STATE, "git diff side..HEAD | head"),
    # Message files.
    (STYLE, "git add -A && printf 'feat: x' > /tmp/m-1 && git commit -F /tmp/m-1"),
    (STYLE, "git add -A; git status; echo 'feat: x' > /tmp/m-1; git commit -qF /tmp/m-1"),
    (STYLE, "make test && cat > /tmp/m-1 <<'E' && git commit -F /tmp/m-1\nfeat: x\nE"),
    (STYLE, "git add -A && cat > /tmp/m-1 <<'E'\nfeat: x\nE\ngit commit -F /tmp/m-1"),
    (STYLE, "echo 'feat: x' | tee /tmp/m-1 && git commit -F /tmp/m-1"),
    (STYLE, "echo 'feat: x' | tee /tmp/m-1 > /dev/null; git commit -F /tmp/m-1"),
    (STYLE, "git commit --dry-run -m wip"),
    # Programs of the project.
    (SERVER, "pnpm vite build"),
    (SERVER, "pnpm vite preview"),
    (SERVER, "pnpm turbo run build --filter=web"),
    (SERVER, "turbo run dev --dry-run"),
    (SERVER, "nx build web"),
    (SERVER, "nx serve --help"),
    (SERVER, "nx run web:build"),
    (SERVER, "pnpm --filter web test"),
    (SERVER, "pnpm --filter web add dev"),
    ("Never run bare `tsc`.", "pnpm tsc"),
    # Git.
    (REBASE, "git pull"),
    (REBASE, "git pull --rebase=false"),
    (REBASE, "git pull --no-rebase"),
    (PULL, "git pull --rebase"),
    (DATA, "git commit -m 'data/ x' src/a.py"),
    (DATA, "git commit -am data/i.csv"),
    (DATA, 'cd "$D" && git add a.py'),
    ("Never run `git add`.", "git commit src/a.py -m x"),
    # Code that is written.
    (INLINE, ("a.tsx", "import s from './s';\nexport const A = () => <div style={s} />;\n")),
    (INLINE, ("a.tsx", "const s = sheet({ a: {} });\nconst A = () => <V style={s.a} />;\n")),
    (EVAL, ("a.tsx", "const A = () => <p>{a} / {b} don't</p>; // eval()\n")),
    (EVAL, ("a.ts", "const a = b / c; const s = 'eval(x) / 2';\n")),
    (EVAL, ("a.ts", "const a = s.replace(/`/g, ''); // eval()\n")),
    (EVAL, "mkdir -p src/n && cat > src/n/a.js <<'E' && cat src/n/a.js\n// eval(x)\nE"),
    ("Don't use `any` in TypeScript.", ("a.ts", "const t = /default|any/g;\n")),
    ("Never use `expect()`.", ("a.rs", "#[expect(dead_code)]\nfn a() {}\n")),
    # Code that is run.
    (
        DOCUMENTS,
        "python3 -c \"for p in ['src/a.py', 'README.md']: open(p, 'w').write(open(p).read())\"",
    ),
    (DOCUMENTS, "node -e \"import fs from 'node:fs'; fs.writeFileSync('src/a.ts', s.trim())\""),
    (PRINT, python("s = open('README.md').read()\nopen('README.md', 'w').write(f'{s}x')")),
    (STATE, python("p = 'modules/a.tf'\ns = open(p).read()\nopen(p, 'w').write(s + 'x')")),
    (STATE, python("import glob\nprint([len(open(f).read()) for f in glob.glob('src/*')])")),
    (MODELS, python("import os\nfor n in ('a', 'b'):\n    os.remove(f'src/{n}.py')")),
    (
        MODELS,
        python("import os\nfiles = [f'src/{n}.py' for n in 'a b'.split()]\nprint(files)"),
    ),
    (
        MODELS,
        python(
            "import os\nfiles = [f'src/{n}.py' for n in ('a', 'b')]\nfor f in files:\n    os.remove(f)"
        ),
    ),
    (DOCUMENTS, f"node -e \"{NODE}fs.writeFileSync(p,fs.readFileSync(p).replace('a','b'))\""),
    (
        STATE,
        python("import os, tempfile\nopen(os.path.join(tempfile.mkdtemp(), 'x'), 'w').write('y')"),
    ),
    (PRINT, python("import tempfile\nd = tempfile.mkdtemp()\nprint(open('README.md').read(), d)")),
]
BREAKS = [
    (VENDOR, f"rg -l a vendor | {LOOP}"),
    (VENDOR, f"rg -l a src vendor | {LOOP}"),
    (VENDOR, f"rg -l old | {LOOP}"),
    (VENDOR, "sed -i s/a/b/ $(rg -l old)"),
    (VENDOR, "grep -rl old . | xargs sed -i s/a/b/"),
    (VENDOR, "grep -rl OLD -i . | xargs sed -i s/a/b/"),
    (VENDOR, "rg -l old | grep -v src | xargs sed -i s/a/b/"),
    (VENDOR, "rg -l old | grep -v /vendor | xargs sed -i s/a/b/"),
    (VENDOR, "cp README.md src/$X"),
    (VENDOR, "git diff --name-only HEAD~1 -- vendor | xargs sed -i s/a/b/"),
    (VENDOR, "cd vendor && git ls-files -m | xargs sed -i s/a/b/"),
    (VENDOR, "git diff --name-only 4b825dc642cb6eb9a060e54bf8d69288fbee4904 | xargs rm"),
    (VENDOR, 'tmp=$(mktemp) && sed s/a/b/ src/a.py > "$tmp" && mv "$tmp" vendor/x/a.py'),
    (VENDOR, "true && cd vendor && echo x > q && cd .."),
    (EVAL, 'tmp=$(mktemp) && echo "eval(x)" > "$tmp" && mv "$tmp" src/a.js'),
    (EVAL, 'tmp=$(mktemp) && curl -s http://localhost/x > "$tmp" && mv "$tmp" src/a.js'),
    (EVAL, 'tmp=$(mktemp) && cp /tmp/a.js "$tmp" && mv "$tmp" src/a.js'),
    ("Don't touch `a-cli`.", "cargo new a-cli"),
    ("Never use `npm`.", "perl x.pl npm; $X install"),
    (VENDOR, "cp README.md $(git diff --name-only)"),
    (MODELS, "rm $(git diff --name-only)"),
    (MODELS, "rg -l old models | while read f; do rm $f; done"),
    (DOCUMENTS, "cp README.md $(git diff --name-only)"),
    (EVAL, f"rg -l a src | {LOOP.replace('s/a/b/', 's/a/eval(x)/')}"),
    (EVAL, 'sed -i "s/a/$X/" src/a.js'),
    (INSTALL, "npx $X cowsay"),
    (INSTALL, "npm $X left"),
    (SECRET, "zip -r /tmp/a.zip . -x data/i.csv @ deploy/secrets.yaml"),
    (SECRET, "zip /tmp/a.zip deploy/secrets.yaml -x data/i.csv"),
    (STATE, "git grep -n old HEAD"),
    (STATE, "git grep --cached old"),
    (STATE, "git log -p"),
    (STATE, "git diff other"),
    (STATE, "git fetch && git diff side"),
    (STYLE, "git add -A && printf 'wip' > /tmp/m-1 && git commit -F /tmp/m-1"),
    (STYLE, "make test && cat > /tmp/m-1 <<'E' && git commit -F /tmp/m-1\nwip\nE"),
    (STYLE, "make gen && echo 'feat: x' > m; git commit -F m"),
    (STYLE, "true || echo 'feat: x' > m; git commit -F m"),
    (STYLE, "set -C; echo 'feat: x' > /tmp/m-1; git commit -F /tmp/m-1"),
    (STYLE, "(echo 'feat: x'; echo wip) > /tmp/m-1; git commit -F /tmp/m-1"),
    (STYLE, "(sleep 1; echo wip > /tmp/m-1) & echo 'feat: x' > /tmp/m-1; git commit -F /tmp/m-1"),
    (STYLE, "git commit -m --dry-run"),
    (STYLE, "echo wip | tee /tmp/m-1 && git commit -F /tmp/m-1"),
    (STYLE, "echo 'feat: x' | tee -a /tmp/m-1; git commit -F /tmp/m-1"),
    ("Use `uv`, never `pip`.", "python3 -X dev -m pip install a"),
    ("Use `uv`, never `pip`.", "python3 -m $X install a"),
    ("Never use `--no-verify`.", "git commit $X"),
    ("Never use `--no-verify`.", "git $X commit"),
    (SERVER, "pnpm vite"),
    (SERVER, "yarn vite --port 1"),
    (SERVER, "pnpm next dev"),
    (SERVER, "pnpm --filter web vite"),
    (SERVER, "yarn workspace web vite"),
    (SERVER, "pnpm turbo run dev"),
    (SERVER, "npx turbo dev --filter=web"),
    (SERVER, "turbo watch dev"),
    (SERVER, "nx serve web"),
    (SERVER, "pnpm exec nx run web:serve"),
    (SERVER, "nx run-many -t serve"),
    (SERVER, "lerna run dev"),
    (SERVER, "pnpm -r dev"),
    (SERVER, "pnpm --filter web dev"),
    (SERVER, "yarn workspace web dev"),
    ("Never run `vitest`.", "pnpm vitest run"),
    (REBASE, "git pull --rebase"),
    (REBASE, "git pull -r origin main"),
    (REBASE, "git -c pull.rebase=true pull"),
    (PULL, "git rebase main"),
    (DATA, "git commit data/i.csv -m x"),
    (DATA, "git commit -m x -- models/v1.bin"),
    (DATA, "cd data && git commit -o i.csv -m x"),
    (DATA, 'cd "$D" && git add i.csv'),
    (INLINE, ("a.tsx", "const s = { a: 1 };\nexport const A = () => <div style={s} />;\n")),
    (EVAL, ("a.js", "const r = /https?:\\/\\//; eval(x);\n")),
    (EVAL, ("a.js", "s.replace(/`/g, '');\n\neval(x);\nconst c = `${a}`;\n")),
    ("Don't use `any` in TypeScript.", ("a.ts", "const t = /a/; let b: string|any;\n")),
    ("Never use `expect()`.", ("a.rs", "fn a() { b.expect(c); }\n")),
    (EVAL, ("a.js", "const r = x ? /['\"]/g : /[/]/; eval(x);\n")),
    (PRINT, python("open('runner', 'w').write('print(1)')")),
    (
        STATE,
        python(
            "import os, tempfile as t\nopen(os.path.join(t.mkdtemp(), '../' + x), 'w').write('')"
        ),
    ),
    (PRINT, python("n = 1\nopen('src/a.py', 'w').write(f'print({n})')")),
    (STATE, python("open('infra/dev/a.tfstate').read()")),
    (STATE, python("import sys\nopen(sys.argv[1] + 'x', 'w').write('a')")),
    (
        MODELS,
        python("import os\nd = 'mod'\nfor n in ('a', 'b'):\n    os.remove(f'{d}els/{n}.bin')"),
    ),
    (MODELS, python("import os, sys\nfor n in sys.argv:\n    os.remove(f'src/{n}.py')")),
    (
        MODELS,
        python(
            "import os\nfiles = [f'src/{n}' for n in 'ab']\nfiles.append(x)\nos.remove(files[0])"
        ),
    ),
    (DOCUMENTS, f"node -e \"{NODE.replace('.ts', '.md')}fs.writeFileSync(p,'x')\""),
    (DOCUMENTS, f"node -e \"{NODE}const f=(p)=>fs.writeFileSync(p,'x');f('a.m'+'d')\""),
]


@pytest.mark.parametrize(("sentence", "call"), KEEPS)
def test_what_keeps_a_rule_is_allowed(
    sentence: str, call: str | tuple[str, str], root: Path
) -> None:
    assert find_verdict(root, sentence, call) is None


@pytest.mark.parametrize(("sentence", "call"), BREAKS)
def test_what_breaks_a_rule_is_refused(
    sentence: str, call: str | tuple[str, str], root: Path
) -> None:
    assert find_verdict(root, sentence, call) is not None


@pytest.mark.parametrize(
    ("sentence", "command", "parts"),
    [
        (SECRET, "git log -p", ("`deploy/secrets.yaml`", "--stat")),
        (VENDOR, "cp a $X", ("`vendor/`", "name each file")),
        (
            MODELS,
            python("import os, sys\nos.remove(sys.argv[1] + '.x')"),
            ("`models/`", "literally"),
        ),
    ],
)
def test_a_question_names_the_protected_path_and_the_next_step(
    sentence: str, command: str, parts: tuple[str, ...], root: Path
) -> None:
    found = find_verdict(root, sentence, command)
    assert found.kind == "ask"
    assert sentence in found.reason
    for part in parts:
        assert part in found.reason
