"""Sixty commands in the shapes of published ones, with what a user types and what the model must read.

Each was written for the tests after looking at files of the same kind in public repositories: their
fields, placeholders, shell inserts and references.
"""

from typing import NamedTuple


class Shape(NamedTuple):
    """A command.

    Attributes:
        file: Its file in the project; a line ``opencode.json`` names a command in that file.
        text: The content of the file.
        typed: What the user types.
        prompt: Texts that the prompt contains.
        attached: Texts that the attached data contains.
    """

    file: str
    text: str
    typed: str
    prompt: tuple[str, ...]
    attached: tuple[str, ...] = ()


def claude(name: str, front: str, body: str, typed: str, *rest: tuple[str, ...]) -> Shape:
    text = f"---\n{front}\n---\n\n{body}\n" if front else f"{body}\n"
    return Shape(f".claude/commands/{name}.md", text, typed, *rest)


def gemini(name: str, toml: str, typed: str, *rest: tuple[str, ...]) -> Shape:
    return Shape(f".gemini/commands/{name}.toml", toml, typed, *rest)


def opencode(name: str, front: str, body: str, typed: str, *rest: tuple[str, ...]) -> Shape:
    return Shape(f".opencode/command/{name}.md", f"---\n{front}\n---\n{body}\n", typed, *rest)


def copilot(name: str, front: str, body: str, typed: str, *rest: tuple[str, ...]) -> Shape:
    return Shape(f".github/prompts/{name}.prompt.md", f"---\n{front}\n---\n{body}\n", typed, *rest)


def cursor(name: str, body: str, typed: str, *rest: tuple[str, ...]) -> Shape:
    return Shape(f".cursor/commands/{name}.md", body, typed, *rest)


GIT = "allowed-tools: Bash(git add:*), Bash(git status:*), Bash(git commit:*)"
SHAPES = (
    # Claude Code: context from git, then a task.
    claude(
        "commit-split",
        f"{GIT}\ndescription: Split the changes into commits",
        "## Context\n\n- Status: !`git status --short`\n- Diff: !`git diff HEAD`\n- Branch: !`git branch"
        " --show-current`\n\n## Task\n\nMake one commit for each purpose.",
        "/commit-split",
        ("- Branch: [attached 3]", "## Task"),
        ("$ git status --short\n M a.py", "-x = 1\n+x = 2", "main"),
    ),
    claude(
        "commit-staged",
        "description: Commit what is staged\ndisable-model-invocation: true\nallowed-tools: Bash(git diff*), Bash(git commit*)",
        "## Files\n!`git diff --cached --name-only`\n\n## Diff\n!`git diff --cached`\n\nCommit them.",
        "/commit-staged",
        ("## Files\n[attached 1]",),
    ),
    claude(
        "log",
        "description: Explain the last commits\nargument-hint: [count]",
        "Explain: !`git log --oneline -$1`",
        "/log 1",
        ("Explain: [attached 1]",),
        ("first commit",),
    ),
    claude(
        "fix-issue",
        "argument-hint: [issue-number] [priority]\ndescription: Fix an issue",
        "Fix issue #$1 with priority $2.\nFollow our standards.",
        "/fix-issue 123 high",
        ("Fix issue #123 with priority high.",),
    ),
    claude(
        "optimize",
        "",
        "Find performance problems in this code.",
        "/optimize",
        ("Find performance",),
    ),
    claude(
        "security",
        "",
        "Review for injection.",
        "/security only a.py",
        ("Review for injection.\n\nonly a.py",),
    ),
    claude(
        "explain",
        "model: haiku\ndescription: Explain a file",
        "Explain @$ARGUMENTS to a beginner.",
        "/explain a.py",
        ("Explain a.py [attached 1] to a beginner.",),
        ("x = 2",),
    ),
    claude(
        "compare",
        "description: Compare two files",
        "Compare @a.py with @docs/guide.md.",
        "/compare",
        ("Compare a.py [attached 1] with docs/guide.md [attached 2].",),
        ("The guide.",),
    ),
    claude(
        "frontend/component",
        "description: Create a component",
        "Create the component $1 in $ARGUMENTS[1].",
        "/component Button src/ui",
        ("Create the component Button in src/ui.",),
    ),
    claude(
        "api/endpoint",
        "",
        "Add the endpoint $ARGUMENTS.",
        "/api:endpoint GET /users",
        ("GET /users.",),
    ),
    claude(
        "hint-without-quotes",
        "argument-hint: <domain-model-path> [optional: output-path]\nallowed-tools: Task, Write, Glob",
        "Review the model at `$1`.",
        "/hint-without-quotes docs/model.md",
        ("Review the model at `docs/model.md`.",),
    ),
    claude(
        "colon-in-description",
        "description: Usage: run the tests: all of them\nallowed-tools: [Bash(pytest:*), Read]",
        "Run the tests.",
        "/colon-in-description",
        ("Run the tests.",),
    ),
    claude(
        "folded",
        'description: >-\n  A long description\n  on two lines\nargument-hint: "[path...]"',
        "Lint $ARGUMENTS",
        "/folded a b",
        ("Lint a b",),
    ),
    claude(
        "chinese",
        'description: "从需求到归档"\nargument-hint: "[change-id | 需求描述]"',
        "`$ARGUMENTS`:按步骤执行。",
        "/chinese 新的登录页面",
        ("`新的登录页面`:按步骤执行。",),
    ),
    claude(
        "fence",
        "description: Facts about the machine",
        "Facts:\n\n```!\nprintf 'one\\n'\nprintf 'two\\n'\n```\n\nUse them.",
        "/fence",
        ("Facts:\n\n[attached 1]\n\nUse them.",),
        ("one\ntwo",),
    ),
    claude(
        "pipes",
        "",
        "Largest: !`ls | wc -l | tr -d ' '` and !`git log --format=%an | sort | uniq -c | sort -rn | head -3`",
        "/pipes",
        ("Largest: [attached 1] and [attached 2]",),
        ("1 a",),
    ),
    claude(
        "fallback",
        "",
        "!`cat missing.txt 2>/dev/null || echo nothing yet`",
        "/fallback",
        (),
        ("nothing yet",),
    ),
    claude("awk", "", "Names: !`printf 'a b\\n' | awk '{print $2}'`", "/awk", (), ("\nb",)),
    claude(
        "subshell",
        "",
        "Since: !`git log $(git rev-list -n 1 HEAD) -1 --format=%s`",
        "/subshell",
        (),
        ("first commit",),
    ),
    claude(
        "money", "", "Costs $100 or $1.50 for $1.", "/money me", ("Costs $100 or $1.50 for me.",)
    ),
    claude(
        "mail",
        "",
        "Write to me@example.com about @dataclass and @nobody.",
        "/mail",
        ("me@example.com about @dataclass and @nobody.",),
    ),
    claude(
        "code-block",
        "",
        "Example:\n```python\n@cache\ndef f(): ...\n```\nDo $ARGUMENTS",
        "/code-block it",
        ("@cache", "Do it"),
    ),
    claude("crlf", "", "First\r\nSecond $1\r", "/crlf x", ("Second x",)),
    claude(
        "todo",
        "allowed-tools: Bash(git *), Bash(gh *), Glob, Grep, Read",
        "Add a todo: $ARGUMENTS",
        "/todo write docs",
        ("Add a todo: write docs",),
    ),
    claude(
        "team",
        "allowed-tools: Task, TeamCreate, SendMessage, mcp__github__list_issues",
        "Ask the team.",
        "/team",
        ("Ask the team.",),
    ),
    claude(
        "user-input",
        "description: Plan\ncreated: 2026-01-01\nversion: 1.10",
        "## User Input\n\n```text\n$ARGUMENTS\n```\n\nConsider it.",
        "/user-input a plan",
        ("```text\na plan\n```",),
    ),
    claude("multi-line", "", "Notes:\n$ARGUMENTS", "/multi-line one\ntwo", ("Notes:\none\ntwo",)),
    claude(
        "quoted",
        "",
        "Title: $1. Text: $2.",
        "/quoted \"A title\" 'a text'",
        ("Title: A title. Text: a text.",),
    ),
    claude("apostrophe", "", "Say: $ARGUMENTS", "/apostrophe don't stop", ("Say: don't stop",)),
    claude("missing", "", "From $1 to $2.", "/missing here", ("From here to .",)),
    # Gemini CLI.
    gemini(
        "plan-it",
        'description="A plan"\nprompt = """\nYou are a strategist. Plan:\n\n{{args}}\n"""',
        "/plan-it a cache",
        ("Plan:\n\na cache",),
    ),
    gemini(
        "git/commit-message",
        'prompt = """\nWrite a message for:\n\n```diff\n!{git diff}\n```\n"""',
        "/git:commit-message",
        ("```diff\n[attached 1]\n```",),
        ("+x = 2",),
    ),
    gemini(
        "review/pr",
        "prompt = '''\n## {{args}}\n!{git branch --show-current}\n@{docs/guide.md}\n!{printf '%s' {{args}} | tr a-z A-Z}\n'''",
        "/review:pr feature",
        ("## feature", "docs/guide.md [attached 2]"),
        ("FEATURE",),
    ),
    gemini(
        "grep",
        'prompt = "Search: !{grep -rn {{args}} docs}"',
        '/grep "The guide"',
        (),
        ("docs/guide.md:1:The guide.",),
    ),
    gemini(
        "no-args",
        'prompt = "Update the changelog."',
        '/no-args 1.2.0 added "a thing"',
        ('Update the changelog.\n\n1.2.0 added "a thing"',),
    ),
    gemini(
        "nested-braces",
        'prompt = """!{for x in a b; do printf "${x}\\\\n"; done}"""',
        "/nested-braces",
        (),
        ("a\nb",),
    ),
    gemini("folder", 'prompt = "Look into @{docs/}."', "/folder", ("Look into docs/.",)),
    gemini(
        "json-in-prompt",
        "prompt = '''Answer as {\"a\": {\"b\": 1}} for {{args}}.'''",
        "/json-in-prompt me",
        ('{"a": {"b": 1}} for me.',),
    ),
    gemini(
        "comment",
        '# In: .gemini/commands/comment.toml\ndescription = "Explain"\nprompt = "Explain {{ args }}"',
        "/comment it",
        ("Explain it",),
    ),
    gemini(
        "status",
        "prompt = '''\n!{git status}\n!{git diff --staged}\nAnswer.\n'''",
        "/status",
        ("[attached 1]\n[attached 2]\nAnswer.",),
        ("modified:",),
    ),
    # opencode.
    opencode(
        "test-all",
        "description: Run tests with coverage\nagent: build\nmodel: anthropic/claude-x",
        "Run the tests and fix failures.",
        "/test-all",
        ("Run the tests",),
    ),
    opencode(
        "component-of",
        "description: Create",
        "Create $1 in $2.",
        "/component-of Button the folder of forms",
        ("Create Button in the folder of forms.",),
    ),
    opencode(
        "coverage",
        "description: Analyze",
        "Results:\n!`echo 80 percent`\nSuggest improvements.",
        "/coverage",
        ("Results:\n[attached 1]",),
        ("80 percent",),
    ),
    opencode(
        "recent",
        "description: Recent changes",
        "!`git log --oneline -10`\n\nReview.",
        "/recent",
        (),
        ("first commit",),
    ),
    opencode(
        "review-component",
        "description: Review",
        "Review @a.py.",
        "/review-component",
        ("Review a.py [attached 1].",),
    ),
    opencode(
        "explain-only",
        "agent: plan\ndescription: Analyze",
        "Analyze $ARGUMENTS",
        "/explain-only a.py",
        ("Analyze a.py",),
    ),
    opencode(
        "apart",
        "subtask: true\ndescription: In its own conversation",
        "Summarize.",
        "/apart",
        ("Summarize.",),
    ),
    opencode(
        "bad-yaml",
        "description: [unclosed\nagent: build",
        "Do it anyway.",
        "/bad-yaml",
        ("Do it anyway.",),
    ),
    Shape(
        "opencode.json",
        '"test-config": {"template": "Run $ARGUMENTS now.", "description": "From the config", "agent": "build"}',
        "/test-config unit tests",
        ("Run unit tests now.",),
    ),
    Shape(
        "opencode.json",
        '"plain-config": {"template": "Only text"}',
        "/plain-config with words",
        ("Only text\n\nwith words",),
    ),
    # Copilot.
    copilot(
        "new-react-form",
        "agent: 'agent'\nmodel: GPT-4o\ntools: ['githubRepo', 'codebase']\ndescription: 'Generate a form'",
        "Ask for the name: ${input:formName}.",
        "/new-react-form Login",
        ("Ask for the name: Login.",),
    ),
    copilot(
        "performance",
        "description: 'Analyze a class'\nmode: ask",
        "Analyze: ${input:targetClass:Enter the class name (e.g. Order)}",
        "/performance the Order service",
        ("Analyze: the Order service",),
    ),
    copilot(
        "two-inputs",
        "mode: agent",
        "From ${input:source} to ${input:target:where}.",
        "/two-inputs source=a.py the new module",
        ("From a.py to the new module.",),
    ),
    copilot(
        "discover",
        "tools:\n  - read\n  - search\n  - agent\nversion: '7.0'",
        "Map: **${input:target}**",
        "/discover",
        ("Map: **(not given)**",),
    ),
    copilot(
        "linked",
        "description: With a link",
        "Follow [the guide](../../docs/guide.md) and [a page](https://example.com).",
        "/linked",
        ("[the guide](../../docs/guide.md) [attached 1] and [a page](https://example.com).",),
        ("The guide.",),
    ),
    copilot(
        "tools-of-vscode",
        "tools: ['changes', 'editFiles', 'runCommands', 'usages', 'Microsoft Docs', 'gh/*']",
        "Address the comments.",
        "/tools-of-vscode",
        ("Address the comments.",),
    ),
    # Cursor: plain Markdown.
    cursor(
        "code-review",
        "# Code review\n\n- [ ] Read the diff\n- [ ] Look for bugs\n",
        "/code-review in a.py",
        ("- [ ] Look for bugs\n\nin a.py",),
    ),
    cursor(
        "create-pr",
        "Create a PR.\n\n1. Run `git diff`\n2. Write the title\n",
        "/create-pr",
        ("1. Run `git diff`",),
    ),
    cursor(
        "onboard",
        "Read @docs/guide.md first.",
        "/onboard",
        ("Read docs/guide.md [attached 1] first.",),
    ),
    # hilum's own.
    Shape(
        ".hilum/commands/own.md",
        "---\ndescription: Own\n---\nDo {{args}} with ${input:how}. !`echo $1`",
        "/own it how=care",
        ("Do it how=care with care. [attached 1]",),
        ("$ echo it",),
    ),
)
