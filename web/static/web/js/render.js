/*
 * The activity of one run as a list that is kept in step with the reducer's state: an item whose object did not
 * change is not touched, so a reader's open details, focus and selection stay. Details are built when first opened.
 */
import { h, icon, spinner } from "./dom.js";
import { clock, count, duration, utcClock, utcDateTime } from "./format.js";
import { toolTarget } from "./reducer.js";

const STATES = {
  running: { words: "running", icon: null, tone: "tone-run" },
  ok: { words: "done", icon: "check", tone: "tone-good" },
  failed: { words: "failed", icon: "cross", tone: "tone-bad" },
  interrupted: { words: "interrupted before it finished", icon: "cut", tone: "tone-halt" },
};

/** How each end of a run looks and reads; the same words as the server's badges. */
export const ENDS = {
  queued: { words: "Queued", icon: "queue", tone: "" },
  running: { words: "Running", icon: null, tone: "tone-run" },
  waiting: { words: "Waiting", icon: "pause", tone: "tone-warn" },
  completed: { words: "Completed", icon: "check", tone: "tone-good" },
  failed: { words: "Failed", icon: "warn", tone: "tone-bad" },
  interrupted: { words: "Interrupted", icon: "stop", tone: "tone-halt" },
  timeout: { words: "Timed out", icon: "clock", tone: "tone-late" },
};

const SUBTYPES = {
  error_max_turns: "It reached the limit of turns; what it had gathered is in the answer.",
  error_max_tokens: "It reached the limit of tokens; what it had gathered is in the answer.",
  error_max_cost: "It reached the limit of cost; what it had gathered is in the answer.",
};

export function statusBadge(state) {
  const look = ENDS[state] ?? ENDS.queued;
  return h(
    "span",
    { class: `badge ${look.tone}`, "data-status": state },
    look.icon ? icon(look.icon) : spinner(),
    look.words,
  );
}

/** Keeps the activity of one run: `panel` is its `<details data-activity>`. */
export class ActivityView {
  #panel;
  #list;
  #meta;
  #shown = []; // the items as last drawn
  #elements = new Map(); // key → element

  constructor(panel) {
    this.#panel = panel;
    this.#list = panel.querySelector("[data-steps]");
    this.#meta = panel.querySelector("[data-activity-meta]");
  }

  update(run) {
    run.items.forEach((entry, index) => {
      if (this.#shown[index] === entry) return;
      const known = this.#elements.get(entry.key);
      const element = known ?? this.#add(entry);
      if (known) refresh(element, entry);
    });
    this.#shown = run.items;
    this.#panel.hidden = !run.items.length;
    const parts = [
      run.steps ? count(run.steps, "step") : "",
      run.observations ? count(run.observations, "observation") : "",
    ];
    this.#meta.textContent = parts.filter(Boolean).join(" · ");
  }

  #add(entry) {
    const element = h("li", { class: `step step-${entry.kind}`, "data-depth": Math.min(entry.depth, 4) || null });
    BUILD[entry.kind](element, entry);
    this.#elements.set(entry.key, element);
    this.#list.append(element);
    return element;
  }

  /** Show the running time of tools that have not ended; `now` in milliseconds, by the server's clock. */
  tick(now) {
    for (const entry of this.#shown) {
      if (entry.kind !== "tool" || entry.state !== "running") continue;
      const time = this.#elements.get(entry.key).querySelector(".step-time");
      const elapsed = now - Date.parse(entry.at);
      if (elapsed >= 1000) time.textContent = clock(elapsed);
    }
  }

  /** Open the step that made an observation and return the observation's element. */
  reveal(entry, observationId) {
    this.#panel.open = true;
    const details = this.#elements.get(entry.key).querySelector("details");
    details.open = true;
    fill(details);
    return document.getElementById(`obs-${observationId}`);
  }
}

const BUILD = {
  thought: (li, entry) => li.append(icon("think"), h("p", { class: "thought" }, entry.text)),
  note: (li, entry) => li.append(icon("clock"), h("p", { class: "soft" }, entry.text)),
  message: (li, entry) =>
    li.append(
      icon("chat"),
      h(
        "div",
        { class: "said" },
        h("p", { class: "said-by" }, `${entry.by || "Someone"} added`),
        h("p", { class: "said-text" }, entry.text),
      ),
    ),
  tool: (li, entry) => {
    const details = h("details", {}, h("summary", {}), h("div", { class: "step-body" }));
    details.addEventListener("toggle", () => {
      if (details.open) fill(details);
    });
    li.append(h("span", { class: "step-dot" }), details);
    drawTool(li, entry);
  },
  task: (li, entry) => {
    li.append(h("span", { class: "step-dot" }), h("div", {}));
    drawTask(li, entry);
  },
  question: (li, entry) => {
    li.append(icon("pause"), h("div", { class: "said" }));
    drawQuestion(li, entry);
  },
  approval: (li, entry) => {
    li.append(icon("pause"), h("div", { class: "said" }));
    drawApproval(li, entry);
  },
  error: (li, entry) =>
    li.append(
      icon("warn"),
      h(
        "div",
        {},
        h("p", { class: "step-bad" }, entry.text || "The run reported an error."),
        entry.code ? h("p", { class: "faint mono" }, entry.code) : null,
      ),
    ),
  answer: (li, entry) =>
    li.append(
      icon("file"),
      h(
        "div",
        {},
        h("p", {}, entry.report ? "The report is ready" : "The answer is ready"),
        SUBTYPES[entry.subtype] ? h("p", { class: "soft" }, SUBTYPES[entry.subtype]) : null,
        usageLine(entry.usage),
      ),
    ),
  end: (li, entry) => {
    const look = ENDS[entry.status] ?? ENDS.failed;
    li.dataset.end = entry.status;
    li.append(
      h("span", { class: `step-dot ${look.tone}` }, icon(look.icon)),
      h(
        "div",
        {},
        h(
          "p",
          { class: "end-words" },
          look.words,
          entry.durationMs === null ? null : h("span", { class: "faint" }, ` after ${duration(entry.durationMs)}`),
        ),
        entry.reason && entry.status !== "completed" ? h("p", { class: "soft" }, reasonWords(entry.reason)) : null,
      ),
    );
  },
};

const REFRESH = { tool: drawTool, task: drawTask, question: drawQuestion, approval: drawApproval };

function refresh(li, entry) {
  REFRESH[entry.kind]?.(li, entry);
}

function drawTool(li, entry) {
  const look = STATES[entry.state];
  li.dataset.state = entry.state;
  setDot(li, look);
  const target = toolTarget(entry);
  const details = li.querySelector("details");
  details
    .querySelector("summary")
    .replaceChildren(
      h(
        "span",
        { class: "step-line" },
        h("span", { class: "step-name" }, entry.name),
        target ? h("span", { class: "step-target mono", title: target }, target) : null,
        !target && entry.description ? h("span", { class: "step-target" }, entry.description) : null,
        entry.agent && entry.depth ? h("span", { class: "badge outline" }, entry.agent) : null,
        h("span", { class: "sr-only" }, `, ${look.words}`),
        h("span", { class: "step-time num" }, entry.durationMs === null ? "" : duration(entry.durationMs)),
      ),
      entry.error || entry.summary
        ? h(
            "span",
            { class: entry.state === "failed" ? "step-summary step-bad" : "step-summary" },
            entry.error || entry.summary,
          )
        : "",
    );
  details.entry = entry;
  if (details.open) fill(details);
}

function setDot(li, look) {
  const dot = li.querySelector(".step-dot");
  dot.className = `step-dot ${look.tone}`;
  dot.replaceChildren(look.icon ? icon(look.icon) : spinner());
}

/** Build the body of an opened step from the entry it shows, unless that was done already. */
function fill(details) {
  const { entry } = details;
  if (details.filled === entry) return;
  details.filled = entry;
  details
    .querySelector(".step-body")
    .replaceChildren(
      ...[
        Object.keys(entry.input).length ? section("Input", inputList(entry.input)) : null,
        entry.observations.length
          ? section("Observations", h("ol", { class: "observations" }, ...entry.observations.map(observation)))
          : null,
        entry.output
          ? section(
              entry.truncated ? "Output (shortened)" : "Output",
              h(
                "pre",
                { class: "output", tabindex: "0", role: "region", "aria-label": `Output of ${entry.name}` },
                entry.output,
              ),
            )
          : null,
        entry.state === "running" ? h("p", { class: "faint" }, "Still running.") : null,
        entry.state === "interrupted" ? h("p", { class: "soft" }, "The run ended before this step answered.") : null,
      ].filter(Boolean),
    );
}

function section(title, content) {
  return h("div", { class: "step-section" }, h("h3", {}, title), content);
}

function inputList(input) {
  return h(
    "dl",
    { class: "pairs" },
    ...Object.entries(input).flatMap(([name, value]) => [
      h("dt", {}, name),
      h("dd", { class: "mono" }, typeof value === "string" ? value : JSON.stringify(value)),
    ]),
  );
}

function observation(seen) {
  const span = seen.at ? timeRange(seen.at) : "";
  return h(
    "li",
    { class: "observation", id: `obs-${seen.id}`, tabindex: "-1" },
    h(
      "p",
      { class: "observation-head" },
      h("span", { class: "badge tone-seen" }, seen.kind),
      h("span", { class: "mono" }, seen.object),
      h("span", { class: "faint" }, seen.source),
    ),
    h("blockquote", {}, seen.quote),
    span ? h("p", { class: "faint num" }, span) : null,
  );
}

function timeRange({ start, end }) {
  return start === end ? utcDateTime(start) : `${utcDateTime(start).replace(" UTC", "")} – ${utcClock(end)} UTC`;
}

function drawTask(li, entry) {
  setDot(li, STATES[entry.state]);
  li.querySelector("div").replaceChildren(
    ...[
      h(
        "p",
        {},
        h("span", { class: "soft" }, "Task "),
        entry.text,
        h("span", { class: "sr-only" }, `, ${STATES[entry.state].words}`),
      ),
      entry.summary ? h("p", { class: "soft" }, entry.summary) : null,
    ].filter(Boolean),
  );
}

function drawQuestion(li, entry) {
  const ends = {
    open: "The investigation asks",
    answered: `${entry.by || "Someone"} answered`,
    timeout: "Nobody answered in time; the investigation went on",
    interrupted: "The run ended before this was answered",
  };
  li.dataset.state = entry.state;
  li.querySelector("div").replaceChildren(
    h("p", { class: "said-by" }, ends[entry.state]),
    ...entry.questions.map((question, index) =>
      h(
        "div",
        {},
        h("p", { class: "said-text" }, question.question),
        answerOf(entry, index, question) ? h("p", { class: "said-answer" }, answerOf(entry, index, question)) : null,
      ),
    ),
  );
}

function answerOf(entry, index, question) {
  return entry.answers[`question_${index}`] ?? entry.answers[question.question] ?? "";
}

function drawApproval(li, entry) {
  const ends = {
    open: "waits for a decision on",
    approved: "was allowed",
    rejected: "was refused",
    expired: "was not decided in time:",
    interrupted: "ended before a decision on",
  };
  li.dataset.state = entry.state;
  li.querySelector("div").replaceChildren(
    h(
      "p",
      { class: "said-by" },
      `The investigation ${ends[entry.state] ?? ""} an action${entry.by ? ` (${entry.by})` : ""}`,
    ),
    h("p", { class: "mono" }, entry.tool),
    inputList(entry.input),
  );
}

function usageLine(usage) {
  if (!usage) return null;
  const tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  const parts = [
    usage.tool_calls === null || usage.tool_calls === undefined ? "" : count(usage.tool_calls, "tool call"),
    tokens ? `${tokens.toLocaleString("en")} tokens` : "",
    usage.cost_usd ? `$${usage.cost_usd.toFixed(2)}` : "",
  ].filter(Boolean);
  return parts.length ? h("p", { class: "faint num" }, parts.join(" · ")) : null;
}

/** A reason of the log is a code or a sentence; codes read better with spaces. */
export function reasonWords(reason) {
  return /^[a-z_]+$/.test(reason) ? reason.replaceAll("_", " ") : reason;
}

/** One sentence about a run for the strip above the composer. */
export function progressWords(run, work) {
  if (run.state === "queued") return "Queued, waiting for a worker";
  if (run.state === "waiting") return run.openApproval ? "Waiting for a decision" : "Waiting for your answer";
  return work ? `Running ${work}` : "Working";
}
