// The timeline of the last run: model calls and tool calls as bars over time.

import { html, svg } from './vendor/lit-html/lit-html.js';
import { serverTime } from './api.js';
import { formatDuration, oneLine } from './format.js';
import { t } from './strings.js';

const WIDTH = 280;
const ROW = 12;
const MAX_BARS = 500;
const LASTING = ['streaming', 'running']; // states of spans that have not ended
const KINDS = ['running', 'pending', 'failed', 'stopped']; // named in the legend if they are drawn

/** Return the bars of spans, as `GET …/timeline` lists them, that have begun; at most the newest. */
export function collectBars(spans, store) {
  const now = serverTime() / 1000;
  const begun = spans.filter((span) => span.began).slice(-MAX_BARS);
  return begun.map((span) => {
    const { state, seconds } = currentState(span, store);
    return {
      id: span.entry,
      agent: span.agent,
      kind: span.kind === 'model' ? 'model' : state,
      start: span.began,
      // What only waits has no length yet.
      seconds: LASTING.includes(state) ? Math.max(0, now - span.began) : seconds,
      label: span.kind === 'model' ? span.name : span.title || span.name,
    };
  });
}

/** Return the state and duration of a span now: the stream is ahead of the list of spans. */
function currentState(span, store) {
  const entry = store.entries.get(span.entry);
  const isOpen = LASTING.includes(span.state);
  if (isOpen && store.isCutOff(span.agent)) {
    return { state: 'stopped', seconds: span.seconds };
  }
  if (entry?.kind === 'card') {
    const agent = store.agentOfCard(entry);
    if (agent?.status === 'queued') {
      return { state: 'pending', seconds: 0 };
    }
    if (isOpen) {
      return { state: store.stateOf(entry), seconds: entry.seconds ?? span.seconds };
    }
  } else if (entry && isOpen) {
    return { state: entry.state, seconds: entry.seconds ?? span.seconds };
  }
  return span;
}

/** Draw the timeline. `open` is called with the id of an entry and its agent. */
export function drawTimeline(spans, store, open) {
  const bars = collectBars(spans, store);
  const kinds = KINDS.filter((kind) => bars.some((bar) => bar.kind === kind));
  if (bars.length === 0) {
    return html`<p class="quiet pad">${t('no_timeline')}</p>`;
  }
  const start = Math.min(...bars.map((bar) => bar.start));
  const end = Math.max(...bars.map((bar) => bar.start + bar.seconds));
  const scale = (WIDTH - 4) / Math.max(0.001, end - start);
  const rows = placeRows(bars);
  const height = (Math.max(...rows) + 1) * ROW + 2;
  return html`<div class="timeline">
    <svg viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${t('timeline_of', { n: bars.length, time: formatDuration(end - start) })}>
      ${bars.map((bar, index) => {
        const x = 2 + (bar.start - start) * scale;
        const width = Math.max(2, bar.seconds * scale);
        return svg`<rect class=${`bar ${bar.kind}`} x=${x.toFixed(1)} y=${rows[index] * ROW + 2} width=${width.toFixed(1)} height=${ROW - 4} rx="2" @click=${() => open(bar.id, bar.agent)}><title>${`${oneLine(bar.label, 80)} · ${formatDuration(bar.seconds)}`}</title></rect>`;
      })}
    </svg>
    <p class="quiet timeline-scale"><span>0</span><span>${formatDuration(end - start)}</span></p>
    <p class="legend"><span class="key model"></span>${t('model')}<span class="key completed"></span>${t('calls')}${kinds.map((kind) => html`<span class="key ${kind}"></span>${t(`timeline_${kind}`)}`)}</p>
  </div>`;
}

/** Return a row for each bar, so that bars in one row do not overlap. */
function placeRows(bars) {
  const ends = [];
  return bars.map((bar) => {
    const found = ends.findIndex((end) => end <= bar.start + 0.001);
    const row = found < 0 ? ends.length : found;
    ends[row] = bar.start + Math.max(bar.seconds, 0.001);
    return row;
  });
}
