// The page of puzzles: under each puzzle a button that makes its code a field, with a verdict.  No page, no change.

import { Python, editor, make, runner } from "./python.js";

const python = new Python(() => {});
const SOLVED = "moye-puzzles-solved";
const solved = new Set(JSON.parse(localStorage.getItem(SOLVED) ?? "[]"));

function told({ ok, text, output }) {
  return [text, output ? `it printed:\n${output.trimEnd()}` : "", ok ? "solved" : ""].filter(Boolean).join("\n");
}

function open(heading, block, puzzle) {
  const { start, stop, said, run } = runner(python, "Check", async (say) => {
    const verdict = await python.ask("check", { number: puzzle.number, text: field.value }, { numpy: true });
    say(told(verdict), verdict.ok ? "passed" : "failed");
    if (verdict.ok) mark(heading, puzzle.number);
  });
  const field = editor(puzzle.code, run, `An answer to puzzle ${puzzle.number}`);
  const hints = make("ul", { className: "moye-hints" });
  const button = (textContent, act) => {
    const made = make("button", { className: "md-button", type: "button", textContent });
    made.addEventListener("click", () => act(made));
    return made;
  };
  const hint = button("Hint", (made) => {
    hints.append(make("li", { textContent: puzzle.hints[hints.children.length] }));
    made.disabled = hints.children.length === puzzle.hints.length;
  });
  block.replaceWith(field, make("div", { className: "moye-row" }, start, stop, hint,
    button("Solution", () => field.put(puzzle.solution)), button("Reset", () => field.put(puzzle.code))), hints, said);
  field.focus();
}

function mark(heading, number) {
  solved.add(number);
  localStorage.setItem(SOLVED, JSON.stringify([...solved].sort((a, b) => a - b)));
  heading.classList.add("moye-solved");
}

async function begin() {
  const puzzles = await (await fetch(new URL("puzzles.json", import.meta.url))).json();
  for (const heading of document.querySelectorAll("h3[id]")) {
    const puzzle = puzzles[parseInt(heading.textContent, 10)];
    let block = heading.nextElementSibling;
    while (block && !(block.matches("div.highlight, pre") && block.textContent.includes("import moye"))) {
      block = block.matches("h2, h3") ? null : block.nextElementSibling;
    }
    if (!puzzle || !block) continue;
    if (solved.has(puzzle.number)) heading.classList.add("moye-solved");
    const button = make("button", { className: "md-button moye-open", type: "button", textContent: "Solve it here" });
    button.addEventListener("click", () => { button.remove(); open(heading, block, puzzle); });
    block.after(button);
  }
}

begin();
