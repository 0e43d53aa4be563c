/* Building elements. Text only ever becomes text nodes: what agents and tools say is never markup. */

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. `attributes`: class, data-*, ARIA and so on; null, undefined and false are left out, true is "". */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** Make an icon of the page's sprite, hidden from assistive technology. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

export function spinner() {
  return h("span", { class: "spinner", "aria-hidden": "true" });
}

/** Send JSON as the signed-in person. Answers `{ok, status, body}`; a network failure has status 0. */
export async function post(url, body) {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json", "X-CSRFToken": csrfToken() },
      body: JSON.stringify(body),
    });
    return { ok: response.ok, status: response.status, body: await response.json().catch(() => ({})) };
  } catch {
    return { ok: false, status: 0, body: { detail: "The server cannot be reached. Nothing was sent; try again." } };
  }
}

/** Send a file as it is, as the signed-in person. Answers as `post`. */
export async function sendFile(url, file) {
  try {
    const response = await fetch(`${url}?name=${encodeURIComponent(file.name)}`, {
      method: "POST",
      headers: {
        "Content-Type": "application/octet-stream",
        Accept: "application/json",
        "X-CSRFToken": csrfToken(),
      },
      body: file,
    });
    return { ok: response.ok, status: response.status, body: await response.json().catch(() => ({})) };
  } catch {
    return { ok: false, status: 0, body: { detail: "The server cannot be reached. Nothing was sent; try again." } };
  }
}

/** Words for a failed answer of `post`. */
export function problemText(answer) {
  if (answer.status === 401) return "You are signed out. Sign in again in another tab, then send once more.";
  if (answer.body.code === "csrf_failed") return "This page is out of date. Copy your text, reload, and send it again.";
  return answer.body.detail || `The server answered with an error (${answer.status}). Try again.`;
}

function csrfToken() {
  return document.querySelector("input[name=csrfmiddlewaretoken]")?.value ?? "";
}
