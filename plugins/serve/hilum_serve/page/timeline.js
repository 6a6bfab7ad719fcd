// The timeline of the last run: model calls and tool calls as bars over time.

import { html, nothing, svg } from './vendor/lit-html/lit-html.js';
import { serverTime } from './api.js';
import { formatDuration, oneLine } from './format.js';
import { t } from './strings.js';

const WIDTH = 280;
const ROW = 12;
const MAX_BARS = 500;
const LASTING = ['streaming', 'running']; // states of spans that have not ended

/** Return the bars of spans, as `GET …/timeline` lists them, that have begun; at most the newest. */
export function collectBars(spans) {
  const now = serverTime() / 1000;
  const begun = spans.filter((span) => span.began).slice(-MAX_BARS);
  return begun.map((span) => ({
    id: span.entry,
    agent: span.agent,
    kind: span.kind === 'model' ? 'model' : span.state,
    start: span.began,
    seconds: LASTING.includes(span.state) ? Math.max(0, now - span.began) : span.seconds,
    label: span.kind === 'model' ? span.name : span.title || span.name,
  }));
}

/** Draw the timeline. `open` is called with the id of an entry and its agent. */
export function drawTimeline(spans, open) {
  const bars = collectBars(spans);
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
    <p class="legend"><span class="key model"></span>${t('model')}<span class="key completed"></span>${t('calls')}${bars.some((bar) => bar.kind === 'failed') ? html`<span class="key failed"></span>${t('state_failed')}` : nothing}</p>
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
