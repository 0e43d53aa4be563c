/* Filtering the leaves of a configuration, and the tree as a picker on narrow screens. */
import { count } from "./format.js";

const filter = document.querySelector("[data-config-filter]");
const pick = document.querySelector("[data-pick]");
const wide = matchMedia("(min-width: 64rem)");

function setUpPick() {
  const fit = () => {
    pick.open = wide.matches;
  };
  fit();
  wide.addEventListener("change", fit);
}

function setUpFilter() {
  const input = filter.querySelector("input[type=search]");
  const ownOnly = filter.querySelector("[data-own-only]");
  const sections = [...document.querySelectorAll("[data-section]")];
  const leaves = sections.map((section) => [...section.querySelectorAll("[data-leaf]")]);
  const words = new Map(
    leaves.flat().map((leaf) => [leaf, `${leaf.id.slice(4)} ${leaf.textContent}`.toLowerCase().replace(/\s+/g, " ")]),
  );
  const counter = document.querySelector("[data-count]");
  const all = counter.textContent;
  const apply = () => {
    const wanted = input.value.trim().toLowerCase();
    let shown = 0;
    sections.forEach((section, index) => {
      let inSection = 0;
      for (const leaf of leaves[index]) {
        const fits = words.get(leaf).includes(wanted) && (!ownOnly.checked || leaf.dataset.own === "true");
        leaf.hidden = !fits;
        inSection += fits ? 1 : 0;
      }
      section.hidden = !inSection;
      shown += inSection;
    });
    document.querySelector("[data-none]").hidden = shown > 0;
    counter.textContent = wanted || ownOnly.checked ? `${count(shown, "value")} shown` : all;
  };
  input.addEventListener("input", apply);
  ownOnly.addEventListener("change", apply);
  filter.hidden = false;
  apply();
}

if (pick) setUpPick();
if (filter) setUpFilter();
