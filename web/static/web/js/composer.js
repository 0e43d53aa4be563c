/* The new-investigation form, sent as JSON: a refusal comes back to its field, nothing typed or chosen is lost. */
import { post, problemText, sendFile } from "./dom.js";

const MAX_EVIDENCE_BYTES = 8 * 1024 * 1024;
const DRAFT = "opensre-draft-new";
const TEAM = "opensre-team";
const FIELDS = ["prompt", "team", "alert", "evidence", "visibility", "attachments"];
const uploaded = new Map(); // file → id, so that a second try sends no file twice

const form = document.querySelector("form[data-composer]");
if (form) setUp();

function setUp() {
  const prompt = form.elements.prompt;
  prompt.value ||= sessionStorage.getItem(DRAFT) ?? "";
  prompt.addEventListener("input", () => sessionStorage.setItem(DRAFT, prompt.value));
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  const team = form.elements.team;
  if (team.tagName === "SELECT" && !team.value) {
    const last = localStorage.getItem(TEAM);
    if ([...team.options].some((option) => option.value && option.value === last)) team.value = last;
  }
  for (const link of document.querySelectorAll("[data-example]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      prompt.value = link.dataset.example;
      prompt.focus();
    });
  }
  form.addEventListener("input", (event) => showError(event.target.name, ""));
  form.addEventListener("submit", onSubmit);
}

async function onSubmit(event) {
  event.preventDefault();
  if (form.dataset.busy) return;
  setBusy(true);
  clearErrors();
  const body = await readForm();
  const answer = body && (await post(form.dataset.api, body));
  if (answer?.ok) {
    sessionStorage.removeItem(DRAFT);
    localStorage.setItem(TEAM, form.elements.team.value);
    location.assign(form.dataset.threads + answer.body.thread_id);
    return; // stays busy: the page is being left
  }
  if (answer) showProblem(answer);
  setBusy(false);
}

function setBusy(busy) {
  const button = form.querySelector("[data-go]");
  if (busy) form.dataset.busy = "true";
  else delete form.dataset.busy;
  button.setAttribute("aria-disabled", String(busy));
  button.textContent = busy ? "Starting…" : "Investigate";
}

/** The request's body, or null with the errors shown. */
async function readForm() {
  const data = new FormData(form);
  const body = { prompt: data.get("prompt"), visibility: data.get("visibility") };
  if (data.get("team")) body.team = data.get("team");
  let fine = true;
  if (!body.prompt.trim()) fine = refuse("prompt", "Say what should be investigated.");
  if (form.elements.team?.tagName === "SELECT" && !body.team)
    fine = refuse("team", "Choose the team whose tools and settings to use.");
  const alert = data.get("alert").trim();
  if (alert) {
    body.alert = parseObject(alert);
    if (body.alert === null) fine = refuse("alert", "This is not a JSON object: {…}.");
  }
  const file = data.get("evidence");
  if (file?.size > MAX_EVIDENCE_BYTES) fine = refuse("evidence", "This file is too large; at most 8 MiB are accepted.");
  else if (file?.size) {
    body.evidence = parseObject(await file.text());
    if (body.evidence === null) fine = refuse("evidence", "This file is not a JSON object of format snapshot/1.");
  }
  if (fine) {
    const ids = await sendFiles(data.getAll("attachments").filter((file) => file.size));
    if (ids === null) fine = false;
    else if (ids.length) body.attachments = ids;
  }
  if (!fine) focusFirstError();
  return fine ? body : null;
}

/** The ids of the uploaded files, or null with the error shown. */
async function sendFiles(files) {
  const ids = [];
  for (const file of files) {
    if (!uploaded.has(file)) {
      const answer = await sendFile(form.dataset.uploads, file);
      if (!answer.ok) {
        refuse("attachments", `${file.name}: ${problemText(answer)}`);
        return null;
      }
      uploaded.set(file, answer.body.id);
    }
    ids.push(uploaded.get(file));
  }
  return ids;
}

function parseObject(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

function refuse(name, words) {
  showError(name, words);
  return false;
}

function showProblem(answer) {
  let placed = false;
  for (const error of answer.body.errors ?? []) {
    const [, name, ...below] = error.pointer.split("/");
    if (!FIELDS.includes(name)) continue;
    showError(name, below.length ? `${below.join("/")}: ${error.detail}` : error.detail);
    placed = true;
  }
  if (!placed) {
    const general = form.querySelector("[data-general-error]");
    general.textContent = problemText(answer);
    general.hidden = false;
  }
  focusFirstError();
}

function showError(name, words) {
  const slot = form.querySelector(`[data-error-for="${name}"]`);
  if (!slot) return;
  slot.textContent = words;
  slot.hidden = !words;
  const field = form.elements[name];
  if (field instanceof HTMLElement) {
    if (words) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
}

function clearErrors() {
  FIELDS.forEach((name) => showError(name, ""));
  form.querySelector("[data-general-error]").hidden = true;
}

function focusFirstError() {
  const field = form.querySelector('[aria-invalid="true"]');
  const fold = field?.closest("details");
  if (fold) fold.open = true;
  field?.focus();
}
