"""Where secrets are: a list of paths below the home folder that is maintained, and files that are
secret by their kind.

Sources of the list: the documentation of each program on where it keeps logins, keys and histories.
"""

from __future__ import annotations

import os
import re
import stat
import time
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import translate
from functools import cache

from hilum_guard.secret_names import original_names

# Below the home folder.
HOME = tuple(
    """.ssh .aws .azure .gnupg .kube .docker .netrc _netrc .git-credentials .pypirc .npmrc .yarnrc .yarnrc.yml .bunfig.toml
    .vault-token .password-store .pki .1password .cargo/credentials .cargo/credentials.toml .gem/credentials
    .terraform.d .terraformrc .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties
    .ivy2/.credentials .sbt/.credentials .nuget/NuGet/NuGet.Config .composer/auth.json .pgpass .my.cnf .mylogin.cnf
    .s3cfg .boto .oci .fly .rclone.conf .ansible_vault .sops .age .config/sops .huggingface .cache/huggingface/token
    .cache/huggingface/stored_tokens .kaggle .databrickscfg .snowsql .dbt/profiles.yml .wakatime.cfg .netlify
    .vercel .heroku .cloudflared .wrangler .ngrok2 .modal.toml .replicate .jupyter/jupyter_server_config.json
    .ipython/profile_default/history.sqlite .mc/config.json .minio .local/share/ov .passwd-s3fs .passwd-ossfs
    .msmtprc .mutt .muttrc .fetchmailrc .offlineimaprc .mbsyncrc .irssi .weechat .purple .vnc .remmina .rdp
    .bash_history .zsh_history .histfile .sh_history .ksh_history .python_history .psql_history .sqlite_history
    .mysql_history .rediscli_history .mongosh .dbshell .node_repl_history .irb_history .pry_history .lesshst
    .viminfo .local/state/nvim/shada .local/share/nvim/shada .local/share/fish/fish_history .local/share/atuin
    .local/share/mc/history .mozilla .thunderbird .local/share/keyrings .local/share/kwalletd .gnome2/keyrings
    .config/kwalletrc .bitcoin .litecoin .dogecoin .ethereum .electrum .electrum-ltc .monero .zcash .dash .solana
    .near-credentials .config/solana .foundry/keystores .exodus .brownie/accounts .starkli-wallets .subkey .claude
    .claude.json .codex .gemini .copilot .cursor .continue .aider.conf.yml .codeium .windsurf .qwen .kimi .amp
    .local/share/amp .local/share/opencode .local/share/goose .local/share/crush .local/share/kilo .factory
    .openhands .openai .anthropic .groq .llm .cody .tabnine .augment .roo .cline .pi/agent/auth.json .mcp-auth .qodo
    .amazonq .kiro .zed .pulumi .railway .supabase .snowflake .linode-cli .ollama/id_ed25519
    .local/share/com.vercel.cli""".split()
)
# Below the folder of configuration (`~/.config`).
CONFIG = tuple(
    """gh hub glab-cli gcloud doctl op git/credentials containers/auth.json github-copilot google-chrome chromium
    BraveSoftware microsoft-edge vivaldi opera rclone sops age s3cmd hub.yaml tea lab flyctl fly oci heroku netlify
    configstore vercel wrangler .wrangler ngrok cloudflared stripe twilio-cli doppler infisical teller bw Bitwarden
    1Password keepassxc gopass rbw hcloud linode-cli scw vultr-cli exercism hetzner databricks snowflake huggingface
    wandb modal railway supabase turso planetscale neonctl neon pulumi argocd openai k9s helm/registry
    helm/repositories.yaml pypoetry/auth.toml uv/credentials composer/auth.json Code/User/globalStorage
    VSCodium/User/globalStorage Cursor Windsurf opencode goose crush amp codex claude Claude gemini copilot
    github-copilot-cli aichat mods fabric io.datasette.llm zed/settings.json evolution geary neomutt msmtp isync
    aerc Signal discord Slack Element Telegram TelegramDesktop Exodus Electrum Ledger solana filezilla remmina
    Nextcloud syncthing tailscale wireguard openvpn mitmproxy""".split()
)
CONFIG_SPACED = ("Bitwarden CLI", "Ledger Live", "Microsoft Edge")
MAC = (
    "Library/Keychains",
    "Library/Cookies",
    "Library/Safari",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Microsoft Edge",
    "Library/Application Support/Exodus",
    "Library/Application Support/Bitcoin",
    "Library/Application Support/Claude",
    "Library/Application Support/Cursor",
    "Library/Application Support/Code/User/globalStorage",
)

# In dot-folders of the home, what is not looked into: large, made by programs, and no place for
# logins.
_PASSED_OVER = frozenset(
    """.cache .npm .nvm .pyenv .rustup .rbenv .asdf .venv .virtualenvs .local/lib .local/bin .local/share/uv
    .local/share/pipx .local/share/mise .local/share/fonts .local/share/Trash .cargo/registry .cargo/bin .cargo/git
    .m2/repository .gradle/caches .gradle/wrapper .vscode .vscode-server .java .conda .julia .ghcup .stack .opam
    .nix-profile .nix-defexpr .wine .steam .var .dotnet .bun .deno .pnpm-store .texlive .matplotlib .fontconfig
    .dbus .pulse .config/pulse .terminfo .git""".split()
)
# Shells and tools read these at their start; they are protected against writing.
_START_FILES = frozenset(
    """.profile .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .zshrc .zshenv .zprofile .zlogin .gitconfig
    .inputrc .vimrc .tmux.conf .screenrc .xauthority .iceauthority .xsession-errors .sudo_as_admin_successful
    .wget-hsts .config/git/config .config/git/ignore .config/pip/pip.conf""".split()
)
MAX_DEPTH = 3
"""Folders below the home in which files are looked at: ``~/.config/name/x/file``."""
MAX_FILES = 300
"""Files that are hidden by their kind; each is a mount."""
MAX_FOLDERS = 4_000
"""Folders that are looked into for files that are secret by their kind or name."""

# Files of a workspace that are hidden from commands whatever their mode; others are only where none
# but the user reads them.
_HIDDEN_NAMES = tuple(
    """.env .env.* .envrc .netrc _netrc .pgpass .git-credentials .htpasswd .dockercfg .vault-token *.kdbx *.jks *.keystore
    id_rsa id_dsa id_ecdsa id_ed25519 credentials credentials.json credentials.toml credentials.yml credentials.yaml
    secrets.json secrets.toml secrets.yml secrets.yaml secrets.env *.secrets terraform.tfstate terraform.tfstate.*
    service-account*.json service_account*.json wpa_supplicant.conf""".split()
)
_PRIVATE_NAMES = tuple(
    ".npmrc .pypirc *.env *.pem *.key *.p12 *.pfx *.credentials secret secrets *_history".split()
)
_NO_SECRET = re.compile(
    r"\.env\.(example|sample|template|dist|defaults?|schema|ci|test\.example)|.*\.(example|sample|template|pub)"
)
SKIPPED = frozenset(
    ".git node_modules .venv venv __pycache__ .tox .nox .mypy_cache .ruff_cache .pytest_cache dist"
    " build target".split()
)


SETTLED = 50_000_000
"""Nanoseconds after which a folder that changes once more has another time of change: clocks of
file systems are coarse.
"""


class SecretFiles:
    """Finds files that are secret by their kind or name, and looks again only into folders that
    changed.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[int, int], tuple[str, ...], tuple[str, ...]]] = {}

    def of_home(self, home: str) -> Iterator[str]:
        """Yield the files below the dot-folders of a home folder that only its user may read.

        Blocks.
        """
        waiting = [(home, 0)]
        found = 0
        for _ in range(MAX_FOLDERS):
            if not waiting:
                return
            folder, depth = waiting.pop()
            folders, files = self._look(folder)
            for path in files:
                inner = path[len(home) + 1 :]
                if (
                    inner.startswith(".")
                    and inner.casefold() not in _START_FILES
                    and _is_private(path)
                ):
                    found += 1
                    yield path
            if found > MAX_FILES or depth >= MAX_DEPTH:
                continue
            for path in folders:
                inner = path[len(home) + 1 :]
                if inner.startswith(".") and inner not in _PASSED_OVER:
                    waiting.append((path, depth + 1))

    def of_workspace(self, root: str) -> Iterator[str]:
        """Yield the files of a workspace whose names speak of secrets, and the hard links to them.

        Blocks.
        """
        for _, files in self._folders(root):
            for path in files:
                name = os.path.basename(path)
                if is_hidden_name(name) or (is_private_name(name) and _is_private(path)):
                    yield path
        yield from self.links(root)

    def links(self, root: str) -> Iterator[str]:
        """Yield the files of a workspace that are hard links to its files of secrets, by other
        names. Blocks.
        """
        secrets: set[tuple[int, int]] = set()
        for _, files in self._folders(root):
            for path in files:
                name = os.path.basename(path)
                if (is_hidden_name(name) or is_private_name(name)) and (file := _linked_file(path)):
                    secrets.add(file)
        if not secrets:
            return
        # An entry of a folder has the number of its file, so that only the files found here are
        # looked at.
        numbers = {number for _, number in secrets}
        for folder, _ in self._folders(root):
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if (
                        entry.inode() not in numbers
                        or is_hidden_name(entry.name)
                        or is_private_name(entry.name)
                    ):
                        continue
                    if _linked_file(entry.path) in secrets:
                        yield entry.path

    def _folders(self, root: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the folders of a workspace that are looked into, with what `_look` finds of files
        in each.
        """
        waiting = [root]
        for _ in range(MAX_FOLDERS):
            if not waiting:
                return
            folder = waiting.pop(0)
            folders, files = self._look(folder)
            yield folder, files
            waiting += [path for path in folders if os.path.basename(path) not in SKIPPED]

    def _look(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the folders and the files in a folder, of the files those whose names begin with a
        dot or speak of secrets.
        """
        try:
            status = os.stat(folder)
            # A program can set the time of modification, but not that of change.
            changed = (status.st_ino, status.st_ctime_ns)
            known = self._seen.get(folder)
            if known is not None and known[0] == changed:
                return known[1], known[2]
            is_settled = time.time_ns() - status.st_ctime_ns > SETTLED
            with os.scandir(folder) as entries:
                listed = [
                    (entry.path, entry.name, entry.is_dir(follow_symlinks=False))
                    for entry in entries
                ]
        except OSError:
            return (), ()
        private = "/." in folder
        folders = tuple(path for path, _, is_folder in listed if is_folder)
        files = tuple(
            path
            for path, name, is_folder in listed
            if not is_folder
            and (private or name.startswith(".") or is_hidden_name(name) or is_private_name(name))
        )
        if is_settled:
            self._seen[folder] = (changed, folders, files)
        else:
            self._seen.pop(folder, None)
        return folders, files


def _linked_file(path: str) -> tuple[int, int] | None:
    """Return device and number of a regular file that has more than one name; None for any
    other.
    """
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_nlink < 2:
        return None
    return status.st_dev, status.st_ino


def _is_private(path: str) -> bool:
    """Return whether a regular file can be read by its user alone."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return (
        stat.S_ISREG(status.st_mode)
        and not status.st_mode & 0o077
        and not status.st_mode & 0o111
        and status.st_size > 0
    )


@cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, names)))


def is_hidden_name(name: str) -> bool:
    """Return whether files of this name are hidden from commands."""
    return any(_is_named(_HIDDEN_NAMES, each) for each in original_names(_folded(name)))


def is_private_name(name: str) -> bool:
    """Return whether files of this name are hidden where only the user may read them."""
    return any(_is_named(_PRIVATE_NAMES, each) for each in original_names(_folded(name)))


def _is_named(patterns: tuple[str, ...], low: str) -> bool:
    return _pattern(patterns).match(low) is not None and not _NO_SECRET.fullmatch(low)


def _folded(name: str) -> str:
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFKC", name).casefold()


def listed(homes: Iterable[str], configs: Iterable[str]) -> Iterator[str]:
    """Yield the paths of the maintained list, existing or not."""
    for home in homes:
        yield from (os.path.join(home, name) for name in (*HOME, *MAC))
    for config in configs:
        yield from (os.path.join(config, name) for name in (*CONFIG, *CONFIG_SPACED))
