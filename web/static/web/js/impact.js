/* A preview whose affected nodes are still being counted: the count goes on here, line by line. */
import { h } from "./dom.js";
import { count } from "./format.js";

const place = document.querySelector("[data-impact]");
const form = document.querySelector("#preview-form");

function say(text) {
  place.querySelector("[data-impact-said]").textContent = text;
}

function show({ affected }) {
  const name = place.dataset.node;
  if (!affected.count) {
    place.replaceChildren(h("p", { class: "soft", role: "status" }, `${name} alone. Nobody below sees another value.`));
    return;
  }
  const verb = affected.count === 1 ? "sees" : "see";
  const more = affected.count > affected.slugs.length ? h("span", { class: "faint" }, "and more") : null;
  place.replaceChildren(
    h("p", { role: "status" }, `${name}, and ${affected.count} below that ${verb} another value:`),
    h("p", { class: "slugs" }, affected.slugs.map((slug) => h("span", { class: "origin" }, slug)), more),
  );
}

async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts.map((part) => JSON.parse(part));
  }
}

async function follow() {
  const fields = new FormData(form);
  fields.set("step", "impact");
  const response = await fetch(form.action, { method: "POST", body: fields });
  if (!response.ok) throw new Error(String(response.status));
  let counted = false;
  for await (const line of lines(response)) {
    if (line.affected) {
      counted = true;
      show(line);
    } else {
      const { affected, done, total } = line.progress;
      say(`${place.dataset.node}, and at least ${affected} below: ${done} of ${count(total, "node")} are counted so far.`);
    }
  }
  if (!counted) throw new Error("cut off");
}

if (place && form) {
  follow().catch(() => say("The count broke off. Go back to editing and preview again to count anew."));
}
