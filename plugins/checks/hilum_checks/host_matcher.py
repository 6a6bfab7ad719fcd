"""Match the hosts that a call contacts against the hosts that rules forbid."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hilum_guard import UNKNOWN, git_words, operands

from hilum_checks import vocabulary as v
from hilum_checks.code_texts import join_literals
from hilum_checks.hidden_texts import decodes_text
from hilum_checks.model import Hosts

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts
    from hilum_checks.path_matcher import Fit

# Network clients that the guard does not treat as certain to use the network.
_CLIENTS = frozenset(
    """
    ab docker git-remote-https grpcurl hey links mongosh mysql openssl podman psql redis-cli rsync
    skopeo websocat wrk wscat
    """.split()
)
# Programs that only print, search or replace URLs in their arguments, and clients that send such
# URLs as text.
_TEXTUAL = frozenset(
    """
    ack ag awk cat cut diff echo egrep fgrep gawk gh glab grep gsed hilum jq perl printf rg sed
    sort tee tr yq
    """.split()
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{0,30}://[^\s'\"<>`|;)]+", re.IGNORECASE)
# An address whose host code assembles.
_ASSEMBLED = re.compile(r"://(?:%|\$?\{|['\"]\s*[+.%,])")
_RANGE = re.compile(r"^[^/]*(?://)?[^/]*\[\w+-\w+")
_SET = re.compile(r"\{([^{}]*)\}")
MAX_ADDRESSES = 1_000
"""Maximum number of addresses to which one argument of curl may be expanded."""
_CONNECTS = re.compile(r"urlopen|requests|httpx|\bfetch\b|socket|connect|\bhttps?\b")
# Spellings of an address such as ``127.1`` and ``0x7f000001``.
_NUMBERS = re.compile(
    r"(?<![\w.-])(?:0x[0-9a-f]{8}|\d{8,10}|(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+)){1,3})(?![\w.])",
    re.IGNORECASE,
)
_LOCAL_HOSTS = ("localhost", "localhost.localdomain", "ip6-localhost", "host.docker.internal")
# Plumbing commands used by `git push` and `git fetch`.
_TRANSFERS = ("send-pack", "fetch-pack")
_SOCKETS = ("/dev/tcp/", "/dev/udp/")
# Short options that take a value in at least one of the clients. The value of such an option is not
# a host.
_VALUED = "ohHdXuAebFTKmwtPpilbc"


def find_hosts(text: str) -> set[str]:
    """Return the hosts in all URLs in a text."""
    hosts = {parse_host(address) for address in _ADDRESS.findall(text)}
    return hosts - {""}


def parse_host(text: str) -> str:
    """Return the host in a URL with or without a scheme, or an empty string if there is none."""
    # Browsers treat a backslash like a slash (WHATWG URL Standard).
    address = text.replace("\\", "/")
    if "://" not in address:
        address = f"//{address}"
    # No encoding must change a host that is known only at run time.
    if UNKNOWN in re.sub(r":[^:/@]*(?:/.*)?$", "", address.partition("//")[2].partition("/")[0]):
        return UNKNOWN
    try:
        parts = urlsplit(address)
        host = "" if parts.scheme in ("file", "data") else parts.hostname
    except ValueError:
        return ""
    return normalize_host(unquote(host or ""))


def normalize_host(host: str) -> str:
    """Return a host in normalized form: lower case, ASCII, without the trailing dot.

    A number that represents an IP address is converted to that address.
    """
    host = host.strip().strip("[]").rstrip(".").casefold()
    try:
        # Both spellings of an internationalized name must be equal (RFC 3490).
        host = host.encode("idna").decode() if not host.isascii() else host
        # ``http://2130706433/`` and ``http://127.1/`` are 127.0.0.1 to clients that call ``inet_aton``; without the
        # conversion, this spelling would get past a rule.
        if re.fullmatch(r"(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+)){0,3}", host):
            address = socket.inet_ntoa(socket.inet_aton(host))
            # A connection to the unspecified address reaches this machine.
            return "127.0.0.1" if address == "0.0.0.0" else address
    except (ValueError, OSError):  # the host cannot be encoded, or is not an IP address
        pass
    return host


def is_meant(constraint: Hosts, host: str) -> bool:
    """Return whether a constraint covers a host. A name also covers all its subdomains."""
    if "*" in constraint.names:
        return not _is_local(host)
    domains = tuple(f".{name.removeprefix('*.')}" for name in constraint.names)
    return host in constraint.names or host.endswith(domains)


def _is_local(host: str) -> bool:
    if host in _LOCAL_HOSTS or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def mentions(constraint: Hosts, text: str) -> bool:
    """Return whether a text contains a forbidden host, within a URL or alone."""
    if any(is_meant(constraint, host) for host in find_hosts(text)):
        return True
    if "*" not in constraint.names and any(
        is_meant(constraint, normalize_host(number)) for number in _NUMBERS.findall(text)
    ):
        return True
    low = text.casefold()
    for name in constraint.names:
        domain = re.escape(name.removeprefix("*."))
        if name != "*" and re.search(rf"(?<![\w-]){domain}(?![\w-])(?!\.\w)", low):
            return True
    return False


def match_command(constraint: Hosts, command: CommandFacts) -> Fit:
    """Return whether a simple command contacts a forbidden host."""
    effects = command.effects
    # The command that a wrapper such as ``env`` starts is judged separately.
    if command.command.wrapper or effects.program in ("", "hilum"):
        return ""
    if _opens_socket(constraint, command) or _runs_code(constraint, command):
        return "yes"
    # A new module or test may only mention the host.
    if any(_CONNECTS.search(text) and mentions(constraint, text) for text in command.loaded_texts):
        return "maybe"
    if "*" not in constraint.names and any(map(_hides_host, effects.code)):
        return "maybe"
    if effects.program == "git":
        return _match_git(constraint, command)
    # Without this check, ``grep example.com`` would count as contacting the host.
    if effects.program in _TEXTUAL:
        return "yes" if effects.network and "*" in constraint.names else ""
    is_client = effects.network or effects.program in _CLIENTS
    if _names_host(constraint, command, is_client=is_client):
        return "yes"
    return _match_client(constraint, command) if is_client else ""


def _hides_host(code: str) -> bool:
    """Return whether code assembles or decodes the host that it contacts."""
    if _ASSEMBLED.search(code):
        return True
    return _CONNECTS.search(code) is not None and decodes_text(code)


def _opens_socket(constraint: Hosts, command: CommandFacts) -> bool:
    """Return whether a shell redirection opens a connection."""
    sockets = [file.path for file in command.effects.files if file.path.startswith(_SOCKETS)]
    return any(is_meant(constraint, normalize_host(path.split("/")[3])) for path in sockets)


def _runs_code(constraint: Hosts, command: CommandFacts) -> bool:
    """Return whether code that a command runs contains a forbidden host.

    If all hosts are forbidden, only a URL counts.
    """
    texts = command.texts
    if "*" in constraint.names:
        texts = [text for text in texts if _ADDRESS.search(text)]
    return any(
        mentions(constraint, text) or mentions(constraint, join_literals(text)) for text in texts
    )


def _names_host(constraint: Hosts, command: CommandFacts, *, is_client: bool) -> bool:
    if any(is_meant(constraint, normalize_host(host)) for host in command.effects.hosts):
        return True
    if not is_client:
        return False
    # A client may read addresses from its input (``wget -i -``, ``curl -K -``).
    texts = [" ".join(command.words), command.command.stdin or ""]
    # A variable such as `https_proxy` or `PIP_INDEX_URL` may name the host.
    if command.command.assigned:
        texts.append(command.source)
    return any(mentions(constraint, text) for text in texts)


def _match_client(constraint: Hosts, command: CommandFacts) -> Fit:
    """Return whether a network client contacts, or may contact, a forbidden host."""
    words = operands(command.words[1:], _VALUED)
    # curl expands `http://{a.test,b.test}/`, and `http://a[1-9].test/`.
    hosts = [parse_host(each) for word in words for each in _expand_sets(word)]
    # In `--expand-url`, variables of curl may be a part of the host.
    if any(word.startswith("--expand-") for word in command.words):
        hosts.append(UNKNOWN)
    if "*" not in constraint.names and any(_RANGE.search(word) for word in words):
        hosts.append(UNKNOWN)
    named = [host for host in hosts if v.is_host(host) or re.fullmatch(r"[0-9a-f:.]+", host)]
    if any(is_meant(constraint, host) for host in named):
        return "yes"
    if any(UNKNOWN in host for host in hosts) or _reads_hosts(command, hosts):
        return "maybe"
    if "*" not in constraint.names or _may_stay_local(command, hosts):
        return ""
    return "yes"


def _expand_sets(word: str) -> list[str]:
    """Return what curl makes of the sets in an address, such as `https://st{aging,}.test`."""
    expanded = [""]
    at = 0
    for found in _SET.finditer(word):
        before = word[at : found.start()]
        parts = found[1].split(",")
        expanded = [f"{each}{before}{part}" for each in expanded for part in parts]
        at = found.end()
        if len(expanded) > MAX_ADDRESSES:
            return [UNKNOWN]
    return [f"{each}{word[at:]}" for each in expanded]


def _reads_hosts(command: CommandFacts, hosts: list[str]) -> bool:
    """Return whether a file determines which hosts a client contacts."""
    if any(re.match(r"-[a-zA-Z]*[KQ]|--config", word) for word in command.words[1:]):
        return True
    return command.effects.program == "wget" and not hosts and command.command.stdin is None


def _may_stay_local(command: CommandFacts, hosts: list[str]) -> bool:
    """Return whether a client might not contact another machine."""
    if not command.effects.network or command.effects.program in _CLIENTS:
        return True
    if command.words[1:2] == ("exec",):  # `pnpm exec` runs a program that is already installed
        return True
    return any(map(_is_local, hosts)) or any("file:" in word for word in command.words)


def _match_git(constraint: Hosts, command: CommandFacts) -> Fit:
    verb = "".join(git_words(command.words)[1:2])
    if not command.effects.network and verb not in _TRANSFERS:
        # `git remote add` contacts no host, but a later command does.
        is_added = verb == "remote" and "*" not in constraint.names
        if is_added and any(map(_has_unknown_host, command.words)):
            return "maybe"
        return "yes" if is_added and mentions(constraint, " ".join(command.words)) else ""
    if _names_host(constraint, command, is_client=True):
        return "yes"
    if "*" not in constraint.names:
        return "maybe" if any(map(_has_unknown_host, command.words)) else ""
    # Git treats a remote such as `./repository` as a path:
    # https://git-scm.com/docs/git-clone#_git_urls
    remotes = operands(git_words(command.words)[2:])
    is_local = bool(remotes) and remotes[0].startswith(("/", "./", "../", "file:"))
    return "" if is_local else "yes"


def _has_unknown_host(word: str) -> bool:
    """Return whether the host of an address in a word is known only at run time."""
    addresses = re.findall(r"[a-z][a-z0-9+.-]*://.*", word, re.IGNORECASE)
    # In `url.https://HOST/.insteadOf=x`, the address comes first.
    return any(parse_host(re.sub(r"/[^/]*=.*", "", each)) == UNKNOWN for each in addresses)
