// Used by the old page only, which is shut down in spring.
export function formatTime(minutes) {
  return `${Math.floor(minutes / 60)}h${minutes % 60}`;
}
