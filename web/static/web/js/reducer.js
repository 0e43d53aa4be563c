/*
 * The state of a thread as a pure function of its event log: no DOM, no clock, no network.
 * State is never changed in place: a run or an item that changed is a new object, so a view compares by identity.
 */

/** Every event type of the log. EventSource delivers named events only to listeners of their name. */
export const EVENT_TYPES = Object.freeze([
  "run_started",
  "thought",
  "tool_start",
  "tool_end",
  "task_started",
  "task_notification",
  "background_waiting",
  "message_queued",
  "question",
  "question_answered",
  "question_timeout",
  "approval",
  "approval_decided",
  "result",
  "error",
  "run_ended",
]);

export const ACTIVE = Object.freeze(["queued", "running", "waiting"]);

export function isActive(run) {
  return run !== null && run !== undefined && ACTIVE.includes(run.state);
}

export function emptyState() {
  return { lastSeq: 0, runs: [] };
}

export function lastRun(state) {
  return state.runs.at(-1) ?? null;
}

/** The state after `events`, in order. */
export function reduceAll(state, events) {
  return events.reduce(reduce, state);
}

/** The state after one envelope `{seq, type, thread_id, run_id, at, data}`; one already seen changes nothing. */
export function reduce(state, event) {
  if (event.seq <= state.lastSeq) return state;
  const next = { ...state, lastSeq: event.seq };
  const handle = HANDLERS[event.type];
  if (!event.run_id || !handle) return next; // without a run: a message that starts the next one, whose prompt it is
  next.runs = withRun(state.runs, event, (run) => handle(run, event.data ?? {}, event));
  return next;
}

function withRun(runs, event, change) {
  const index = runs.findLastIndex((run) => run.id === event.run_id);
  const before = index < 0 ? newRun(event) : runs[index];
  const after = change(before);
  if (index < 0) return [...runs, after];
  return after === before ? runs : runs.with(index, after);
}

function newRun(event) {
  return {
    id: event.run_id,
    at: event.at,
    prompt: "",
    by: "",
    runtime: "",
    agent: "",
    sample: false,
    state: "queued",
    items: [],
    steps: 0,
    observations: 0,
    openQuestion: null,
    openApproval: null,
    result: null,
    reason: "",
    endedAt: null,
    durationMs: null,
  };
}

const HANDLERS = {
  run_started: (run, data, event) => ({
    ...run,
    at: event.at,
    prompt: data.prompt ?? "",
    by: data.by ?? "",
    runtime: data.runtime ?? "",
    agent: data.agent ?? "",
    sample: data.sample === true,
  }),

  thought: (run, data, event) => working(append(run, item("thought", event, { text: data.text ?? "" }))),

  tool_start: (run, data, event) =>
    working({
      ...append(run, item("tool", event, { ...toolFields(data), key: data.tool_use_id, state: "running" })),
      steps: run.steps + 1,
    }),

  tool_end(run, data, event) {
    const observations = data.observations ?? [];
    const ended = {
      state: data.success ? "ok" : "failed",
      summary: data.summary ?? "",
      error: data.error ?? null,
      output: data.output ?? null,
      truncated: data.truncated === true,
      observations,
      durationMs: data.duration_ms ?? null,
    };
    const known = findItem(run, "tool", data.tool_use_id);
    const changed = known
      ? replace(run, known, { ...known, ...ended, durationMs: ended.durationMs ?? between(known.at, event.at) })
      : {
          ...append(run, item("tool", event, { ...toolFields(data), key: data.tool_use_id, ...ended })),
          steps: run.steps + 1,
        };
    return working({ ...changed, observations: run.observations + observations.length });
  },

  task_started: (run, data, event) =>
    working(
      append(run, item("task", event, { key: `task:${data.task_id}`, text: data.description ?? "", state: "running" })),
    ),

  task_notification(run, data, event) {
    const state = data.status === "completed" ? "ok" : "failed";
    const known = findItem(run, "task", `task:${data.task_id}`);
    if (known) return working(replace(run, known, { ...known, state, summary: data.summary ?? "" }));
    const fields = { key: `task:${data.task_id}`, text: data.summary ?? "", state };
    return working(append(run, item("task", event, fields)));
  },

  background_waiting: (run, data, event) =>
    working(
      append(run, item("note", event, { text: data.label || `Waiting for ${data.pending_count} background tasks` })),
    ),

  message_queued: (run, data, event) =>
    data.text ? append(run, item("message", event, { text: data.text, by: data.by ?? "" })) : run,

  question: (run, data, event) => ({
    ...append(
      run,
      item("question", event, {
        key: `question:${data.request_id}`,
        questions: data.questions ?? [],
        state: "open",
        answers: {},
        by: "",
      }),
    ),
    state: "waiting",
    openQuestion: data.request_id,
  }),

  question_answered: (run, data) =>
    settle(run, "question", data.request_id, {
      state: "answered",
      answers: data.answers ?? {},
      by: data.by ?? "",
    }),

  question_timeout: (run, data) => settle(run, "question", data.request_id, { state: "timeout" }),

  approval: (run, data, event) => ({
    ...append(
      run,
      item("approval", event, {
        key: `approval:${data.request_id}`,
        tool: data.tool ?? "",
        input: data.input ?? {},
        state: "open",
        by: "",
      }),
    ),
    state: "waiting",
    openApproval: data.request_id,
  }),

  approval_decided: (run, data) =>
    settle(run, "approval", data.request_id, { state: data.decision, by: data.by ?? "" }),

  result(run, data, event) {
    const result = {
      text: data.text ?? "",
      success: data.success === true,
      subtype: data.subtype ?? "success",
      report: data.report != null,
      usage: data.usage ?? null,
    };
    return working({ ...append(run, item("answer", event, result)), result });
  },

  error: (run, data, event) =>
    working(
      append(
        run,
        item("error", event, {
          code: data.code ?? "",
          text: data.message ?? "",
          recoverable: data.recoverable === true,
        }),
      ),
    ),

  run_ended(run, data, event) {
    const items = run.items.map((entry) => (unfinished(entry) ? { ...entry, state: "interrupted" } : entry));
    const status = data.status ?? "failed";
    const durationMs = data.duration_ms || between(run.at, event.at);
    const explained = items.some((entry) => entry.kind === "error"); // its words say more than the reason's code
    const end = item("end", event, { status, reason: explained ? "" : (data.reason ?? ""), durationMs });
    return {
      ...run,
      items: [...items, end],
      state: status,
      reason: end.reason,
      endedAt: event.at,
      durationMs,
      openQuestion: null,
      openApproval: null,
    };
  },
};

function item(kind, event, fields) {
  return { key: `${kind}:${event.seq}`, kind, seq: event.seq, at: event.at, depth: 0, ...fields };
}

function toolFields(data) {
  return {
    name: data.name ?? "",
    input: data.input ?? {},
    description: data.description ?? "",
    depth: data.depth ?? 0,
    agent: data.agent_type ?? "",
    summary: "",
    error: null,
    output: null,
    truncated: false,
    observations: [],
    durationMs: null,
  };
}

function append(run, entry) {
  return { ...run, items: [...run.items, entry] };
}

function replace(run, known, entry) {
  return { ...run, items: run.items.with(run.items.lastIndexOf(known), entry) };
}

function findItem(run, kind, key) {
  return run.items.findLast((entry) => entry.kind === kind && entry.key === key);
}

function settle(run, kind, requestId, fields) {
  const known = findItem(run, kind, `${kind}:${requestId}`);
  const changed = known ? replace(run, known, { ...known, ...fields }) : run;
  return working({ ...changed, openQuestion: null, openApproval: null });
}

/** The agent did something: the run is not queued or waiting any more. An ended run stays ended. */
function working(run) {
  return ACTIVE.includes(run.state) ? { ...run, state: "running" } : run;
}

function unfinished(entry) {
  return entry.state === "running" || entry.state === "open";
}

function between(from, to) {
  const ms = Date.parse(to) - Date.parse(from);
  return Number.isFinite(ms) && ms >= 0 ? ms : null;
}

/** Where an observation was made: `{run, item}`, or null when the log has no such id. */
export function findObservation(state, id) {
  for (const run of state.runs) {
    for (const entry of run.items) {
      if (entry.kind === "tool" && entry.observations.some((seen) => seen.id === id)) return { run, item: entry };
    }
  }
  return null;
}

const TARGET_KEYS = ["source", "object", "service", "resource", "query", "path", "name", "slug", "command", "pattern"];

/** What a tool was pointed at: the most telling text of its input, or "" (a bare limit or flag tells nothing). */
export function toolTarget(entry) {
  const texts = Object.entries(entry.input).filter(([, value]) => typeof value === "string" && value);
  const telling = TARGET_KEYS.find((name) => texts.some(([key]) => key === name));
  return (telling ? entry.input[telling] : texts[0]?.[1]) ?? "";
}

/** What the run is doing now: its newest unfinished tool, else its newest thought. */
export function currentWork(run) {
  const tool = run.items.findLast((entry) => entry.kind === "tool" && entry.state === "running");
  if (tool) return [tool.name, toolTarget(tool)].filter(Boolean).join(" ");
  return "";
}
