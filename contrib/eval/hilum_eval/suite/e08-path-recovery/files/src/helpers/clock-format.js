// Formats minutes since midnight.
const pad = (number) => String(number).padStart(2, '0');

export function formatTime(minutes) {
  const hours = Math.floor(minutes / 60);
  return `${hours}:${pad(minutes % 60)}`;
}

export function formatSpan(from, to) {
  return `${formatTime(from)}–${formatTime(to)}`;
}
