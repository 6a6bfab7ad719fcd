"""Parses Chinese sentences that forbid actions or require the user's approval.

A sentence becomes a constraint only if hilum understands all of it.
"""

from __future__ import annotations

import re
from functools import cache

from hilum_rules.checks import vocabulary as v
from hilum_rules.checks.grammar import (
    ANCHOR,
    CompiledFrames,
    Frame,
    Meaning,
    actions_frame,
    answer_frames,
    branch_frame,
    command_frame,
    context_frames,
    denial,
    plain_constraints,
    read_bare_commands,
    read_each_action,
    read_hosts,
)
from hilum_rules.checks.model import READS, WRITES, Action, Constraint, Effect, Paths
from hilum_rules.checks.named_objects import Sentence
from hilum_rules.checks.sentence import split_list

_LIST = rf"{ANCHOR}(?:\s*(?:、|，|,|和|或者?|与|及|以及|/)\s*{ANCHOR})*"
_NOT = (
    r"(?:你|agent|ai|助手|代理|模型)?\s*"
    r"(?:绝对|一律|永远|任何情况下都?|在任何情况下都?|无论如何都?|千万|严格)?\s*"
    r"(?:严禁|禁止|不得|不要|不准|不可以?|不能|不许|不允许|不应该?|绝不(?:能|要|可以?|允许)?"
    r"|绝对不(?:要|能|可以?|允许)|切勿|请勿|勿|别)\s*"
)
_USER = r"(?:用户|我|人类|主人|开发者|维护者)?(?:的)?"
_YES = r"(?:明确|事先)?(?:的)?(?:同意|允许|许可|确认|授权|批准|询问|要求|指示)"
_LACKING = r"没有(?:得到|获得|经过)?|在未(?:得到|获得|经过|经)?|未(?:得到|获得|经过)|在没有"
_UNAPPROVED = rf"{_USER}{_YES}(?:的情况下|之?前|时)?[，,]?\s*"
_OWN = r"(?:擅自|私自|自行|主动|自动|默认)"
_MANNER = rf"(?:{_OWN}|随意|直接)?\s*"
_ENDS = r"(?:了|，?无论如何|，?任何情况下)?"
_JOIN = r"(?:、|，|和|或者?|及|与|/)"

_VERBS: dict[str, frozenset[Action]] = {
    **dict.fromkeys(
        "修改 编辑 改动 更改 变更 触碰 改 动 碰 写入 覆盖 改写 手动修改 手动编辑 手工修改 手改".split(),
        WRITES,
    ),
    **dict.fromkeys("删除 移除 移动 重命名 删掉 删".split(), v.DELETES),
    **dict.fromkeys("创建 新建 新增 添加".split(), v.CREATES),
    **dict.fromkeys("读取 查看 打开 阅读 读".split(), READS),
    "访问": READS | WRITES,
}


# --- sentences ------------------------------------------------------------------------------------


def read_chinese(sentence: Sentence) -> Meaning | None:
    """Return what a sentence forbids or requires approval for, or ``None``."""
    return _sentence_frames().read(sentence.phrase.head, sentence)  # type: ignore[return-value]


@cache
def _sentence_frames() -> CompiledFrames:
    before = r"(?:之|以)?前[，,]?\s*(?:都|请|你)?(?:必须|务必|需要?|一定要|应当?|要|请)?(?:先)?"
    asked = (
        rf"(?:(?:询问|征求|征得|请求|得到|获得|取得|经过|经|问){_USER}(?:明确)?(?:的)?"
        r"(?:同意|确认|许可|批准|授权|意见|允许)?"
        rf"|(?:向|和|与|跟|让|由){_USER}(?:确认|询问|请示|核实|批准|同意)|确认|请示)"
    )
    needs = (
        rf"(?:必须|需要|须|需)(?:先)?(?:经过?|得到|获得|征得|由)?{_USER}(?:明确)?(?:的)?"
        r"(?:确认|同意|批准|许可|授权|审批)"
    )
    unless = (
        rf"[，,]?\s*除非(?:是)?(?:得到|获得|经过|经)?{_USER}(?:明确)?(?:的)?"
        r"(?:要求|同意|允许|许可|授权|批准|指示|确认)(?:了|你)?"
    )
    act = rf"{_MANNER}(?P<act>.+?)"
    without = rf"(?:未经|{_LACKING}){_UNAPPROVED}(?:{_NOT}|(?:一律)?不(?:会|再)?){act}{_ENDS}"
    within = rf"{_NOT}(?:未经|在未经|{_LACKING}){_UNAPPROVED}{act}{_ENDS}"
    passive = (
        rf"(?P<what>.*{ANCHOR}.*?){_NOT}(?:被)?(?P<own>{_OWN})?(?P<hand>直接|手动|手工)?"
        rf"(?P<verb>{v.alternatives(_VERBS)}|运行|执行|使用)"
    )
    closed = rf"(?P<what>.*{ANCHOR}.*?)(?:是|为|视为|均为|都是)?只读(?:的)?(?:文件|目录)?"
    return CompiledFrames(
        [
            actions_frame(without, "ask", _read_actions),
            actions_frame(within, "ask", _read_actions),
            actions_frame(rf"{_NOT}{act}{unless}", "ask", _read_actions),
            actions_frame(rf"(?:在)?(?P<act>.+?){before}{asked}(?:一下)?", "ask", _read_actions),
            actions_frame(rf"(?P<act>.+?){needs}", "ask", _read_actions),
            *answer_frames(_answers()),
            *context_frames(_contexts()),
            Frame(passive, _read_passive),
            Frame(
                closed, lambda found, sentence: denial(_read_files(found["what"], WRITES, sentence))
            ),
            # This pattern comes last, because it is the most general: it would also match most
            # other sentences.
            Frame(rf"{_NOT}(?P<own>{_OWN})?(?P<act>.+?){_ENDS}", _read_prohibition),
        ]
    )


def _read_passive(found: re.Match[str], sentence: Sentence) -> Meaning | None:
    """Read ``⟦0⟧ 不得直接修改``."""
    return _read_owned(f"{found['hand'] or ''}{found['verb']}{found['what']}", found, sentence)


def _read_prohibition(found: re.Match[str], sentence: Sentence) -> Meaning | None:
    """Read ``禁止…``."""
    return _read_owned(found["act"], found, sentence)


def _read_owned(text: str, found: re.Match[str], sentence: Sentence) -> Meaning | None:
    """Read an action; ``擅自`` ("without permission") and similar words require approval for it."""
    constraints = _read_actions(text, sentence)
    effect: Effect = "ask" if found["own"] else "deny"
    return (effect, constraints) if constraints else None


# --- actions --------------------------------------------------------------------------------------


def _read_actions(text: str, sentence: Sentence) -> tuple[Constraint, ...]:
    return read_each_action(text.strip(" ，,"), sentence, _read_action)


def _read_action(text: str, sentence: Sentence) -> Constraint | None:
    return _action_frames().read(text.strip(), sentence)  # type: ignore[return-value]


@cache
def _action_frames() -> CompiledFrames:
    branch = (
        r"(?:直接)?(?P<verb>强制推送|推送|提交|push|commit|force push)(?:代码|更改|修改)?"
        rf"(?:到|至|在)\s*(?P<list>(?:{ANCHOR}|[a-z]+)"
        rf"(?:\s*(?:、|/|和|或者?)\s*(?:{ANCHOR}|[a-z]+))*)\s*(?:分支)?(?:上)?"
    )
    branch_verbs = {
        "推送": v.GIT_PUSH,
        "push": v.GIT_PUSH,
        "提交": v.GIT_COMMIT,
        "commit": v.GIT_COMMIT,
        "强制推送": v.FORCE_PUSH,
        "force push": v.FORCE_PUSH,
    }
    run = (
        rf"(?:直接)?(?P<verb>运行|执行|使用|用|调用)\s*(?P<list>{_LIST})\s*"
        r"(?:命令|(?P<tool>工具)|指令)?"
    )
    site = r"\s*(?:域名|主机|服务器|网站)?"
    host = (
        rf"(?:访问|连接到?|请求|联系|下载自|从){site}\s*(?P<list>{_LIST}){site}"
        r"(?:下载|获取数据)?"
    )
    verb = v.alternatives(_VERBS)
    files = (
        rf"(?P<hand>手动|手工|直接)?(?P<verb>(?:{verb})(?:{_JOIN}(?:{verb}))*)\s*"
        rf"(?P<what>.*{ANCHOR}.*?)"
    )
    return CompiledFrames(
        [
            *plain_constraints(_plain_actions(), outside=_outside()),
            branch_frame(branch, branch_verbs),
            command_frame(run, ("使用", "用", "调用")),
            Frame(rf"(?P<list>{_LIST})(?:命令)?", read_bare_commands),
            Frame(host, read_hosts, is_final=False),
            Frame(files, _read_file_action),
        ]
    )


def _plain_actions() -> dict[str, str]:
    """Return patterns for plain actions, keyed by the names in ``grammar.PLAIN_ACTIONS``."""
    patterns = {
        "commit": r"(?:git\s*)?提交(?:任何)?(?:代码|更改|修改|改动|commit|到\s*git|到仓库)?"
        r"|(?:创建|进行)?\s*(?:git\s*)?commit|执行\s*git commit",
        "push": r"(?:git\s*)?(?:推送|push)\s*(?:任何)?(?:代码|更改|提交|分支)?"
        r"(?:到(?:远程|远端)(?:仓库)?)?|执行\s*git push",
        "force-push": r"强制推送|强推|force[- ]push|git push --force",
        "stage": r"(?:git\s*)?暂存(?:文件|更改)?",
        "open a pull request": r"(?:创建|提交|发起)\s*(?:pr|pull request|合并请求)",
        "install": r"安装(?:任何)?(?:新的?|额外的?|第三方的?)?"
        r"(?:依赖|包|软件包|依赖包|第三方库|库|软件)",
        "publish": r"发布(?:任何)?(?:包|软件包)(?:到\s*(?:npm|pypi))?",
        "use root": r"(?:使用|用)\s*sudo"
        r"|(?:以|使用)\s*root\s*(?:身份|权限)?(?:运行|执行)?(?:任何)?(?:命令)?",
        "run destructive commands": r"(?:运行|执行)(?:任何)?(?:破坏性|毁灭性)(?:的)?"
        r"(?:命令|操作|指令)",
        "delete files": r"(?:删除|移除)(?:任何|用户的?)?文件",
        "use the network": r"(?:访问|使用|连接)(?:网络|互联网|外网|外部网络)|联网|上网",
        "use the shell": r"(?:运行|执行|使用)(?:任何)?(?:shell|终端|命令行)(?:命令)?",
        "send email": r"发送?(?:任何)?(?:电子)?邮件",
        "post in public": r"(?:发送|发布|发)(?:推文|推特)",
    }
    return {name: rf"(?:直接)?(?:{pattern})" for name, pattern in patterns.items()}


def _outside() -> tuple[str, ...]:
    """Return patterns for deleting, writing, accessing and reading files outside the workspace."""
    files = (
        r"(?:任何)?(?:工作区|项目|仓库|工作目录|项目目录|当前目录)(?:目录|文件夹)?"
        r"(?:以|之)?外(?:面)?(?:的)?(?:任何)?文件"
    )
    return (
        rf"(?:直接)?(?:删除|移除){files}",
        rf"(?:直接)?(?:修改|编辑|写入|创建|改动|修改或删除){files}",
        rf"(?:直接)?(?:访问|读写){files}",
        rf"(?:直接)?读取{files}",
    )


# --- files ----------------------------------------------------------------------------------------


def _read_file_action(found: re.Match[str], sentence: Sentence) -> Paths | None:
    verbs = split_list(found["verb"])
    actions = frozenset[Action]().union(*(_VERBS[verb] for verb in verbs))
    if actions >= WRITES:
        others = _others_pattern().fullmatch(found["what"].strip())
        paths = sentence.read_other_paths(others["list"]) if others else None
        if paths:
            return paths
    by_hand = bool(found["hand"]) or any(verb.startswith("手") for verb in verbs)
    return _read_files(found["what"], actions, sentence, by_hand=by_hand)


@cache
def _others_pattern() -> re.Pattern[str]:
    """Return a pattern for ``⟦0⟧ 以外的任何文件`` ("any files outside ⟦0⟧")."""
    return re.compile(
        rf"(?P<list>{_LIST})\s*(?:目录|文件夹)?(?:以|之)外的?(?:任何|所有|其他)*(?:文件|内容|代码)"
    )


@cache
def _files_pattern() -> re.Pattern[str]:
    existing = r"已有的?|现有的?|自动生成的?|生成的?"
    return re.compile(
        rf"(?P<lead>(?:任何|所有|{existing}|位于|在|文件|目录|文件夹|配置文件|里的|下的)*)\s*"
        rf"(?P<list>{_LIST})\s*"
        r"(?P<kind>(?:这个|等)?(?:目录|文件夹|文件)?(?:下|中|里|内|里面|下面|以下)?(?:的)?"
        rf"(?:任何|所有|一切|{existing})?(?:文件|内容|代码|东西|迁移文件|迁移)?(?:本身)?)"
    )


def _read_files(
    text: str, actions: frozenset[Action], sentence: Sentence, *, by_hand: bool = False
) -> Paths | None:
    """Read the object of a verb about files: ``⟦0⟧ 目录下的文件``."""
    found = _files_pattern().fullmatch(text.strip())
    # ``等`` ("and so on") refers to files that are not named, so hilum cannot know all of them.
    if found is None or "等" in found["kind"]:
        return None
    described = found["lead"] + found["kind"]
    if re.search(r"已有|现有", described):
        # A rule about existing files does not forbid new ones.
        actions = actions - v.CREATES
    is_named = re.search(r"目录|文件夹|文件|下|中|里|内", described) is not None
    return sentence.read_paths(found["list"], actions, by_hand=by_hand, named=is_named)


# --- answers and contexts -------------------------------------------------------------------------


def _answers() -> list[tuple[str, str]]:
    answer = r"(?:你的|最终|最后的?|所有|任何|每次)*(?:回答|回复|答复|答案)"
    emoji = r"(?:任何)?(?:表情符号|emoji|表情)"
    number = r"(?P<n>\d+)\s*(?P<unit>个字符|个字|字符|字|行|句话|句|段|个词|词)"
    text = rf"\s*(?P<a>{ANCHOR})"
    starts = rf"{text}\s*(?:开头|开始)"
    ends = rf"{text}\s*(?:结尾|结束)"
    must = rf"{answer}(?:必须|要)(?:总是)?以"
    return [
        (rf"{_NOT}在{answer}(?:中|里)?使用{emoji}", "emoji"),
        (rf"{answer}(?:中|里)?{_NOT}(?:使用|包含|出现|有){emoji}", "emoji"),
        (rf"{answer}{_NOT}以\s*(?:问题|问句|提问)\s*(?:结尾|结束)", "question"),
        (
            rf"{answer}(?:中|里)?{_NOT}(?:包含|出现|提到|使用|写)\s*(?:词语?|短语)?{text}",
            "contains",
        ),
        (rf"{_NOT}在{answer}(?:中|里)?(?:包含|提到|使用|写|说){text}", "contains"),
        (rf"{answer}{_NOT}以{starts}", "starts"),
        (rf"{answer}{_NOT}以{ends}", "ends"),
        (rf"{must}{ends}", "lacks_end"),
        (rf"{must}{starts}", "lacks_start"),
        (rf"{answer}必须包含{text}", "lacks"),
        (
            rf"{answer}(?:的长度)?(?:不得|不能|不要|不可|不应)(?:超过|多于|长于)\s*{number}",
            "longer",
        ),
        (rf"{answer}(?:必须)?(?:控制|限制)在\s*{number}(?:以内|之内)", "longer"),
    ]


def _contexts() -> list[str]:
    memory = rf"(?P<what>{_LIST}|长期记忆|记忆)\s*(?:文件|的内容)?"
    kind = "(?:共享|群聊|群组|公开|无人值守|后台|自动化)"
    where = (
        rf"(?:在)?(?P<kinds>{kind}(?:(?:、|或者?|和|及){kind})*)(?:的)?"
        r"(?:会话|上下文|聊天|对话)?(?:中|里|时)?"
    )
    load = "(?:加载|读取|载入|使用|包含|注入)"
    in_main = r"(?:仅|只)(?:能|可以?)?在主会话(?:中|里)?"
    return [
        rf"{_NOT}{where}{load}\s*{memory}",
        rf"{where}{_NOT}{load}\s*{memory}",
        rf"{memory}{_NOT}{where}{load}",
        rf"{memory}(?:仅|只)(?:能|可以?|允许)?在主会话(?:中|里)?(?:被)?{load}",
        rf"{in_main}{load}\s*{memory}",
    ]
