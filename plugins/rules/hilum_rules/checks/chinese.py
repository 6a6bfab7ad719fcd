"""Sentences in Chinese: what they forbid, or want to be asked for.

A sentence is taken only if all of it is understood.
"""

# Expressions are read whole.
# ruff: noqa: E501

from __future__ import annotations

import re
from functools import cache

from hilum_rules.checks import vocabulary as v
from hilum_rules.checks.model import (
    READS,
    WRITES,
    Action,
    Answers,
    Ban,
    Commands,
    Contexts,
    Effect,
    Hosts,
    Paths,
    Tools,
)
from hilum_rules.checks.objects import Reading, each_part

_A = r"⟦\d+⟧"
_LIST = rf"{_A}(?:\s*(?:、|，|,|和|或者?|与|及|以及|/)\s*{_A})*"
_NOT = (
    r"(?:你|agent|ai|助手|代理|模型)?\s*(?:绝对|一律|永远|任何情况下都?|在任何情况下都?|无论如何都?|千万|严格)?\s*"
    r"(?:严禁|禁止|不得|不要|不准|不可以?|不能|不许|不允许|不应该?|绝不(?:能|要|可以?|允许)?|绝对不(?:要|能|可以?|允许)|切勿|请勿|勿|别)\s*"
)
_USER = r"(?:用户|我|人类|主人|开发者|维护者)?(?:的)?"
_YES = r"(?:明确|事先)?(?:的)?(?:同意|允许|许可|确认|授权|批准|询问|要求|指示)"
_WITHOUT = rf"(?:未经|没有(?:得到|获得|经过)?|在未(?:得到|获得|经过|经)?|未(?:得到|获得|经过)|在没有){_USER}{_YES}(?:的情况下|之?前|时)?[，,]?\s*"
_OWN = r"(?:擅自|私自|自行|主动|自动|默认)"
_MANNER = rf"(?:{_OWN}|随意|直接)?\s*"
_ENDS = r"(?:了|，?无论如何|，?任何情况下)?"

_VERBS: dict[str, frozenset[Action]] = {
    **dict.fromkeys(
        (
            "修改",
            "编辑",
            "改动",
            "更改",
            "变更",
            "触碰",
            "改",
            "动",
            "碰",
            "写入",
            "覆盖",
            "改写",
            "手动修改",
            "手动编辑",
            "手工修改",
            "手改",
        ),
        WRITES,
    ),
    **dict.fromkeys(
        ("删除", "移除", "移动", "重命名", "删掉", "删"), frozenset[Action]({"delete"})
    ),
    **dict.fromkeys(("创建", "新建", "新增", "添加"), frozenset[Action]({"create"})),
    **dict.fromkeys(("读取", "查看", "打开", "阅读", "读"), READS),
    "访问": READS | WRITES,
}
_OUT = r"(?:工作区|项目|仓库|工作目录|项目目录|当前目录)(?:目录|文件夹)?(?:以|之)?外(?:面)?(?:的)?"


def read(reading: Reading) -> tuple[Effect, tuple[Ban, ...]] | None:
    """Read the head of a sentence: its effect and what it bans, or nothing."""
    head = reading.phrase.head
    found = _frames()["without"].fullmatch(head)
    if found:
        bans = actions(found["act"], reading)
        return ("ask", bans) if bans else None
    for name in ("within", "unless", "ask", "needs"):
        found = _frames()[name].fullmatch(head)
        if found:
            bans = actions(found["act"], reading)
            return ("ask", bans) if bans else None
    answer = _answers(head, reading)
    if answer:
        return "deny", (answer,)
    context = _contexts(head, reading)
    if context:
        return "deny", (context,)
    found = _frames()["passive"].fullmatch(head)
    if found:
        bans = actions(f"{found['hand'] or ''}{found['verb']}{found['what']}", reading)
        if bans:
            return ("ask" if found["own"] else "deny", bans)
        return None
    found = _frames()["closed"].fullmatch(head)
    if found:
        ban = _files(found["what"], WRITES, reading)
        return ("deny", (ban,)) if ban else None
    found = _frames()["not"].fullmatch(head)
    if found:
        bans = actions(found["act"], reading)
        if bans:
            return ("ask" if found["own"] else "deny", bans)
        return None
    return None


@cache
def _frames() -> dict[str, re.Pattern[str]]:
    before = r"(?:之|以)?前[，,]?\s*(?:都|请|你)?(?:必须|务必|需要?|一定要|应当?|要|请)?(?:先)?"
    asked = (
        r"(?:(?:询问|征求|征得|请求|得到|获得|取得|经过|经|问)"
        + _USER
        + r"(?:明确)?(?:的)?(?:同意|确认|许可|批准|授权|意见|允许)?"
        r"|(?:向|和|与|跟|让|由)" + _USER + r"(?:确认|询问|请示|核实|批准|同意)|确认|请示)"
    )
    verb = "|".join(sorted(_VERBS, key=len, reverse=True))
    return {
        "ask": re.compile(rf"(?:在)?(?P<act>.+?){before}{asked}(?:一下)?"),
        "needs": re.compile(
            rf"(?P<act>.+?)(?:必须|需要|须|需)(?:先)?(?:经过?|得到|获得|征得|由)?{_USER}(?:明确)?(?:的)?(?:确认|同意|批准|许可|授权|审批)"
        ),
        "without": re.compile(
            rf"{_WITHOUT}(?:{_NOT}|(?:一律)?不(?:会|再)?){_MANNER}(?P<act>.+?){_ENDS}"
        ),
        "within": re.compile(
            rf"(?:{_NOT}){_WITHOUT.replace('(?:未经', '(?:未经|在未经', 1)}{_MANNER}(?P<act>.+?){_ENDS}"
        ),
        "unless": re.compile(
            rf"(?:{_NOT}){_MANNER}(?P<act>.+?)[，,]?\s*除非(?:是)?(?:得到|获得|经过|经)?{_USER}(?:明确)?(?:的)?(?:要求|同意|允许|许可|授权|批准|指示|确认)(?:了|你)?"
        ),
        "passive": re.compile(
            rf"(?P<what>.*{_A}.*?)(?:{_NOT})(?:被)?(?P<own>{_OWN})?(?P<hand>直接|手动|手工)?(?P<verb>{verb}|运行|执行|使用)"
        ),
        "closed": re.compile(
            rf"(?P<what>.*{_A}.*?)(?:是|为|视为|均为|都是)?只读(?:的)?(?:文件|目录)?"
        ),
        "not": re.compile(rf"(?:{_NOT})(?P<own>{_OWN})?(?P<act>.+?){_ENDS}"),
    }


def actions(text: str, reading: Reading) -> tuple[Ban, ...]:
    """Read what is done: one thing, or several that are joined.

    Nothing if a part of it is not understood.
    """
    return each_part(text.strip(" ，,"), reading, _action)


def _action(text: str, reading: Reading) -> Ban | None:
    text = text.strip()
    plain = next(
        (ban for pattern, ban in _words() if pattern.fullmatch(text.removeprefix("直接"))), None
    )
    if plain:
        return plain
    found = re.fullmatch(
        rf"(?:直接)?(?P<verb>强制推送|推送|提交|push|commit|force push)(?:代码|更改|修改)?(?:到|至|在)\s*(?P<list>(?:{_A}|[a-z]+)(?:\s*(?:、|/|和|或者?)\s*(?:{_A}|[a-z]+))*)\s*(?:分支)?(?:上)?",
        text,
    )
    if found:
        named = reading.branches(found["list"])
        pushed = {
            "推送": v.GIT_PUSH,
            "push": v.GIT_PUSH,
            "提交": v.GIT_COMMIT,
            "commit": v.GIT_COMMIT,
        }
        if named:
            return Commands(pushed.get(found["verb"], v.FORCE_PUSH), branches=named)
        return None
    found = _acts()["command"].fullmatch(text)
    if found:
        used = found["verb"] in ("使用", "用", "调用")
        if found["what"] == "工具":
            return reading.tools(found["list"])
        return (reading.tools(found["list"], known=True) if used else None) or reading.commands(
            found["list"], used=used
        )
    found = _acts()["bare"].fullmatch(text)
    if found:
        return reading.commands(found["list"], used=True, many=True)
    found = _acts()["host"].fullmatch(text)
    if found and (hosts := reading.hosts(found["list"])):
        return hosts
    found = _acts()["files"].fullmatch(text)
    if found:
        verbs = re.split(r"、|，|和|或者?|及|与|/", found["verb"])
        does = frozenset[Action]().union(*(_VERBS[verb] for verb in verbs))
        hand = bool(found["hand"]) or any(verb.startswith("手") for verb in verbs)
        if does >= WRITES and (beyond := _beyond(found["what"], reading)):
            return beyond
        return _files(found["what"], does, reading, hand=hand)
    return None


@cache
def _acts() -> dict[str, re.Pattern[str]]:
    verb = "|".join(sorted(_VERBS, key=len, reverse=True))
    return {
        "command": re.compile(
            rf"(?:直接)?(?P<verb>运行|执行|使用|用|调用)\s*(?P<list>{_LIST})\s*(?P<what>命令|工具|指令)?"
        ),
        "bare": re.compile(rf"(?P<list>{_LIST})(?:命令)?"),
        "host": re.compile(
            rf"(?:访问|连接到?|请求|联系|下载自|从)\s*(?:域名|主机|服务器|网站)?\s*(?P<list>{_LIST})\s*(?:域名|主机|服务器|网站)?(?:下载|获取数据)?"
        ),
        "files": re.compile(
            rf"(?P<hand>手动|手工|直接)?(?P<verb>(?:{verb})(?:(?:、|，|和|或者?|及|与|/)(?:{verb}))*)\s*(?P<what>.*{_A}.*?)"
        ),
    }


def _beyond(text: str, reading: Reading) -> Paths | None:
    """Read ``⟦0⟧ 以外的任何文件``: only there may be written."""
    found = re.fullmatch(
        rf"(?P<list>{_LIST})\s*(?:目录|文件夹)?(?:以|之)外的?(?:任何|所有|其他)*(?:文件|内容|代码)",
        text.strip(),
    )
    return reading.beyond(found["list"]) if found else None


def _files(
    text: str, does: frozenset[Action], reading: Reading, *, hand: bool = False, named: bool = False
) -> Paths | None:
    found = re.fullmatch(
        rf"(?P<lead>(?:任何|所有|已有的?|现有的?|自动生成的?|生成的?|位于|在|文件|目录|文件夹|配置文件|里的|下的)*)\s*(?P<list>{_LIST})\s*"
        r"(?P<kind>(?:这个|等)?(?:目录|文件夹|文件)?(?:下|中|里|内|里面|下面|以下)?(?:的)?(?:任何|所有|一切|已有的?|现有的?|自动生成的?|生成的?)?(?:文件|内容|代码|东西|迁移文件|迁移)?(?:本身)?)",
        text.strip(),
    )
    if found is None or "等" in found["kind"]:
        return None
    if re.search(r"已有|现有", found["lead"] + found["kind"]):
        does = does - {"create"}
    called = named or bool(
        re.search(r"目录|文件夹|文件|下|中|里|内", found["lead"] + found["kind"])
    )
    return reading.paths(found["list"], does, hand=hand, named=called)


@cache
def _words() -> tuple[tuple[re.Pattern[str], Ban], ...]:
    table: list[tuple[str, Ban]] = [
        (
            r"(?:git\s*)?提交(?:任何)?(?:代码|更改|修改|改动|commit|到\s*git|到仓库)?|(?:创建|进行)?\s*(?:git\s*)?commit|执行\s*git commit",
            Commands(v.GIT_COMMIT),
        ),
        (
            r"(?:git\s*)?(?:推送|push)\s*(?:任何)?(?:代码|更改|提交|分支)?(?:到(?:远程|远端)(?:仓库)?)?|执行\s*git push",
            Commands(v.GIT_PUSH),
        ),
        (r"强制推送|强推|force[- ]push|git push --force", Commands(v.FORCE_PUSH)),
        (r"(?:git\s*)?暂存(?:文件|更改)?", Commands(v.STAGE)),
        (r"(?:创建|提交|发起)\s*(?:pr|pull request|合并请求)", Commands(v.PULL_REQUEST)),
        (
            r"安装(?:任何)?(?:新的?|额外的?|第三方的?)?(?:依赖|包|软件包|依赖包|第三方库|库|软件)",
            Commands(v.INSTALL, new=True),
        ),
        (r"发布(?:任何)?(?:包|软件包)(?:到\s*(?:npm|pypi))?", Commands(v.PUBLISH)),
        (
            r"(?:使用|用)\s*sudo|(?:以|使用)\s*root\s*(?:身份|权限)?(?:运行|执行)?(?:任何)?(?:命令)?",
            Commands((("sudo",), ("doas",), ("su",), ("pkexec",))),
        ),
        (
            r"(?:运行|执行)(?:任何)?(?:破坏性|毁灭性)(?:的)?(?:命令|操作|指令)",
            Commands(v.DESTRUCTIVE),
        ),
        (r"(?:删除|移除)(?:任何|用户的?)?文件", Paths(("**",), frozenset({"delete"}))),
        (
            rf"(?:删除|移除)(?:任何)?{_OUT}(?:任何)?文件",
            Paths((), frozenset({"delete"}), outside=True),
        ),
        (
            rf"(?:修改|编辑|写入|创建|改动|修改或删除)(?:任何)?{_OUT}(?:任何)?文件",
            Paths((), WRITES, outside=True),
        ),
        (rf"(?:访问|读写)(?:任何)?{_OUT}(?:任何)?文件", Paths((), READS | WRITES, outside=True)),
        (rf"读取(?:任何)?{_OUT}(?:任何)?文件", Paths((), READS, outside=True)),
        (r"(?:访问|使用|连接)(?:网络|互联网|外网|外部网络)|联网|上网", Hosts(("*",))),
        (r"(?:运行|执行|使用)(?:任何)?(?:shell|终端|命令行)(?:命令)?", Tools(risk="execute")),
        (r"发送?(?:任何)?(?:电子)?邮件", Tools(v.EMAIL_TOOLS)),
        (r"(?:发送|发布|发)(?:推文|推特)", Tools(v.TWEET_TOOLS)),
    ]
    return tuple((re.compile(pattern), ban) for pattern, ban in table)


_ANSWER = r"(?:你的|最终|最后的?|所有|任何|每次)*(?:回答|回复|答复|答案)"
_UNITS = {
    "字": "characters",
    "个字": "characters",
    "字符": "characters",
    "个字符": "characters",
    "行": "lines",
    "句": "sentences",
    "句话": "sentences",
    "段": "paragraphs",
    "个词": "words",
    "词": "words",
}


def _answers(head: str, reading: Reading) -> Answers | None:
    number = r"(?P<n>\d+)\s*(?P<unit>个字符|个字|字符|字|行|句话|句|段|个词|词)"
    table = [
        (rf"(?:{_NOT})在{_ANSWER}(?:中|里)?使用(?:任何)?(?:表情符号|emoji|表情)", "emoji"),
        (
            rf"{_ANSWER}(?:中|里)?(?:{_NOT})(?:使用|包含|出现|有)(?:任何)?(?:表情符号|emoji|表情)",
            "emoji",
        ),
        (rf"{_ANSWER}(?:{_NOT})以\s*(?:问题|问句|提问)\s*(?:结尾|结束)", "question"),
        (
            rf"{_ANSWER}(?:中|里)?(?:{_NOT})(?:包含|出现|提到|使用|写)\s*(?:词语?|短语)?\s*(?P<a>{_A})",
            "contains",
        ),
        (rf"(?:{_NOT})在{_ANSWER}(?:中|里)?(?:包含|提到|使用|写|说)\s*(?P<a>{_A})", "contains"),
        (rf"{_ANSWER}(?:{_NOT})以\s*(?P<a>{_A})\s*(?:开头|开始)", "starts"),
        (rf"{_ANSWER}(?:{_NOT})以\s*(?P<a>{_A})\s*(?:结尾|结束)", "ends"),
        (rf"{_ANSWER}(?:必须|要)(?:总是)?以\s*(?P<a>{_A})\s*(?:结尾|结束)", "lacks_end"),
        (rf"{_ANSWER}(?:必须|要)(?:总是)?以\s*(?P<a>{_A})\s*(?:开头|开始)", "lacks_start"),
        (rf"{_ANSWER}必须包含\s*(?P<a>{_A})", "lacks"),
        (
            rf"{_ANSWER}(?:的长度)?(?:不得|不能|不要|不可|不应)(?:超过|多于|长于)\s*{number}",
            "longer",
        ),
        (rf"{_ANSWER}(?:必须)?(?:控制|限制)在\s*{number}(?:以内|之内)", "longer"),
    ]
    for pattern, form in table:
        found = re.fullmatch(pattern, head)
        if found is None:
            continue
        groups = found.groupdict()
        if groups.get("n"):
            return Answers("longer", most=int(groups["n"]), unit=_UNITS[groups["unit"]])  # type: ignore[arg-type]
        text = reading.one(groups["a"]) if groups.get("a") else ""
        return Answers(form, text) if text or not groups.get("a") else None  # type: ignore[arg-type]
    return None


def _contexts(head: str, reading: Reading) -> Contexts | None:
    memory = rf"(?P<what>{_LIST}|长期记忆|记忆)\s*(?:文件|的内容)?"
    kinds = {
        "共享": "shared",
        "群聊": "shared",
        "群组": "shared",
        "公开": "shared",
        "无人值守": "headless",
        "后台": "headless",
        "自动化": "headless",
    }
    where = rf"(?:在)?(?P<kinds>(?:{'|'.join(kinds)})(?:(?:、|或者?|和|及)(?:{'|'.join(kinds)}))*)(?:的)?(?:会话|上下文|聊天|对话)?(?:中|里|时)?"
    load = "(?:加载|读取|载入|使用|包含|注入)"
    no = (
        re.fullmatch(rf"(?:{_NOT}){where}{load}\s*{memory}", head)
        or re.fullmatch(rf"{where}(?:{_NOT}){load}\s*{memory}", head)
        or re.fullmatch(rf"{memory}(?:{_NOT}){where}{load}", head)
    )
    if no:
        named = tuple(
            dict.fromkeys(kinds[word] for word in re.split(r"、|或者?|和|及", no["kinds"]))
        )
        return reading.contexts(no["what"], named)
    only = re.fullmatch(
        rf"{memory}(?:仅|只)(?:能|可以?|允许)?在主会话(?:中|里)?(?:被)?{load}|(?:仅|只)(?:能|可以?)?在主会话(?:中|里)?{load}\s*{memory.replace('what', 'what2')}",
        head,
    )
    if only:
        return reading.contexts(only["what"] or only["what2"], ("shared", "headless"))
    return None
