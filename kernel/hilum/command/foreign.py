"""Options of other coding agents, each with hilum's equivalent.

People who switch to hilum from another coding agent first type that agent's options. Some of these
options also exist in hilum (``-p``, ``-c``, ``--resume``, ``--model``, ``--max-turns``). For the
others, the error states what to type instead. ``Parser`` looks the options up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_AUTO = (
    "--approve auto lets calls run without questions, except for commands that are neither known to"
    " be harmless nor confined by the sandbox."
)
_READ_ONLY = "--approve readonly denies every call that would change something."
_MODES = "--mode plan, --mode ask or --mode agent; --approve sets which calls need approval."
_SETTING = "hilum config lists all settings; --set KEY=VALUE sets one."
_PROMPT = "Give the prompt without an option, or pipe it: hilum run - < FILE."
_RULES = "Put instructions into AGENTS.md (hilum init writes one), or into the prompt."
_FILES = "Name files in the prompt, by path or as @src/main.py."
_PERMISSIONS = "hilum permissions allow and hilum permissions deny set what tools may do."
_MCP = "hilum mcp add adds a server; those that are added start with each session."
_FOLDER = "--workspace DIR works in another folder; the setting extra_roots adds folders."
_SESSIONS = "hilum sessions list shows all sessions; --resume ID resumes one."
_LOGS = "hilum sessions show ID shows everything that happened; hilum doctor checks the machine."
_GIT = (
    "hilum makes no commits on its own: ask for one in the prompt. hilum undo takes changes back."
)
_FORMAT = "--output-format text, json or stream-json."

FOREIGN_OPTIONS: Mapping[str, str] = {
    # Approval options of claude, codex, gemini, aider, opencode and cursor.
    "--dangerously-skip-permissions": _AUTO,
    "--allow-dangerously-skip-permissions": _AUTO,
    "--dangerously-bypass-approvals-and-sandbox": _AUTO,
    "--yolo": _AUTO,
    "--yes": _AUTO,
    "--yes-always": _AUTO,
    "-y": _AUTO,
    "--full-auto": _AUTO,
    "--auto-approve": _AUTO,
    "--force": _AUTO,
    "--ask-for-approval": "--approve ask_first, auto or readonly.",
    "--approval-mode": "--approve ask_first, auto or readonly; --mode plan only plans.",
    "--permission-mode": _MODES,
    "--permission-prompt-tool": _PERMISSIONS,
    "--allowedTools": _PERMISSIONS,
    "--allowed-tools": _PERMISSIONS,
    "--disallowedTools": _PERMISSIONS,
    "--disallowed-tools": _PERMISSIONS,
    "--tools": "--mode ask offers tools that only read; hilum permissions deny denies one.",
    "--sandbox": f"The sandbox is on if the system has one: see hilum doctor. {_READ_ONLY}",
    "-s": f"The sandbox is on if the system has one: see hilum doctor. {_READ_ONLY}",
    "--dry-run": _READ_ONLY,
    "--read-only": _READ_ONLY,
    # Modes and models.
    "--plan": "--mode plan works out a plan and changes nothing.",
    "--chat-mode": "--mode ask, plan, debug or agent.",
    "--architect": "--mode plan works out a plan; --resume --accept carries it out.",
    "--agent": "Call an agent by its name in the prompt: @NAME; hilum agents list shows them.",
    "--agents": "hilum agents list shows the agents; their files are in .hilum/agents.",
    "-m": "--model PROVIDER/NAME; hilum models lists them.",
    "--fallback-model": '--set fallback=["provider/name"] tries it when the chosen model fails.',
    "--weak-model": "--set roles.fast=PROVIDER/NAME sets the model for small tasks.",
    "--list-models": "hilum models lists them; hilum models PROVIDER requests a provider's list.",
    "--models": "hilum models lists them.",
    "--provider": "--model PROVIDER/NAME names the provider, too.",
    "--api-key": "Export it (OPENAI_API_KEY=…), or keep it: hilum models key PROVIDER.",
    "--openai-api-key": "Export OPENAI_API_KEY, or keep it: hilum models key openai.",
    "--anthropic-api-key": "Export ANTHROPIC_API_KEY, or keep it: hilum models key anthropic.",
    "--base-url": "Export OPENAI_BASE_URL=…, and name the model: --model openai/NAME.",
    "--openai-api-base": "Export OPENAI_BASE_URL=…, and name the model: --model openai/NAME.",
    "--oss": "hilum finds local servers: hilum models lists their models for --model.",
    "--local-provider": "hilum finds local servers: hilum models lists their models for --model.",
    "--effort": 'Set effort per model: --set models.models."provider/name".effort=high',
    "--reasoning-effort": 'Set effort per model: --set models.models."provider/name".effort=high',
    "--thinking": 'Set effort per model: --set models.models."provider/name".effort=high',
    # Prompts and output.
    "--prompt": _PROMPT,
    "--message": _PROMPT,
    "--message-file": _PROMPT,
    "-f": _PROMPT,
    "--prompt-interactive": "hilum chat starts a conversation.",
    "--interactive": "hilum chat starts a conversation.",
    "--input-format": "Piped text is added to the prompt.",
    "--json": _FORMAT,
    "--output": _FORMAT,
    "-o": _FORMAT,
    "--stream": _FORMAT,
    "--include-partial-messages": "--output-format stream-json contains all events.",
    "--json-schema": "Describe the form of the answer in the prompt.",
    "--output-schema": "Describe the form of the answer in the prompt.",
    "--output-last-message": "The answer is the standard output: hilum run … > FILE.",
    "--append-system-prompt": _RULES,
    "--system-prompt": _RULES,
    "--file": _FILES,
    "--read": _FILES,
    "--all-files": "The agent reads files as it needs them.",
    "-a": "The agent reads files as it needs them; --approve sets which calls need approval.",
    # Folders, sessions, tools.
    "--add-dir": _FOLDER,
    "--include-directories": _FOLDER,
    "--cd": "--workspace DIR, or -C DIR.",
    "--cwd": "--workspace DIR, or -C DIR.",
    "--dir": "--workspace DIR, or -C DIR.",
    "-w": "--workspace DIR, or -C DIR.",
    "--worktree": "git worktree add makes a folder; --workspace DIR works in it.",
    "--skip-git-repo-check": "hilum works in any folder: leave it out.",
    "-r": "--resume [ID] resumes a session; -c the last one in this folder.",
    "--session": _SESSIONS,
    "--session-id": _SESSIONS,
    "--list-sessions": _SESSIONS,
    "--fork-session": "hilum sessions fork ID copies a session; then --resume the new one.",
    "--restore-chat-history": "-c continues the last session in this folder.",
    "--no-session-persistence": "hilum sessions delete ID removes a session afterwards.",
    "--mcp-config": _MCP,
    "--strict-mcp-config": _MCP,
    "--plugin-dir": "--plugin FILE loads a plugin.",
    "--extensions": "--plugins A,B loads only these plugins.",
    "--search": "pip install 'hilum[web]' adds tools for the web.",
    # Limits and settings.
    "--max-budget-usd": "--set scheduler.cost_limit=DOLLARS limits the cost of a run.",
    "--timeout": "--set timeout=SECONDS limits the duration of a run.",
    "--config": _SETTING,
    "--settings": _SETTING,
    "--setting-sources": _SETTING,
    "--profile": _SETTING,
    "--enable": _SETTING,
    "--disable": _SETTING,
    "--bare": "--no-plugin A,B leaves plugins out.",
    "--debug": _LOGS,
    "-d": _LOGS,
    "--verbose": _LOGS,
    "--show-prompts": "--output-format stream-json --include-prompt writes the prompt.",
    # Git, as in aider.
    "--auto-commits": _GIT,
    "--no-auto-commits": f"Leave it out. {_GIT}",
    "--commit": _GIT,
    "--no-git": "hilum works in any folder: leave it out.",
    "--auto-test": "Name the test command in AGENTS.md, or in the prompt.",
    "--test-cmd": "Name the test command in AGENTS.md, or in the prompt.",
    "--lint-cmd": "The settings under [lint] name the checkers: hilum config lint.",
    # Other.
    "--version": "hilum --version shows the version.",
    "-v": "hilum --version shows the version.",
    "-V": "hilum --version shows the version.",
    "--update": "pip install --upgrade hilum.",
    "--upgrade": "pip install --upgrade hilum.",
    "--acp": "hilum is no ACP server; hilum as an MCP server: hilum mcp serve.",
}


def find_foreign_option(arguments: Sequence[str], known: Sequence[str] = ()) -> tuple[str, str]:
    """Return the first option of another coding agent on a command line, with advice for hilum.

    Args:
        arguments: The arguments that the parser did not recognize.
        known: The options of the command itself, which are never foreign.

    Returns:
        The option and the advice; two empty strings if there is no such option.
    """
    for argument in arguments:
        if argument == "--":
            break
        option = argument.partition("=")[0]
        if option in FOREIGN_OPTIONS and option not in known:
            return option, FOREIGN_OPTIONS[option]
    return "", ""
