"""Sentences that call an agent, and look-alikes that do not."""

import pytest
from hilum_agents import AgentCall, complete_name, read_call, read_unknown
from hypothesis import given
from hypothesis import strategies as st

NAMES = ["review", "explore", "test", "doc", "refactor", "code_review", "test_runner", "db-admin", "sql2", "agent-x"]

CALLS = [
    # 使用 / 用 X agent
    ("使用 code_review agent 分析这个文件的代码质量", "code_review", "分析这个文件的代码质量"),
    ("用 code_review agent 检查代码风格", "code_review", "检查代码风格"),
    ("让 test_runner agent 运行测试", "test_runner", "运行测试"),
    ("@code_review 帮我审查这段代码", "code_review", "帮我审查这段代码"),
    ("使用 review agent 看看 a.py", "review", "看看 a.py"),
    ("用review agent检查这个文件", "review", "检查这个文件"),
    ("用 review agent，检查登录", "review", "检查登录"),
    ("用 review agent: 检查登录", "review", "检查登录"),
    ("用 review agent：检查登录", "review", "检查登录"),
    ("使用 REVIEW AGENT 分析", "review", "分析"),
    ("使用 Review Agent 分析", "review", "分析"),
    ("使用 db-admin agent 备份数据库", "db-admin", "备份数据库"),
    ("用 sql2 agent 优化查询", "sql2", "优化查询"),
    ("使用 agent-x agent 做事", "agent-x", "做事"),
    ("使用 review 智能体 分析 main.py", "review", "分析 main.py"),
    ("用 explore 智能体查找上传代码", "explore", "查找上传代码"),
    ("用 explore 代理 找入口", "explore", "找入口"),
    ("让 doc 智能体写一份 README", "doc", "写一份 README"),
    ("让 test agent 为 slug 写测试", "test", "为 slug 写测试"),
    ("请使用 explore agent 找上传代码", "explore", "找上传代码"),
    ("请用 review agent 看一下", "review", "看一下"),
    ("请让 test agent 运行测试", "test", "运行测试"),
    ("麻烦你用 review agent 看一下", "review", "看一下"),
    ("帮我用 doc agent 写文档", "doc", "写文档"),
    ("调用 refactor agent 重构 load()", "refactor", "重构 load()"),
    ("启动 explore agent 找配置", "explore", "找配置"),
    ("请 review agent 检查一下", "review", "检查一下"),
    ("叫 test agent 跑测试", "test", "跑测试"),
    ("使用 @review agent 检查", "review", "检查"),
    ("用「review」agent 检查", "review", "检查"),
    ("使用 `review` agent 检查", "review", "检查"),
    ("用 review agent\n检查下面的代码：\nx = 1", "review", "检查下面的代码：\nx = 1"),
    ("  用 review agent 检查  ", "review", "检查"),
    # 使用 / 用 X, only for names with _ or -
    ("使用 code_review 分析 src/index.ts", "code_review", "分析 src/index.ts"),
    ("用 code_review 检查代码", "code_review", "检查代码"),
    ("用 test_runner 跑一下", "test_runner", "跑一下"),
    ("使用 db-admin 看看慢查询", "db-admin", "看看慢查询"),
    ("用 Code_Review 检查代码", "code_review", "检查代码"),
    ("用 db-admin，看看慢查询", "db-admin", "看看慢查询"),
    ("请用 code_review 检查代码", "code_review", "检查代码"),
    # @X
    ("@review 看一下", "review", "看一下"),
    ("@review look at src/app.py", "review", "look at src/app.py"),
    ("@Review look at it", "review", "look at it"),
    ("@REVIEW look at it", "review", "look at it"),
    ("  @review do it", "review", "do it"),
    ("@review, look at this", "review", "look at this"),
    ("@review: look at this", "review", "look at this"),
    ("@review，看一下", "review", "看一下"),
    ("@review：看一下", "review", "看一下"),
    ("@review\nlook at the diff", "review", "look at the diff"),
    ("@review\n看看这个", "review", "看看这个"),
    ("@test write tests for slug()", "test", "write tests for slug()"),
    ("@test def slug is broken", "test", "def slug is broken"),
    ("@test class Foo, please", "test", "class Foo, please"),
    ("@db-admin list tables", "db-admin", "list tables"),
    ("@code_review @src/app.py is odd", "code_review", "@src/app.py is odd"),
    ("@doc README.md", "doc", "README.md"),
    ("@sql2 1", "sql2", "1"),
    ("@explore where is me@example.com used?", "explore", "where is me@example.com used?"),
    # use X agent to …
    ("use review agent to look at a.py", "review", "look at a.py"),
    ("Use the review agent to look at a.py", "review", "look at a.py"),
    ("use the review agent on src/", "review", "src/"),
    ("use the review agent for this file", "review", "this file"),
    ("use the review subagent to look at it", "review", "look at it"),
    ("use the review sub-agent to look at it", "review", "look at it"),
    ("Use my code_review agent to check it", "code_review", "check it"),
    ("please use the explore agent to find uploads", "explore", "find uploads"),
    ("Please use explore agent to find uploads", "explore", "find uploads"),
    ("can you use the test agent to cover slug()", "test", "cover slug()"),
    ("could you use the doc agent to write a README", "doc", "write a README"),
    ("run the test agent on slug.py", "test", "slug.py"),
    ("run test agent: cover slug.py", "test", "cover slug.py"),
    ("start the explore agent to find the entry", "explore", "find the entry"),
    ("call the review agent on the diff", "review", "the diff"),
    ("invoke the review agent to check the diff", "review", "check the diff"),
    ("have the doc agent write a README", "doc", "write a README"),
    ("let the refactor agent simplify load()", "refactor", "simplify load()"),
    ("get the review agent to check it", "review", "check it"),
    ("launch the explore agent, find the config", "explore", "find the config"),
    ("use @review agent to check", "review", "check"),
    ('use the "review" agent to check', "review", "check"),
    ("use agent review to check the diff", "review", "check the diff"),
    ("Run the agent review on x.py", "review", "x.py"),
    ("USE THE REVIEW AGENT TO CHECK", "review", "CHECK"),
    # ask X to …
    ("ask review to look at a.py", "review", "look at a.py"),
    ("Ask the review agent to look at a.py", "review", "look at a.py"),
    ("ask the explore agent to find uploads", "explore", "find uploads"),
    ("please ask doc to write a README", "doc", "write a README"),
    ("tell review to check the diff", "review", "check the diff"),
    ("ask @review to check", "review", "check"),
    ("ask Code_Review to check", "code_review", "check"),
]  # fmt: skip

TEXTS = [
    # nothing to do
    "@review",
    "@review   ",
    "@review ...",
    "用 review agent",
    "使用 review agent ",
    "use the review agent",
    "ask review",
    "",
    "   ",
    "@",
    "@ review look",
    "@review,",
    # e-mail addresses, hosts, packages, paths
    "me@review.com wrote to us",
    "review@example.com is the address",
    "mail test@review what happened",
    "@review.com is down",
    "@review/core is broken",
    "@types/node is missing",
    "@test/x.py explain",
    "@review.py explain this",
    "@src/app.py explain",
    "@doc/index.md summarize",
    "npm install @review/core",
    "@review-tools/core fails",
    "@test:unit is slow now",
    "git@review:team/repo.git clone",
    "explain @review please",
    "see @test and @doc",
    # decorators and code
    "@test\ndef f(): pass",
    "@test\nasync def f(): pass",
    "@test\nclass A:\n    pass",
    "@review\n@test\ndef f(): pass",
    "@test def f(): pass",
    "@test\npublic void run() {\n}",
    "@test\nfun f() = 1",
    "@test\nexport class A {}",
    "@test()\ndef f(): pass",
    "@test(x=1) def f",
    "@test.mark\ndef f(): pass",
    "x = a @review",
    "a @ test @ b",
    "```python\n@test\ndef f(): pass\n```",
    "def f():\n    @review look\n    pass",
    "@test function run() {",
    "@doc const x = 1;",
    "@test @other",
    # words of the language
    "用 review 检查代码",
    "用 test 数据跑一下",
    "使用 doc 文件夹里的模板",
    "用 explore 的方式学习",
    "使用 python 写一个脚本",
    "用 code_review.py 检查",
    "用 code_review/main.py 检查",
    "用 test_runner() 跑一下",
    "使用 code_review=1 运行",
    "用 db-admin@host 登录",
    "用 code_review",
    "使用 test_runner",
    "让 review 检查一下",
    "让 test 通过",
    "让测试通过",
    "用户的 review agent 在哪里",
    "我想使用 review agent 分析",
    "不要使用 review agent 分析",
    "别用 review agent 检查",
    "什么是 review agent",
    "怎么使用 review agent 分析？",
    "为什么用 code_review 检查代码会失败",
    "review agent 分析这个文件",
    "使用 unknown agent 分析",
    "用 no_such 检查代码",
    "让 nobody agent 运行",
    "使用 review agents 分析",
    "用 review agent_x 分析",
    # English look-alikes
    "use review comments to improve a.py",
    "use test agents to do it",
    "use the test suite to check",
    "use tests to find out",
    "how do I use the review agent to check?",
    "don't use the review agent to check",
    "do not ask review to look",
    "I asked review to look",
    "should I ask review to look at it?",
    "why did the review agent fail",
    "the review agent is slow",
    "write a test agent for me",
    "use the agent",
    "use an agent to review",
    "use the best agent to review",
    "ask me to review",
    "ask the user to test it",
    "ask for a review to be done",
    "ask them to review",
    "review to ask",
    "run tests",
    "run the tests to see",
    "use agent-based design to solve it",
    "use the review agent-like flow to check",
    "call review() to check",
    "start the test server",
    "have the tests run",
    "let me review to be sure",
    "get the doc to render",
    "tell me to stop",
    "user review agent to look",
    "ask nobody to look",
    "use the nobody agent to look",
    "@nobody look at it",
    "review this",
    "explore the code",
    "test it",
    "doc",
    # others come first, or later
    "!use review agent to look",
    "!@review look",
    "/agents run review look",
    "/review look",
    "/use review agent to look",
    "see below:\n@review look at it",
    "Hello.\nuse the review agent to look",
    "Please look at this:\n用 review agent 检查",
]


@pytest.mark.parametrize(("text", "name", "prompt"), CALLS, ids=[text for text, _, _ in CALLS])
def test_sentence_calls_an_agent(text, name, prompt):
    assert read_call(text, NAMES) == AgentCall(name, prompt)


@pytest.mark.parametrize("text", TEXTS)
def test_sentence_stays_text(text):
    assert read_call(text, NAMES) is None


def test_the_table_is_long_enough():
    assert len(CALLS) + len(TEXTS) >= 150
    assert len({text for text, _, _ in CALLS} | set(TEXTS)) == len(CALLS) + len(TEXTS)


def test_names_with_capitals_are_found():
    assert read_call("@review x", ["Review"]) == AgentCall("review", "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@reveiw look at it", ("reveiw", "review")),
        ("用 code-review 检查", ("code-review", "code_review")),
        ("使用 zzz agent 分析", ("zzz", "")),
        ("use the zzz agent to look", ("zzz", "")),
        ("ask reviwe to look", ("reviwe", "review")),
        ("@override is an annotation", None),
        ("ask the user to look", None),
        ("ask John to look", None),
        ("plain text", None),
        ("@review look", None),
        ("Run the agent review on x", None),
        ("me@reviw.com", None),
        ("@zzz look", None),
        ("!@reveiw x", None),
    ],
)
def test_unknown_names_are_told_with_the_nearest(text, expected):
    assert read_unknown(text, NAMES) == expected


def test_names_are_completed_at_the_beginning_only():
    assert complete_name("@", ["review", "doc"]) == ["@doc", "@review"]
    assert complete_name("@RE", ["review", "refactor", "doc"]) == ["@refactor", "@review"]
    assert complete_name("@x", ["review"]) == []
    assert complete_name("see @re", ["review"]) == []


@given(st.text(max_size=300))
def test_no_text_is_too_odd(text):
    for begun in ("", "@review ", "使用 review agent ", "use the ", "@"):
        call = read_call(begun + text, NAMES)
        assert call is None or (call.name in NAMES and call.prompt)
        read_unknown(begun + text, NAMES)


def test_long_texts_are_read_in_no_time():
    for text in (
        "use " * 50_000,
        "@" + "a" * 199_000,
        "请" * 100_000,
        "用 " + "a-" * 90_000,
        "use the " + "a " * 90_000,
    ):
        assert read_call(text, NAMES) is None
