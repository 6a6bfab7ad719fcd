// Draws the images of prompts and of results: small in the conversation, large in a dialog.

import { html } from './vendor/lit-html/lit-html.js';
import { openDialog } from './dialogs.js';
import { formatBytes } from './format.js';
import { icon } from './icons.js';
import { t } from './strings.js';

// What a browser shows as an image; the server sends everything else as a download.
const SHOWN = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

function addressOf(image, session) {
  const path = `api/sessions/${encodeURIComponent(session)}/images/${encodeURIComponent(image.id)}`;
  return new URL(path, document.baseURI).href;
}

function describe(image) {
  const pixels = image.width ? `${image.width} × ${image.height}` : '';
  return [image.media_type, pixels, formatBytes(image.size ?? 0)].filter(Boolean).join(' · ');
}

/**
 * Draw images that an entry has.
 *
 * @param {Array} images id, media_type, size, width and height of each.
 * @param {string} session The session.
 */
export function drawImages(images, session) {
  return html`<ul class="thumbnails" aria-label=${t('images')}>${images.map((image) => html`<li>${drawImage(image, session)}</li>`)}</ul>`;
}

function drawImage(image, session) {
  const address = addressOf(image, session);
  const about = describe(image);
  if (!SHOWN.has(image.media_type)) {
    return html`<a class="quiet" href=${address} download>${icon('image')} ${about}</a>`;
  }
  const enlarge = () => openDialog(about, () => html`<img class="large-image" src=${address} alt=${about}>`, { wide: true });
  return html`<button type="button" class="thumbnail" aria-label=${t('enlarge_image', { about })} title=${about} @click=${enlarge}>
    <img src=${address} alt="" loading="lazy" decoding="async"></button>`;
}
