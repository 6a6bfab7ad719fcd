"""List which installed programs, sub-commands and targets show, check, test or format.

``command_kinds`` decides with these tables. A new program or option needs only an entry here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from hilum_checks.model import Words


@attrs.frozen
class CommandTable:
    """Commands that change no file of the project, by their programs.

    Attributes:
        commands: By program, its sub-commands, separated by ``|``; ``*`` if all of them count.
        changing: Words with which any of the programs changes files, or does something else.
        changing_too: The same for single programs, in addition.
        formats: By program, words that look like those, but name a format.
        skips_options: Whether options may precede and separate the words of a sub-command.
    """

    commands: Mapping[str, str]
    changing: re.Pattern[str]
    changing_too: Mapping[str, str] = {}
    formats: Mapping[str, frozenset[str]] = {}
    skips_options: bool = False

    def contains(self, program: str, arguments: Words) -> bool:
        """Return whether a command is certainly one of the table.

        Args:
            program: The name of the program.
            arguments: The arguments of the program.
        """
        commands = self.commands.get(program)
        if commands is None or any(self._changes(program, word) for word in arguments):
            return False
        if commands == "*":
            return True
        words = arguments
        if self.skips_options:
            words = tuple(word for word in arguments if not word.startswith("-"))
        verbs = [tuple(each.split()) for each in commands.split("|")]
        return any(words[: len(verb)] == verb for verb in verbs)

    def _changes(self, program: str, word: str) -> bool:
        if re.fullmatch(self.changing_too.get(program, "(?!)"), word):
            return True
        if word in self.formats.get(program, ()):
            return False
        return self.changing.fullmatch(word) is not None


SHOWING = CommandTable(
    {
        **dict.fromkeys(
            ("pip", "pip3"),
            "list|show|freeze|check|inspect|index versions|config list|cache dir",
        ),
        "uv": "tree|pip list|pip show|pip freeze|pip tree|pip check|python list|python find|python dir|cache dir|version",
        "conda": "list|info|env list|config --show",
        "mamba": "list|info|env list",
        "poetry": "show|check|env info|env list|about",
        "pdm": "list|info|show",
        "hatch": "env show|status",
        "pyenv": "versions|version|which|root",
        "npm": "ls|list|outdated|view|info|show|why|explain|root|prefix|ping|whoami|config list|config get",
        "pnpm": "ls|list|outdated|view|info|why|root|licenses list",
        "yarn": "list|info|why|outdated|config list",
        "bun": "pm ls|outdated",
        "nvm": "ls|list|current|which|version",
        "go": "list|version|env|doc|help",
        "cargo": "search|info|version|help",
        "rustup": "show|which|toolchain list|target list|component list",
        "gem": "list|info|env|which",
        "composer": "show|about|depends|prohibits|outdated|licenses",
        "dotnet": "list|nuget list|sdk check",
        "flutter": "devices|doctor",
        "dart": "info",
        "docker": "ps|images|logs|inspect|version|info|top|port|stats|history|container ls|container inspect"
        "|image ls|image inspect|network ls|volume ls|compose ps|compose logs|compose images|compose config",
        "podman": "ps|images|logs|inspect|version|info",
        "docker-compose": "ps|logs|images|config|version",
        "kubectl": "get|describe|logs|version|explain|top|api-resources|cluster-info|config view|auth can-i",
        "helm": "list|status|get|history|version|show|search",
        "terraform": "version|show|output|providers|state list|state show|workspace list|workspace show",
        "tofu": "version|show|output|providers|state list|state show",
        "aws": "s3 ls|sts get-caller-identity|configure list",
        "systemctl": "status|is-active|is-enabled|list-units|list-unit-files|show|cat",
        "brew": "list|info|search|outdated|deps|config|doctor",
        "apt": "list|show|search|policy",
        "apt-cache": "search|show|policy",
        "dpkg": "-l|-L|-s|-S",
        "xcrun": "simctl list",
        "xcodebuild": "-version|-list|-showsdks|-showBuildSettings",
        "adb": "devices|version",
        "mvn": "help:effective-pom|help:effective-settings",
        **dict.fromkeys(
            """
            top htop free lsof netstat ss nvidia-smi ping dig nslookup host pgrep pstree vmstat iostat lscpu
            lsblk lsb_release tput printenv tokei cloc scc hadolint journalctl traceroute whois
            """.split(),
            "*",
        ),
    },
    re.compile(
        r"-o|-w|--out.*|--write.*|--fix.*|--in-place.*|--vacuum.*|--rotate|--set.*|--update.*|-mod=mod"
        r"|-modfile.*|--exec.*|--refresh.*"
    ),
    formats=dict.fromkeys(("kubectl", "helm"), frozenset(("-o", "--output"))),
)
"""Commands that only show something: ``pip list``, ``docker ps``."""
CHECKING = CommandTable(
    {
        "biome": "check|ci|lint",
        "buf": "breaking|build|lint",
        "bun": "audit",
        "cargo": "audit|deny check|hack check|hack clippy|hack test|machete|nextest run|outdated"
        "|semver-checks|tree|udeps",
        "changeset": "status",
        "composer": "audit|validate",
        "conftest": "test|verify",
        "cypress": "run|verify",
        "dart": "analyze",
        "deno": "check|lint",
        "flutter": "analyze",
        "gitleaks": "detect|dir|git|protect",
        "golangci-lint": "run",
        "helm": "lint|template",
        "kustomize": "build",
        "lhci": "assert|autorun|healthcheck",
        "mix": "credo|dialyzer",
        "npm": "audit",
        "opa": "check|test",
        "phpstan": "analyse|analyze",
        "playwright": "test",
        "pnpm": "audit",
        "prisma": "migrate status|validate",
        "promtool": "check|test",
        "protolint": "lint",
        "pyrefly": "check",
        "redocly": "lint",
        "regal": "lint",
        "safety": "check|scan",
        "spectral": "lint",
        "sqlc": "compile|diff|vet",
        "sqlfluff": "lint",
        "storybook": "test",
        "swiftlint": "lint",
        "taplo": "check|lint",
        "terraform": "validate",
        "tofu": "validate",
        "trivy": "config|filesystem|fs|image|repo|rootfs",
        "ty": "check",
        "yarn": "audit|npm audit",
        **dict.fromkeys(
            """
            actionlint bandit brakeman checkov codespell commitlint cppcheck depcheck deptry detekt
            gosec govulncheck interrogate jscpd knip kubeconform kubeval lighthouse lint-imports
            luacheck lychee markdownlint markdownlint-cli2 oxlint phpcs pip-audit proselint psalm
            pydocstyle rubocop secretlint selene semgrep size-limit staticcheck stylelint svelte-check
            test-storybook tflint tfsec typos vue-tsc vulture zizmor
            """.split(),
            "*",
        ),
    },
    re.compile(
        r"fix|login|publish|init|install.*|-[oO].*|-w|-u|--?out.*|--?(?:auto-?)?(?:fix|correct).*|--write.*"
        r"|--update.*|--in-place|--save.*|--init.*|--apply.*|--generate.*|--add-.*|--create.*|--set-.*"
        r"|--unsafe.*|--alter|--interactive|--build|--declaration.*|--emit.*"
    ),
    {
        "actionlint": "-shellcheck.*|-pyflakes.*",
        "codespell": "-i",
        "gitleaks": "-r|--report-path.*",
        "markdownlint": "-f",
        "rubocop": "-[aAxD]|--disable-.*|--regenerate.*|--start-server",
        "semgrep": "-a",
        "svelte-check": "--watch",
        "vue-tsc": "-b|-d",
    },
    {
        "helm": frozenset(("-o",)),
        "kubeconform": frozenset(("-output",)),
        "knip": frozenset(("-o",)),
        "tflint": frozenset(("-o",)),
    },
    skips_options=True,
)
"""Commands that only check the project, and write reports and caches: ``buf lint``."""
VERSION_OPTIONS: Mapping[str, str] = {
    "python": "-V -VV",
    "python3": "-V -VV",
    "node": "-v",
    "npm": "-v",
    "pnpm": "-v",
    "yarn": "-v",
    "java": "-version",
    "javac": "-version",
    "mvn": "-v",
    "gradle": "-v",
    "ruby": "-v",
    "perl": "-v",
    "php": "-v -i -m",
    "make": "-v",
    "gmake": "-v",
    "gcc": "-v",
    "clang": "-v",
    "rustc": "-V -vV",
    "cargo": "-V",
    "deno": "-V",
    "dotnet": "--info",
    "uv": "-V",
    "kotlinc": "-version",
    "xcodebuild": "-version",
}
"""By program, the words of which a single one makes it only show its version."""
LISTING_OPTIONS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("gofmt", "gofumpt", "goimports"), frozenset(("-l", "-d"))),
    **dict.fromkeys(("terraform", "tofu"), frozenset(("-check",))),
}
"""Options with which programs that format only list or check files."""
SHOWS_NO_CONTENTS = frozenset(
    """
    wc md5sum sha1sum sha256sum sha512sum cksum b2sum cp mv install rsync stat file touch test cmp
    gzip tar zip base64
    """.split()
)
"""Programs that read files, but show only how large or equal they are, or nothing."""
SEARCHES = frozenset("grep egrep fgrep rg".split())
"""Programs that search files for text."""
QUIET_OPTIONS = frozenset(("-q", "--quiet", "-c", "--count", "-l", "--files-with-matches", "-L"))
"""Options with which these show none of the text that they find."""
PACKAGE_MANAGERS = frozenset("npm pnpm yarn bun".split())
"""Package managers that run programs of the project: ``pnpm knip``, ``pnpm exec knip``."""
EXECUTING_COMMANDS = frozenset("exec run x".split())
"""Sub-commands with which these run such a program."""
IDLE_OPTIONS = (
    r"--help(?:=.*)?|-h|--version|-V|--dry-run(?:=.*)?|--collect-only|--co|--exit-zero|--exit-code=0"
    r"|--if-present|--passWithNoTests|--pass-with-no-tests|--list-tests(?:=.*)?|--warn-only"
    r"|--soft-fail|--no-fail"
)
"""Options with which a program does not do its work, or does not report its failure."""
MORE_IDLE_OPTIONS = {
    "bandit": "",
    "bazel": "--nobuild",
    "biome": "--no-errors-on-unmatched",
    "black": "--diff|-c|--code",
    "cargo": "--no-run|--list",
    "dotnet": "-t",
    "eslint": "--print-config|--env-info|--init|--no-error-on-unmatched-pattern|--pass-on-no-patterns",
    "flake8": "--bug-report",
    "go": r"-n|-c|-list(?:=.*)?|-run=\^\$|\^\$",
    "gofmt": "-l|-d",
    "golangci-lint": r"--issues-exit-code(?:=0)?",
    "gradle": "-m|-x|--exclude-task(?:=.*)?",
    "invoke": "-R|--dry|-l|--list",
    "isort": "--diff|-d|--show-files|--stdout",
    "jest": "--listTests|--showConfig|--clearCache",
    "just": "-n|-l|--list|-s|--show|--summary|--evaluate|--dump|--choose|--variables",
    "mocha": "--list-files|--list-reporters",
    "ninja": "-n|-t",
    "nox": "-l|--list|--list-sessions|--install-only",
    "nx": "--graph(?:=.*)?|--base=HEAD",
    "pylint": "--list-msgs.*|--generate-.*",
    "pyright": "--createstub",
    "pytest": (
        "--collectonly|--fixtures|--fixtures-per-test|--markers|--setup-(?:plan|only)|--cache-show"
        "|--suppress-no-test-exit-code|--(?:lfnf|last-failed-no-failures)(?:=none)?"
    ),
    "rake": "-n|-T|--tasks|-P|-D",
    "rsync": "-n",
    "ruff": "-e|--show-files|--show-settings|--add-noqa|-w|--watch",
    "scons": "-n",
    "stylelint": "--allow-empty-input|--print-config",
    "task": "-n|--dry|-l|--list|--summary|--status",
    "tflint": "--force",
    "tox": "-n|--notest|-l|--listenvs|--showconfig|--devenv",
    "tsc": "--showConfig|--listFilesOnly|--init|--all",
    "turbo": r"--dry(?:=.*)?",
    "vitest": "list|--clearCache",
}
"""The same for single programs, in addition; elsewhere, ``-n`` is often a number."""
OWN_IDLE_OPTIONS = {
    **dict.fromkeys("sh bash dash zsh ksh".split(), "-n|--help|--version"),
    # `-V` lists what happens, and does it.
    "ctest": r"--help.*|-h|--version|-N|--show-only.*|--print-labels",
    "git": "--help|-h|--version|--dry-run|-n",
    "mvn": (
        "-h|--help|-v|--version|-DskipTests.*|-DskipITs.*|-Dmaven.test.(?:skip|failure.ignore).*|-fn"
        "|--fail-never"
    ),
}
"""The same for programs some of whose usual options look like ``IDLE_OPTIONS``, instead of these."""
SAME_PROGRAM = {"inv": "invoke", "gradlew": "gradle", "mvnw": "mvn", "eslint_d": "eslint"}
"""Other names of programs."""
MAKE_ARGUMENTS = re.compile(
    r"[\w./%][\w./%-]*|-[ksBwj]+\d*|-j|\d+|--(?:silent|quiet|keep-going|jobs(?:=\d+)?)"
)
"""Words of ``make`` with which it runs the recipes of the project, and reports their failure."""
FORMATTERS = re.compile(
    r"gofmt|gofumpt|goimports|black|isort|autopep8|yapf|prettier|rustfmt|clang-format|shfmt|stylua"
    r"|dprint|ktlint|google-java-format|(?:[\w.][\w.:-]*[:_-])?(?:fmt|format|lint-fix|spotless)(?:[:_-][\w.:-]*[\w.])?"
)
"""Programs, sub-commands and targets that format code."""
FIXING_OPTIONS = frozenset(("--fix", "--write", "--autocorrect", "--autocorrect-all"))
"""Options with which a program that checks repairs code in place."""
CHANGING_OPTIONS = re.compile(
    r"--fix.*|--unsafe-fixes|--write|--apply.*|--autocorrect.*|--in-place|--add-noqa|--update.*"
    r"|--snapshot-update|--inline-snapshot=.*|--force-regen"
)
"""Options with which a program that tests or checks changes files of the project."""
CHECK_WORDS = frozenset(
    """
    test tests check checks ci lint linter typecheck types verify validate unit integration e2e
    pytest unittest mypy pyright jest vitest eslint flake8 pylint tsc clippy vet rspec phpunit mocha
    ava ctest shellcheck yamllint
    """.split()
)
"""Words in names of programs and targets that test or check, and write only reports and caches."""
NEUTRAL_WORDS = frozenset(
    """
    all fast quick slow full short long run once only type style code cov coverage unit units smoke
    functional acceptance regression system end to api app backend frontend server client web ui cli
    core lib libs py python python3 js ts jsx tsx node go rust java css html md yaml sh shell docs doc
    local remote dev debug release parallel serial watch strict static security spell spelling links
    golangci ansible yaml shellcheck yamllint markdown commit pre post nightly
    """.split()
)
"""Words beside these in the name of such a target; not ``update`` or ``clean``."""
RUNS_ALL_TARGETS = frozenset(
    "make gmake just rake invoke inv gradle mvn nox tox ninja nx turbo".split()
)
"""Programs that run all the tasks that their operands name."""
RUNS_ONE_TASK = frozenset(
    """
    npm pnpm yarn bun task hatch pdm poetry rye uv pixi cargo go dotnet deno ruff biome swift mix zig
    composer rails bundle lein sbt bazel terraform tofu helm flutter dart stack cabal dune gleam
    rebar3 meson moon lerna pants coverage docker-compose golangci-lint
    """.split()
)
"""Programs that run the one task that their first operand names."""
RUNNING_COMMANDS = frozenset("run run-script exec x task test:run".split())
"""Sub-commands that precede the name of the task."""
VALUED_OPTIONS = frozenset(
    """
    -C -f -j -l -o -p -w -F --directory --file --jobs --prefix --dir --cwd --filter --workspace
    --package --manifest-path --with --extra --group --python -d --working-directory
    """.split()
)
"""Options of these programs whose value is the next word, so that it is no task."""
CHECKING_OPTIONS = frozenset(("--check", "--version", "--help"))
"""Options with which any program only checks or shows something."""
