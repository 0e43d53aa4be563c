/* Words for times and sizes. Pure functions. */

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const two = (n) => String(n).padStart(2, "0");

/** "840 ms", "4.2 s", "1 min 12 s", "2 h 5 min" of a duration in milliseconds. */
export function duration(ms) {
  if (!Number.isFinite(ms) || ms < 0) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 59.95) return `${(Math.round(seconds * 10) / 10).toString()} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return whole % 60 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${whole / 60} min`;
  const minutes = Math.round(whole / 60);
  return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
}

/** "0:42", "12:03", "1:02:03" of a running time in milliseconds. */
export function clock(ms) {
  const total = Math.max(0, Math.floor(ms / 1000));
  const h = Math.floor(total / 3600);
  const m = Math.floor((total % 3600) / 60);
  return h ? `${h}:${two(m)}:${two(total % 60)}` : `${m}:${two(total % 60)}`;
}

/** "just now", "5 min ago", "3 h ago", "yesterday", then the date. */
export function relativeTime(then, now) {
  const seconds = Math.round((now - then) / 1000);
  if (seconds < 45) return "just now";
  if (seconds < 3570) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 84600) return `${Math.round(seconds / 3600)} h ago`;
  if (seconds < 172800) return "yesterday";
  const year = then.getFullYear() === now.getFullYear() ? "" : ` ${then.getFullYear()}`;
  return `${then.getDate()} ${MONTHS[then.getMonth()]}${year}`;
}

/** "11:22:05" in UTC: what logs and metrics speak. */
export function utcClock(iso) {
  const at = new Date(iso);
  return Number.isNaN(at.getTime())
    ? ""
    : `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
}

/** "26 Mar 2026, 11:22:05 UTC". */
export function utcDateTime(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}, ${utcClock(iso)} UTC`;
}

/** "1 step", "3 steps". */
export function count(n, word) {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}
