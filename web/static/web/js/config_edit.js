/* Editing a document: from an error to its line, and what the setting that is typed means. */

const text = document.getElementById("text");
const pointer = document.querySelector("[data-pointer]");
const hint = document.querySelector("[data-setting-hint]");

/** Select line `number` (from 1) of the text and scroll it into view. */
function goToLine(number) {
  const lines = text.value.split("\n");
  const start = lines.slice(0, number - 1).reduce((sum, line) => sum + line.length + 1, 0);
  text.focus();
  text.setSelectionRange(start, start + (lines[number - 1] ?? "").length);
  const height = parseFloat(getComputedStyle(text).lineHeight);
  text.scrollTop = Math.max(0, (number - 3) * height);
}

function setUpLines() {
  for (const link of document.querySelectorAll("[data-line]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      goToLine(Number(link.dataset.line));
    });
  }
}

/** Whether a pattern, in which `*` is any one name, means this place. */
function means(pattern, place) {
  const wanted = pattern.split("/");
  const given = place.split("/");
  return wanted.length === given.length && wanted.every((token, index) => token === "*" || token === given[index]);
}

function setUpHint() {
  const usual = "A JSON Pointer: the names on the way, each after a slash.";
  const settings = [...document.querySelectorAll("[data-setting]")];
  pointer.addEventListener("input", () => {
    const found = settings.find((setting) => means(setting.dataset.setting, pointer.value.trim()));
    const words = found?.closest("div").querySelector("dd").textContent.replace(/\s+/g, " ").trim() ?? usual;
    if (hint.textContent !== words) hint.textContent = words;
  });
}

if (text) setUpLines();
if (pointer) setUpHint();
