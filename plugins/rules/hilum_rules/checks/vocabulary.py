"""The words that compiling knows: programs, kinds of files, actions in plain words.

Documented in docs/enforced-rules.md.
"""

from __future__ import annotations

import re

EXTENSIONS = """astro avif bash bat bazel bzl c cc cert cfg cjs clj cmake conf cpp crt cs css csv cts cue dart
dockerfile ejs exs gitignore gitattributes go gql gradle graphql h hbs hcl hpp html ico ini ipynb jar java jpg jpeg
js json json5 jsonc jsonl jsx kt kts less lock lockb lua md mdc mdx mjs ml mts nix parquet pdf pem php pkl plist png
prisma properties proto ps1 pub py pyi pyc rb rs rst sass scala scss sh snap sql sqlite sqlite3 styl svelte svg
swift tf tfstate tfvars toml ts tsv tsx txt vue wasm webp xlsx xml yaml yml zig zip zsh""".split()
FILES = frozenset(
    """Makefile Dockerfile Jenkinsfile Procfile LICENSE CODEOWNERS Gemfile Rakefile Vagrantfile README node_modules
    __pycache__""".split()
)
DOTTED = re.compile(
    r"\.(?:env|git|github|gitlab|vscode|idea|ssh|aws|husky|circleci|npm|nvm|yarn|venv|cursor|claude|codex|gemini|hilum|docker|editor"
    r"|eslint|prettier|babel|stylelint|tool-versions|python-version|node-version|ruby-version|pre-commit|htaccess|next|nuxt|config"
    r"|cache|netrc|pypirc|bash|zsh|profile|kube|terraform|devcontainer|storybook|changeset|browserslist|nx|turbo|vercel)[\w.*-]*"
)
"""Names that begin with a dot and are files; others, such as `.value`, are code."""

LOCKS = frozenset(
    """package-lock.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb uv.lock poetry.lock pdm.lock pipfile.lock cargo.lock
    gemfile.lock composer.lock go.sum flake.lock mix.lock pubspec.lock podfile.lock npm-shrinkwrap.json""".split()
)
"""Files that only programs write: who says not to edit them means by hand."""

MADE = frozenset(
    """node_modules .git .venv venv __pycache__ site-packages .next .nuxt .tox .nox .mypy_cache .pytest_cache .ruff_cache
    .gradle .turbo .svelte-kit .terraform pods deriveddata bower_components""".split()
)
"""Folders that programs write, wherever they stand in a path: meant by hand, or nothing could be
installed or committed.
"""

OUTPUTS = frozenset("dist build out target coverage logs log htmlcov .cache .coverage obj".split())
"""Names of folders and files of what programs put out; below them may be anything."""

PROGRAMS = frozenset(
    """act alembic ansible ansible-playbook apt apt-get aws az awk bash black brew bun bundle bunx cargo chmod chown composer
    conda corepack crontab curl dd deno django-admin docker docker-compose doas dotnet dropdb emacs eslint fd firebase fly
    flyctl gcloud gem gh git glab go gradle gradlew grep gsutil helm heroku hg jest jj just kill killall kubectl lerna ln make
    manage.py mix mkfs mongo mongosh mv mvn mypy mysql nano nc netlify next ng nix node npm npx nvm nx open-ssl openssl pacman
    php pip pip3 pipenv pipx pkill pnpm pnpx podman poetry powershell prettier prisma psql pulumi py.test pytest python
    python2 python3 rails rake redis-cli rm rmdir rsync ruff ruby rustup scp sed serverless sh shred sls sqlite3 ssh su sudo
    supabase svn swift systemctl tar tee terraform terragrunt tofu truncate tsc tsx turbo twine uv uvx vagrant vercel vi vim
    vite vitest wget wrangler xargs xcodebuild yarn yum zsh
    apk cnpm tnpm dnf easy_install""".split()
)
CERTAIN_PROGRAMS = frozenset(
    """apt apt-get awk brew bunx chmod chown conda curl doas docker-compose emacs gcloud gsutil kubectl killall nano npm npx
    pip pip3 pipenv pipx pkill pnpm pnpx podman psql rm rmdir rsync scp sed ssh sudo systemctl terraform twine uvx vim wget yarn
    yum git gh cargo poetry heroku python2 python3
    helm cnpm tnpm mvn dnf apk easy_install ansible-playbook terragrunt""".split()
)
"""What is a program's name and nothing else, so that "never use `NAME`" can only mean it."""

# The same command by other words.
SAME: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("pip",), ("pip3",), ("python", "-m", "pip"), ("python3", "-m", "pip")),
    (("npm", "install"), ("npm", "i"), ("npm", "add")),
    (("npm", "run"), ("npm", "run-script")),
    (("npm", "ci"), ("npm", "clean-install")),
    (("npm", "test"), ("npm", "t")),
    (("npm", "uninstall"), ("npm", "remove"), ("npm", "rm")),
    (("pnpm", "install"), ("pnpm", "i")),
    (("pytest",), ("py.test",), ("python", "-m", "pytest"), ("python3", "-m", "pytest")),
    (("docker-compose",), ("docker", "compose")),
    (("sudo",), ("doas",), ("pkexec",)),
    (("git", "push"), ("git", "send-pack"), ("git", "subtree", "push")),
    (("git", "commit"), ("git", "commit-tree")),
    (("git", "restore"),),
    (("terraform",), ("tofu",)),
    (("uv", "add"),),
    (("mvn",), ("mvnw",)),
    (("gradle",), ("gradlew",)),
)
# Of commands that begin so: an option, and its other spellings.
SAME_OPTIONS: tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...] = (
    (
        ("git", "push"),
        "--force",
        ("-f", "+*", "--force-with-lease", "--force-with-lease=*", "--mirror"),
    ),
    (("git", "push"), "-f", ("--force", "+*")),
    (("git", "commit"), "--no-verify", ("-n",)),
    (("git", "commit"), "-n", ("--no-verify",)),
    (("git", "push"), "--delete", ("-d", ":*")),
    (("git", "branch"), "-D", ("--delete",)),
    (("git", "add"), "-A", ("--all", "--no-ignore-removal")),
    (("git", "add"), "--all", ("-A", "--no-ignore-removal")),
    (("git", "add"), ".", ("./", ":/")),
    (("docker", "compose", "down"), "-v", ("--volumes",)),
    (("docker-compose", "down"), "-v", ("--volumes",)),
)

OPTIONS = frozenset(
    """--no-verify --force --force-with-lease --no-gpg-sign --amend --hard --privileged --dangerously-skip-permissions
    --no-sandbox --legacy-peer-deps --break-system-packages --allow-empty --skip-hooks --no-preserve-root --insecure
    --no-check-certificate --allow-root --disable-web-security --no-audit --yolo""".split()
)
"""Options that mean the same danger in whatever command they stand."""

GIT_COMMIT = (
    ("git", "commit"),
    ("git", "commit-tree"),
    ("git", "am"),
    ("git", "cherry-pick"),
    ("git", "revert"),
)
GIT_PUSH = (
    ("git", "push"),
    ("git", "send-pack"),
    ("git", "subtree", "push"),
    ("git", "http-push"),
    ("git-push",),
)
FORCE_PUSH = tuple(
    ("git", "push", option)
    for option in ("--force", "-f", "+*", "--force-with-lease", "--force-with-lease=*", "--mirror")
)
BRANCHES = frozenset("main master develop dev trunk production staging release".split())
AMEND = (("git", "commit", "--amend"),)
SKIP_HOOKS = (("*", "--no-verify"), ("git", "commit", "-n"))
STAGE = (("git", "add"), ("git", "stage"), ("git", "update-index"))
PULL_REQUEST = (("gh", "pr", "create"), ("glab", "mr", "create"), ("hub", "pull-request"))
INSTALL = tuple(
    tuple(text.split())
    for text in (
        "pip install|pip3 install|python -m pip install|python3 -m pip install|uv pip install|uv"
        " add|uv tool install|pipx install|poetry add|pdm add|pipenv install|conda install|mamba"
        " install|npm install|npm i|npm add|pnpm add|pnpm install|pnpm i|yarn add|yarn global"
        " add|bun add|bun install|cargo add|cargo install|go get|go install|gem install|bundle"
        " add|composer require|apt install|apt-get install|brew install|dnf install|yum install|apk"
        " add|pacman -S|snap install|npx --yes|dotnet add"
    ).split("|")
)
PUBLISH = tuple(
    tuple(text.split())
    for text in (
        "npm publish|pnpm publish|yarn publish|yarn npm publish|bun publish|twine upload|python -m"
        " twine upload|uv publish|poetry publish|pdm publish|flit publish|hatch publish|cargo"
        " publish|gem push|gh release create"
    ).split("|")
)
DESTRUCTIVE = tuple(
    tuple(text.split())
    for text in (
        "rm|rmdir|unlink|shred|truncate|dd|mkfs|wipefs|git reset --hard|git clean|git push"
        " --force|git push -f|git push +*|git push --mirror|git branch -D|git stash drop|git stash"
        " clear|git checkout --|git restore|git filter-branch|git reflog expire|dropdb|docker"
        " system prune|docker volume rm|docker volume prune|kubectl delete|terraform destroy|find *"
        " -delete"
    ).split("|")
)
DESTRUCTIVE_GIT = tuple(words for words in DESTRUCTIVE if words[0] == "git")
EMAIL_TOOLS = ("*send*mail*", "*mail*send*", "*reply*mail*", "*forward*mail*")
EMAIL = (("mail",), ("mailx",), ("sendmail",), ("mutt",), ("msmtp",), ("swaks",))
TWEET_TOOLS = (
    "*tweet*",
    "*toot*",
    "*publish*post*",
    "*create*post*",
    "*send*post*",
    "*post*create*",
)

# Names of the tools that other agents' rules speak of.
TOOLS = {
    "bash": ("run_terminal_cmd",),
    "shell": ("run_terminal_cmd",),
    "run_terminal_cmd": ("run_terminal_cmd",),
    "webfetch": ("web_fetch",),
    "web_fetch": ("web_fetch",),
    "websearch": ("web_search",),
    "web_search": ("web_search",),
    "task": ("task",),
    "write": ("write_file",),
    "write_file": ("write_file",),
    "edit": ("edit_file", "multi_edit"),
    "multiedit": ("multi_edit",),
    "multi_edit": ("multi_edit",),
    "edit_file": ("edit_file",),
    "delete_file": ("delete_file",),
    "read": ("read_file",),
    "read_file": ("read_file",),
}

KINDS = {
    "main": ("main",),
    "shared": ("shared",),
    "group": ("shared",),
    "headless": ("headless",),
    "unattended": ("headless",),
    "public": ("shared",),
}

_TOP = frozenset(
    """com org net io dev app ai co uk de fr cn jp eu us ru info biz cloud tech xyz me tv sh gov edu mil int local internal
    example test invalid lan corp""".split()
)
_AMBIGUOUS = frozenset("io ai co app dev tech me sh tv info local internal test cloud".split())
_HOST = (
    r"(?:\*\.)?(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}|\d{1,3}(?:\.\d{1,3}){3}|localhost"
)


def is_host(text: str) -> bool:
    """Return whether a text is the name of a host, or of all below one."""
    text = text.lower()
    if not re.fullmatch(_HOST, text):
        return False
    return text == "localhost" or text.replace(".", "").isdigit() or text.rpartition(".")[2] in _TOP


def host(text: str) -> str:
    """Return the host that a name or an address means.

    Empty if it is none, or means only a part of a host, or may be code.
    """
    if text.count(".") == 1 and text.rpartition(".")[2].lower() in _AMBIGUOUS and "://" not in text:
        return ""
    found = re.fullmatch(
        r"(?:(?:https?|wss?|ftp|ssh|git)://)?([^/\s:@]+)(?::\d+)?/?", text.strip().lower()
    )
    return found[1] if found and is_host(found[1]) else ""
