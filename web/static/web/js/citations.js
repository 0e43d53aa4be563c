/* Citations of a report: the quote on hover and focus, the step that saw it on click. */
import { h } from "./dom.js";

/** `open(id)` shows an observation in the timeline and answers whether it is there. */
export function setUpCitations(root, open) {
  const tip = h("div", { class: "tip", role: "tooltip", id: "citation-tip", hidden: true });
  document.body.append(tip);
  let shownFor = null;

  const hide = () => {
    tip.hidden = true;
    shownFor?.removeAttribute("aria-describedby");
    shownFor = null;
  };

  const show = (cite) => {
    if (cite === shownFor) return;
    hide();
    shownFor = cite;
    tip.replaceChildren(
      h(
        "p",
        { class: "tip-head" },
        h("strong", { class: "mono" }, cite.dataset.object),
        h("span", { class: "faint" }, cite.dataset.source),
      ),
      h("p", {}, cite.dataset.quote),
    );
    cite.setAttribute("aria-describedby", tip.id);
    tip.hidden = false;
    place(tip, cite.getBoundingClientRect());
  };

  const citeOf = (event) => event.target.closest?.("a.cite");
  root.addEventListener("pointerover", (event) => {
    if (event.pointerType === "mouse" && citeOf(event)) show(citeOf(event));
  });
  root.addEventListener("pointerout", (event) => {
    if (citeOf(event) && !citeOf(event).contains(event.relatedTarget)) hide();
  });
  root.addEventListener("focusin", (event) => {
    if (citeOf(event)?.matches(":focus-visible")) show(citeOf(event));
  });
  root.addEventListener("focusout", (event) => {
    if (citeOf(event)) hide();
  });
  window.addEventListener("scroll", hide, { passive: true, capture: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });

  root.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-observation]");
    if (!link || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    hide();
    if (location.hash !== link.hash) history.pushState(null, "", link.hash); // Back returns to the report
    open(link.dataset.observation);
  });
}

function place(tip, anchor) {
  const gap = 8;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(
    Math.max(gap, anchor.left + anchor.width / 2 - width / 2),
    document.documentElement.clientWidth - width - gap,
  );
  const above = anchor.top - height - gap;
  tip.style.left = `${left}px`;
  tip.style.top = `${above < gap ? anchor.bottom + gap : above}px`;
}
