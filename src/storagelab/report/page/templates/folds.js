"use strict";
// Shows what a reader asks for: opens folded parts, hides what the filters of cells leave out, and
// loads the page of a running campaign again. Parts open where a link leads, on paper, and all of them on request. The browser's own search
// opens them by itself.

(() => {
  const parts = [...document.querySelectorAll("details.part")];

  // A link to a section opens it; a link into a closed part opens whatever it lies in.
  function openTarget() {
    reveal(document.getElementById(location.hash.slice(1).split("&")[0]));
  }
  function reveal(target) {
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    const own = target.querySelector(":scope > details.part");
    if (own) own.open = true;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", openTarget);
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) openTarget(); // no change of the address, so no event
  });
  if (location.hash) openTarget();

  // Paper has what was folded, and the screen is afterwards as it was.
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = parts.filter((part) => !part.open);
    closed.forEach((part) => { part.open = true; });
  });
  window.addEventListener("afterprint", () => closed.forEach((part) => { part.open = false; }));

  // The filters rule all that belongs to single cells: parts, rows of tables, and marks of charts, whose words begin or
  // end with the name of their cell. What compares levels of factors uses all cells.
  let marks;
  function marksOfCells(cells) {
    const names = cells.map((cell, at) => [cell.name, at]).sort((one, other) => other[0].length - one[0].length);
    const cellOf = (words) => (names.find(([name]) => words.endsWith(`; ${name}`) || (words.startsWith(name) && /^(:|, |$)/.test(words.slice(name.length)))) || [])[1];
    return [...document.querySelectorAll(".chart figure:has(.wide)")].flatMap((figure) => {
      return [...figure.querySelectorAll("svg :is(path, line, rect)[aria-label]")]
        .map((mark) => [mark, cellOf(mark.getAttribute("aria-label"))]).filter(([, at]) => at !== undefined);
    });
  }
  function showCells(cells, visible) {
    const isFiltered = visible.includes(false);
    if (!isFiltered && !marks) return;
    marks = marks || marksOfCells(cells);
    marks.forEach(([mark, at]) => mark.classList.toggle("left-out", !visible[at]));
    document.documentElement.classList.toggle("filtered", isFiltered);
    const at = new Map(cells.map((cell, number) => [cell.id, number]));
    document.querySelectorAll("main details.cell").forEach((part) => hide(part, at.get(part.id.replace(/^cell-/, ""))));
    document.querySelectorAll("main section:not(#explore) tbody tr > th:first-child").forEach((head) => hide(head.parentElement, at.get(head.textContent.split(/[: ]/)[0])));
    if (isFiltered) document.querySelectorAll("#cells details:has(> details.cell)").forEach((part) => { part.open = true; });
    function hide(part, number) {
      if (number !== undefined) part.hidden = !visible[number];
    }
  }
  window.storagelab.showCells = showCells;
  window.storagelab.reveal = reveal;

  const all = document.getElementById("open-all");
  if (all) {
    all.hidden = false;
    all.addEventListener("click", () => {
      const open = all.getAttribute("aria-pressed") !== "true";
      document.querySelectorAll("main details").forEach((part) => { part.open = open; });
      all.setAttribute("aria-pressed", open);
      all.textContent = open ? "Fold the evidence" : "Open everything";
    });
  }

  // The page of a running campaign loads itself again, with the same parts open, until its reader stops it.
  const soFar = document.getElementById("so-far");
  const folds = () => [...document.querySelectorAll("main details")];
  if (soFar && Array.isArray(history.state?.open)) folds().forEach((part, at) => { part.open = history.state.open.includes(at); });
  if (soFar && Number(soFar.dataset.reloadS)) {
    const next = setTimeout(() => {
      history.replaceState({ open: folds().flatMap((part, at) => (part.open ? [at] : [])) }, "");
      location.reload();
    }, 1000 * Number(soFar.dataset.reloadS));
    const stop = document.getElementById("stop-reloading");
    stop.hidden = false;
    stop.addEventListener("click", () => { clearTimeout(next); stop.remove(); });
  }
})();
