"""Find the hosts that a program contacts, and whether it uses the network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import attrs

from hilum_guard import options

_NETWORK = frozenset(
    """aria2c axel curl curlie dig drill finger ftp gcloud gsutil az aws fly flyctl http https
    httpie host lftp lynx mosh mutt nc ncat netcat nmap nslookup ping ping6 rclone rsh s3cmd scp
    sendmail sftp socat ssh ssh-copy-id telnet tftp traceroute w3m wget whois xh yt-dlp youtube-dl
    heroku vercel netlify kubectl helm gh glab hub doctl""".split()
)
_NETWORK_VERBS: dict[str, frozenset[str]] = {
    "git": frozenset(
        (
            *"push pull fetch clone ls-remote remote-http archive send-email".split(),
            "submodule update",
            "submodule add",
            "remote update",
            "remote show",
            "remote prune",
            "lfs pull",
            "lfs fetch",
            "lfs push",
            "lfs clone",
            "lfs locks",
            "lfs lock",
            "lfs unlock",
        )
    ),
    **dict.fromkeys("pip pip3".split(), frozenset("install download index search wheel".split())),
    "uv": frozenset(
        (
            "sync",
            "add",
            "lock",
            "publish",
            "pip install",
            "pip sync",
            "pip compile",
            "tool install",
            "tool run",
            "tool upgrade",
            "python install",
            "python upgrade",
            "self update",
            "build",
        )
    ),
    "poetry": frozenset("install add update publish lock".split()),
    **dict.fromkeys(
        "npm pnpm yarn bun".split(),
        frozenset("install i ci add update publish audit view info exec dlx create".split()),
    ),
    **dict.fromkeys(
        "docker podman".split(),
        frozenset(
            (
                *"pull push login build search run".split(),
                "compose up",
                "compose build",
                "compose run",
                "compose push",
                "compose pull",
                "image pull",
                "image push",
                "image build",
                "buildx build",
            )
        ),
    ),
    "cargo": frozenset("install fetch publish search update add login".split()),
    "go": frozenset("get install mod".split()),
    **dict.fromkeys(
        "apt apt-get dnf yum brew apk pacman zypper port snap flatpak".split(),
        frozenset("install update upgrade add search fetch download -S -Sy -Syu".split()),
    ),
    "gem": frozenset("install update push fetch".split()),
    "conda": frozenset("install create update search".split()),
    "svn": frozenset("checkout co update up commit ci export ls".split()),
    "hg": frozenset("clone pull push incoming outgoing".split()),
}
_URL = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?:[^\s/?#@\"']*@)?(\[[0-9a-f:.]+\]|[^\s/:?#\"'@\\]+)", re.I
)
REMOTE = re.compile(r"(?:[\w.+-]+@)?([\w-]+(?:\.[\w-]+)+|\[[0-9a-fA-F:.]+\]):(?!//).*")
_HOST = re.compile(r"(?:[\w.+-]+@)?([\w-]+(?:\.[\w-]+)+|[0-9a-fA-F]*:[0-9a-fA-F:.]+)\.?")
# Programs whose operands may be host names without a URL.
_HOST_OPERAND = frozenset(
    """curl wget http https httpie xh ssh scp sftp ftp lftp telnet nc ncat netcat ping ping6 dig
    host nslookup drill traceroute mosh nmap whois lynx w3m aria2c axel tftp finger
    ssh-copy-id""".split()
)


@attrs.frozen
class Contact:
    """The network use of a program.

    Attributes:
        hosts: The hosts named in its arguments, in lower case.
        network: Whether it certainly uses the network.
    """

    hosts: tuple[str, ...] = ()
    network: bool = False


def hosts_of(text: str) -> list[str]:
    """Return the hosts of all URLs in a text, in lower case."""
    return [host.strip("[]").lower().rstrip(".") for host in _URL.findall(text)]


def read_contact(name: str, words: Sequence[str]) -> Contact:
    """Return the network use of a program, as far as its arguments show it.

    Args:
        name: The program, in lower case.
        words: The words after it.
    """
    uses = name in _NETWORK or any(
        _is_network_verb(name, verb) for verb in _find_verbs(name, words)
    )
    hosts: list[str] = []
    for word in words:
        hosts += hosts_of(word)
        if uses:
            hosts += _find_named_host(name, word)
    return Contact(tuple(hosts), uses)


def _find_named_host(name: str, word: str) -> list[str]:
    """Return the host that a word of a network program names without a URL."""
    remote = REMOTE.fullmatch(word)
    if remote:
        return [remote[1].strip("[]").lower()]
    if name not in _HOST_OPERAND or word.startswith(("-", "/", ".")):
        return []
    plain = _HOST.fullmatch(re.sub(r"^([^:]*):\d+$", r"\1", re.split(r"[/?#]", word)[0]))
    return [plain[1].lower()] if plain else []


def _find_verbs(name: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the words that may be a program's sub-command.

    It is the first operand, or the second one if an unknown option before it may take a value.
    """
    if name in _PACKAGERS_BY_OPTION:
        yield from words
        return
    syntax = _GLOBAL_OPTIONS.get(name, _NO_GLOBAL_OPTIONS)
    parsed = options.parse(words, syntax)
    operands = [word for word in parsed.operands if not word.startswith("+")]
    if not operands:
        return
    verb = operands[0]
    at = words.index(verb)
    before = options.parse(words[:at], syntax)
    yield " ".join(operands[:2])
    yield verb
    if before.unknown and "=" not in words[at - 1]:
        yield from operands[1:2]


def _is_network_verb(name: str, verb: str) -> bool:
    return verb in _NETWORK_VERBS.get(name, frozenset())


# The sub-commands of pacman are options, such as `-Syu`.
_PACKAGERS_BY_OPTION = frozenset(("pacman",))
_GLOBAL = {
    "git": (
        "Cc",
        "--git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source",
        "p P",
        "--paginate --no-pager --bare --no-replace-objects --literal-pathspecs --no-optional-locks",
    ),
    "uv": (
        "",
        "--directory --project --config-file --cache-dir --color --allow-insecure-host",
        "q v n",
        "--quiet --verbose --no-cache --offline --no-config --no-progress --native-tls",
    ),
    **dict.fromkeys(
        "pip pip3".split(),
        (
            "",
            "--python --log --proxy --cert --client-cert --cache-dir --timeout --retries",
            "q v",
            "--quiet --verbose --isolated --no-cache-dir --no-color --no-input",
        ),
    ),
    **dict.fromkeys(
        "npm pnpm yarn bun".split(),
        (
            "Cw",
            "--prefix --workspace --registry --cache --userconfig --dir --filter --cwd",
            "s q d g",
            "--silent --quiet --workspaces --global",
        ),
    ),
    **dict.fromkeys(
        "docker podman".split(),
        (
            "Hlc",
            "--host --context --config --log-level --tlscacert --tlscert --tlskey",
            "D",
            "--debug --tls --tlsverify",
        ),
    ),
    "cargo": ("CZ", "--config --color", "q v", "--quiet --verbose --offline --locked --frozen"),
    **dict.fromkeys(
        "apt apt-get".split(),
        (
            "ocat",
            "--option --config-file --target-release",
            "y q s d f m u",
            "--yes --quiet --assume-yes --simulate --download-only",
        ),
    ),
    "poetry": (
        "CP",
        "--directory --project",
        "q n v",
        "--quiet --no-interaction --verbose --no-plugins --no-cache",
    ),
    "hg": ("R", "--repository --cwd --config", "q v y", "--quiet --verbose --noninteractive"),
}
"""Options that may precede a sub-command: those with values (short, long), and those without."""
_NO_GLOBAL_OPTIONS = options.Syntax(complete=True)
_GLOBAL_OPTIONS = {
    program: options.Syntax(
        valued=frozenset(row[0]),
        long_valued=frozenset(row[1].split()),
        flags=frozenset(row[2].split()),
        longs=frozenset(row[3].split()),
        complete=True,
    )
    for program, row in _GLOBAL.items()
}
