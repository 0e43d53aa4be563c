/* Loaded before the styles, so that a remembered theme is there at the first paint. */
(() => {
  "use strict";
  try {
    const theme = localStorage.getItem("opensre-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    /* storage is blocked: the system's scheme applies */
  }
})();
