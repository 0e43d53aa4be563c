/*
 * The event log of one thread as a stream that survives everything short of losing access.
 *
 * The cursor is the last `seq` handed on. What arrives twice is dropped; a jump is healed by reading the log over REST;
 * a stream that gave up is opened again with growing, jittered pauses; a tab that comes back or a network that returns
 * reconnects at once. A hidden tab gives its connection back after a while (a browser has six per host) and polls.
 */
import { EVENT_TYPES } from "./reducer.js";

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
const PAGE = 500;
const HIDDEN_GRACE_MS = 20_000;
const HIDDEN_POLL_MS = 10_000;
const WATCHDOG_MS = 45_000;

export class Feed {
  #cursor = 0;
  #source = null;
  #attempt = 0;
  #timer = null;
  #hiddenTimer = null;
  #ahead = new Map(); // events after a hole, by seq, until the hole is healed
  #healing = null;
  #state = "";
  #stopped = false;
  #generation = 0; // raised by a reset: answers to older requests are dropped

  /**
   * `streamUrl`, `eventsUrl`: paths of the thread. `onEvents(events)`: in order, without gap or duplicate.
   * `onReset()`: forget everything; the whole log follows. `onState(state)`: connecting, open, reconnecting, paused,
   * signed_out, gone. `isLive()`: whether something is expected to happen.
   */
  constructor({ streamUrl, eventsUrl, onEvents, onReset, onState, isLive }) {
    Object.assign(this, { streamUrl, eventsUrl, onEvents, onReset, onState, isLive });
  }

  get cursor() {
    return this.#cursor;
  }

  start() {
    document.addEventListener("visibilitychange", () => this.#onVisibility());
    window.addEventListener("online", () => this.#wake());
    window.addEventListener("offline", () => this.#setState("reconnecting"));
    window.addEventListener("pageshow", (event) => {
      if (event.persisted) this.#wake();
    });
    setInterval(() => this.#watch(), WATCHDOG_MS);
    this.#setState("connecting");
    this.#open();
  }

  #open() {
    if (this.#stopped) return;
    this.#close();
    const source = new EventSource(`${this.streamUrl}?after=${this.#cursor}`);
    this.#source = source;
    source.addEventListener("open", () => {
      this.#attempt = 0;
      this.#setState("open");
    });
    for (const type of EVENT_TYPES) source.addEventListener(type, (event) => this.#onFrame(event));
    source.addEventListener("message", (event) => this.#onFrame(event));
    source.addEventListener("reset", () => void this.#reset());
    source.addEventListener("error", (event) => {
      // A frame of type "error" arrives here too, and was taken by the listener above; the rest is the connection's.
      if (!(event instanceof MessageEvent) && source === this.#source) this.#onBroken(source);
    });
  }

  #close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  #onBroken(source) {
    this.#setState("reconnecting");
    if (source.readyState === EventSource.CLOSED) this.#retryLater();
    // CONNECTING: the browser tries again by itself, after the pause the server asked for
  }

  #retryLater() {
    this.#close();
    const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#attempt);
    this.#attempt += 1;
    const pause = longest / 2 + (Math.random() * longest) / 2;
    this.#timer = setTimeout(() => void this.#retry(), pause);
  }

  /** EventSource hides why it failed; reading the log first tells, and catches up on the way. */
  async #retry() {
    if (await this.#catchUp()) this.#open();
    else if (!this.#stopped) this.#retryLater();
  }

  #wake() {
    if (this.#stopped || document.hidden) return;
    if (this.#state === "open" && this.#source?.readyState === EventSource.OPEN) return void this.#watch();
    this.#attempt = 0;
    this.#setState(this.#state === "paused" ? "connecting" : "reconnecting");
    this.#open();
  }

  #onVisibility() {
    clearTimeout(this.#hiddenTimer);
    if (!document.hidden) this.#wake();
    else this.#hiddenTimer = setTimeout(() => void this.#pause(), HIDDEN_GRACE_MS);
  }

  async #pause() {
    if (!document.hidden || this.#stopped) return;
    this.#close();
    this.#setState("paused");
    if (this.isLive()) await this.#catchUp();
    this.#hiddenTimer = setTimeout(() => void this.#pause(), HIDDEN_POLL_MS);
  }

  /** A half-open connection looks healthy: ask the log now and then whether the stream kept something back. */
  async #watch() {
    if (this.#source?.readyState !== EventSource.OPEN || document.hidden || !this.isLive()) return;
    const before = this.#cursor;
    const page = await this.#read(before);
    const kept = page?.results.some((event) => event.seq > this.#cursor) ?? false;
    if (kept && this.#cursor === before) this.#open();
  }

  #onFrame(frame) {
    let event;
    try {
      event = JSON.parse(frame.data);
    } catch {
      return void this.#heal(); // a frame cut in two: the log has it whole
    }
    if (!Number.isInteger(event?.seq)) return;
    if (event.seq <= this.#cursor) return;
    this.#ahead.set(event.seq, event);
    this.#drain();
    if (this.#ahead.size) void this.#heal();
  }

  #drain() {
    const ready = [];
    for (let seq = this.#cursor + 1; this.#ahead.has(seq); seq += 1) {
      ready.push(this.#ahead.get(seq));
      this.#ahead.delete(seq);
    }
    if (!ready.length) return;
    this.#cursor = ready.at(-1).seq;
    this.onEvents(ready);
  }

  #heal() {
    this.#healing ??= this.#catchUp().finally(() => {
      this.#healing = null;
    });
    return this.#healing;
  }

  /** Read the log from the cursor to its head. Whether that worked. */
  async #catchUp() {
    for (;;) {
      const after = this.#cursor;
      const page = await this.#read(after);
      if (!page) return false;
      if (Number.isInteger(page.head) && page.head < after) {
        await this.#reset(); // the log is shorter than what we saw: the database was restored
        return true;
      }
      for (const event of page.results) if (event.seq > this.#cursor) this.#ahead.set(event.seq, event);
      this.#drain();
      if (page.results.length < PAGE) break;
    }
    for (const seq of this.#ahead.keys()) if (seq <= this.#cursor) this.#ahead.delete(seq);
    return true;
  }

  async #read(after) {
    const generation = this.#generation;
    try {
      const response = await fetch(`${this.eventsUrl}?after=${after}&limit=${PAGE}`, {
        headers: { Accept: "application/json" },
      });
      if (response.status === 401) this.#stop("signed_out");
      else if (response.status === 403 || response.status === 404) this.#stop("gone");
      if (!response.ok || generation !== this.#generation) return null;
      return await response.json();
    } catch {
      return null;
    }
  }

  async #reset() {
    this.#close();
    this.#generation += 1;
    this.#ahead.clear();
    this.#cursor = 0;
    this.onReset();
    if (await this.#catchUp()) this.#open();
    else if (!this.#stopped) this.#retryLater();
  }

  #stop(state) {
    this.#stopped = true;
    this.#close();
    clearTimeout(this.#hiddenTimer);
    this.#setState(state);
  }

  #setState(state) {
    if (state === this.#state) return;
    this.#state = state;
    this.onState(state);
  }
}
