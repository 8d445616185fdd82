"use strict";
// Opens folded parts, cells and the targets of links. Hides cells that the filters leave out. Prepares the page for
// printing. Reloads the page of a running campaign.

(() => {
  const api = window.storagelab;
  const { make, adopt } = api;
  const byId = (id) => document.getElementById(id);
  const parts = [...document.querySelectorAll("main > section > details.part")];

  // Until a part opens, its content is only the text of a <noscript>, so the browser does not lay it out.
  function fill(part) {
    const waiting = part.querySelector(":scope > noscript");
    if (!waiting) return;
    waiting.outerHTML = waiting.textContent;
    adopt(part);
    filterIn(part);
  }
  document.addEventListener("toggle", (event) => { if (event.target.open) fill(event.target); }, true);

  // A link to a section opens the section. A link into closed parts opens all of them. A link to a cell chooses the cell.
  const named = () => decodeURIComponent(location.hash.slice(1).split("&")[0].replace(/%(?![\da-f]{2})/gi, "%25"));
  function openTarget() {
    const name = named();
    if (showCell(name)) return;
    if (name && !byId(name) && !name.startsWith("run-")) parts.forEach(fill);
    reveal(byId(name));
  }
  function reveal(target) {
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    const own = target.querySelector(":scope > details.part");
    if (own) own.open = true;
    parts.filter((part) => part.open).forEach(fill);
    (target.closest(".chart") || target).scrollIntoView(); // a figure is shown with its title
    api.lead(target.closest("main > section"));
  }
  window.addEventListener("hashchange", openTarget);
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) openTarget(); // the address is the same: no hashchange event
  });

  // Shows one cell of many: its waits, who waited for what, and its counters.
  const chooser = byId("cell-chooser");
  const list = make("select", { id: "cell-list", onchange: () => put(api.cells.find(([anchor]) => anchor === list.value)) });
  const shown = make("div", { id: "cell-shown", "aria-live": "polite" });
  function cellParts([anchor, title, figure, kind, verdict, content], id = anchor) {
    const head = make("h3", { id }, title, " ", ...(verdict ? [make("span", { className: `mark ${kind}` }, verdict)] : []), " ", make("span", { className: "quiet" }, figure));
    return [head, make("div", { innerHTML: content })];
  }
  function put(cell) {
    list.value = cell[0];
    shown.replaceChildren(...cellParts(cell));
  }
  function showCell(name) {
    const cell = chooser && api.cells && api.cells.find(([anchor]) => anchor === name);
    if (!cell) return false;
    put(cell);
    reveal(byId("cells"));
    return true;
  }
  function choose() {
    const order = new Map([...document.querySelectorAll("#cells-table tbody tr")].map((row, at) => [row.querySelector("a")?.hash.slice(1), at]));
    api.cells.sort((one, other) => order.get(one[0]) - order.get(other[0]));
    list.append(...api.cells.map(([value, title, figure, , verdict]) => make("option", { value }, [title, figure, verdict].filter(Boolean).join(" · "))));
    chooser.append(make("label", {}, make("span", {}, "Cell"), list), shown);
    chooser.hidden = false;
    put(api.cells[0]);
  }

  // Paper has the answer, every cell, each chart once, the waits of the fastest cell and of the last one, and how they
  // were measured. The style for paper also shows closed parts.
  const TALL_PX = 620;
  const moved = [];
  window.addEventListener("beforeprint", () => {
    parts.forEach(fill);
    if (chooser) shown.replaceChildren(...[api.cells[0], api.cells[api.cells.length - 1]].flatMap((cell) => cellParts(cell, `paper-${cell[0]}`)));
    const boxOf = (chart, form) => chart.querySelector(`svg.${form}, .${form} svg`)?.getAttribute("viewBox").split(" ").map(Number);
    document.querySelectorAll(".body:has(> .chart)").forEach((body) => {
      // The tallest charts come last, so that tables and lower charts fill the sheets before them.
      const children = [...body.children];
      body.append(...children.filter((one) => boxOf(one, "wide")?.[3] > TALL_PX));
      moved.push(() => body.append(...children));
    });
    const isLow = (chart) => {
      const [wide, narrow] = ["wide", "narrow"].map((form) => boxOf(chart, form));
      return Boolean(wide && narrow) && narrow[3] < Math.min(TALL_PX, 1.5 * wide[3]);
    };
    const charts = [...document.querySelectorAll(".chart")];
    charts.forEach((chart) => chart.classList.remove("half"));
    charts.forEach((chart) => { // two low charts share a row in their narrow form; a single chart keeps its wide form
      const next = chart.nextElementSibling;
      if (!chart.matches(".half") && next?.matches(".chart") && isLow(chart) && isLow(next)) [chart, next].forEach((one) => one.classList.add("half"));
    });
  });
  window.addEventListener("afterprint", () => {
    moved.splice(0).forEach((back) => back());
    if (chooser) put(api.cells.find(([anchor]) => anchor === list.value));
  });

  // The filters apply to single cells: the list of cells, rows of tables, and marks of charts. The label of such a mark
  // begins or ends with the name of its cell. Comparisons of levels use all cells. Captions say what applies.
  const MOST_BARS = 24, MOST_NAMED = 6; // as many as are readable on a sheet of paper, or in a sentence
  let filter = null;
  function filterIn(part) {
    if (!filter) return;
    const { cells, names, visible, words } = filter;
    const cellOf = (label) => (names.find(([name]) => label.endsWith(`; ${name}`) || (label.startsWith(name) && /^(:|, |$)/.test(label.slice(name.length)))) || [])[1];
    const at = new Map(cells.map((cell, number) => [cell.id, number]));
    const numberOf = (head) => at.get(head.textContent.split(/[: ]/)[0]);
    part.querySelectorAll("figure:has(.wide)").forEach((figure) => {
      const whole = api.whole[figure.id.replace(/^figure-/, "")];
      if (whole) {
        figure.some ??= figure.innerHTML;
        figure.innerHTML = words ? whole : figure.some;
        api.inFull(figure);
      }
      const marks = [...figure.querySelectorAll(":is(path, line, rect)[aria-label]")];
      marks.forEach((mark) => { mark.cell ??= cellOf(mark.getAttribute("aria-label")) ?? -1; });
      const isOfCells = marks.every((mark) => mark.cell >= 0);
      const there = new Set([...new Set(marks.map((mark) => mark.cell).filter((cell) => visible[cell]))].slice(0, whole && words ? MOST_BARS : undefined));
      if (isOfCells) {
        marks.forEach((mark) => mark.classList.toggle("left-out", !there.has(mark.cell)));
        figure.querySelectorAll("svg").forEach(leaveOut);
      }
      const caption = figure.closest(".chart").querySelector(".caption");
      if (!caption.querySelector(".of")) caption.replaceChildren(make("span", { className: "of" }), make("span", {}, ...caption.childNodes));
      const chosen = visible.filter(Boolean).length;
      const isEmpty = isOfCells && !there.size;
      figure.parentElement.classList.toggle("empty", isEmpty);
      const isStarred = [...document.querySelectorAll("#cells-table .recommended th")].some((head) => there.has(numberOf(head)));
      caption.querySelectorAll(isStarred ? ".hidden" : ".hidden, .star").forEach((one) => { one.hidden = isOfCells && Boolean(words); });
      const unnamed = figure.querySelector(".wide .role-legend-title.left-out")?.textContent.replace(/ \(.*/, "");
      const drawn = `Drawn: ${there.size < chosen ? `${whole ? "the fastest " : ""}${there.size} of ${chosen} cells, ` : ""}${words}${unnamed ? `; none is ${unnamed} of all cells` : ""}. `;
      const ids = [...new Set(marks.map((mark) => mark.cell))].map((number) => cells[number]?.id);
      const none = chosen ? `This chart has only ${ids.length} of ${cells.length} cells${ids.length > MOST_NAMED ? "" : ` (${ids.sort().join(", ")})`}, and the filters leave out all of them. “Two cells side by side” shows any cell.` : "No cell passes the filters.";
      caption.querySelector(".of").textContent = isEmpty ? none : words && `${isOfCells ? drawn : ""}Of all layouts: `;
      figure.dataset.filter = isOfCells ? words : "";
    });
    part.querySelectorAll("tbody tr > th:first-child").forEach((head) => {
      const number = numberOf(head);
      if (number !== undefined && !head.closest("#explore")) head.parentElement.hidden = !visible[number];
    });
  }
  // If marks are left out, so are lines through them and panels with no other marks. If each cell has a row in a chart, the
  // row is left out, too. The next panels or rows move up, and the chart becomes shorter.
  const drawnAt = (one) => one.dataset.at ?? one.getAttribute("transform") ?? "";
  const placeOf = (one) => drawnAt(one).match(/-?[\d.]+/g).map(Number);
  const move = (one, by) => {
    one.dataset.at = drawnAt(one);
    one.setAttribute("transform", `translate(0,${by}) ${one.dataset.at}`);
  };
  function shorten(svg, by) {
    const [, , width, height] = (svg.dataset.box ??= svg.getAttribute("viewBox")).split(" ").map(Number);
    svg.setAttribute("viewBox", `0 0 ${width} ${height + by}`);
    svg.setAttribute("height", height + by);
  }
  function closeUp(svg, panels) {
    const places = panels.map(placeOf);
    const kept = panels.filter((panel) => !panel.classList.contains("left-out"));
    if (!kept.length) return;
    kept.forEach((panel, at) => {
      panel.dataset.at = drawnAt(panel);
      panel.setAttribute("transform", `translate(${places[at]})`);
    });
    const [, last] = places[kept.length - 1];
    const by = last - places[places.length - 1][1];
    svg.querySelectorAll(".row_header > g, .role-row-header > g").forEach((row) => row.classList.toggle("left-out", placeOf(row)[1] > last + 1));
    svg.querySelectorAll(".column_footer > g, .role-column-footer > g").forEach((axis) => {
      axis.classList.toggle("left-out", !kept.some((_, at) => Math.abs(places[at][0] - Number(drawnAt(axis).match(/-?[\d.]+/)[0])) < 1));
      move(axis, by);
    });
    shorten(svg, by);
  }
  // Leaves out the entries of a legend that have no visible marks of their colour or, in the colour of text, of their shape.
  // A layout with a star has a star instead of this shape.
  const isStar = (one) => /^M[^L]*(L[^L]*){9}Z$/.test(one.getAttribute("d"));
  function looks(one) {
    const ink = ["fill", "stroke"].map((name) => one.getAttribute(name)).find((value) => /^(#(?!ffffff)|currentColor)/.test(value));
    return ink !== "currentColor" ? ink : isStar(one) ? "★" : one.getAttribute("d")?.replace(/[\d.]+/g, "");
  }
  function leaveOutOfLegends(svg) {
    const drawn = new Set([...svg.querySelectorAll(".role-mark [aria-label]")].filter((mark) => !mark.closest(".left-out")).map(looks));
    svg.querySelectorAll(".role-legend").forEach((legend) => {
      const symbols = [...legend.querySelectorAll(".role-legend-symbol path")];
      const entryOf = (symbol) => symbol.closest(".role-scope > g");
      const isThere = symbols.map((symbol) => !looks(symbol) || drawn.has(looks(symbol)) || drawn.has(entryOf(symbol).textContent[0]));
      symbols.forEach((symbol, at) => entryOf(symbol).classList.toggle("left-out", !isThere[at]));
      legend.querySelector(".role-legend-title")?.classList.toggle("left-out", !isThere.includes(true));
    });
  }
  function leaveOut(svg) {
    const panels = [...svg.querySelectorAll(".cell > g")];
    const panelOf = (one) => one.closest(".cell > g") || svg;
    const has = (panel, which) => panel.querySelector(`.role-mark [aria-label]${which}`) !== null;
    panels.forEach((panel) => panel.classList.toggle("left-out", has(panel, ".left-out") && !has(panel, ":not(.left-out)")));
    leaveOutOfLegends(svg);
    svg.querySelectorAll(".mark-line.role-mark path:not([aria-label])").forEach((line) => {
      const corners = [...line.getAttribute("d").matchAll(/(-?[\d.]+),(-?[\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);
      const gone = [...panelOf(line).querySelectorAll(".mark-symbol .left-out")].map(placeOf);
      line.classList.toggle("left-out", gone.some(([x, y]) => corners.some((one) => Math.hypot(one[0] - x, one[1] - y) < 1)));
    });
    if (panels.length > 1) closeUp(svg, panels);
    const bars = [...svg.querySelectorAll(".mark-rect.role-mark [aria-label]")];
    if (!bars.length) return;
    const middle = (bar) => { const [, y, high] = bar.getAttribute("d").match(/^M[^,]*,([\d.]+)h[^v]*v([\d.]+)/).map(Number); return y + high / 2; };
    const rows = new Map(bars.map((bar) => [middle(bar), !bar.classList.contains("left-out")]));
    const ys = [...rows.keys()].sort((one, other) => one - other);
    const kept = ys.filter((y) => rows.get(y));
    const texts = [...svg.querySelectorAll(".mark-text.role-mark text, .role-axis-label text")].filter((one) => !one.closest(".role-axis-label") || placeOf(one)[0] < 0);
    [...bars.map((bar) => [bar, middle(bar)]), ...texts.map((one) => [one, placeOf(one)[1] - 4])].forEach(([one, at]) => {
      const row = ys.reduce((best, y) => (Math.abs(y - at) < Math.abs(best - at) ? y : best));
      one.classList.toggle("left-out", !rows.get(row));
      move(one, rows.get(row) ? ys[kept.indexOf(row)] - row : 0);
    });
    const by = (kept.length - ys.length) * (ys.length > 1 ? ys[1] - ys[0] : 0);
    shorten(svg, by);
    svg.querySelectorAll(".role-axis > g").forEach((axis) => { if (axis.querySelector(".role-axis-tick")) move(axis, by); });
  }
  api.showCells = (cells, visible, words) => {
    const isFiltered = visible.includes(false);
    if (!isFiltered && !filter) return;
    const names = filter?.names || cells.map((cell, at) => [cell.name, at]).sort((one, other) => other[0].length - one[0].length);
    filter = { cells, names, visible, words };
    filterIn(document.querySelector("main"));
    const at = new Map(cells.map((cell, number) => [`cell-${cell.id}`, number]));
    [...list.options].forEach((option) => { option.hidden = visible[at.get(option.value)] === false; });
  };
  api.reveal = reveal;

  api.later.then(() => {
    if (chooser) choose();
    if (location.hash) openTarget();
    api.settle();
    document.documentElement.dataset.later = "ready";
  });

  const all = byId("open-all");
  all.hidden = false;
  all.addEventListener("click", () => {
    const open = all.getAttribute("aria-pressed") !== "true";
    document.querySelectorAll("details.part").forEach((part) => { part.open = open; });
    all.setAttribute("aria-pressed", open);
    all.textContent = open ? "Fold the evidence" : "Open everything";
  });

  // The page of a running campaign reloads itself until the reader stops this. Then the same parts are open, and the same
  // part is at the top of the window, also after charts above it have been drawn. If the reader scrolls, it stays there.
  const soFar = byId("so-far");
  const keyOf = (part) => `${part.closest("section").id} ${[...part.closest("section").querySelectorAll("details")].indexOf(part)}`;
  let left = history.state?.open && history.state;
  api.settle = () => {
    if (!left) return;
    parts.filter((part) => left.open.includes(keyOf(part))).forEach(fill);
    if (left.cell && byId("cell-list")) put(api.cells.find(([anchor]) => anchor === left.cell) || api.cells[0]);
    document.querySelectorAll("main details").forEach((part) => { part.open = left.open.includes(keyOf(part)); });
    document.querySelectorAll(".tall .scroll").forEach((table) => table.scrollTo({ top: left.down, behavior: "instant" }));
    const seen = byId(left.at);
    if (seen) window.scrollBy({ top: seen.getBoundingClientRect().top - left.top, behavior: "instant" });
  };
  for (const by of ["wheel", "touchmove", "keydown", "pointerdown"]) window.addEventListener(by, () => { left = null; }, { passive: true });
  if (left) {
    history.scrollRestoration = "manual";
    history.replaceState(null, "");
  }
  function leave() {
    const top = (one) => one.getBoundingClientRect().top;
    const seen = [...document.querySelectorAll("main, main [id]:not(svg *)")].filter((one) => one.checkVisibility() && top(one) <= window.innerHeight / 4).pop();
    history.replaceState({ open: [...document.querySelectorAll("main details[open]")].map(keyOf), cell: list.value,
      down: document.querySelector(".tall .scroll")?.scrollTop, at: seen.id, top: top(seen) }, "");
    location.reload();
  }
  if (soFar && Number(soFar.dataset.reloadS)) {
    const next = setTimeout(leave, 1000 * Number(soFar.dataset.reloadS));
    const stop = byId("stop-reloading");
    stop.hidden = false;
    stop.addEventListener("click", () => { clearTimeout(next); stop.remove(); });
  }
})();
