// Makes hidden characters visible wherever a user decides by what a text looks like.

// Characters that are invisible or turn the direction of text: commands could look like others.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Return text with hidden characters made visible, such as `⟨U+202E⟩`. */
export function showHidden(text) {
  return String(text ?? '').replace(HIDDEN, (sign) => {
    const code = sign.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');
    return sign === '\r' ? '' : `⟨U+${code}⟩`;
  });
}
