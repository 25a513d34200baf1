// Arrays of NumPy begin at multiples of 16 bytes, as they do on Linux.  In: Pyodide, with NumPy loaded.
//
// malloc of WebAssembly gives multiples of 8, and kernels ask for 16: half of all arrays would be refused, or count
// more sectors.  NumPy takes other functions than malloc by NEP 49, "Data allocation strategies": a struct of a name of
// 127 bytes, a version, and five words (a context, and malloc, calloc, realloc, free with it), in a capsule.

const ALIGNMENT = 16;
const SET_HANDLER = 304;                                // PyDataMem_SetHandler in the table of NumPy's C API
const NAME_BYTES = 127, WORDS_AT = 128, STRUCT_BYTES = 148;

export function alignArrays(pyodide) {
  const c = pyodide._module;                            // Emscripten's, of the version that site_browser.py names
  const handler = c._memalign(ALIGNMENT, STRUCT_BYTES); // never freed: NumPy keeps it
  c.HEAPU8.fill(0, handler, handler + STRUCT_BYTES);
  c.stringToUTF8("moye", handler, NAME_BYTES);
  c.HEAPU8[handler + NAME_BYTES] = 1;
  functions(c).forEach(([call, types], i) => {
    c.HEAPU32[(handler + WORDS_AT) / 4 + 1 + i] = c.addFunction(call, types);
  });
  const api = pyodide.runPython("id(__import__('numpy')._core._multiarray_umath._ARRAY_API)");
  const table = c._PyCapsule_GetPointer(api, 0) / 4;
  const capsule = c._PyCapsule_New(handler, c.stringToNewUTF8("mem_handler"), 0);
  c.wasmTable.get(c.HEAPU32[table + SET_HANDLER])(capsule);
}

// Each takes NumPy's context first, and addresses and sizes as signed 32-bit integers.
function functions(c) {
  const take = (size) => (size > 0xffffffff ? 0 : c._memalign(ALIGNMENT, size) >>> 0);
  const zeros = (_, count, each) => {
    const size = (count >>> 0) * (each >>> 0), at = take(size);
    if (at) c.HEAPU8.fill(0, at, at + size);
    return at;
  };
  const resized = (_, old, wanted) => {
    const from = old >>> 0, size = wanted >>> 0, at = take(size);
    if (at && from) {
      c.HEAPU8.copyWithin(at, from, from + Math.min(size, c._malloc_usable_size(from) >>> 0));
      c._free(from);
    }
    return at;
  };
  return [[(_, size) => take(size >>> 0), "ppp"], [zeros, "pppp"], [resized, "pppp"], [(_, old) => c._free(old), "vppp"]];
}
