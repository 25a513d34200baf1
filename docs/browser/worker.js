// Runs Python, away from the page.  In: {id, name, request, numpy}.  Out: {id, value} or {id, error}; {told} on the way.
//
// where.json says where Pyodide lies: beside this file, or at its publisher's address.

import { alignArrays } from "./memory.js";

let python = null;
let numpy = null;

async function started() {
  const where = await (await fetch(new URL("where.json", import.meta.url))).json();
  const base = new URL(where.pyodide, import.meta.url).href;
  tell("loading Python ...");
  const { loadPyodide } = await import(`${base}pyodide.mjs`);
  const packageBaseUrl = new URL(where.packages, import.meta.url).href;
  const made = await loadPyodide({ indexURL: base, packageBaseUrl });
  tell("loading moye ...");
  const archive = await fetch(new URL("moye.zip", import.meta.url));
  made.unpackArchive(await archive.arrayBuffer(), "zip", { extractDir: "/lib/moye" });
  made.runPython("import sys; sys.path.insert(0, '/lib/moye')");
  return { made, packageBaseUrl };
}

async function withNumpy({ made, packageBaseUrl }) {
  tell("loading NumPy ...");
  const reasons = [];
  try {
    await made.loadPackage(["numpy", "ml-dtypes"], { messageCallback: () => {}, errorCallback: (text) => reasons.push(text) });
    made.runPython("import numpy");
    alignArrays(made);
  } catch (error) {
    const reason = (reasons.length ? reasons.join("\n") : String(error)).trim().split("\n").at(-1).trim();
    throw new Error(`NumPy could not be loaded from ${packageBaseUrl}, and kernels need it: ${reason}`);
  }
}

// Kept where it has come; asked for anew where it has not.
function kept(promise, forget) {
  promise.catch(forget);
  return promise;
}

function tell(told) {
  postMessage({ told });
}

async function answer({ name, request, numpy: wanted }) {
  const here = await (python ??= kept(started(), () => { python = null; }));
  if (wanted) await (numpy ??= kept(withNumpy(here), () => { numpy = null; }));
  tell("running ...");
  const call = here.made.runPython("import pages; pages.answer");
  return JSON.parse(call(name, JSON.stringify(request)));
}

let last = Promise.resolve();

onmessage = ({ data }) => {
  last = last.then(async () => {
    try {
      postMessage({ id: data.id, value: await answer(data) });
    } catch (error) {
      postMessage({ id: data.id, error: error.message });
    }
  });
};
