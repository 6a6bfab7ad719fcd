"""Replace secrets in results, logs and cassettes with ``[REDACTED:NAME]``.

The redactor replaces known values (from environment variables that are named like secrets, and from
the user's settings) and text that looks like a key. Replacements leave JSON text valid.

Text comes from files, commands and models, so every pattern must take linear time on any text:
``re`` holds the interpreter lock while it matches, so a thread would not help. Two rules ensure
linear time. Either an unlimited repetition is the end of the pattern, or no match can begin inside
the text that the repetition matches. If neither is possible, a match that fails at its end must
still consume the text (the group ``skip``) and leave it unchanged, so that the text is not scanned
once for each possible beginning.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from urllib.parse import quote

from hilum_guard.secrets.secret_names import is_secret_name

_SHORTEST = 8
# Switches and numbers, which are never secrets, whatever their variables are called.
_PLAIN = r"(?i)\d+|true|false|yes|no|on|off|none"

# The beginning of a word. The last letter of a JSON or terminal escape may precede the word.
_B = r"(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4})|(?<=[0-9]m))"


def _at_word(pattern: str) -> str:
    r"""Return a pattern that matches only at the beginning of a word."""
    # The pattern begins with the letters, followed by the lookbehind, because finding letters is
    # ten times as fast as trying `_B` at every character.
    start = re.match(r"(?:\[[A-Z]+\])?[A-Za-z0-9_-]*(?![*+?{])", pattern)
    first = start.group() if start else ""
    if not first:
        return rf"{_B}(?:{pattern})"
    behind = (
        rf"(?<![A-Za-z0-9_]{first})",
        rf"(?<=\\[bfnrt]{first})",
        rf"(?<=\\u[0-9a-fA-F]{{4}}{first})",
        rf"(?<=[0-9]m{first})",
    )
    return rf"{first}(?:{'|'.join(behind)}){pattern[len(first) :]}"


# Patterns for keys with a known prefix, based on the vendors' documentation and on published secret
# scanners.
_VENDORS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("TELEGRAM_TOKEN", (":AA",), r"\d{8,10}:AA[A-Za-z0-9_-]{32,35}(?![A-Za-z0-9_-])"),
    ("TWILIO_KEY", ("SK", "AC"), r"(?:SK|AC)[0-9a-f]{32}(?![0-9a-zA-Z])"),
    (
        "DISCORD_TOKEN",
        (".",),
        r"[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![\w-])",
    ),
    ("GITLAB_TOKEN", ("gl",), r"gl(?:dt|rt|cbt|ptt|ft|soat|agent|imt|oas)-[\w-]{16,}"),
    ("SLACK_TOKEN", ("xapp-",), r"xapp-\d-[A-Za-z0-9-]{20,}"),
    ("STRIPE_KEY", ("whsec_",), r"whsec_[A-Za-z0-9+/]{24,}"),
    ("MAILGUN_KEY", ("key-",), r"key-[0-9a-f]{32}(?![0-9a-f])"),
    ("MAILCHIMP_KEY", ("-us",), r"[0-9a-f]{32}-us\d{1,2}(?!\d)"),
    ("SHOPIFY_TOKEN", ("shp",), r"shp(?:at|ca|pa|ss|tka)_[0-9a-fA-F]{32}"),
    ("SQUARE_TOKEN", ("sq0",), r"sq0(?:atp|csp|idp)-[\w-]{22,}"),
    ("DATABRICKS_TOKEN", ("dapi",), r"dapi[0-9a-f]{32}(?:-\d)?"),
    ("DIGITALOCEAN_TOKEN", ("do",), r"do[or]_v1_[0-9a-f]{64}"),
    ("VAULT_TOKEN", ("hv",), r"hv[sbr]\.[\w-]{24,}"),
    ("TERRAFORM_TOKEN", (".atlasv1.",), r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}"),
    ("DOCKER_TOKEN", ("dckr_",), r"dckr_(?:pat|oat)_[\w-]{20,}"),
    ("GRAFANA_TOKEN", ("gl",), r"gl(?:sa|c)_[A-Za-z0-9_+/=]{32,}"),
    ("ATLASSIAN_TOKEN", ("ATATT3", "ATCTT3"), r"AT[AC]TT3[\w=-]{50,}"),
    (
        "FLY_TOKEN",
        ("fo1_", "fm1", "fm2_"),
        r"(?:fo1_[\w-]{20,}|fm[12][ar]?_[A-Za-z0-9+/=,_-]{40,})",
    ),
    ("RUBYGEMS_KEY", ("rubygems_",), r"rubygems_[0-9a-f]{48}"),
    ("AIRTABLE_TOKEN", ("pat",), r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("SENTRY_TOKEN", ("sntry",), r"sntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    ("NEW_RELIC_KEY", ("NRAK-",), r"NRAK-[A-Z0-9]{27}"),
    (
        "VENDOR_KEY",
        (
            "lin_api_",
            "ntn_",
            "figd_",
            "PMAK-",
            "pscale_",
            "sbp_",
            "nfp_",
            "pplx-",
            "tvly-",
            "HRKU-",
            "dp.",
            "glpat",
            "r8_",
            "fal_",
            "e2b_",
            "lsv2_",
            "nvapi-",
            "ctx7sk-",
            "phc_",
            "phx_",
        ),
        r"(?:lin_api_[A-Za-z0-9]{32,}|ntn_[A-Za-z0-9]{40,}|figd_[\w-]{36,}"
        r"|PMAK-[0-9a-f]{24}-[0-9a-f]{34}"
        r"|pscale_(?:tkn|pw|oauth)_[\w.-]{32,}|sbp_[0-9a-f]{40}|nfp_[A-Za-z0-9]{36,}"
        r"|pplx-[A-Za-z0-9]{40,}|tvly-[\w-]{24,}"
        r"|HRKU-[\w-]{36,}|dp\.(?:pt|st|sa|ct)\.[A-Za-z0-9._-]{40,}|e2b_[0-9a-f]{40}|lsv2_(?:pt"
        r"|sk)_[0-9a-f_]{40,}"
        r"|nvapi-[\w-]{60,}|ph[cx]_[A-Za-z0-9]{40,})",
    ),
)
# Name, words, pattern. Text without any of these words is not searched, which saves time for most
# text. The order of patterns matters: a whole block comes before its parts. A group named `keep`
# stays in the text, and a match with a group named `skip` is left unchanged.
_SHAPES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # A truncated key block is as secret as a whole block; its lines may be numbered.
    (
        "PRIVATE_KEY",
        ("PRIVATE KEY",),
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[A-Za-z0-9+/=\s:,.]++|(?<=\d )\||\\[nr]|-(?!----END))*+(?:-----END [A-Z0-9 ]*PRIVATE"
        r" KEY(?: BLOCK)?-----)?",
    ),
    # This is `openssh-key-v1` in base64, which begins the body of an OpenSSH key.
    ("PRIVATE_KEY", ("b3BlbnNzaC1rZXkt",), r"b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/=\s]{20,}"),
    ("PRIVATE_KEY", ("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-[0-9A-Z]{20,}"),
    (
        "AUTHORIZATION",
        ("uthorization", "UTHORIZATION"),
        r"(?i)(?P<keep>authorization\\?[\"']?\s*[:=]\s*\\?[\"']?(?:(?:bearer|basic|token"
        r"|digest)\s+)?)"
        r"(?!\[REDACTED|(?:bearer|basic|token)\b)[^\s\"'\\,;()\[]{6,}+(?:(?![(\[])|(?P<skip>))",
    ),
    (
        "BEARER",
        ("earer ", "EARER "),
        rf"(?i)(?P<keep>{_B}bearer\s+)(?=[^\s\"']*\d)[A-Za-z0-9._~+/=-]{{8,}}",
    ),
    ("URL_PASSWORD", ("://",), r"(?P<keep>://)[^\s/:@\"'\\]*:[^\s/@\"'\\]+(?=@)"),
    ("URL_TOKEN", ("://",), r"(?P<keep>://)(?=[^\s/@\"'\\]*\d)[^\s/:@\"'\\]{16,}(?=@)"),
    ("SLACK_HOOK", ("hooks.slack.com/",), r"(?P<keep>hooks\.slack\.com/services/)[\w/-]{20,}"),
    ("OPENAI_KEY", ("sk-",), rf"{_B}sk-[A-Za-z0-9_-]{{16,}}"),
    (
        # The third letter indicates the kind of GitHub token: personal, OAuth, user, server or
        # refresh.
        "GITHUB_TOKEN",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}",
    ),
    ("GITLAB_TOKEN", ("glpat-",), r"glpat-[\w-]{16,}"),
    # AKIA begins the ids of long-term AWS keys, and ASIA those of temporary AWS keys.
    ("AWS_KEY", ("AKIA", "ASIA"), r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])"),
    ("GOOGLE_KEY", ("AIza",), r"AIza[\w-]{30,}"),
    ("SLACK_TOKEN", ("xox",), r"xox[abeoprs]-[\w-]{10,}"),
    ("HUGGINGFACE_TOKEN", ("hf_",), r"hf_[A-Za-z0-9]{20,}"),
    (
        "VENDOR_KEY",
        ("gsk_", "xai-", "r8_", "dop_v1_"),
        rf"{_B}(?:gsk_|xai-|r8_|dop_v1_)[A-Za-z0-9_-]{{20,}}",
    ),
    ("SENDGRID_KEY", ("SG.",), rf"{_B}SG\.[\w-]{{16,}}\.[\w-]{{16,}}"),
    ("GOOGLE_TOKEN", ("ya29.",), rf"{_B}ya29\.[\w.-]{{20,}}"),
    ("PACKAGE_TOKEN", ("npm_", "pypi-"), r"npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}"),
    ("STRIPE_KEY", ("k_live_", "k_test_"), r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    *((name, words, _at_word(pattern)) for name, words, pattern in _VENDORS),
    # Forty characters may also be a base64 hash, so the key's name must precede them.
    (
        "AWS_SECRET",
        ("ecret", "ECRET"),
        r"(?i)(?P<keep>(?:aws|amazon|secret_?access)[a-z0-9_."
        r" -]{0,30}[\\\"']{0,2}\s{0,3}(?:[:=]|=>|:=)\s{0,3}[\\\"']{0,2})"
        r"(?-i:(?=[A-Za-z0-9/+]{0,39}[0-9])(?=[A-Za-z0-9/+]{0,39}[A-Z])"
        r"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=]))",
    ),
    (
        "AZURE_KEY",
        ("AccountKey=", "AccessKey=", "SharedAccessSignature"),
        r"(?P<keep>(?:Account|SharedAccess|Access)Key=)[A-Za-z0-9+/]{40,}={0,2}",
    ),
    # The header of a JSON Web Token (RFC 7519) begins with `{"`, which is `eyJ` in base64.
    ("JWT", ("eyJ",), r"eyJ[\w-]{10,}+\.[\w-]{10,}+\.[\w-]{5,}+|(?P<skip>eyJ[\w-]++)"),
    (
        "ASSIGNMENT",
        ("KEY", "TOKEN", "SECRET", "PASS"),
        rf"(?P<keep>{_B}(?:[A-Z][A-Z0-9_]*(?:KEY|_PASS)|(?:[A-Z][A-Z0-9_]*)?(?:TOKEN|SECRET"
        rf"|PASSWORD|PASSWD))"
        r"\s?=\s?\\?[\"']?)(?![\[{$(])(?!(?i:<[a-z][a-z_-]{0,80}>|your[-_][a-z_-]{0,60}"
        r"|change[-_]?(?:me|this)|placeholder|x{8,}"
        r"|example(?:[-_][a-z_-]{0,60})?|replace[-_](?:me|this"
        r"|with)[a-z_-]{0,60})\\?[\"']?(?![^\s\"'\\,;]))[^\s\"'\\,;()]{8,}",
    ),
    # Assignments in the form used in settings files and headers. The value must contain a digit:
    # without a digit, it is more likely to be a word or code.
    (
        "CREDENTIAL",
        ("ey", "oken", "ecret", "assw", "ookie"),
        rf"(?P<keep>{_B}(?:[A-Za-z][A-Za-z0-9]{{0,30}}[_-]){{0,6}}"
        r"(?i:api_?key|api-key|access_?key|account_?key|secret(?:_?key)?(?:_base)?|token|password"
        r"|passwd|cookie)"
        r"\\?[\"']?\s?[:=]\s?)"
        r"(?:(?P<quote>\\?[\"'])(?=[^\s\"'\\]{0,200}\d)[^\s\"'\\{}()$<>]{8,4000}+(?=\\?[\"'])"
        r"|(?!\[REDACTED)(?=[A-Za-z0-9+/_=-]{0,200}\d)(?=\d{0,200}[A-Za-z])"
        r"[A-Za-z0-9+/_=-]{12,}+(?:(?![.(\[\w])|(?P<skip>)))",
    ),
    # In settings files, a password may be a word.
    (
        "PASSWORD",
        ("assw", "ASSW", "assphrase", "pwd", "PWD", "ecret", "ECRET"),
        r"(?i)(?P<keep>(?:^|[\s,{;\"'.]|\\n|\\\""
        r"|\\t)(?:[A-Za-z][A-Za-z0-9]{0,30}[_.-]){0,6}(?:password|passwd|passphrase|pwd|secret)"
        r"\\?[\"']?[ \t]*[:=][ \t]*)(?P<quote>\\?[\"'])?"
        r"(?!\[REDACTED|[<{$%(\[*!&|>]|(?:null|none|nil|true|false|yes|no|on|off|string|str"
        r"|required|optional|changeme|change_me|example"
        r"|placeholder|your|my-?password|password|passwd|secret|x{3,}|env|vault|file|ref|test|todo"
        r"|undefined|type)(?![A-Za-z0-9]))"
        r"[^\s\"'\\,;{}]{6,200}+(?![(.\[])",
    ),
)


# Patterns for values that are secrets only because of the surrounding text; in source code, such
# values are rarely secrets.
_GUESSED = frozenset({"ASSIGNMENT", "CREDENTIAL"})
# Patterns for values that are secrets only in settings files.
_OF_SETTINGS = frozenset({"PASSWORD"})
_SOURCE = (
    r"(?i)\.(py[iwx]?|ipynb|[cm]?[jt]sx?|go|rs|java|kts?|scala|c|cc|cpp|cxx|h|hh|hpp|cs|fs|rb|php|pl"
    r"|pm|swift|m|mm|lua|r|jl|ex|exs|erl"
    r"|hs|ml|clj|dart|vue|svelte|html?|css|scss|sql|proto|graphql|md|rst|adoc|tex|patch|diff|lock"
    r"|sum)$"
)
_SETTINGS = (
    r"(?i)(^|/)(\.?env(\.[\w.-]+)?|\.?[\w-]*rc|config|credentials|settings|secrets?)$"
    r"|\.(ya?ml|json5?|jsonc|toml|ini|cfg|conf|config|properties|env|xml|plist|tfvars|hcl|netrc"
    r"|pgpass|reg|txt|log)$"
)


def is_source(path: str) -> bool:
    """Return whether a file is source code or prose, where such matches are rarely secrets."""
    return re.search(_SOURCE, path) is not None


def is_settings(path: str) -> bool:
    """Return whether a file contains settings, where values named like passwords are secret."""
    return re.search(_SETTINGS, path) is not None


PLACEHOLDER = re.compile(r"\[REDACTED:[^\]\s]{1,200}\]")
# A pattern is compiled when text first contains its words: compiling all patterns at startup would
# take 8 ms.
_compiled = cache(re.compile)


class Redactor:
    """A callable that replaces secrets in text.

    Args:
        environ: Environment whose secrets are replaced; by default, this process's environment.
        secrets: Additional secrets, by name.

    Attributes:
        too_short: Names of secrets that are too short to search for in text.
    """

    def __init__(
        self, environ: Mapping[str, str] | None = None, secrets: Mapping[str, str] | None = None
    ) -> None:
        self._names: dict[str, str] = {}
        self.too_short: list[str] = []
        # A key file's path is not a secret, and also occurs in ordinary text.
        for name, value in (os.environ if environ is None else environ).items():
            if is_secret_name(name) and not (os.path.isabs(value) and os.path.exists(value)):
                self._add(name, value)
        for name, value in (secrets or {}).items():
            self._add(name, value)
        # The longest values come first: `re` takes the first alternative that matches. If a secret
        # begins with a shorter one, the rest of the longer secret would stay in the text.
        values = sorted(self._names, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, values))) if values else None

    def _add(self, name: str, value: str) -> None:
        """Add a secret value in the forms that it has in text, JSON and URLs."""
        if len(value) < _SHORTEST:  # a shorter value would be found inside ordinary words
            bare = value.strip()
            if bare and not re.fullmatch(_PLAIN, bare):
                self.too_short.append(name)
            return
        escaped = json.dumps(value)[1:-1]
        unescaped = json.dumps(value, ensure_ascii=False)[1:-1]
        for form in (value, escaped, unescaped, quote(value, safe="")):
            self._names.setdefault(form, name)

    def __call__(self, text: str, *, guess: bool = True, settings: bool = False) -> str:
        """Return text without secrets.

        Args:
            text: The text.
            guess: Whether to replace values that are only named like a secret, as in
                ``password = "…"``.
            settings: Whether the text is from a settings file, where words can also be passwords.
        """
        # Known values come first, so that their placeholders have the names of their variables.
        if self._values is not None:
            text = _replace(self._values, self._mask_value, text)
        text = _redact_key_ends(text)
        left_out: frozenset[str] = frozenset()
        if not guess:
            left_out |= _GUESSED
        if not settings:
            left_out |= _OF_SETTINGS
        for name, words, pattern in _SHAPES:
            if name not in left_out and any(map(text.__contains__, words)):
                text = _replace(_compiled(pattern), partial(_mask, name), text)
        return text

    def _mask_value(self, match: re.Match[str]) -> str:
        return f"[REDACTED:{self._names[match.group()]}]"


PIECE = 100_000
"""Maximum number of characters to search in one ``re`` call, which holds the interpreter lock."""
OVERLAP = 20_000
"""Number of characters at the end of a piece that are searched again with the next piece; longer
secrets are missed.
"""
MARGIN = 64
"""Number of characters at the end of a piece in which a match may depend on later text."""


def _replace(pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], text: str) -> str:
    """Return text with all matches replaced; long text is searched in pieces."""
    if len(text) <= PIECE:
        return pattern.sub(replace, text)
    parts: list[str] = []
    copied = 0
    start = 0
    while start < len(text):
        end = min(start + PIECE, len(text))
        is_last = end == len(text)
        following = end if is_last else end - OVERLAP
        for cut in pattern.finditer(text, start, end):
            # A match that begins in the overlap is left to the next piece, which contains more of
            # the match.
            if cut.start() >= following and not is_last:
                break
            is_whole = is_last or cut.end() <= end - MARGIN
            # Near the end of a piece, a match may be longer in the whole text, or may not be a
            # match at all.
            match = cut if is_whole else pattern.match(text, cut.start())
            if match is None:
                continue
            parts += [text[copied : match.start()], replace(match)]
            copied = match.end()
            following = max(following, copied)
            if not is_whole:
                break
        start = following
    parts.append(text[copied:])
    return "".join(parts)


_KEY_END = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = re.compile(
    r"[^\S\n]*(?:\d{1,6}\s?[|:]\s?)?[\"']?[A-Za-z0-9+/]{16,80}={0,2}(?:\\r|\r)?[^\S\n]*"
)
_KEY_NUMBER = re.compile(r"(?:\A|\n|\\n)[^\S\n]*(?:\d{1,6}\s?[|:]\s?)?\Z")
MAX_KEY = 20_000
"""Maximum number of characters to search before a key's end; the longest keys have 13,000."""
MAX_KEY_LINE = 400
"""Maximum length of one line of a key, in characters, including its line number and indentation."""
MAX_NUMBER = 20
"""Maximum width of a line number with its indentation and separator, in characters."""


def _redact_key_ends(text: str) -> str:
    """Return text without the lines of private keys whose first line is missing.

    Such lines occur if only a later part or the end of a file was read.
    """
    if "PRIVATE KEY-----" not in text or "-----END" not in text:
        return text
    parts: list[str] = []
    copied = 0
    for end in _KEY_END.finditer(text):
        floor = max(copied, end.start() - MAX_KEY)
        start = _find_key_start(text, end.start(), floor)
        if start < end.start():
            parts += [text[copied:start], "[REDACTED:PRIVATE_KEY]"]
            copied = end.end()
    parts.append(text[copied:])
    return "".join(parts)


def _find_key_start(text: str, end: int, floor: int) -> int:
    """Return the position of a key's first line, searching backwards from its last line.

    A regular expression would try every line of long text as the first line.

    Args:
        text: The text.
        end: The position of the key's last line.
        floor: The lowest position to search.
    """
    start = end
    numbered = _KEY_NUMBER.search(text, max(floor, end - MAX_NUMBER), end)
    at = numbered.start() if numbered else end
    while at > floor:
        begin, separator = _find_line_start(text, at, max(floor, at - MAX_KEY_LINE))
        if not _KEY_LINE.fullmatch(text, begin, at):
            break
        start = begin
        at = begin - separator
    return start


def _find_line_start(text: str, at: int, floor: int) -> tuple[int, int]:
    """Return the position at which a line begins, and the length of the preceding line break.

    Line breaks may be escaped, as in JSON.
    """
    real = text.rfind("\n", floor, at)
    escaped = text.rfind("\\n", floor, at)
    after_real = real + 1 if real >= 0 else floor
    after_escaped = escaped + 2 if escaped >= 0 else floor
    begin = max(after_real, after_escaped)
    is_escaped = begin >= 2 and escaped == begin - 2
    return begin, 2 if is_escaped else 1


def _mask(name: str, match: re.Match[str]) -> str:
    groups = match.groupdict()
    if groups.get("skip") is not None:
        return match.group()
    keep = groups.get("keep") or ""
    quote_mark = groups.get("quote") or ""
    return f"{keep}{quote_mark}[REDACTED:{name}]"


def find_settings_secrets(data: Mapping[str, object], path: str = "settings") -> dict[str, str]:
    """Return the secrets in settings: values that are named like secrets, and all request headers.

    Args:
        data: The settings as plain data.
        path: The prefix for the values' names.
    """
    found: dict[str, str] = {}
    is_headers = path.endswith(".headers")
    for name, value in data.items():
        if isinstance(value, Mapping):
            found |= find_settings_secrets(value, f"{path}.{name}")
        elif not isinstance(value, str) or name == "key_env":  # the name of a variable
            continue
        elif is_headers or is_secret_name(name):
            found[f"{path}.{name}"] = value.removeprefix("Bearer ").strip()
    return found
