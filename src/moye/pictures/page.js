"use strict";
// Hovering over a cell shows its facts and marks its partners: cells of the same thread, offset or bank in all panels.
(() => {
  const figure = document.querySelector("figure");
  const tooltip = document.getElementById("tooltip");
  const cells = [...figure.querySelectorAll(".moye-cell")];
  const FACTS = ["coordinate", "index", "offset", "thread", "value", "bank"];
  const RELATIONS = ["thread", "offset", "bank"];
  const MOST = 8;

  // relation -> one of its numbers -> the cells that have it
  const owners = Object.fromEntries(RELATIONS.map((name) => [name, new Map()]));
  for (const cell of cells) {
    for (const name of RELATIONS) {
      for (const key of numbers(cell, name)) {
        if (!owners[name].has(key)) owners[name].set(key, []);
        owners[name].get(key).push(cell);
      }
    }
  }

  function numbers(cell, name) {
    return (cell.dataset[name] ?? "").split(" ").filter(Boolean);
  }

  function told(cell, name) {
    if (name === "coordinate") return cell.dataset.coordinate ?? "";
    const all = name === "value" ? [...new Set(numbers(cell, name))] : numbers(cell, name);
    if (all.length <= MOST) return all.join(", ");
    return `${all.slice(0, 3).join(", ")}, ... ${all.at(-1)} (${all.length} in all)`;
  }

  function show(cell) {
    clear();
    figure.classList.add("hovering");
    cell.classList.add("here");
    for (const name of RELATIONS) {
      for (const key of numbers(cell, name)) {
        for (const partner of owners[name].get(key)) {
          if (partner !== cell) partner.classList.add(`same-${name}`);
        }
      }
    }
    tooltip.replaceChildren(...FACTS.filter((name) => told(cell, name)).flatMap((name) => {
      const term = document.createElement("dt");
      const fact = document.createElement("dd");
      term.textContent = name;
      fact.textContent = told(cell, name);
      return [term, fact];
    }));
    tooltip.hidden = false;
  }

  function clear() {
    figure.classList.remove("hovering");
    for (const cell of cells) cell.classList.remove("here", "same-thread", "same-offset", "same-bank");
    tooltip.hidden = true;
  }

  function follow(event) {
    const { width, height } = tooltip.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, window.innerWidth - width - 4);
    const below = event.clientY + 14 + height <= window.innerHeight;
    tooltip.style.left = `${Math.max(0, x)}px`;
    tooltip.style.top = `${Math.max(0, below ? event.clientY + 14 : event.clientY - 14 - height)}px`;
  }

  for (const cell of cells) {
    cell.addEventListener("pointerenter", (event) => { show(cell); follow(event); });
    cell.addEventListener("pointermove", follow);
    cell.addEventListener("pointerleave", clear);
  }
})();
