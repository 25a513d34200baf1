// The playground: what is typed is drawn by moye, in this browser.  Fills #moye-playground and #moye-kernel.

import { Python, editor, make, runner } from "./python.js";

const python = new Python(() => {});
const NOTATION = /^[\d\s(),:<>oSw_-]*$/;
const EXAMPLES = {
  "A nested layout": { x: "((2,2),4):((1,8),2)" },
  "Row-major, with its banks": { x: "(8,32):(32,1)", bits: "32", banks: true },
  "The same, swizzled": { x: "(8,32):(32,1)", swizzle: "3,2,3", bits: "32", banks: true },
  "A swizzle alone": { x: "Sw<3,0,3>" },
  "A partition among threads": { x: "(8,16):(16,1)", thr: "(8,4):(4,1)", val: "(1,4)" },
  "A tiled copy": { x: `mo.make_tiled_copy(
    mo.CopyAtom(mo.UniversalCopy(mo.uint64), mo.float32),
    mo.make_layout((4, 4)), mo.make_layout((2, 1)))` },
  "ldmatrix": { x: `mma = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN)
mo.make_tiled_copy_A(mo.CopyAtom(mo.LdMatrix(4), mo.float16), mma)` },
  "A tiled MMA": { x: `mo.make_tiled_mma(
    mo.mma.SM80_16x8x8_F32TF32TF32F32_TN,
    mo.make_layout((2, 1, 1)))` },
};

function field(id, label, title, properties = {}) {
  const input = make("input", { id: `moye-${id}`, title, spellcheck: false, autocomplete: "off", ...properties });
  return { input, row: make("label", { className: "moye-field", title }, make("span", { textContent: label }), input) };
}

function playground(root) {
  const fields = {
    swizzle: field("swizzle", "Swizzle", "bits,base,shift: 3,3,3"),
    thr: field("thr", "Threads", "the thread layout of a tiled copy: (8,4):(4,1)"),
    val: field("val", "Values", "the value layout of a tiled copy: (1,4)"),
    bits: field("bits", "Bits", "the width of an element, which gives each cell its bank", { inputMode: "numeric" }),
    banks: field("banks", "Banks", "colour by bank of shared memory", { type: "checkbox" }),
  };
  const examples = make("select", { id: "moye-examples" },
    ...Object.keys(EXAMPLES).map((name) => make("option", { textContent: name })));
  examples.setAttribute("aria-label", "Examples");
  const frame = make("iframe", { className: "moye-picture", title: "The picture", hidden: true });
  const facts = make("dl", { className: "moye-facts" });
  const plain = make("pre", { className: "moye-text" });
  const more = make("details", { className: "moye-more", hidden: true }, make("summary", { textContent: "As text" }), plain);
  const links = make("p", { className: "moye-links" });
  const { start, stop, said, run } = runner(python, "Draw", drawn);
  const x = editor("", run, "A layout, or a Python expression of mo");
  x.id = "moye-x";

  function request() {
    return { x: x.value, ...Object.fromEntries(Object.entries(fields).map(([name, { input }]) =>
      [name, input.type === "checkbox" ? input.checked : input.value])) };
  }

  function fill(given) {
    x.put(given.x ?? "");
    for (const [name, { input }] of Object.entries(fields)) {
      if (input.type === "checkbox") input.checked = given[name] === true || given[name] === "true";
      else input.value = given[name] ?? "";
    }
  }

  async function drawn(say) {
    const asked = request();
    const picture = await python.ask("draw", asked);
    const given = Object.entries(asked).filter(([, value]) => value);
    history.replaceState(null, "", `#${new URLSearchParams(given)}`);
    if ("error" in picture) return say(picture.error, "failed");
    said.hidden = true;
    frame.hidden = more.hidden = false;
    frame.onload = () => { frame.style.height = `${frame.contentDocument.documentElement.scrollHeight + 4}px`; };
    frame.srcdoc = picture.html;
    plain.textContent = picture.text;
    facts.replaceChildren(...Object.entries(picture.facts).flatMap(([name, fact]) =>
      [make("dt", { textContent: name }), make("dd", { textContent: fact })]));
    for (const link of links.querySelectorAll("a")) URL.revokeObjectURL(link.href);
    links.replaceChildren(...["svg", "html"].map((kind) => make("a", {
      textContent: `layout.${kind}`, download: `layout.${kind}`,
      href: URL.createObjectURL(new Blob([picture[kind]], { type: kind === "svg" ? "image/svg+xml" : "text/html" })),
    })));
  }

  examples.addEventListener("change", () => { fill(EXAMPLES[examples.value]); run(); });
  for (const { input } of Object.values(fields)) {
    input.addEventListener("change", run);
  }
  root.replaceChildren(
    make("label", { className: "moye-field" }, make("span", { textContent: "Examples" }), examples), x,
    make("div", { className: "moye-row" }, ...Object.values(fields).map(({ row }) => row)),
    make("div", { className: "moye-row" }, start, stop), said, frame, facts, more, links);

  // A link fills the fields.  Only notation is drawn at once: a program in a link waits for the reader.
  const linked = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const from = "x" in linked || "thr" in linked;
  if (from) examples.selectedIndex = -1;
  fill(from ? linked : Object.values(EXAMPLES)[0]);
  if (NOTATION.test(x.value)) run();
}

async function kernel(root) {
  const texts = await (await fetch(new URL("kernels.json", import.meta.url))).json();
  const choice = make("select", { id: "moye-kernels" },
    ...Object.keys(texts).map((name) => make("option", { textContent: name })));
  choice.setAttribute("aria-label", "Kernels");
  const { start, stop, said, run } = runner(python, "Run", async (say) => {
    const { output, error } = await python.ask("run", { text: text.value }, { numpy: true });
    say([output.trimEnd(), error].filter(Boolean).join("\n") || "it printed nothing", error ? "failed" : "passed");
  });
  const text = editor(Object.values(texts)[0], run, "A Python program");
  text.id = "moye-program";
  choice.addEventListener("change", () => text.put(texts[choice.value]));
  said.id = "moye-printed";
  start.id = "moye-run";
  root.replaceChildren(make("label", { className: "moye-field" }, make("span", { textContent: "Kernels" }), choice), text,
    make("div", { className: "moye-row" }, start, stop), said);
}

playground(document.getElementById("moye-playground"));
kernel(document.getElementById("moye-kernel"));
