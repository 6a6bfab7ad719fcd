// Runs before the first paint, so that the page does not flash in the wrong theme.
(() => {
  let theme = null;
  try {
    theme = JSON.parse(localStorage.getItem('hilum.preferences') || '{}').theme;
  } catch {
    // Storage may be blocked or damaged; the system's theme is used.
  }
  if (theme === 'light' || theme === 'dark') {
    document.documentElement.dataset.theme = theme;
  }
})();
