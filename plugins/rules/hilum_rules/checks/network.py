"""Hosts that a call contacts: in addresses of tools, and in the words of programs that use the
network.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hilum_rules.checks import code
from hilum_rules.checks import vocabulary as v
from hilum_rules.checks.effects import git_words, name_of, operands
from hilum_rules.checks.model import Hosts
from hilum_rules.checks.touches import UNKNOWN, Fit

if TYPE_CHECKING:
    from hilum_guard import SimpleCommand

_NET = frozenset(
    """curl wget http https httpie xh aria2c axel lynx links w3m ssh scp sftp ftp lftp telnet nc ncat netcat socat ping ping6
    dig nslookup host whois traceroute mtr nmap rsync mosh openssl wscat websocat grpcurl hey ab wrk git-remote-https
    youtube-dl yt-dlp docker podman skopeo rclone s3cmd mysql psql redis-cli mongosh""".split()
)
# Programs that only show, look for or replace what they are given.
_TEXT = frozenset(
    "echo printf grep egrep fgrep rg ag ack sed gsed awk gawk cat tee jq yq gh glab perl tr cut"
    " sort diff".split()
)
_GIT_NET = frozenset(
    "clone fetch pull push ls-remote submodule send-pack fetch-pack lfs remote".split()
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{0,30}://[^\s'\"<>`|;)]+", re.IGNORECASE)
_LOCAL = ("localhost", "localhost.localdomain", "ip6-localhost", "host.docker.internal")


def named(text: str) -> set[str]:
    """Return the hosts of all addresses in a text."""
    return {host for address in _ADDRESS.findall(text) if (host := host_of(address))}


def host_of(address: str) -> str:
    """Return the host of an address, as names are compared; empty if it has none."""
    try:
        parts = urlsplit(address.replace("\\", "/"))
        if parts.scheme not in ("file", "data"):
            return plain(unquote(parts.hostname or ""))
        return ""
    except ValueError:
        return ""


def plain(host: str) -> str:
    """Write a host the way it is compared: lower case, ASCII, without the last dot.

    A number for an address as the address.
    """
    host = host.strip().strip("[]").rstrip(".").casefold()
    try:
        host = host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        pass
    try:
        if re.fullmatch(r"0x[0-9a-f]+|\d{6,10}", host):
            return str(ipaddress.ip_address(int(host, 0)))
    except ValueError:
        pass
    return host


def bans(ban: Hosts, host: str) -> bool:
    """Return whether a ban means a host; a name stands for what is below it, too."""
    if ban.names == ("*",) or "*" in ban.names:
        return not _is_local(host)
    for name in ban.names:
        bare = name.removeprefix("*.")
        if host.endswith("." + bare) or (host == bare and not name.startswith("*.")):
            return True
    return False


def _is_local(host: str) -> bool:
    if host in _LOCAL or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def fit_text(ban: Hosts, text: str) -> bool:
    """Return whether a text names a host that is banned, in an address or alone."""
    if any(bans(ban, host) for host in named(text)):
        return True
    low = text.casefold()
    return any(
        re.search(rf"(?<![\w-]){re.escape(name.removeprefix('*.'))}(?![\w-])(?!\.\w)", low)
        for name in ban.names
        if name != "*"
    )


def fit(ban: Hosts, command: SimpleCommand) -> Fit:
    """Return whether a simple command contacts a host that is banned."""
    if not command.words:
        return ""
    name = name_of(command)
    words = command.words
    if name in ("hilum",) or command.wrapper:
        return ""
    everything = " ".join(words)
    if name == "git":
        return _git(ban, git_words(words)[0], everything)
    if name in _NET or name == "/dev/tcp":
        return _net(ban, command, everything)
    if installs(words) and ("*" in ban.names or fit_text(ban, everything)):
        return "yes"
    if name not in _TEXT and any(bans(ban, host) for word in words[1:] for host in named(word)):
        return "yes"
    if any(
        path.startswith(("/dev/tcp/", "/dev/udp/")) and bans(ban, plain(path.split("/")[3]))
        for path in (*command.writes, *command.reads)
    ):
        return "yes"
    if any(
        fit_text(ban, text) and ("*" not in ban.names or _ADDRESS.search(text))
        for text in code.texts(command)
    ):
        return "yes"
    return ""


def _net(ban: Hosts, command: SimpleCommand, everything: str) -> Fit:
    if fit_text(ban, everything):
        return "yes"
    hosts = []
    for word in operands(command.words[1:], "ohHdXuAebFTKmwtPpilbc"):
        bare = re.split(r"[/?#]", word.partition("://")[2] or word)[0].rpartition("@")[2]
        bare = re.sub(r":\d*$", "", bare.partition(":")[0] if bare.count(":") == 1 else bare)
        hosts.append(plain(unquote(bare)))
    if any(
        v.is_host(host) or re.fullmatch(r"[0-9a-f:.]+", host)
        for host in hosts
        if bans(ban, host) and UNKNOWN not in host
    ):
        return "yes"
    if any(re.match(r"-[a-zA-Z]*[KQ]|--config", word) for word in command.words[1:]):
        return "maybe"  # what it does stands in a file
    if any(UNKNOWN in host for host in hosts) or (
        not hosts and command.stdin is None and name_of(command) == "wget"
    ):
        return "maybe"
    return ""


def _git(ban: Hosts, words: tuple[str, ...], everything: str) -> Fit:
    if len(words) < 2 or words[1] not in _GIT_NET:
        return ""
    if words[1] == "remote" and not {"update", "show", "prune"} & set(words[2:3]):
        if fit_text(ban, everything) and "*" not in ban.names:
            return "yes"
        return ""
    if fit_text(ban, everything):
        return "yes"
    if "*" in ban.names:
        places = [word for word in words[2:] if not word.startswith("-")]
        if places and places[0].startswith(("/", "./", "../", "file:")):
            return ""
        return "yes"
    found = re.search(r"(?:^|\s)(?:[\w.-]+@)([\w.-]+):", everything)
    return "yes" if found and bans(ban, plain(found[1])) else ""


def installs(words: tuple[str, ...]) -> bool:
    """Return whether a command gets packages from somewhere."""
    plain_words = tuple(word for word in words if not word.startswith("-") or word in ("-m", "-S"))
    return any(plain_words[: len(each)] == each for each in v.INSTALL)
