// The settings: of this browser, and of the session that a face may change.

import { html, nothing } from './vendor/lit-html/lit-html.js';
import { openDialog } from './dialogs.js';
import { switchNotifications } from './notifications.js';
import { preference, setPreference } from './preferences.js';
import { t } from './strings.js';

const CHOICES = {
  approve: ['ask_first', 'auto', 'readonly'],
  tool_protocol: ['auto', 'native', 'text'],
};

function choice(label, values, current, change, hint = nothing, off = false) {
  return html`<label class="setting"><span>${label}${hint === nothing ? nothing : html`<small class="quiet">${hint}</small>`}</span>
    <select ?disabled=${off} @change=${(event) => change(event.target.value)}>
      ${values.map(([value, text]) => html`<option value=${value} ?selected=${value === current}>${text}</option>`)}
    </select></label>`;
}

function toggle(label, on, change, hint, off = false) {
  return html`<label class="setting"><span>${label}${hint ? html`<small class="quiet">${hint}</small>` : nothing}</span>
    <input type="checkbox" role="switch" .checked=${on} ?disabled=${off} @change=${(event) => change(event.target.checked)}></label>`;
}

/**
 * Open the settings.
 *
 * @param {object|null} session read() and write(name, value) of the session's settings, and
 *   may(right); null without a session.
 */
export function openSettings(session, signOut) {
  let found = null;
  let problem = '';
  return openDialog(() => t('settings'), (close, again) => html`
    <h3>${t('this_browser')}</h3>
    ${choice(t('language'), [['', t('language_auto')], ['en', 'English'], ['zh', '中文']], preference('language'), (value) => { setPreference('language', value); again(); })}
    ${choice(t('theme'), [['system', t('theme_system')], ['light', t('theme_light')], ['dark', t('theme_dark')]], preference('theme'), (value) => setPreference('theme', value))}
    ${choice(t('diff_view'), [['auto', t('diff_auto')], ['unified', t('unified')], ['split', t('side_by_side')]], preference('diff'), (value) => setPreference('diff', value))}
    ${toggle(t('notifications'), preference('notifications'), async (on) => { problem = await switchNotifications(on); again(); }, problem || t('notifications_hint'))}
    ${session ? html`<h3>${t('this_session')}</h3>${drawSession(session, found, again)}` : nothing}
    <footer><button type="button" class="button" @click=${() => { close(); signOut(); }}>${t('sign_out')}</button></footer>`,
  {
    onOpen: async (again) => {
      if (session) {
        found = (await session.read()) ?? [];
        again();
      }
    },
  });
}

function drawSession(session, found, again) {
  if (found === null) {
    return html`<p class="quiet">${t('loading')}</p>`;
  }
  if (found.length === 0) {
    return html`<p class="quiet">${t('nothing_found')}</p>`;
  }
  const change = (setting) => async (value) => {
    const changed = await session.write(setting.name, value);
    if (changed) {
      setting.value = value;
    }
    again();
  };
  return found.map((setting) => {
    const label = t(`setting_${setting.name}`, {}, setting.name);
    const hint = [
      t(`setting_${setting.name}_about`, {}, setting.help),
      setting.at_once ? '' : t('setting_later'),
    ].filter(Boolean).join(' ');
    const off = !session.may(setting.rights);
    if (setting.value === null) {
      return html`<div class="setting"><span>${label}<small class="quiet">${t('not_installed')}</small></span></div>`;
    }
    if (typeof setting.value === 'boolean') {
      return toggle(label, setting.value, change(setting), hint, off);
    }
    const values = CHOICES[setting.name].map((value) => [
      value, t(`${setting.name === 'approve' ? 'policy' : 'protocol'}_${value}`),
    ]);
    return choice(label, values, setting.value, change(setting), hint, off);
  });
}
