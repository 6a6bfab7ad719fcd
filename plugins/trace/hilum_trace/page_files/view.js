// The page of `hilum trace --html`. All texts of the session are added as text, never as markup.
"use strict";

// More items make zooming slow, and could not be told apart.
const MAX_ITEMS = 200;
const MIN_PIXELS = 2;
const UPDATE_DELAY = 60; // milliseconds
const MAX_AGENT_ROWS = 12;
// The English texts of this page with their Chinese translations.
const CHINESE = {
  "Runs": "运行", "Turns": "轮次", "Models": "模型", "Tools": "工具", "Waits": "等待",
  "Plugins": "插件", "Other agents": "其他代理",
  "Drag to move; zoom with Ctrl and the mouse wheel.": "拖动以移动；按住 Ctrl 并滚动滚轮以缩放。",
  "Slowest calls, waits and hooks": "最慢的调用、等待与钩子",
  "Hidden: {n} short spans. Zoom in to see them.": "已隐藏 {n} 个较短的区间。放大即可看到。",
  "Select a bar to see its details.": "选择一个色条以查看详情。",
  "Details": "详情", "Kind": "类型", "Duration": "时长", "Start": "开始", "Agent": "代理", "{time} so far": "已 {time}",
  "Zoom in": "放大", "Zoom out": "缩小", "Whole session": "整个会话",
  "Previous run": "上一次运行", "Next run": "下一次运行",
  session: "会话", agent: "代理", queue: "排队", run: "运行", turn: "轮次", model: "模型",
  "plugin model": "插件的模型调用", compaction: "压缩", tool: "工具", order: "等待其他调用",
  approval: "等待批准", question: "提问", hook: "钩子",
};
const language = /^zh\b/i.test(navigator.language) ? "zh" : "en";

// Return a text in the language of the browser, with values for the names in braces.
function t(text, values = {}) {
  const found = language === "zh" ? CHINESE[text] ?? text : text;
  return found.replace(/\{(\w+)\}/g, (_all, name) => String(values[name] ?? ""));
}

const LANES = ["Runs", "Turns", "Models", "Tools", "Waits", "Plugins"].map((name) => t(name));
const LANE_OF = {
  run: 0, turn: 1, model: 2, plugin_model: 2, compaction: 2, tool: 3, approval: 4, question: 4,
  queue: 4, order: 4, hook: 5,
};
const OTHER_AGENTS = LANES.length + MAX_AGENT_ROWS;

const data = JSON.parse(document.getElementById("data").textContent);
// The marks around a text of which page.py writes only the number, and its values.
const START = "\ue000";
const NEXT = "\ue001";
const END = "\ue002";
const texts = data.texts[language];
const valueNames = data.texts.en.map((text) => [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]));

function fill([number, ...values]) {
  const byName = Object.fromEntries(valueNames[number].map((name, index) => [name, values[index]]));
  return texts[number].replace(/\{(\w+)\}/g, (_all, name) => byName[name]);
}

// Return a text in the language of the browser. Values may themselves contain numbered texts.
function decode(text) {
  let at = 0;
  const read = () => {
    let shown = "";
    while (at < text.length && text[at] !== NEXT && text[at] !== END) {
      if (text[at] !== START) {
        shown += text[at++];
        continue;
      }
      const parts = [];
      do {
        at += 1;
        parts.push(read());
      } while (text[at] === NEXT);
      at += 1;
      shown += fill(parts);
    }
    return shown;
  };
  return text.includes(START) ? read() : text;
}

// The fields of a row, in the order in which page.py writes them.
const spans = data.spans.map(([kind, parent, start, length, agent, flags, shown], id) => {
  const [name, ...details] = shown.map(decode);
  return {
    id, kind: data.kinds[kind], name, parent, agent, details,
    start: data.origin + start, end: data.origin + start + length, length,
    failed: (flags & 1) !== 0, open: (flags & 2) !== 0,
  };
});

function laneOf(span) {
  if (span.agent > 0) {
    return span.agent <= MAX_AGENT_ROWS ? LANES.length + span.agent - 1 : OTHER_AGENTS;
  }
  return LANE_OF[span.kind];
}

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Return a duration as the terminal shows it (format_seconds in formatting.py).
function formatSeconds(milliseconds) {
  if (milliseconds < 999.5) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 10000) return `${(milliseconds / 1000).toFixed(1)} s`;
  // Round first, so that 59.7 seconds become "1 min", not "60 s".
  const seconds = Math.round(milliseconds / 1000);
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  const parts = [];
  if (hours) parts.push(`${hours} h`);
  if (minutes) parts.push(`${minutes} min`);
  if (seconds % 60 && !hours) parts.push(`${seconds % 60} s`);
  return parts.join(" ");
}

// Return a time of day on the 24-hour clock of the axis, with the date.
function formatTime(milliseconds) {
  const pad = (number, size = 2) => String(number).padStart(size, "0");
  const at = new Date(milliseconds);
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => pad(part)).join(":");
  return `${day} ${time}.${pad(at.getMilliseconds(), 3)}`;
}

// Without this script, the page shows the head in English and no timeline.
function translatePage() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const each of document.querySelectorAll("[data-text]")) {
    each.textContent = t(each.dataset.text);
  }
  const [title, ...lines] = data.head[language];
  document.title = title;
  const head = document.getElementById("head");
  head.replaceChildren(element("h1", title), ...lines.map((line) => element("p", line, "faint")));
}

function makeGroups() {
  const groups = LANES.map((name, id) => ({ id, content: name }));
  data.agents.slice(1, MAX_AGENT_ROWS + 1).forEach((name, index) => {
    groups.push({ id: LANES.length + index, content: name });
  });
  if (data.agents.length > MAX_AGENT_ROWS + 1) {
    groups.push({ id: OTHER_AGENTS, content: t("Other agents") });
  }
  const used = new Set(drawn.map(laneOf));
  return groups.filter((group) => used.has(group.id));
}

function makeItem(span) {
  return {
    id: span.id,
    group: laneOf(span),
    start: span.start,
    end: Math.max(span.end, span.start + 1),
    type: "range",
    content: `${span.name} · ${formatSeconds(span.length)}`,
    className: `${span.kind}${span.failed ? " failed" : ""}${span.open ? " open" : ""}`,
  };
}

// The session and the sub-agents are no bars: the first is the whole timeline, and an agent's row
// shows its runs.
const drawn = spans.filter((span) => span.kind !== "session" && span.kind !== "agent");
const runs = spans.filter((span) => span.kind === "run" && span.agent === 0);
const items = new vis.DataSet([]);
const timeline = new vis.Timeline(
  document.getElementById("timeline"), items, new vis.DataSet(makeGroups()), {
    template: (item) => element("span", item.content),
    groupTemplate: (group) => element("span", group ? group.content : ""),
    groupOrder: "id",
    stack: true,
    zoomKey: "ctrlKey",
    horizontalScroll: true,
    verticalScroll: true,
    maxHeight: "60vh",
    minHeight: "12rem",
    orientation: "top",
    margin: { item: { horizontal: 0, vertical: 2 }, axis: 4 },
    showCurrentTime: false,
    zoomMin: 5,
    min: spans[0].start - spans[0].length * 0.1 - 1000,
    max: spans[0].end + spans[0].length * 0.1 + 1000,
  },
);

// Only the longest spans of the window are in the timeline, so that it stays fast in any session.
function update() {
  const range = timeline.getWindow();
  const from = range.start.getTime();
  const to = range.end.getTime();
  const shortest = ((to - from) / Math.max(timeline.dom.center.clientWidth, 1)) * MIN_PIXELS;
  const inside = drawn.filter((span) => span.end >= from && span.start <= to);
  const wide = inside.filter((span) => span.length >= shortest || span.id === selected);
  wide.sort((one, two) => two.length - one.length || one.id - two.id);
  const shown = new Set(wide.slice(0, MAX_ITEMS).map((span) => span.id));
  if (selected >= 0 && inside.includes(spans[selected])) shown.add(selected);
  items.remove(items.getIds().filter((id) => !shown.has(id)));
  items.add([...shown].filter((id) => !items.get(id)).map((id) => makeItem(spans[id])));
  if (selected >= 0 && items.get(selected)) timeline.setSelection([selected]);
  const hidden = inside.length - shown.size;
  document.getElementById("hidden").textContent = hidden
    ? t("Hidden: {n} short spans. Zoom in to see them.", { n: hidden.toLocaleString("en") })
    : "";
}

let selected = -1;
let timer = 0;
timeline.on("rangechange", () => {
  clearTimeout(timer);
  timer = setTimeout(update, UPDATE_DELAY);
});
timeline.on("rangechanged", () => {
  clearTimeout(timer);
  timer = setTimeout(update, UPDATE_DELAY);
});
timeline.on("select", ({ items: chosen }) => select(chosen.length ? chosen[0] : -1));

function zoomTo(span) {
  const margin = Math.max(span.length * 0.05, 2);
  timeline.setWindow(span.start - margin, span.end + margin, { animation: false }, update);
}

function select(id) {
  selected = id;
  const panel = document.getElementById("details");
  panel.replaceChildren();
  if (id < 0) {
    panel.append(element("p", t("Select a bar to see its details.")));
    return;
  }
  const span = spans[id];
  const path = element("p", undefined, "path");
  const above = [];
  for (let each = span; each.parent >= 0; each = spans[each.parent]) above.unshift(spans[each.parent]);
  above.forEach((each, index) => {
    if (index) path.append(" › ");
    path.append(makeButton(each.name, () => goTo(each)));
  });
  panel.append(path, element("h2", span.name));
  const facts = element("dl");
  const add = (name, value) => facts.append(element("dt", name), element("dd", value));
  const time = formatSeconds(span.length);
  add(t("Kind"), t(span.kind.replace("_", " ")));
  add(t("Duration"), span.open ? t("{time} so far", { time }) : time);
  add(t("Start"), formatTime(span.start));
  if (span.agent > 0) add(t("Agent"), data.agents[span.agent]);
  span.details.forEach((detail, index) => add(index ? "" : t("Details"), detail));
  panel.append(facts, makeButton(t("Zoom in"), () => zoomTo(span)));
}

function goTo(span) {
  zoomTo(span);
  select(span.id);
  update();
}

function makeButton(text, action) {
  const button = element("button", text);
  button.type = "button";
  button.addEventListener("click", action);
  return button;
}

function currentRun() {
  const range = timeline.getWindow();
  const middle = (range.start.getTime() + range.end.getTime()) / 2;
  let index = runs.findIndex((run) => run.end >= middle);
  if (index < 0) index = runs.length - 1;
  return index;
}

function step(by) {
  const index = Math.min(Math.max(currentRun() + by, 0), runs.length - 1);
  if (runs.length) goTo(runs[index]);
}

document.getElementById("buttons").append(
  makeButton(t("Whole session"), () => zoomTo(spans[0])),
  makeButton(t("Previous run"), () => step(-1)),
  makeButton(t("Next run"), () => step(1)),
  makeButton(t("Zoom in"), () => timeline.zoomIn(0.5, { animation: false }, update)),
  makeButton(t("Zoom out"), () => timeline.zoomOut(1, { animation: false }, update)),
);

function fillTable(id, rows) {
  const body = document.getElementById(id);
  for (const span of rows) {
    const row = element("tr");
    const cell = element("td");
    cell.append(makeButton(span.name, () => goTo(span)));
    row.append(element("td", formatSeconds(span.length), "number"), cell);
    row.append(element("td", span.details.join(" · ")));
    if (span.failed) row.className = "failed";
    body.append(row);
  }
}

translatePage();
fillTable("runs", runs);
fillTable("slowest", data.slowest.map((id) => spans[id]));
select(-1);
// With a window in its options, the library would draw nothing before the window changes again.
zoomTo(spans[0]);
document.documentElement.dataset.ready = "1";
