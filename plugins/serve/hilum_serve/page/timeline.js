// The timeline of the last runs: model calls and tool calls as bars over time.

import { html, nothing, svg } from './vendor/lit-html/lit-html.js';
import { cardState, subjectOf, argumentsOf } from './card_state.js';
import { formatDuration, oneLine } from './format.js';
import { t } from './strings.js';

const WIDTH = 280;
const ROW = 12;
const MAX_BARS = 200;

/** Return the bars of the last run in the conversation. */
export function collectBars(store) {
  const entries = store.keys.map((key) => store.entries.get(key));
  const last = entries.findLastIndex((entry) => entry.kind === 'prompt' && !entry.steers && entry.agent === (store.state.lead ?? 'main'));
  const bars = [];
  for (const entry of entries.slice(Math.max(0, last))) {
    if (entry.kind === 'answer' && entry.state !== 'dropped') {
      // The entry of an answer has the time at which the model was called.
      const seconds = entry.seconds || (entry.state === 'streaming' ? Date.now() / 1000 - entry.at : 0);
      bars.push({ id: entry.id, lane: entry.agent, kind: 'model', start: entry.at, seconds, label: entry.model ?? '' });
    } else if (entry.kind === 'card' && entry.began) {
      const seconds = entry.seconds || (entry.state === 'running' ? Date.now() / 1000 - entry.began : 0);
      const label = `${entry.call?.name ?? ''} ${subjectOf(argumentsOf(entry))}`;
      bars.push({ id: entry.id, lane: entry.agent, kind: cardState(entry), start: entry.began, seconds, label });
    }
  }
  return bars.slice(-MAX_BARS);
}

/** Draw the timeline. `open` is called with the id of an entry. */
export function drawTimeline(store, open) {
  const bars = collectBars(store);
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
        return svg`<rect class=${`bar ${bar.kind}`} x=${x.toFixed(1)} y=${rows[index] * ROW + 2} width=${width.toFixed(1)} height=${ROW - 4} rx="2" @click=${() => open(bar.id)}><title>${`${oneLine(bar.label, 80)} · ${formatDuration(bar.seconds)}`}</title></rect>`;
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
