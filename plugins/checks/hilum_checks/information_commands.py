"""Recognise commands that only show something: ``pip list``, ``docker ps``, ``node -v``.

They change no file of the project, so that checks which passed before them still hold.
"""

from __future__ import annotations

import re

from hilum_checks.model import Words

# By program, the sub-commands that only show something.
_SHOWS: dict[str, str] = {
    "pip": "list|show|freeze|check|inspect|index versions|config list|cache dir",
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
}
_ALIASES = {"pip3": "pip"}
# Programs that show something, whatever their arguments are.
_ALWAYS = frozenset(
    """
    top htop free lsof netstat ss nvidia-smi ping dig nslookup host pgrep pstree vmstat iostat lscpu
    lsblk lsb_release tput printenv tokei cloc scc hadolint journalctl traceroute whois
    """.split()
)
# Programs that show their version if this is the only argument.
_VERSIONS: dict[str, str] = {
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
# Options with which such programs write a file, or more than they show.
_WRITES = re.compile(
    r"-o|-w|--out.*|--write.*|--fix.*|--in-place.*|--vacuum.*|--rotate|--set.*|--update.*|-mod=mod"
    r"|-modfile.*|--exec.*|--refresh.*"
)
# Programs whose option `-o` names a format.
_FORMATS = frozenset(("kubectl", "helm"))


def only_shows(words: Words) -> bool:
    """Return whether a command certainly only shows something.

    Args:
        words: The program and its arguments.
    """
    if words[1:3] == ("-m", "pip"):
        words = words[2:]
    if not words:
        return False
    program = words[0].rpartition("/")[2]
    program = _ALIASES.get(program, program)
    given = words[1:]
    if len(given) == 1 and given[0] in _VERSIONS.get(program, "").split():
        return True
    writing = [word for word in given if _WRITES.fullmatch(word)]
    if program in _FORMATS:
        writing = [word for word in writing if word not in ("-o", "--output")]
    if writing:
        return False
    if program in _ALWAYS:
        return True
    return any(
        given[: len(verb)] == verb
        for verb in (tuple(each.split()) for each in _SHOWS.get(program, "").split("|"))
        if verb
    )
