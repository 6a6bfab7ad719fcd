"""The keys of other agents' settings files, and what hilum does with each.

A key is either read by a plugin, which reports it, or not used for a reason. Keys that are in no
table are reported as unknown, so every key of a file is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hilum import environment, home_folder

Keys = tuple[str, ...]


class ReadBy(NamedTuple):
    """A key that a plugin reads.

    Attributes:
        kind: The kind of the plugin's report (``ForeignFile.kind``).
        otherwise: Why the key is not used in a file that the plugin does not report.
    """

    kind: str
    otherwise: str = ""


class ByValue(NamedTuple):
    """A key of which a plugin reads only one value.

    Attributes:
        value: The value.
        kind: The kind of the plugin's report about it.
        otherwise: Why the key is not used with any other value.
    """

    value: str
    kind: str
    otherwise: str


Use = str | ReadBy | ByValue
"""What hilum does with a key: the reason why it is not used, or the plugin that reads it."""


class SettingsFormat(NamedTuple):
    """The keys of one kind of settings file.

    Attributes:
        agent: The agent that the file was written for.
        keys: What hilum does with each key. A path of keys is written with dots, with ``*`` for any
            key; it also covers everything below it, unless a longer path does.
        project: The places of such files in a project.
        user: The places of such files in the home folder.
        prefixes: The beginnings of the keys that concern the agent, if the file also contains the
            settings of an editor; empty if all keys do.
        rest: What hilum does with all other keys; empty if they are unknown.
    """

    agent: str
    keys: Mapping[Keys, Use]
    project: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    rest: str = ""


def _make_table(rows: Mapping[Use, str], whole: Mapping[str, Use] | None = None) -> dict[Keys, Use]:
    """Return a table of keys.

    Args:
        rows: What hilum does, each with the keys that it applies to, separated by spaces.
        whole: Keys that contain dots themselves, each with what hilum does.
    """
    table: dict[Keys, Use] = {}
    for use, names in rows.items():
        for name in names.split():
            table[tuple(name.split("."))] = use
    for name, use in (whole or {}).items():
        table[(name,)] = use
    return table


PERMISSIONS = ReadBy("permissions")
HOOKS = ReadBy("hooks", "no installed plugin runs the hooks of {agent}")
SERVERS = ReadBy("MCP servers")
COMMANDS = ReadBy("commands")
MODEL = ReadBy("models", "a project cannot choose the model; set model in your own settings")
SCHEMA = "it only names the format of the file"
APPEARANCE = "it concerns the display of {agent}"
INTERNAL = "it concerns {agent} itself"
OWN_PROGRAMS = "hilum runs no program of another agent"
OWN_PLUGINS = "hilum has its own plugins: hilum plugins"
OWN_SANDBOX = "hilum has its own sandbox, which always applies; see the settings guard.*"
APPROVALS = "each server needs your approval: hilum mcp approve"
NO_APPROVAL = "no file of another agent approves calls; the setting approve is hilum's counterpart"
VARIABLES = "set the variables in your shell; hilum takes no variables from another agent's file"
EFFORT = "set models.models.NAME.effort in your own settings"
PROVIDER = "set up providers with hilum models"
RULES_FILES = "hilum reads the usual rules files; name others in the setting rules.files"
TELEMETRY = "hilum sends nothing unless you set otel.*"
CONTEXT_SIZE = "hilum compacts conversations by itself; see the settings memory.*"
MEMORY = "hilum has its own memory; see the settings longterm.*"
SKILLS = "hilum has its own list of skills: hilum skills"
AGENTS = "hilum has its own limits for agents; see the settings scheduler.*"
WEB = "hilum has its own web search and approval of hosts"
MODES = "hilum has its own modes: hilum run --mode plan"
FEATURES = "it switches parts of {agent} on and off, which hilum does not have"
GIT = "hilum adds nothing to commit messages; write rules about them, for example in AGENTS.md"
LOGIN = "hilum has its own keys: hilum models key"
UPDATES = "hilum is updated by your package manager"

# --- Claude Code ----------------------------------------------------------------------------------

_CLAUDE = _make_table(
    {
        PERMISSIONS: "permissions sandbox.filesystem.denyRead sandbox.filesystem.denyWrite"
        " sandbox.network.deniedDomains",
        HOOKS: "hooks disableAllHooks",
        MODEL: "model",
        ReadBy("MCP servers", "it concerns .mcp.json only"): "disabledMcpjsonServers",
        "put the servers into .mcp.json": "mcpServers",
        SCHEMA: "$schema",
        VARIABLES: "env",
        OWN_SANDBOX: "sandbox sandbox.filesystem sandbox.network",
        "hilum has no sandbox exceptions; set guard.writable in your own settings": (
            "sandbox.filesystem.allowWrite"
        ),
        "set guard.readable in your own settings": "sandbox.filesystem.allowRead",
        "the sandbox has no network; set guard.network in your own settings": (
            "sandbox.network.allowedDomains sandbox.network.allowLocalBinding"
            " sandbox.network.allowUnixSockets sandbox.network.allowAllUnixSockets"
        ),
        "every command runs in hilum's sandbox": "sandbox.excludedCommands",
        APPROVALS: "enableAllProjectMcpServers enabledMcpjsonServers allowedMcpServers"
        " deniedMcpServers allowManagedMcpServersOnly",
        OWN_PLUGINS: "enabledPlugins extraKnownMarketplaces strictKnownMarketplaces"
        " blockedMarketplaces pluginTrustMessage pluginConfigs",
        OWN_PROGRAMS: "apiKeyHelper awsAuthRefresh awsCredentialExport gcpAuthRefresh"
        " otelHeadersHelper fileSuggestion",
        "hilum has its own status line": "statusLine subagentStatusLine",
        "write rules instead, for example in AGENTS.md": "outputStyle language",
        GIT: "includeCoAuthoredBy attribution includeGitInstructions prUrlTemplate",
        EFFORT: "alwaysThinkingEnabled effortLevel maxThinkingTokens fastMode"
        " fastModePerSessionOptIn ultrathink",
        "set the models in your own settings": "availableModels modelOverrides advisorModel"
        " smallFastModel fallbackModel",
        MEMORY: "autoMemoryEnabled autoMemoryDirectory",
        "name the files to skip in the setting rules.skip": "claudeMdExcludes",
        CONTEXT_SIZE: "autoCompactEnabled autoCompactWindow subagentPromptCacheTtl promptCacheTtl",
        NO_APPROVAL: "autoMode disableAutoMode useAutoModeDuringPlan"
        " skipDangerousModePermissionPrompt skipAutoPermissionPrompt bypassPermissions",
        MODES: "plansDirectory showClearContextOnPlanAccept",
        "call the agent by name: hilum run '@NAME …'": "agent",
        AGENTS: "teammateMode worktree",
        SKILLS: "skillOverrides disableSkillShellExecution disableBundledSkills"
        " skillListingBudgetFraction maxSkillDescriptionChars",
        WEB: "skipWebFetchPreflight allowedHttpHookUrls httpHookAllowedEnvVars",
        "hilum's searches follow .gitignore": "respectGitignore",
        "hilum keeps sessions until you delete them: hilum sessions": "cleanupPeriodDays",
        LOGIN: "forceLoginMethod forceLoginOrgUUID",
        UPDATES: "autoUpdates autoUpdatesChannel minimumVersion",
        TELEMETRY: "feedbackSurveyRate feedbackSurveyState disableFeedback",
        "commands run in bash": "defaultShell",
        APPEARANCE: "theme verbose tui editorMode spinnerTipsEnabled spinnerTipsOverride"
        " spinnerVerbs showTurnDuration showThinkingSummaries prefersReducedMotion"
        " terminalProgressBarEnabled preferredNotifChannel messageIdleNotifThresholdMs"
        " companyAnnouncements autoScrollEnabled syntaxHighlightingDisabled viewMode voice"
        " voiceEnabled awaySummaryEnabled channelsEnabled promptSuggestionEnabled"
        " todoFeatureEnabled",
        "it applies only in files that an organization manages": "allowManagedHooksOnly"
        " allowManagedPermissionRulesOnly forceRemoteSettingsRefresh",
        INTERNAL: "autoConnectIde autoInstallIdeExtension diffTool parentSettingsBehavior"
        " fileCheckpointingEnabled hasCompletedOnboarding",
    }
)

# The state of Claude Code, in which settings are mixed with counters.
_CLAUDE_STATE = _make_table(
    {
        SERVERS: "mcpServers",
        "allow calls with rules of your own: hilum permissions allow": "projects.*.allowedTools",
        "add the server to .mcp.json, or with hilum mcp add": "projects.*.mcpServers",
        APPROVALS: "projects.*.enabledMcpjsonServers projects.*.disabledMcpjsonServers"
        " projects.*.enableAllProjectMcpServers",
        "trust the folder with hilum trust": "projects.*.hasTrustDialogAccepted",
        "it is state of {agent}": "projects projects.*",
        LOGIN: "oauthAccount customApiKeyResponses primaryApiKey",
    }
)

# --- Codex ----------------------------------------------------------------------------------------

_CODEX = _make_table(
    {
        PERMISSIONS: "default_permissions permissions",
        MODEL: "model",
        SERVERS: "mcp_servers",
        "approval of single tools stays with you": "mcp_servers.*.default_tools_approval_mode"
        " mcp_servers.*.tools",
        NO_APPROVAL: "approval_policy approvals_reviewer auto_review",
        ByValue("read-only", "permissions", OWN_SANDBOX): "sandbox_mode",
        OWN_SANDBOX: "sandbox_workspace_write sandbox windows",
        VARIABLES: "shell_environment_policy",
        PROVIDER: "model_provider model_providers oss_provider chatgpt_base_url openai_base_url"
        " preferred_auth_method forced_login_method forced_chatgpt_workspace_id"
        " cli_auth_credentials_store mcp_oauth_credentials_store mcp_oauth_callback_port",
        EFFORT: "model_reasoning_effort plan_mode_reasoning_effort model_reasoning_summary"
        " model_verbosity model_supports_reasoning_summaries service_tier",
        "set the models in your own settings": "review_model model_catalog_json",
        "set models.models.NAME.window in your own settings": "model_context_window"
        " model_max_output_tokens",
        CONTEXT_SIZE: "model_auto_compact_token_limit compact_prompt tool_output_token_limit"
        " experimental_compact_prompt_file",
        "write rules instead, for example in AGENTS.md": "instructions developer_instructions"
        " model_instructions_file experimental_instructions_file personality",
        RULES_FILES: "project_doc_fallback_filenames",
        "set rules.prompt_limit in your own settings": "project_doc_max_bytes",
        "hilum has no profiles; set HILUM_… variables or --set for a run": "profile profiles",
        OWN_PROGRAMS: "notify",
        HOOKS: "hooks",
        "trust a folder with hilum trust": "projects",
        "the agents in .codex/agents are listed by hilum agents": "agents",
        AGENTS: "agents.max_threads agents.max_depth agents.job_max_runtime_seconds",
        MEMORY: "memories memory",
        SKILLS: "skills",
        OWN_PLUGINS: "plugins marketplaces apps",
        WEB: "web_search tools.web_search tools.view_image tools",
        TELEMETRY: "otel analytics feedback",
        "hilum keeps its own sessions: hilum sessions": "history log_dir sqlite_home",
        FEATURES: "features suppress_unstable_features_warning experimental",
        "commands run in bash": "zsh_path allow_login_shell",
        APPEARANCE: "tui hide_agent_reasoning show_raw_agent_reasoning file_opener"
        " disable_paste_burst notice",
        UPDATES: "check_for_update_on_startup",
        MODES: "collaboration_mode",
        INTERNAL: "project_root_markers background_terminal_max_timeout commit_attribution"
        " ghost_snapshot js_repl_node_path js_repl_node_module_dirs",
        SCHEMA: "$schema",
    }
)

# --- Gemini CLI -----------------------------------------------------------------------------------

_GEMINI = _make_table(
    {
        PERMISSIONS: "excludeTools allowedTools coreTools tools.exclude tools.allowed tools.core"
        " mcpServers.*.excludeTools",
        MODEL: "model model.name",
        SERVERS: "mcpServers mcp.servers mcp.allowed mcp.excluded allowMCPServers excludeMCPServers",
        "no file of another agent approves calls of a server": "mcpServers.*.trust",
        OWN_PROGRAMS: "mcp.serverCommand mcpServerCommand tools.discoveryCommand"
        " tools.callCommand toolDiscoveryCommand toolCallCommand",
        HOOKS: "hooks hooksConfig",
        ByValue("plan", "permissions", NO_APPROVAL): "general.defaultApprovalMode",
        NO_APPROVAL: "tools.autoAccept autoAccept"
        " security.disableYoloMode security.enablePermanentToolApproval tools.approvalMode"
        " policyPaths adminPolicyPaths",
        "trust a folder with hilum trust": "security.folderTrust folderTrust folderTrustFeature",
        LOGIN: "security.auth selectedAuthType enforcedAuthType useExternalAuth",
        VARIABLES: "security.environmentVariableRedaction excludedProjectEnvVars"
        " advanced.excludedEnvVars",
        OWN_SANDBOX: "tools.sandbox sandbox tools.sandboxAllowedPaths tools.sandboxNetworkAccess",
        "commands run in hilum's own shell": "tools.shell tools.useRipgrep",
        CONTEXT_SIZE: "model.compressionThreshold model.chatCompression chatCompression"
        " model.summarizeToolOutput summarizeToolOutput tools.truncateToolOutputThreshold"
        " tools.truncateToolOutputLines tools.enableToolOutputTruncation contextManagement",
        "set turns in your own settings": "model.maxSessionTurns maxSessionTurns",
        "set the models in your own settings": "modelConfigs",
        RULES_FILES: "context.fileName contextFileName context.importFormat",
        "add the folders to the setting extra_roots in your own settings": (
            "context.includeDirectories includeDirectories context.loadMemoryFromIncludeDirectories"
            " loadMemoryFromIncludeDirectories"
        ),
        "hilum's searches follow .gitignore, and .geminiignore denies files": (
            "context.fileFiltering fileFiltering"
        ),
        "hilum has its own limits for context": "context.discoveryMaxDirs memoryDiscoveryMaxDirs",
        OWN_PLUGINS: "extensions admin",
        SKILLS: "skills",
        AGENTS: "agents",
        MODES: "general.plan",
        GIT: "general.attribution",
        TELEMETRY: "telemetry privacy usageStatisticsEnabled",
        APPEARANCE: "ui theme customThemes vimMode preferredEditor hideTips hideBanner"
        " hideWindowTitle hideFooter showMemoryUsage showLineNumbers accessibility output"
        " general.vimMode general.preferredEditor general.enablePromptCompletion"
        " general.enableNotifications general.devtools general.previewFeatures",
        "hilum keeps its own sessions: hilum sessions": "general.checkpointing checkpointing"
        " general.sessionRetention general.rateLimit",
        UPDATES: "general.enableAutoUpdate general.enableAutoUpdateNotification"
        " general.disableAutoUpdate general.disableUpdateNag disableAutoUpdate disableUpdateNag",
        INTERNAL: "general.maxAttempts general.retryFetchErrors general.debugKeystrokeLogging"
        " ide ideMode hasSeenIdeIntegrationNudge advanced autoConfigureMaxOldSpaceSize"
        " dnsResolutionOrder bugCommand experimental experiments useWriteTodos billing",
        SCHEMA: "$schema $version",
    }
)

# --- opencode -------------------------------------------------------------------------------------

_OPENCODE = _make_table(
    {
        PERMISSIONS: "permission tools",
        MODEL: "model",
        SERVERS: "mcp",
        COMMANDS: "command commands",
        SCHEMA: "$schema",
        "the agents in this file are not read, except for what restricts the main agent; put them"
        " into .opencode/agents": "agent agents",
        "hilum has its own modes; put agents into .opencode/agents": "mode",
        ByValue("plan", "permissions", "call the agent by name: hilum run '@NAME …'"): (
            "default_agent"
        ),
        RULES_FILES: "instructions",
        "set roles.fast in your own settings": "small_model",
        PROVIDER: "provider providers disabled_providers enabled_providers",
        OWN_PLUGINS: "plugin plugins",
        OWN_PROGRAMS: "formatter lsp",
        SKILLS: "skills",
        "hilum publishes no sessions": "share autoshare",
        CONTEXT_SIZE: "compaction",
        "hilum undo always works": "snapshot",
        "hilum's indexes and searches follow .gitignore": "watcher",
        "see hilum serve": "server",
        UPDATES: "autoupdate",
        APPEARANCE: "theme keybinds tui layout username logLevel",
        FEATURES: "experimental enterprise",
        "commands run in bash": "shell",
    }
)

# --- Cursor, Copilot, aider and others ------------------------------------------------------------

_CURSOR = _make_table(
    {
        PERMISSIONS: "permissions",
        MODEL: "model",
        NO_APPROVAL: "approvalMode",
        OWN_SANDBOX: "sandbox network",
        GIT: "attribution",
        LOGIN: "authInfo privacyCache",
        APPEARANCE: "editor display showThinkingBlocks hasChangedDefaultModel",
        INTERNAL: "version channel maxMode selectedModel modelParameters exportNotice",
        SCHEMA: "$schema",
    }
)

_COPILOT = _make_table(
    {},
    {
        "chat.tools.terminal.autoApprove": PERMISSIONS,
        "chat.tools.edits.autoApprove": PERMISSIONS,
        "chat.tools.urls.autoApprove": PERMISSIONS,
        "chat.tools.global.autoApprove": NO_APPROVAL,
        "chat.tools.autoApprove": NO_APPROVAL,
        "chat.tools.eligibleForAutoApproval": NO_APPROVAL,
        "chat.tools.terminal.enableAutoApprove": NO_APPROVAL,
        "chat.tools.terminal.ignoreDefaultAutoApproveRules": NO_APPROVAL,
        "chat.tools.terminal.autoReplyToPrompts": NO_APPROVAL,
        "chat.agent.maxRequests": "set turns in your own settings",
        "chat.mcp.access": APPROVALS,
        "chat.mcp.autostart": APPROVALS,
        "chat.mcp.discovery.enabled": APPROVALS,
        "chat.instructionsFilesLocations": RULES_FILES,
        "chat.promptFilesLocations": "put the prompts into .github/prompts",
        "chat.modeFilesLocations": "put the agents into .github/agents",
        "chat.agentFilesLocations": "put the agents into .github/agents",
        "chat.agentSkillsLocations": "put the skills into .github/skills",
        "chat.hookFilesLocations": "hilum does not run the hooks of Copilot",
        "github.copilot.chat.codeGeneration.instructions": RULES_FILES,
        "github.copilot.chat.testGeneration.instructions": RULES_FILES,
        "github.copilot.chat.reviewSelection.instructions": RULES_FILES,
        "github.copilot.chat.commitMessageGeneration.instructions": RULES_FILES,
        "github.copilot.chat.pullRequestDescriptionGeneration.instructions": RULES_FILES,
        "mcp": SERVERS,
    },
)

_ZED = _make_table({SERVERS: "context_servers", NO_APPROVAL: "agent", INTERNAL: "assistant"})

_AIDER = _make_table(
    {
        RULES_FILES: "read",
        "set model in your own settings": "model weak-model editor-model opus sonnet",
        "write rules about tests and linters, or set lint.checkers": (
            "lint lint-cmd auto-lint test-cmd auto-test"
        ),
        GIT: "auto-commits attribute-author attribute-committer attribute-co-authored-by"
        " attribute-commit-message-author attribute-commit-message-committer commit-prompt"
        " dirty-commits",
        LOGIN: "openai-api-key anthropic-api-key api-key",
        NO_APPROVAL: "yes yes-always",
    }
)

_SERVER_FILE = _make_table(
    {
        SERVERS: "mcpServers servers inputs",
        "no file of another agent approves calls of a server": "mcpServers.*.autoApprove"
        " mcpServers.*.alwaysAllow mcpServers.*.trust servers.*.autoApprove servers.*.alwaysAllow"
        " servers.*.trust",
        SCHEMA: "$schema",
    }
)

_FORMATS = (
    SettingsFormat(
        "Claude Code", _CLAUDE, (".claude/settings.json", ".claude/settings.local.json")
    ),
    SettingsFormat("Codex", _CODEX, (".codex/config.toml",)),
    SettingsFormat("Gemini CLI", _GEMINI, (".gemini/settings.json",), (".gemini/settings.json",)),
    SettingsFormat(
        "opencode",
        _OPENCODE,
        ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
    ),
    SettingsFormat("Cursor", _CURSOR, (".cursor/cli.json",), (".cursor/cli-config.json",)),
    SettingsFormat(
        "Copilot",
        _COPILOT,
        (".vscode/settings.json",),
        prefixes=("chat.", "github.copilot", "mcp"),
        rest="it concerns the editor's own chat",
    ),
    SettingsFormat(
        "Zed",
        _ZED,
        (".zed/settings.json",),
        prefixes=("agent", "assistant", "context_servers", "language_models"),
        rest="it concerns the editor's own agent",
    ),
    SettingsFormat(
        "aider",
        _AIDER,
        (".aider.conf.yml",),
        (".aider.conf.yml",),
        rest="hilum has no counterpart of this option of aider",
    ),
    SettingsFormat("Claude Code", _SERVER_FILE, (".mcp.json",)),
    SettingsFormat("Cursor", _SERVER_FILE, (".cursor/mcp.json",), (".cursor/mcp.json",)),
    SettingsFormat("Copilot", _SERVER_FILE, (".vscode/mcp.json",)),
    SettingsFormat("Roo Code", _SERVER_FILE, (".roo/mcp.json",)),
    SettingsFormat(
        "Claude Code",
        _CLAUDE_STATE,
        user=(".claude.json",),
        rest="it is state of {agent}",
    ),
)


def list_project_files() -> dict[str, SettingsFormat]:
    """Return the settings files that a project may contain, by their paths in the project."""
    return {name: each for each in _FORMATS for name in each.project}


def list_user_files() -> dict[Path, SettingsFormat]:
    """Return the settings files that the home folder may contain."""
    home = home_folder()
    environ = environment()
    found = {home / name: each for each in _FORMATS for name in each.user}
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    projects = list_project_files()
    found[claude / "settings.json"] = projects[".claude/settings.json"]
    found[codex / "config.toml"] = projects[".codex/config.toml"]
    for name in ("opencode.json", "opencode.jsonc"):
        found[config / "opencode" / name] = projects[name]
    return found
