"""The grammars' vocabulary: programs, kinds of files, and actions in plain words.

``docs/enforced-rules.md`` documents them.
"""

from __future__ import annotations

import re

from hilum_checks.model import Action, Words

Phrases = tuple[Words, ...]
"""Commands, each split into words."""

EXTENSIONS = """
    astro avif bash bat bazel bzl c cc cert cfg cjs clj cmake conf config cpp csproj crt cs css csv cts cue
    dart dockerfile ejs exs gitignore gitattributes go gql gradle graphql h hbs hcl hpp html
    ico ini ipynb jar java jpg jpeg js json json5 jsonc jsonl jsx kt kts less lock lockb lua
    md mdc mdx mjs ml mts nix parquet pdf pem php pkl plist png prisma properties proto ps1
    pub py pyi pyc rb rs rst sass scala scss sh snap sql sqlite sqlite3 styl svelte svg swift
    tf tfstate tfvars toml ts tsv tsx txt vue wasm webp xlsx xml yaml yml zig zip zsh
    """.split()
FILES = frozenset(
    """
    Makefile Dockerfile Jenkinsfile Procfile LICENSE CODEOWNERS Gemfile Rakefile Vagrantfile
    README node_modules __pycache__ mvnw gradlew
    """.split()
)
DOTTED = re.compile(
    r"\.(?:env|git|github|gitlab|vscode|idea|ssh|aws|husky|circleci|npm|nvm|yarn|venv|cursor|claude"
    r"|codex|gemini|hilum|docker|editor|eslint|prettier|babel|stylelint|tool-versions"
    r"|python-version|node-version|ruby-version|pre-commit|htaccess|next|nuxt|config|cache|netrc"
    r"|pypirc|bash|zsh|profile|kube|terraform|devcontainer|storybook|changeset|browserslist|nx"
    r"|turbo|vercel)[\w.*-]*"
)
"""File names that begin with a dot. Other words with a dot, such as `.value`, are code."""

LOCKS = frozenset(
    """
    package-lock.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb uv.lock poetry.lock pdm.lock
    pipfile.lock cargo.lock gemfile.lock composer.lock go.sum flake.lock mix.lock pubspec.lock
    podfile.lock npm-shrinkwrap.json
    """.split()
)
"""Files that only programs write. A rule against editing them means manual editing."""

GENERATED_FOLDERS = frozenset(
    """
    node_modules .git .venv venv __pycache__ site-packages .next .nuxt .tox .nox .mypy_cache
    .pytest_cache .ruff_cache .gradle .turbo .svelte-kit .terraform pods deriveddata
    bower_components deps _build .elixir_ls elm-stuff .dart_tool .stack-work dist-newstyle .build
    .swiftpm carthage .nx .parcel-cache .eggs .pixi .zig-cache zig-cache zig-out _site .docusaurus
    .expo .angular .astro .output .nitro .serverless .aws-sam cdk.out .bloop .metals _opam
    cmake-build-debug cmake-build-release nimcache storybook-static .pnpm-store .bundle
    """.split()
)
"""Folders that programs write to, anywhere in a path.

A rule against editing them means manual editing only; otherwise nothing could be installed or
committed.
"""

OUTPUTS = frozenset("dist build out target coverage logs log htmlcov .cache .coverage obj".split())
"""Folders and files for the output of programs. They may contain anything."""

# Each program is in one group.
# Names that only programs have, also without quotes: "use pnpm".
_UNQUOTED_CERTAIN = frozenset(
    """
    cargo curl docker-compose kubectl mypy npm npx pip pip3 pipenv pnpm poetry rustfmt
    terraform wget yarn
    """.split()
)
# Names that only programs have, in quotes: "never use `sed`".
_QUOTED_CERTAIN = frozenset(
    """
    ansible-playbook apk apt apt-get awk brew bunx chmod chown clang-format cnpm conda dnf
    doas easy_install emacs flake8 gcloud gh git gofmt grep gsutil helm heroku killall mvn
    nano pipx pkill pnpx podman psql pylint python2 python3 rm rmdir rsync scp sed ssh sudo
    systemctl terragrunt tnpm twine uvx vim yum
    """.split()
)
# Names that may be something else in "never use `NAME`", but not in a sentence without quotes.
_UNQUOTED = frozenset(
    """
    bun cmake docker eslint jest ninja prettier pytest ruff tsc uv vitest
    """.split()
)
# Names that are programs only as the first word of a command, or beside other programs.
_QUOTED = frozenset(
    """
    act adb ag alembic ansible aws az bash bazelisk biome black buf bundle cat changeset commitlint
    composer corepack crontab ctest cypress dart dd deno deptry django-admin dotnet dprint
    dropdb esbuild eza fastlane fd find firebase flutter fly flyctl gem glab go gofumpt
    golangci-lint gradle gradlew hadolint hatch hg husky isort jj just kill lefthook lerna
    ln mage make manage.py markdownlint meson mise mix mkfs mongo mongosh mv mysql nc
    netlify next ng nix node nox nvm nx open-ssl openssl oxlint pacman pdm php playwright
    pod powershell pre-commit prisma pulumi py.test pyright python rails rake redis-cli rg
    ripgrep ruby rustup rye serverless sh shellcheck shred sls sqlc sqlite3 stylelint su
    supabase svn swift tar task tee tofu tox trash truncate ts-node tsx turbo ty vagrant
    vercel vi vite webpack wrangler xargs xcodebuild xcrun zsh
    """.split()
)
PROGRAM_GROUPS = (_UNQUOTED_CERTAIN, _QUOTED_CERTAIN, _UNQUOTED, _QUOTED)
PROGRAMS = frozenset.union(*PROGRAM_GROUPS)
UNQUOTED_PROGRAMS = _UNQUOTED_CERTAIN | _UNQUOTED
"""Words without quotes that can only be the names of programs."""
CERTAIN_PROGRAMS = _UNQUOTED_CERTAIN | _QUOTED_CERTAIN
"""Names that only programs have, so "never use `NAME`" can only refer to the program."""


def phrases(text: str) -> Phrases:
    """Split a text at ``|`` into commands, and each command into words."""
    return tuple(tuple(command.split()) for command in text.split("|"))


def pairs(text: str) -> dict[str, str]:
    """Parse pairs of words that are separated by ``|``."""
    return dict(pair.split() for pair in text.split("|"))


PACKAGE_MANAGERS = (
    frozenset("npm pnpm yarn bun".split()),
    frozenset("pip pip3 pipenv poetry uv conda".split()),
)
"""Programs of which a project uses one."""
MANAGERS = frozenset.union(*PACKAGE_MANAGERS) - {"bun", "uv"}

MANAGING: dict[str, Phrases] = {
    "npm": phrases("npm install|npm i|npm ci|npm add|npm uninstall|npm update"),
    "pnpm": phrases("pnpm install|pnpm i|pnpm add|pnpm remove|pnpm update"),
    "yarn": phrases("yarn install|yarn add|yarn remove|yarn upgrade"),
    "pip": phrases("pip install|python -m pip install|python3 -m pip install|pip uninstall"),
    "pip3": phrases("pip3 install|pip3 uninstall"),
    "pipenv": phrases("pipenv install|pipenv uninstall"),
    "poetry": phrases("poetry add|poetry install|poetry remove|poetry update"),
}
"""The commands with which package managers change the packages of a project."""

# Different spellings of the same command.
# Programs of npm packages that `pnpm`, `yarn` and `bun` run by their name.
RUN_BY_NAME = frozenset(
    """
    changeset drizzle-kit expo firebase hardhat knex lerna netlify nx prisma release-it
    semantic-release sequelize serverless sls supabase turbo typeorm vercel wrangler
    """.split()
)
NAME_RUNNERS = phrases("pnpm|yarn|bun|pnpm run|yarn run|bun run|npm run")
WRAPPERS = (phrases("mvn|mvnw"), phrases("gradle|gradlew"))
"""Build tools, each with the script of a project that starts it."""
SAME: tuple[Phrases, ...] = (
    phrases("pip|pip3|python -m pip|python3 -m pip"),
    phrases("npm install|npm i|npm add"),
    phrases("npm run|npm run-script"),
    phrases("npm ci|npm clean-install"),
    phrases("npm test|npm t"),
    phrases("npm uninstall|npm remove|npm rm"),
    phrases("pnpm install|pnpm i"),
    phrases("pytest|py.test|python -m pytest|python3 -m pytest"),
    phrases("docker-compose|docker compose"),
    phrases("sudo|doas|pkexec"),
    phrases("git push|git send-pack|git subtree push"),
    phrases("git commit|git commit-tree"),
    phrases("terraform|tofu"),
    *WRAPPERS,
    phrases("sed|gsed"),
    phrases("helm uninstall|helm delete|helm del|helm un"),
    phrases("docker volume rm|docker volume remove"),
    phrases("docker network rm|docker network remove"),
    phrases("docker image rm|docker image remove|docker rmi"),
    phrases("docker container rm|docker container remove|docker rm"),
    phrases("gh pr create|gh pr new"),
    phrases("gh issue create|gh issue new"),
    phrases("gh release create|gh release new"),
    phrases("gh repo create|gh repo new"),
    phrases("gh pr checkout|gh co"),
    phrases("glab mr create|glab mr new"),
    phrases("glab mr merge|glab mr accept"),
    phrases("glab mr note|glab mr comment"),
    phrases("glab issue create|glab issue new"),
    phrases("glab issue note|glab issue comment"),
    phrases("glab release create|glab release new"),
)
# The beginning of a command, one of its options, and that option's other spellings.
SAME_OPTIONS: tuple[tuple[Words, str, Words], ...] = tuple(
    (tuple(command.split()), option, tuple(spellings.split()))
    for command, option, spellings in (
        ("git push", "--force", "-f +* --force-with-lease --force-with-lease=* --mirror"),
        ("git push", "-f", "--force +*"),
        ("git commit", "--no-verify", "-n"),
        ("git commit", "-n", "--no-verify"),
        ("git push", "--delete", "-d :*"),
        ("git branch", "-D", "--delete"),
        ("git add", "-A", "--all --no-ignore-removal"),
        ("git add", "--all", "-A --no-ignore-removal"),
        ("git add", ".", "./ :/"),
        ("sed", "-i", "--in-place --in-place=*"),
        ("sed", "--in-place", "-i"),
        ("gsed", "-i", "--in-place --in-place=*"),
        ("gsed", "--in-place", "-i"),
        ("mix deps.update", "--all", "-a"),
        ("docker compose down", "-v", "--volumes"),
        ("docker-compose down", "-v", "--volumes"),
    )
)

OPTIONS = frozenset(
    """
    --no-verify --force-with-lease --no-gpg-sign --amend --hard --privileged
    --dangerously-skip-permissions --no-sandbox --legacy-peer-deps --break-system-packages
    --allow-empty --skip-hooks --no-preserve-root --insecure --no-check-certificate
    --allow-root --disable-web-security --no-audit --yolo
    """.split()
)
"""Options that are equally dangerous in any command, unlike `--force`."""

GIT_COMMIT = phrases("git commit|git commit-tree|git am|git cherry-pick|git revert")
GIT_PUSH = phrases("git push|git send-pack|git subtree push|git http-push|git-push")
FORCE_PUSH = phrases(
    "git push --force|git push -f|git push +*|git push --force-with-lease"
    "|git push --force-with-lease=*|git push --mirror"
)
AMEND = phrases("git commit --amend")
SKIP_HOOKS = phrases(
    "* --no-verify|git commit -n|git commit-tree|pre-commit uninstall|husky uninstall"
    "|lefthook uninstall|overcommit --uninstall"
)
STAGE = phrases("git add|git stage|git update-index")
DEPLOY = phrases(
    "npm run deploy|pnpm run deploy|pnpm deploy|yarn deploy|bun run deploy|make deploy|just deploy"
    "|task deploy|vercel deploy|vercel --prod|netlify deploy|fly deploy|flyctl deploy|firebase deploy"
    "|serverless deploy|sls deploy|cdk deploy|sam deploy|wrangler deploy|wrangler publish"
    "|kubectl apply|helm install|helm upgrade|terraform apply|tofu apply|terragrunt apply|pulumi up"
    "|gcloud app deploy|gcloud run deploy|eb deploy|heroku|git push heroku|mise run deploy|kamal deploy"
    "|argocd app sync|argocd app rollback|helm rollback|kubectl rollout restart|kubectl rollout undo"
    "|kubectl set image|helmfile apply|helmfile sync|skaffold run|skaffold deploy"
    "|cap production deploy|ansible-playbook|docker stack deploy|railway up|amplify publish"
)
TESTS = phrases(
    "pytest|npm test|npm t|npm run test|pnpm test|pnpm run test|yarn test|bun test|bun run test"
    "|cargo test|cargo nextest|go test|vitest|jest|make test|just test|dotnet test|mvn test"
    "|gradle test|gradlew test|tox|nox|phpunit|rspec|playwright test|cypress run|php artisan test"
)
UPGRADE = phrases(
    "npm update|npm upgrade|npm audit fix|pnpm update|pnpm up|pnpm upgrade|yarn upgrade|yarn up|bun update"
    "|pip install -U|pip install --upgrade|uv lock --upgrade|uv lock -U|poetry update|pdm update"
    "|cargo update|bundle update|composer update|go get -u|flutter pub upgrade|ncu|npx npm-check-updates"
)
MIGRATE = phrases(
    "alembic upgrade|alembic downgrade|manage.py migrate|python manage.py migrate|prisma migrate"
    "|prisma db push|rails db:migrate|rake db:migrate|php artisan migrate|knex migrate:latest"
    "|sequelize db:migrate|typeorm migration:run|drizzle-kit push|drizzle-kit migrate|flyway migrate"
    "|npm run migrate|npm run db:migrate|pnpm db:migrate|pnpm db:push|supabase db push|make migrate"
)
GLOBAL_INSTALL = phrases(
    "npm install -g|npm i -g|npm install --global|npm i --global|pnpm add -g|pnpm add --global"
    "|yarn global add|bun add -g|bun install -g|pip install --user|sudo pip install|sudo npm install"
)
APPROVE = phrases("gh pr review --approve|gh pr review -a|glab mr approve")
GIT_CONFIG = phrases("git config")
# What runs other programs in the environment of a project.
LAUNCHERS = phrases(
    "uv run|uvx|poetry run|pdm run|hatch run|pipenv run|pixi run|rye run|conda run|npx|npm|pnpm|yarn"
    "|bun|bunx|docker|docker-compose|podman|make|just|mise|moon|tox|nox|nix|bazel|breeze|ddev"
    "|bundle exec|dotenv|direnv exec|devbox run|flox activate"
)
REBASE = phrases("git rebase|git pull --rebase|git pull -r")
AS_ROOT = phrases("sudo|doas|su|pkexec")
OPEN_PULL_REQUEST = phrases("gh pr create|gh pr new")
OPEN_MERGE_REQUEST = phrases("glab mr create|glab mr new")
PULL_REQUEST = phrases("gh pr create|glab mr create|hub pull-request|gh pr new|glab mr new")
EDIT_PULL_REQUEST = phrases("gh pr edit")
READY_PULL_REQUEST = phrases("gh pr ready|glab mr update --ready")
ISSUE = phrases("gh issue create|glab issue create|gh issue new|glab issue new")
CLOSE_ISSUE = phrases("gh issue close|glab issue close")
CLOSE_PULL_REQUEST = phrases("gh pr close|glab mr close")
DELETE_BRANCH = phrases("git branch -d|git branch -D|git push --delete|git push -d|git push :*")
REWRITE_PUBLIC_HISTORY = (*FORCE_PUSH, *phrases("git filter-branch|git filter-repo"))
REWRITE_HISTORY = (
    *REWRITE_PUBLIC_HISTORY,
    *AMEND,
    *phrases("git rebase -i|git rebase --interactive|git rebase --root|git rebase --onto"),
)
COMMENT = phrases(
    "gh issue comment|gh pr comment|gh pr review|glab issue note|glab mr note|glab issue comment"
    "|glab mr comment"
)
GITHUB_RELEASE = phrases("gh release create|glab release create|gh release new|glab release new")
CLONE = phrases("git clone|gh repo clone")
BRANCH = phrases(
    "git checkout -b|git checkout -B|git switch -c|git switch -C|git checkout --orphan"
    "|git switch --orphan|git worktree add -b|git worktree add -B|git stash branch"
)
WORKTREE = phrases("git worktree add")
DEV_SERVER = phrases(
    "npm run dev|npm start|npm run start|pnpm dev|pnpm run dev|pnpm start|yarn dev|yarn start|bun dev"
    "|bun run dev|next dev|nuxt dev|astro dev|ng serve|php artisan serve|flask run|rails server"
    "|vite|pnpm vite dev|yarn vite dev|bun vite dev|vinxi dev|remix dev|gatsby develop|vue-cli-service serve|webpack serve"
    "|webpack-dev-server|react-scripts start|svelte-kit dev|deno task dev|php -S"
    # Monorepos, whose tools run the task in their packages.
    "|turbo run dev|turbo dev|turbo watch dev|turbo run start|turbo start|nx serve|nx dev|nx run *:serve*|nx run *:dev"
    "|nx run-many -t serve|nx run-many -t dev|nx run-many --target=serve|nx run-many --target=dev"
    "|nx run-many --targets=serve|nx run-many --targets=dev|lerna run dev|lerna run start|moon run *:dev"
    "|yarn workspace * dev|yarn workspace * start|yarn workspaces foreach * dev|yarn workspaces foreach dev"
    "|yarn workspaces run dev|pnpm recursive run dev|pnpm recursive dev|pnpm multi run dev"
)
NO_DEV_SERVER = phrases(
    "vite * build|vite * optimize|vite * preview|vite --version|vite --help|vite -h"
    "|turbo * --dry|turbo * --dry-run|turbo * --dry=*|turbo * --dry-run=*|turbo * --help|nx * --help|nx * --graph"
)
RUN_APP = phrases(
    "flutter run|cargo run|dotnet run|make run|just run|expo start|npx expo start|npm run start"
    "|streamlit run|uvicorn|gunicorn|manage.py runserver|python manage.py runserver|npm run ios"
    "|npm run android|docker compose up"
)
STASH = phrases("git stash")
RESET = phrases("git reset")
MERGE = phrases("gh pr merge|glab mr merge|glab mr accept")
MERGE_BRANCH = phrases("git merge")
NO_MERGE = phrases("git merge --abort|git merge --quit")
TAG = phrases(
    "git tag -a|git tag -s|git tag -m|git tag -u|git tag -f|git tag -F|git tag v*|git tag [0-9]*"
    "|git tag release*"
)
PUSH_TAGS = phrases(
    "git push --tags|git push --follow-tags|git push * refs/tags/*|git push * tag|git push * v[0-9]*.[0-9]*.[0-9]*"
)
INSTALL = phrases(
    "pip install|pip3 install|python -m pip install|python3 -m pip install|uv pip install|uv add"
    "|uv tool install|pipx install|poetry add|pdm add|pipenv install|conda install|mamba install"
    "|npm install|npm i|npm add|pnpm add|pnpm install|pnpm i|yarn add|yarn global add|bun add"
    "|bun install|cargo add|cargo install|go get|go install|gem install|bundle add"
    "|composer require|apt install|apt-get install|brew install|dnf install|yum install|apk add"
    "|pacman -S|snap install|npx --yes|dotnet add"
    "|mix igniter.install|nx add|pnpm nx add|npx nx add|ng add|expo install|npx expo install"
    "|flutter pub add|dart pub add|swift package add-dependency|go mod edit -require"
    "|npm pkg set dependencies.*|npm pkg set devDependencies.*|npm pkg set peerDependencies.*"
    "|pnpm pkg set dependencies.*|pnpm pkg set devDependencies.*|pnpm pkg set peerDependencies.*"
)
PUBLISH = phrases(
    "npm publish|pnpm publish|yarn publish|yarn npm publish|bun publish|twine upload"
    "|python -m twine upload|uv publish|poetry publish|pdm publish|flit publish|hatch publish"
    "|cargo publish|gem push|gh release create|gh release new|changeset publish|lerna publish"
    "|semantic-release|release-it|npm stage publish|mvn deploy|mvn release:perform|gradle publish"
    "|dotnet nuget push|nuget push|mix hex.publish|dart pub publish|flutter pub publish|deno publish"
    "|jsr publish|vsce publish|ovsx publish|maturin publish|maturin upload|rye publish|pod trunk push"
)
DESTRUCTIVE = phrases(
    "rm|rmdir|unlink|shred|truncate|dd|mkfs|wipefs|git reset --hard|git clean|git push --force"
    "|git push -f|git push +*|git push --mirror|git branch -D|git stash drop|git stash clear"
    "|git checkout --|git restore|git filter-branch|git reflog expire|dropdb|docker system prune"
    "|docker volume rm|docker volume prune|kubectl delete|terraform destroy|find * -delete"
)
DESTRUCTIVE_GIT = tuple(words for words in DESTRUCTIVE if words[0] == "git")
EMAIL_TOOLS = ("*send*mail*", "*mail*send*", "*reply*mail*", "*forward*mail*")
TWEET_TOOLS = (
    "*tweet*",
    "*toot*",
    "*publish*post*",
    "*create*post*",
    "*send*post*",
    "*post*create*",
)
CREATES: frozenset[Action] = frozenset({"create"})
DELETES: frozenset[Action] = frozenset({"delete"})
MOVES: frozenset[Action] = frozenset({"move"})

# hilum's tools, keyed by the names that rules for other agents use.
TOOLS: dict[str, Words] = {
    **{
        name: (name,)
        for name in (
            "run_terminal_cmd web_fetch web_search task write_file multi_edit edit_file delete_file"
            " read_file"
        ).split()
    },
    "bash": ("run_terminal_cmd",),
    "shell": ("run_terminal_cmd",),
    "webfetch": ("web_fetch",),
    "websearch": ("web_search",),
    "write": ("write_file",),
    "edit": ("edit_file", "multi_edit"),
    "multiedit": ("multi_edit",),
    "read": ("read_file",),
}

_TOP = frozenset(
    """
    com org net io dev app ai co uk de fr cn jp eu us ru info biz cloud tech xyz me tv sh gov
    edu mil int local internal example test invalid lan corp
    """.split()
)
_AMBIGUOUS = frozenset("io ai co app dev tech me sh tv info local internal test cloud".split())
_HOST = (
    r"(?:\*\.)?(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}|\d{1,3}(?:\.\d{1,3}){3}|localhost"
)


def is_host(text: str) -> bool:
    """Return whether a text is a host name, or a pattern for all subdomains of a host."""
    text = text.lower()
    if not re.fullmatch(_HOST, text):
        return False
    return text == "localhost" or text.replace(".", "").isdigit() or text.rpartition(".")[2] in _TOP


def read_host(text: str) -> str:
    """Return the host in a name or a URL.

    Returns:
        The host, or an empty string if the text is not a complete host name or may be code.
    """
    # Names such as ``socket.io`` more often refer to libraries or code than to hosts.
    if text.count(".") == 1 and "://" not in text and text.rpartition(".")[2].lower() in _AMBIGUOUS:
        return ""
    found = re.fullmatch(
        r"(?:(?:https?|wss?|ftp|ssh|git)://)?([^/\s:@]+)(?::\d+)?/?", text.strip().lower()
    )
    return found[1] if found and is_host(found[1]) else ""
