/* What every page shares: theme choice, menus, relative times, forms that are sent once. */
import { relativeTime } from "./format.js";

const root = document.documentElement;

function currentTheme() {
  return root.dataset.theme ?? "system";
}

function setTheme(theme) {
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
  try {
    localStorage.setItem("opensre-theme", theme);
  } catch {
    /* storage is blocked: the choice holds for this page */
  }
}

function setUpThemes() {
  for (const group of document.querySelectorAll("[data-themes]")) {
    const buttons = [...group.querySelectorAll("[data-theme-choice]")];
    const show = () =>
      buttons.forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.themeChoice === currentTheme())));
    for (const button of buttons) {
      button.addEventListener("click", () => {
        setTheme(button.dataset.themeChoice);
        show();
      });
    }
    show();
    group.hidden = false;
  }
}

function setUpMenus() {
  const menus = [...document.querySelectorAll("details[data-menu]")];
  document.addEventListener("click", (event) => {
    for (const menu of menus) if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
  for (const menu of menus) {
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.querySelector("summary").focus();
    });
  }
}

/** Show the age of `<time data-relative>` elements; the exact time stays in the tooltip. */
function refreshTimes() {
  for (const time of document.querySelectorAll("time[data-relative]")) {
    if (!time.title) time.title = time.textContent.trim();
    time.textContent = relativeTime(new Date(time.dateTime), new Date());
  }
}

/** A plain form marked `data-once` is sent once, however often its button is pressed. */
function setUpOnce() {
  for (const form of document.querySelectorAll("form[data-once]")) {
    let sent = false;
    form.addEventListener("submit", (event) => {
      if (event.defaultPrevented) return;
      if (sent) event.preventDefault();
      sent = true;
    });
    window.addEventListener("pageshow", () => {
      sent = false;
    });
  }
}

/** A filter form marked `data-auto` applies itself when a choice changes. */
function setUpAuto() {
  for (const form of document.querySelectorAll("form[data-auto]")) {
    form.addEventListener("change", () => form.requestSubmit());
  }
}

const LIVE_MS = 8000;

/** Sections marked `data-live` are read again while a run in them is active; one being used is left alone. */
function setUpLive() {
  const active = () =>
    document.querySelector(
      "[data-live] [data-status=queued], [data-live] [data-status=running], [data-live] [data-status=waiting]",
    );
  if (!active()) return;
  setInterval(async () => {
    if (document.hidden || !active()) return;
    const response = await fetch(location.href).catch(() => null);
    if (!response?.ok || response.redirected) return;
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const section of document.querySelectorAll("[data-live]")) {
      if (section.contains(document.activeElement)) continue;
      const replacement = fresh.getElementById(section.id);
      if (replacement) section.replaceWith(replacement);
      else section.replaceChildren();
    }
    refreshTimes();
  }, LIVE_MS);
}

setUpThemes();
setUpMenus();
setUpOnce();
setUpAuto();
setUpLive();
refreshTimes();
setInterval(refreshTimes, 30_000);
