// Python for a page: a worker that is started when it is first asked, and started anew after it was stopped.
//
//   const python = new Python((text) => { status.textContent = text; });
//   const picture = await python.ask("draw", { x: "(4,8):(8,1)" });
//   const verdict = await python.ask("check", { number: 6, text }, { numpy: true });

const HERE = new URL(".", import.meta.url);

export class Python {
  constructor(tell) {
    this.tell = tell;
    this.worker = null;
    this.waiting = new Map();
    this.count = 0;
  }

  // What a function of pages.py returns; an Error with one sentence where Python, or NumPy, cannot be had.
  ask(name, request, { numpy = false } = {}) {
    if (location.protocol === "file:") {
      return Promise.reject(new Error("a browser starts Python only on served pages: run `make docs`"));
    }
    if (this.worker === null) this.start();
    const id = ++this.count;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, name, request, numpy });
    });
  }

  start() {
    this.worker = new Worker(new URL("worker.js", HERE), { type: "module" });
    this.worker.onmessage = ({ data }) => {
      if ("told" in data) return this.tell(data.told);
      const { resolve, reject } = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      if ("error" in data) reject(new Error(data.error));
      else resolve(data.value);
    };
    this.worker.onerror = (event) => this.stop(`Python could not be started: ${event.message ?? "the worker failed"}`);
  }

  // Ends what runs; the next question starts Python anew.
  stop(why = "stopped") {
    this.worker?.terminate();
    this.worker = null;
    for (const { reject } of this.waiting.values()) reject(new Error(why));
    this.waiting.clear();
  }
}

// An element with properties and children: make("button", { textContent: "Run" }).
export function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// A field for Python text: Tab indents, Ctrl+Enter calls `run`, and it is as high as its text.
export function editor(text, run, label) {
  const field = make("textarea", { className: "moye-editor", spellcheck: false, value: text, wrap: "off" });
  field.setAttribute("aria-label", label);
  const fit = () => { field.rows = Math.max(4, field.value.split("\n").length + 1); };
  field.addEventListener("input", fit);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Tab" && !event.shiftKey) {
      event.preventDefault();
      field.setRangeText("    ", field.selectionStart, field.selectionEnd, "end");
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  });
  field.put = (value) => { field.value = value; fit(); };
  fit();
  return field;
}

// Buttons that Run and Stop one thing, with what it says: `act` gets a function that shows text and its kind.
export function runner(python, label, act) {
  const said = make("pre", { className: "moye-said", hidden: true });
  said.setAttribute("role", "status");
  const start = make("button", { className: "md-button md-button--primary", type: "button", textContent: label });
  const stop = make("button", { className: "md-button", type: "button", textContent: "Stop", hidden: true });
  const say = (text, kind = "") => {
    said.hidden = false;
    said.textContent = text;
    said.dataset.kind = kind;
  };
  const run = async () => {
    if (start.disabled) return;
    start.disabled = true;
    stop.hidden = false;
    python.tell = (text) => say(text, "busy");
    say("running ...", "busy");
    try {
      await act(say);
    } catch (error) {
      say(error.message, "failed");
    } finally {
      start.disabled = false;
      stop.hidden = true;
    }
  };
  start.addEventListener("click", run);
  stop.addEventListener("click", () => python.stop());
  return { start, stop, said, run };
}
