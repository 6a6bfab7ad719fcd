"""The words of the forms in which rules are written, in English and Chinese.

Each word has a role. *Markers*, in capitals, give a sentence its form: ``NOT``, ``ASK``,
``BEFORE``. The other roles describe what is forbidden: verbs, nouns, places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple


class Entry(NamedTuple):
    """The role of a word or phrase, and the word that stands for all its synonyms."""

    role: str
    word: str


# Words that do not change the meaning of a rule, unless they belong to a phrase: "every time".
FILLERS = frozenset(
    """
    a an the any all every each some our your please always ever also just simply strictly explicitly anywhere
    absolutely expressly completely is are be been being yourself following
    描述 简单 简洁 清晰 编写 撰写 的 了 都 请 你 您 任何 所有 一切 一律 绝对 永远 千万 严格 先 一下 に 在 被
    把 将 对 才 本 近期 最近 这个 这些 位于
    """.split()
)
# Words about who asks whom. They are removed only next to the marker ASK.
ASKING = frozenset(
    """
    i me my we us you the a an user users user's human humans owner maintainer maintainers developer
    team explicit explicitly specifically expressly directly first prior written clear express to do
    so it this that by from for with of has have had been was were is are get getting obtain
    obtaining seek you're they their yes given giving otherwise each time one your
    用户 我 人类 主人 开发者 维护者 的 明确 事先 得到 获得 经过 经 征得 征求 取得 向 和 与 跟 由
    了 你 先 情况下 的情况下 意见 是
    """.split()
)
AGENTS = frozenset(
    "you agent agents assistant assistants ai model claude codex copilot cursor gemini we it"
    " agent's 助手 代理 智能体 模型 ai".split()
)

MARKERS = {
    "NOT": "never|kein|keine|niemals|nunca|never ever|not|do not|don't|dont|must not|must never"
    "|may not|should not|should"
    " never|shall not|shall never|cannot|can not|can't|mustn't|shouldn't|not allowed|not allowed to"
    "|never allowed to|not permitted|not permitted to|forbidden|forbidden to|forbidden from"
    "|prohibited|prohibited from|disallowed|banned|avoid at all costs|it forbidden to"
    "|refuse to|it not allowed to|it prohibited to|no|not to"
    "|under no circumstances|under no circumstances should|under no circumstances may"
    "|do not ever|not ever|never attempt to|do not attempt to|don't attempt to|never try to"
    "|do not try to|don't try to"
    "|禁止|严禁|不得|不要|不准|不可|不可以|不能|不许|不允许|不应|不应该|绝不|绝不能|绝不要|绝不可"
    "|绝不允许|绝对不要|绝对不能|切勿|永不|从不|请勿|勿|别|不",
    "ONLY": "only|exclusively|只|仅|仅限|只用|只能|仅能|只可以|只有|只允许|仅允许",
    "MUST": "must|should|shall|必须|务必|应|应当|一定要|要",
    "ASK": "wait for|waiting for|ask|stop and ask|stop and confirm|pause and ask|asks|asked|asking|ask for|asking for"
    "|check with|checking with|request|requests"
    "|requested|tell|tells|told|instruct|instructs|instructed|instruction|instructions|permission"
    "|approval|confirmation|consent|agreement|green light|go ahead|direction|directed|specified|opt-in"
    "|authorization|go-ahead|sign-off|confirm|confirms|confirming"
    "|confirmed|approve|approves|approved|authorize|authorized|authorised"
    "|says so|say so|requesting if you can|asking if you can|asking whether you can|discussion|discussing"
    "|询问|请示|问|同意|允许|许可|确认|授权|批准|要求|指示|审批|请求",
    "BEFORE": "before|prior to|before you|前|之前|以前",
    "WITHOUT": "without|未经|没有|未|在未|在没有",
    "UNLESS": "unless|until|除非",
    "WHEN": "when|whenever|every time|each time|if|after|once|时|后",
    "NEEDS": "requires|require|needs|need|需要|需|须|必须经过|需经|须经",
    "INSTEAD": "instead of|rather than|而不是|而非",
    "AVOID": "avoid|avoid to|避免",
    "UNASKED": "automatically|on own|on own initiative|proactively|unprompted|autonomously"
    "|擅自|私自|自行|主动|自动",
    "CLOSED": "untouched|read-only|as read-only|read only|off-limits|off limits|immutable|frozen|untouchable"
    "|只读|只读文件|只读目录",
}
VERBS = {
    "write": "edit|auto-edit|patch|tweak|mutate|adjust|modify|change|alter|touch|update|overwrite|rewrite|write to"
    "|write into"
    "|make changes to|make edits to|make modifications to|changes to|edits to|modifications to"
    "|修改|编辑|变更|触碰|改|动|碰|写入|覆盖|改写",
    "deploy": "deploy|部署",
    "upgrade": "upgrade|bump|downgrade|升级",
    "approve-review": "self-approve",
    "hard-code": "hard-code|hardcode|hard code|hard coding|hard coded|embed|硬编码",
    "store": "store|expose|leak|put secrets|保存|泄露",
    "stay": "stay|remain|be limited to|be confined to",
    "hand-edit": "hand-edit|hand edit|hand editing|hand edited|direct edits to|manual edits to"
    "|direct changes to|manual changes to"
    "|手动修改|手动编辑|手工修改|手改",
    "save": "write|save",
    "close": "close",
    "import": "import|import from",
    "comment": "comment on|post comments on|post comments|leave comments on|reply to",
    "clone": "clone|git clone",
    "delete": "delete|remove|wipe|purge|erase|unlink|删除|移除|删掉|删",
    "move": "rename|move|移动|重命名",
    "create": "generate|produce|scaffold|author|create|re-create|recreate|place|put|make|创建|新建|发起",
    "add": "add|新增|添加",
    "introduce": "introduce|leave|leave in|leave behind|reintroduce|re-add",
    "read": "read|study|reread|re-read|consult|view|inspect|look at|read from|读取|查看|阅读|读|检查",
    "open": "open|打开",
    "submit": "submit|raise|propose|send out",
    "access": "access|访问|读写",
    "run": "run|execute|trigger|kick off|spin up|invoke|launch|perform|运行|执行|実行",
    "start": "start|begin|开头|开始",
    "pass": "pass|passes|通过",
    "use": "use|uses|mix in|switch to|fall back to|block with|block on|使用|采用|用",
    "follow": "follow|遵循",
    "merge": "merge|合并",
    "tag": "create release tag|create release tags|tag|create git tags|create tags|create tag|create git tag"
    "|打标签",
    "push-tag": "push tag|push tags|push git tag|push git tags|push release tags",
    "release": "releasing|released|cut release",
    "github-release": "create release|create github release|create github releases|create releases",
    "call": "call|调用",
    "commit": "commit|git commit|commits|git commits|finalize|check in|提交|コミット",
    "push": "push|プッシュ|git push|pushes|推送",
    "force-push": "force push|force pushing|force pushed|force-push|force pushes|force-pushes|push with force"
    "|强制推送|强推",
    "amend": "amend",
    "stash": "stash|git stash",
    "reset": "reset|git reset",
    "stage": "stage|git add|暂存",
    "rebase": "rebase|git rebase",
    "install": "install|安装",
    "publish": "publish|发布",
    "skip": "skip|bypass|circumvent|跳过|绕过",
    "send": "send|发送|发",
    "post": "post|tweet",
    "contact": "contact|visit|connect to|fetch from|download from|reach|talk to|browse to"
    "|make requests to|make calls to|send data to|send requests to|send anything to|send code to"
    "|send traffic to|联系|连接|连接到",
    "load": "load|inject|加载|载入|注入",
    "contain": "contain|include|mention|say|reference|包含|出现|提到",
    "end": "end|结尾|结束",
    "exceed": "exceed|longer than|more than|of more than|超过|多于|长于",
    "limit": "keep|limit|at most|max|maximum|limit to|no longer than|no more than|控制在|限制在",
}
NOUNS = {
    "file": "file|files|code|anything|everything|content|contents|output|outputs|文件|内容|代码|东西",
    "folder": "folder|folders|directory|directories|dir|tree|目录|文件夹",
    "secrets": "secret|secrets|real secrets|api key|api keys|credential|credentials|password|passwords"
    "|access token|access tokens|private key|private keys|secret keys|auth tokens|api tokens"
    "|sensitive data|secret values|credential files|secret files"
    "|密钥|凭证|凭据|密码|敏感信息|令牌|机密",
    "hard-coded secrets": "hardcoded secrets|hard-coded secrets|hardcoded credentials"
    "|hard-coded credentials|hardcoded api keys|hardcoded passwords|hardcoded keys|hard-coded keys"
    "|hardcoded tokens",
    "migrations": "migration|migrations|迁移文件|迁移|migration files|migration file|migration scripts"
    "|database migration files",
    "run migrations": "database migrations|db migrations|schema migrations|database migration",
    "bare except": "bare except|bare excepts|bare except clauses|bare except statements|bare except blocks"
    "|bare exception handlers|bare except clause",
    "globally": "globally|global packages|system-wide",
    "git config": "git config|git configuration|global git config|git configs|global git configuration"
    "|git settings|repository git config",
    "period": "period|full stop|trailing period|句号",
    "ticket": "issue number|issue numbers|ticket number|ticket numbers|ticket id|ticket ids|issue id"
    "|issue reference|issue references|jira ticket|jira id|jira key|ticket reference|issue key",
    "lock files": "lockfile|lockfiles|lock file|lock files",
    "snapshots": "snapshot|snapshots|snapshot files|snapshot file",
    "relative imports": "relative import|relative imports",
    "file kind": "lock|secret-like|sensitive|config|configuration|environment|vendored|schema|配置文件",
    "config files": "config files|configuration files",
    "construct": "type|types|cast|casts|casting|type casting|type assertion|type assertions|statement"
    "|statements|calls|comment|comments|function|functions|macro|macros|keyword|annotation"
    "|annotations|syntax|helper|api|tags|attribute|attributes|block|blocks|usage|usages|类型|语句",
    "option": "option|options|flag|flags|argument|arguments|switch|参数",
    "it": "it|them|this|these|those|that|itself|its|their|there|自己",
    "new": "new|newly|新|新的",
    "existing": "existing|applied|committed|已有|已有的|现有|现有的",
    "generated": "generated|auto-generated|autogenerated|compiled|build output|生成|自动生成|生成的",
    "changes": "changes|work|更改|改动|代码更改",
    "remote": "remote|remotes|origin|github|gitlab|远程|远端|远程仓库",
    "worktree": "worktree|worktrees",
    "branch": "branch|branches|feature branch|分支",
    "workspace": "workspace|repositories|repos|project|repository|repo|working directory|working tree|project root"
    "|workspace root|repo root|repository root|root of repository|root of repo"
    "|codebase|工作区|项目|仓库|工作目录|项目目录|当前目录",
    "documentation": "documentation|docs|readme|readmes|documentation files|docs files"
    "|markdown files|readme files|summary documents|summary files|markdown docs|markdown documents"
    "|md files|markdown file|documentation file|doc files|readme file|文档",
    "packages": "package|packages|deps|dependency|dependencies|application's dependencies"
    "|project dependencies|library|libraries|software"
    "|依赖|包|软件包|依赖包|第三方库|库|软件",
    "modules": "module|modules",
    "other": "additional|third-party|third party|runtime|mandatory|heavy|extra|external|unapproved|额外的|第三方",
    "top-level": "top-level|top level",
    "pull request": "marking pr ready|marking pr as ready|pull request|pull requests|pr|prs"
    "|merge request|merge requests|合并请求",
    "issue": "issue|issues|github issue|github issues|gh issue|gitlab issues|工单",
    "branch name": "branch name|branch names|branch naming|branch naming format|branch name format"
    "|branch naming convention|branch naming conventions|branch naming pattern|分支命名|分支名",
    "pr title": "pr title|pr titles|pull request title|pull request titles|pr title format|pr-title"
    "|pr titles for pull requests|titles for pull requests",
    "file name": "file name|file names|filename|filenames|file naming|文件名",
    "wildcard imports": "wildcard import|wildcard imports|star imports",
    "default exports": "default export|default exports",
    "inline styles": "inline style|inline styles",
    "history": "history|git history|commit history",
    "public history": "public history|published history|shared history|pushed history",
    "subject": "subject|subjects|subject line|subject lines|first line|summary line|commit subject line"
    "|commit subject lines|commit subject|commit subjects|commit title|commit titles|message subject",
    "hooks": "hook|hooks|git hooks|pre-commit hooks|pre-commit hook|commit hooks|pre-push hooks",
    "sudo": "sudo",
    "destructive": "destructive|破坏性|毁灭性",
    "drafts": "draft|drafts|as draft|as drafts|in draft mode|draft mode|draft prs|draft pull requests"
    "|as draft prs|draft pr",
    "bare": "bare",
    "git": "git",
    "risky": "interactive|dangerous|long-running|blocking|deployment|system|mutating|state-changing",
    "signed-off": "signed off|signed-off|sign off|signed-off-by|signed-off-by line|dco sign-off|dco",
    "artifacts": "artifact|artifacts|releases|build artifacts|build artefacts|build outputs|artefacts"
    "|generated artifacts|compiled artifacts|build directories|build files|binaries|compiled binaries"
    "|caches|large binaries|large files|log files|local files|构建产物|产物",
    "commands": "shell command|shell commands|command|commands|operation|operations|action"
    "|actions|命令|操作|指令",
    "network": "network|internet|web|network access|network requests|network calls|http requests"
    "|external requests|网络|互联网|外网|外部网络",
    "shell": "shell|terminal|command line|终端|命令行",
    "emails": "email|emails|e-mail|e-mails|邮件|电子邮件",
    "tweets": "tweets|public posts|推文|推特",
    "tool": "tool|tools|工具",
    "host": "host|hosts|domain|domains|server|servers|site|sites|url|urls|域名|主机|服务器|网站",
    "data": "data|数据",
    "app": "app|application",
    "managing": "package manager|as package manager|包管理器|包管理"
    "|for package management|for dependency management|for package operations"
    "|for all package management|for managing dependencies|for managing packages",
    "registry": "pypi|registry",
    "answer": "answer|answers|response|responses|reply|replies|final answer|final answers|回答|回复"
    "|答复|答案|每次回复|每次回答|最终回答",
    "source": "production code|shipping code|application code|library code|new code|source code"
    "|app code",
    "tests": "test|tests|test code|test files|unit tests",
    "ci": "ci|ci workflow|ci workflows|ci configuration|ci config|ci files|workflow files",
    "standard": "pattern|specification|spec|standard|convention|conventions|规范|标准|风格",
    "dev server": "dev server|development server|开发服务器",
    "english": "english|英文|英语",
    "chinese": "chinese|中文|简体中文|汉语",
    "prefix": "prefix|prefixes|commit prefix|commit prefixes|commit types|commit type"
    "|前缀|类型前缀|提交格式|提交类型",
    "conventional": "conventional commits|conventional format|conventional messages|semantic commits|semantic commit messages"
    "|conventional-commits|conventional commit|conventional commit format"
    "|conventional commits format|conventional commit messages|conventional commit message"
    "|conventional-commit messages|conventional commits required|conventional commits format for"
    "|conventional commits for|conventional commit style|conventional commits style"
    "|conventional commit prefixes|conventional commits prefixes|conventional commit prefix"
    "|conventional-commit style|conventional commit specification|conventional commit-style messages",
    "message": "commit message|commit message format|commit format|commit messages"
    "|git commit messages|提交信息格式|to commits"
    "|in commits|to commit messages|提交标题|提交信息|提交说明|提交消息|提交内容",
    "trailer": "trailer|trailers|line|lines|line length|line lengths|单行|每行|footer|footers",
    "attribution": "attribution|attributions|signature|signatures|watermark|watermarks",
    "co-author": "co-authored-by|as co-author|co-author|co-authors|co-author line"
    "|co-author lines|co-author trailer"
    "|co-author trailers|co-authorship",
    "ai": "ai|agent|ai-generated|claude|copilot|codex",
    "emoji": "emoji|emojis|表情符号|表情",
    "em dash": "em dash|em dashes|em-dash|em-dashes",
    "question": "question|questions|问题|问句|提问",
    "text": "word|words|phrase|phrases|text|sentence|string|词语|短语",
    "memory": "memory|long-term memory|记忆|长期记忆",
    "session": "session|sessions|context|contexts|chat|chats|conversation|conversations|会话|上下文"
    "|聊天|对话",
}
KINDS = {
    "main": "主",
    "shared": "shared|group|public|protected|default|共享|群聊|群组|公开",
    "headless": "headless|unattended|无人值守|后台",
}
PLACES = {
    "in": "in|inside|within|under|below|inside of|下|中|里|内|里面|下面|以下|上",
    "to": "to|on|upon|onto|into|到|至",
    "from": "from|at|从",
    "with": "with|via|using|by passing|以",
    "outside": "outside|outside of|外|以外|之外|外面|以外的|之外的|外的",
}
UNITS = {
    "words": "word|words|个词|词",
    "characters": "character|characters|char|chars|字|个字|字符|个字符",
    "lines": "line|lines|行",
    "sentences": "sentence|sentences|句|句话",
    "paragraphs": "paragraph|paragraphs|段",
}
OTHERS = {
    "join": "or|and|nor|和|或|或者|及|与|以及",
    "by hand": "directly|manually|by hand|manual|direct|straight|直接|手动|手工",
    "except": "except|except for|excluding|other than|apart from",
    "filler": "for anything|for any purpose|in this monorepo|in monorepo"
    "|do not forget to|don't forget to|not negotiable|not optional"
    "|in conversation|in chat|in this conversation|in this chat|in current conversation"
    "|without exception|without exceptions|with no exceptions"
    "|use of|uses of|usage of|matching"
    "|named|locally|own|remember to|be sure to|treat"
    "|for reason|under circumstances|under circumstance|no matter what"
    "|in this repo|in this repository|in this project|in this codebase|in repo|in repository"
    "|in project|in codebase|across repo|across codebase|make sure|make sure to|make sure that"
    "|ensure|ensure that|under condition|无论如何|任何情况下|在任何情况下|情况下",
}
_BRANCHES = "upstream|main|master|develop|dev|trunk|production|staging|release"
# Verbs whose last letter is doubled, as in "committing".
_DOUBLED = frozenset("begin commit cut embed put reset run skip spin submit tag".split())
# Words in the table that are no verbs, or are inflected already.
_NOT_INFLECTED = frozenset(
    """
    at changes commits direct edits force force-pushes git hand hard longer manual max maximum
    modifications more no of passes pushes released releasing uses
    """.split()
)
_IRREGULAR = {
    "be": "been",
    "begin": "begun",
    "cut": "cut",
    "fall": "fallen",
    "keep": "kept",
    "leave": "left",
    "make": "made",
    "overwrite": "overwritten",
    "put": "put",
    "re-read": "re-read",
    "read": "read",
    "reread": "reread",
    "reset": "reset",
    "rewrite": "rewritten",
    "run": "run",
    "say": "said",
    "send": "sent",
    "spin": "spun",
    "write": "written",
}


def inflect(verb: str) -> list[str]:
    """Return the forms of an English verb, or of a phrase that begins with it: "edit", "editing"."""
    first, space, rest = verb.partition(" ")
    if first in _NOT_INFLECTED:
        return [verb]
    stem = first[:-1] if re.search("[^e]e$", first) and first != "be" else first
    if first in _DOUBLED:
        stem += first[-1]
    past = f"{stem}ed"
    if re.search("[^aeiou]y$", first):
        past = f"{first[:-1]}ied"
    past = _IRREGULAR.get(first, past)
    return [f"{form}{space}{rest}" for form in (first, f"{stem}ing", past)]


def written_entries() -> Iterator[tuple[str, Entry]]:
    """Yield the words and phrases of the tables with their roles. Each occurs once."""
    tables = (
        ("noun", NOUNS),
        ("branch", {word: word for word in _BRANCHES.split("|")}),
        ("place", PLACES),
        ("verb", VERBS),
        ("kind", KINDS),
    )
    for role, words in tables:
        for word, synonyms in words.items():
            for synonym in synonyms.split("|"):
                yield synonym, Entry(role, word)
    for role, synonyms in (OTHERS | MARKERS).items():
        for synonym in synonyms.split("|"):
            yield synonym, Entry(role, role)


@cache
def lexicon() -> dict[str, Entry]:
    """Return the roles of all words and phrases.

    A word of the tables takes precedence over a form of a verb: "generated" describes files.
    """
    entries = dict(written_entries())
    for word, synonyms in VERBS.items():
        for synonym in filter(str.isascii, synonyms.split("|")):
            for form in inflect(synonym):
                entries.setdefault(form, Entry("verb", word))
    return entries


@cache
def units() -> dict[str, str]:
    """Return the units of length."""
    return {word: unit for unit, words in UNITS.items() for word in words.split("|")}


@cache
def max_phrase() -> int:
    """Return the number of words in the longest phrase."""
    return max(len(phrase.split()) for phrase in lexicon() if phrase.isascii())


@cache
def max_characters() -> int:
    """Return the number of characters in the longest Chinese word."""
    return max(len(word) for word in (*lexicon(), *ASKING) if not word.isascii())
