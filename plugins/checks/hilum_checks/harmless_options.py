"""Find commands that only display how a program is used, or what it would do."""

from __future__ import annotations

import re

from hilum_guard import UNKNOWN

from hilum_checks.model import Words
from hilum_checks.program_words import find_gradle_trial

_LONG_HELP = frozenset(("--help",))
_ANY_HELP = frozenset(("--help", "-h"))
_GO_HELP = frozenset(("--help", "-help", "-h"))
# Programs that read such an option wherever it is, and then do nothing else.
_HELP = {
    **dict.fromkeys("docker docker-compose flask gh glab nx podman terragrunt".split(), _LONG_HELP),
    **dict.fromkeys(
        """
        cargo composer dvc flit gradle gradlew hatch helm kubectl make gmake mkdocs npm pip pip3 poetry
        twine uv
        """.split(),
        _ANY_HELP,
    ),
    **dict.fromkeys("go terraform tofu".split(), _GO_HELP),
}
# Programs that also have a sub-command `help`.
_HAS_HELP = frozenset(
    "cargo docker gh git go helm kubectl npm pip pip3 podman poetry rails uv".split()
)
# Programs that print their version if that is all they are told.
_HAS_VERSION = frozenset((*_HELP, *"bun git node pnpm python python3 yarn".split()))
_VERSION = frozenset(("--version", "-V"))
# Programs for which `-V` means something else.
_HAS_LONG_VERSION = frozenset("cmake ctest gradle gradlew mvn mvnw php rails ruby".split())
_LISTS_TASKS = frozenset(("rails", "rake"))
_LISTING = frozenset(("-T", "-AT", "--tasks"))
_HELPFUL = frozenset(
    (("cmake", "--install"), ("cmake", "--build"), ("php", "artisan"), ("adb", "uninstall"))
)
# Sub-commands that pass the options after further words to another program.
_PASSES_ON = frozenset("bench create debug dlx exec r run shell start t test tool x".split())
# Programs that start another program if they do not know the sub-command.
_OWN_COMMANDS = {
    "cargo": frozenset(
        """
        add b bench build c check clean clippy d doc fetch fix fmt generate-lockfile init install
        login logout metadata new owner package publish r remove rm run search t test tree uninstall
        update vendor yank
        """.split()
    ),
    "gh": frozenset(
        """
        api auth browse cache codespace config gist issue label org pr project release repo ruleset
        search secret ssh-key status variable workflow
        """.split()
    ),
    "helm": frozenset(
        """
        create delete dependency get history install lint list package pull push repo rollback
        show status template test uninstall upgrade
        """.split()
    ),
    "kubectl": frozenset(
        """
        annotate apply attach autoscale cordon cp create debug delete describe drain edit exec
        expose get label logs patch port-forward replace rollout run scale set taint top uncordon
        """.split()
    ),
}
# Sub-commands for which the option `--dry-run` changes nothing.
_TRIALS = {
    "composer": frozenset("install remove require update".split()),
    "argocd": frozenset(("app",)),
    "cargo": frozenset("add publish remove rm update".split()),
    "git": frozenset("add clean commit fetch mv push rm".split()),
    "helm": frozenset("install rollback uninstall upgrade".split()),
    "kubectl": frozenset(
        """
        annotate apply autoscale cordon create delete drain expose label patch replace scale set
        taint uncordon
        """.split()
    ),
    "npm": frozenset(
        "add dedupe i install pack publish remove rm uninstall unpublish up update".split()
    ),
    "pip": frozenset(("install",)),
    "pip3": frozenset(("install",)),
    "pnpm": frozenset(("publish",)),
    "poetry": frozenset("add install publish remove update".split()),
    "uv": frozenset("lock publish sync".split()),
}
# `git commit -n` skips the hooks instead.
_SHORT_TRIALS = frozenset("add clean mv push rm".split())
# Programs without sub-commands, and the options with which they change nothing.
_WHOLE_TRIALS = {
    "ansible-playbook": frozenset(
        "--check -C --syntax-check --list-tasks --list-hosts --list-tags".split()
    ),
    "semantic-release": frozenset(("--dry-run", "-d")),
    "release-it": frozenset(("--dry-run", "-d")),
}
# Sub-commands that only show something, below one that changes something.
_SHOWS = frozenset((("kubectl", "apply", "view-last-applied"),))
_DRY = re.compile(r"--dry-run(?:=(?:client|server))?")
# Options without a value, after which `--dry-run` is an option and not their value.
_FLAGS = frozenset(
    "-u --set-upstream -f --force --tags --all -q -v --porcelain -A -a -d -x -r --verbose --quiet"
    " --allow-dirty --locked --delete --workspace --install --force-with-lease --force-if-includes"
    " --follow-tags --atomic --no-verify --no-interaction --dev".split()
)


def asks_for_help(program: str, words: Words) -> bool:
    """Return whether a command only displays how a program is used, or its version.

    Args:
        program: The name of the program.
        words: The program and its arguments, without options of Git before the sub-command.
    """
    if len(words) < 2 or any(UNKNOWN in word for word in words):
        return False
    if program in ("bun", "pnpm", "yarn") and words[1] == "nx":
        program = "nx"
        words = words[1:]
    if words[1] == "help" and program in _HAS_HELP:
        return True
    if (program, *words[1:3]) in _SHOWS:
        return True
    if words[1:] == ("--version",) and program in _HAS_LONG_VERSION:
        return True
    if program in _LISTS_TASKS and not _LISTING.isdisjoint(words[1:]):
        return True
    # `cmake --install --help`, and `php artisan migrate --help`.
    if words[-1] == "--help" and (program, words[1]) in _HELPFUL:
        return len(words) == 3 or program == "php"
    if len(words) == 2:
        return program in _HAS_VERSION and words[1] in _VERSION
    *front, last = words[1:]
    if program == "git":
        # `git push -h` displays the options, but only if nothing else follows.
        return last == "--help" or (last == "-h" and len(front) == 1)
    if last not in _HELP.get(program, ()) or any(word.startswith("-") for word in front):
        return False
    if program in _OWN_COMMANDS and front[0] not in _OWN_COMMANDS[program]:
        return False
    # The option after `cargo run x` is one of the program that Cargo builds.
    return _PASSES_ON.isdisjoint(front[:-1]) or program in ("npm", "make", "gmake")


def find_trial(program: str, words: Words) -> str:
    """Return the option by which a command certainly only shows what it would do.

    Args:
        program: The name of the program.
        words: The program and its arguments, without options of Git before the sub-command.

    Returns:
        The option; empty if the command has none, or if another one may take it back.
    """
    if program in ("gradle", "gradlew"):
        return "" if any(UNKNOWN in word for word in words) else find_gradle_trial(words)
    whole = _WHOLE_TRIALS.get(program)
    if whole:
        return next((word for word in words[1:] if word in whole), "")
    options = words[2:]
    if not options or words[1] not in _TRIALS.get(program, ()):
        return ""
    if "--" in options or any(UNKNOWN in word for word in options):
        return ""
    trials = [number for number, word in enumerate(options) if _is_trial(program, words[1], word)]
    # `--dry-run=false`, and `--no-dry`, which Git takes for `--no-dry-run`.
    others = [word for word in options if word.startswith(("--no", "--dry"))]
    if len(trials) != 1 or set(others) - {options[trials[0]], "--no-verify"}:
        return ""
    before = options[trials[0] - 1] if trials[0] else ""
    takes_value = before.startswith("-") and "=" not in before and before not in _FLAGS
    return "" if takes_value else options[trials[0]]


def _is_trial(program: str, verb: str, word: str) -> bool:
    if program == "git" and verb == "clean" and re.fullmatch(r"-[dfqxX]*n[dfqxX]*", word):
        return True
    if program == "git" and word == "-n":
        return verb in _SHORT_TRIALS
    if program in ("kubectl", "helm"):
        return _DRY.fullmatch(word) is not None
    return word == "--dry-run"
