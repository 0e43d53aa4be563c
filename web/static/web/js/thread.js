/* The thread page: the log's events become the page, and the page's forms become requests. */
import { post, problemText } from "./dom.js";
import { clock, utcDateTime } from "./format.js";
import { Feed } from "./feed.js";
import { currentWork, emptyState, findObservation, isActive, lastRun, reduceAll } from "./reducer.js";
import { ActivityView, ENDS, progressWords, statusBadge } from "./render.js";
import { setUpCitations } from "./citations.js";

const page = document.querySelector("[data-thread]");
const urls = { api: page.dataset.api, app: page.dataset.app };
const part = (name) => page.querySelector(`[data-${name}]`);
const turns = part("turns");
const strip = part("strip");
const stopForm = part("stop");
const questionSlot = part("question");
const approvalSlot = part("approval-slot");
const composer = part("composer");
const jump = part("jump");
const title = document.title;
const head = Number(page.dataset.head); // how far the log reached when the page was made
const clockOffset = Date.parse(page.dataset.now) - Date.now();
const wide = matchMedia("(min-width: 64rem)");

let state = emptyState();
let drawn = emptyState();
let frame = null;
let caughtUp = false;
let approvalShown = approvalSlot?.querySelector("form")?.dataset.approval ?? null;
let questionShown = questionSlot?.querySelector("form")?.dataset.request ?? null;
const views = new Map(); // run id → {section, activity}

// ---- from the log to the page ----

const feed = new Feed({
  streamUrl: `${urls.api}/stream`,
  eventsUrl: `${urls.api}/events`,
  onEvents(events) {
    state = reduceAll(state, events);
    schedule();
    if (!caughtUp && state.lastSeq >= head) settleIn();
  },
  onReset() {
    state = emptyState();
    drawn = emptyState();
    views.clear();
    turns.replaceChildren(); // every turn comes again with the log
  },
  onState: showConnection,
  isLive: () => isActive(lastRun(state)),
});

function schedule() {
  if (frame !== null) return;
  // A hidden tab gets no animation frames, yet its title should tell when the run has ended.
  frame = document.hidden ? setTimeout(draw, 100) : requestAnimationFrame(draw);
}

function draw() {
  frame = null;
  const following = nearBottom();
  const before = drawn;
  drawn = state;
  state.runs.forEach((run, index) => {
    if (run !== before.runs[index]) drawRun(run);
  });
  drawDock();
  if (caughtUp && following) follow(before);
  else if (caughtUp && isActive(lastRun(state))) showJump();
}

function drawRun(run) {
  const view = views.get(run.id) ?? addView(run);
  view.activity.update(run);
  view.section.dataset.state = run.state;
  const badge = view.section.querySelector("[data-run-status]");
  if (badge.firstElementChild?.dataset.status !== run.state) badge.replaceChildren(statusBadge(run.state));
  if (!isActive(run)) void loadOutcome(run, view);
}

function addView(run) {
  const section = document.getElementById(`run-${run.id}`) ?? newSection(run);
  const view = { section, activity: new ActivityView(section.querySelector("[data-activity]")) };
  const panel = section.querySelector("[data-activity]");
  if (section.classList.contains("has-outcome") && !wide.matches) panel.open = false;
  views.set(run.id, view);
  return view;
}

function newSection(run) {
  const section = document.getElementById("turn-template").content.firstElementChild.cloneNode(true);
  section.id = `run-${run.id}`;
  section.querySelector("[data-by]").textContent = run.by;
  section.querySelector("[data-prompt]").textContent = run.prompt;
  if (caughtUp) section.querySelector("[role=log]").setAttribute("aria-live", "polite");
  const time = section.querySelector("time");
  time.dateTime = run.at;
  time.textContent = "just now";
  time.title = utcDateTime(run.at);
  section.querySelector("[data-avatar]").textContent = run.by.slice(0, 1);
  turns.append(section);
  return section;
}

/** Fetch the server's rendering of a finished run: the report with its citations, or why there is none. */
async function loadOutcome(run, view, attempt = 1) {
  const slot = view.section.querySelector("[data-outcome]");
  if (slot.dataset.loaded === run.state || slot.dataset.loading) return;
  slot.dataset.loading = "true";
  const html = await fetchFragment(`${urls.app}/runs/${run.id}/report`);
  delete slot.dataset.loading;
  if (html === null && attempt < 4)
    return void setTimeout(() => void loadOutcome(run, view, attempt + 1), 700 * 2 ** attempt);
  const following = nearBottom();
  if (html === null) slot.replaceChildren(retryNotice(run, view));
  else slot.innerHTML = html; // our own template, escaped there
  if (html !== null) slot.dataset.loaded = run.state;
  view.section.classList.add("has-outcome");
  if (caughtUp && following && run === lastRun(state)) showTurn(view.section);
}

function showTurn(section) {
  const top = section.previousElementSibling ? section.getBoundingClientRect().top + window.scrollY - 70 : 0;
  window.scrollTo({ top, behavior: motion() });
}

function retryNotice(run, view) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button small";
  button.textContent = "The report could not be loaded. Try again";
  button.addEventListener("click", () => void loadOutcome(run, view));
  return button;
}

async function fetchFragment(url) {
  try {
    const response = await fetch(url, { headers: { "X-Requested-With": "fetch" }, redirect: "error" });
    return response.ok ? await response.text() : null;
  } catch {
    return null;
  }
}

// ---- the dock: what goes on now, question, composer ----

function drawDock() {
  const run = lastRun(state);
  const active = isActive(run);
  strip.hidden = !run || !active;
  if (stopForm) stopForm.hidden = !active;
  if (run && active) {
    setText(part("strip-words"), progressWords(run, currentWork(run)));
    strip.dataset.state = run.state;
  }
  if (stopForm && !active) showStopping(false);
  if (run) drawStatus(run);
  if (composer) {
    const field = composer.querySelector("textarea");
    field.placeholder = active ? field.dataset.running : field.dataset.idle;
  }
  void drawQuestion(run);
  void drawPendingApproval(run);
  tick();
}

/** Before the page's title, for whoever waits in another tab. */
const MARKS = {
  running: "● ",
  queued: "● ",
  waiting: "? ",
  completed: "✓ ",
  failed: "✗ ",
  interrupted: "■ ",
  timeout: "✗ ",
};

function drawStatus(run) {
  const slot = part("thread-status");
  if (slot.firstElementChild?.dataset.status !== run.state) {
    slot.replaceChildren(statusBadge(run.state));
    if (caughtUp) part("announce").textContent = `Run ${ENDS[run.state].words.toLowerCase()}.`;
  }
  const shown = `${MARKS[run.state] ?? ""}${title}`;
  if (document.title !== shown) document.title = shown;
}

async function drawQuestion(run) {
  const wanted = run?.openQuestion ?? null;
  if (!questionSlot || wanted === questionShown) return;
  questionShown = wanted;
  if (wanted === null) return void questionSlot.replaceChildren();
  const html = await fetchFragment(`${urls.app}/question`);
  if (questionShown !== wanted) return;
  if (html === null) {
    questionShown = null;
    return void setTimeout(() => void drawQuestion(lastRun(state)), 1500);
  }
  questionSlot.innerHTML = html; // our own template, escaped there
}

async function drawPendingApproval(run) {
  const wanted = run?.openApproval ?? null;
  if (!approvalSlot || wanted === approvalShown) return;
  approvalShown = wanted;
  if (wanted === null) return void approvalSlot.replaceChildren();
  const html = await fetchFragment(`${urls.app}/approval`);
  if (approvalShown !== wanted) return;
  if (html === null) {
    approvalShown = null;
    return void setTimeout(() => void drawPendingApproval(lastRun(state)), 1500);
  }
  approvalSlot.innerHTML = html; // our own template, escaped there
}

function tick() {
  const run = lastRun(drawn);
  if (!isActive(run)) return;
  const now = Date.now() + clockOffset;
  setText(part("elapsed"), clock(now - Date.parse(run.at)));
  views.get(run.id)?.activity.tick(now);
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const CONNECTION = {
  connecting: "Connecting…",
  reconnecting: "Reconnecting… The investigation goes on without this page.",
  signed_out: "You are signed out.",
  gone: "You no longer have access to this investigation.",
};

function showConnection(connection) {
  const slot = part("connection");
  page.dataset.streamState = connection;
  slot.hidden = !(connection in CONNECTION) || (connection === "connecting" && !caughtUp);
  setText(slot.querySelector("[data-connection-words]"), CONNECTION[connection] ?? "");
  slot.querySelector("a").hidden = connection !== "signed_out";
}

/** What came so far is history. From here on new steps are announced and followed. */
function settleIn() {
  setTimeout(() => {
    caughtUp = true;
    turns.setAttribute("aria-busy", "false");
    turns.querySelectorAll("[role=log]").forEach((log) => log.setAttribute("aria-live", "polite"));
    openAnchor();
  }, 100);
}

// ---- following what is new ----

function motion() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
}

function nearBottom() {
  return window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 160;
}

function follow(before) {
  if (lastRun(before) === lastRun(state) || !isActive(lastRun(state))) return;
  window.scrollTo({ top: document.documentElement.scrollHeight });
}

function showJump() {
  jump.hidden = nearBottom();
}

jump.addEventListener("click", () => {
  window.scrollTo({ top: document.documentElement.scrollHeight, behavior: motion() });
  jump.hidden = true;
});
window.addEventListener(
  "scroll",
  () => {
    if (nearBottom()) jump.hidden = true;
  },
  { passive: true },
);

// ---- citations ----

function openObservation(id) {
  const found = findObservation(state, id);
  if (!found) return false;
  const element = views.get(found.run.id).activity.reveal(found.item, id);
  element.scrollIntoView({ block: "center" });
  element.focus({ preventScroll: true });
  return true;
}

function openAnchor() {
  if (location.hash.startsWith("#obs-")) openObservation(decodeURIComponent(location.hash.slice(5)));
}

setUpCitations(page, openObservation);
window.addEventListener("hashchange", openAnchor);

// ---- forms ----

function showError(form, text) {
  const slot = form.querySelector("[data-error]");
  slot.textContent = text;
  slot.hidden = !text;
}

/** Send a form's request once at a time; a refusal stays beside the form and nothing typed is lost. */
async function send(form, url, body) {
  if (form.dataset.busy) return false;
  form.dataset.busy = "true";
  showError(form, "");
  const answer = await post(url, body);
  delete form.dataset.busy;
  if (!answer.ok) showError(form, problemText(answer));
  return answer.ok;
}

if (composer) {
  const field = composer.querySelector("textarea");
  const draft = `opensre-draft-${page.dataset.thread}`;
  field.value ||= sessionStorage.getItem(draft) ?? "";
  const fit = () => {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, window.innerHeight * 0.4)}px`;
  };
  fit();
  field.addEventListener("input", () => {
    sessionStorage.setItem(draft, field.value);
    fit();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) {
      event.preventDefault();
      composer.requestSubmit();
    }
  });
  composer.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text) return showError(composer, "Write what the investigation should know or do.");
    if (!(await send(composer, `${urls.api}/messages`, { text }))) return;
    if (field.value.trim() === text) field.value = "";
    sessionStorage.removeItem(draft);
    fit();
    field.focus();
    if (!nearBottom()) window.scrollTo({ top: document.documentElement.scrollHeight, behavior: motion() });
  });
}

function showStopping(stopping) {
  const button = stopForm.querySelector("button");
  button.disabled = stopping;
  setText(button.querySelector("span"), stopping ? "Stopping…" : "Stop");
}

stopForm?.addEventListener("submit", async (event) => {
  event.preventDefault();
  showStopping(true);
  if (!(await send(stopForm, `${urls.api}/interrupt`, {}))) showStopping(false);
});

questionSlot?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const answers = readAnswers(form);
  if (answers === null) return showError(form, "Choose an option or write an answer to every question.");
  await send(form, `${urls.api}/answers`, { request_id: form.dataset.request, answers });
});

/** `{question_0: "choice // comment"}`, several choices joined with commas; null when one is missing. */
function readAnswers(form) {
  const answers = {};
  for (const group of form.querySelectorAll("fieldset[data-name]")) {
    const chosen = [...group.querySelectorAll("input:checked")].map((input) => input.value).join(", ");
    const comment = group.querySelector("textarea, input[type=text]")?.value.trim() ?? "";
    const answer = [chosen, comment].filter(Boolean).join(" // ");
    if (!answer) return null;
    answers[group.dataset.name] = answer;
  }
  return answers;
}

setInterval(tick, 1000);
feed.start();
