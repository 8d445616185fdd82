"use strict";
// Sorts and filters the table of all cells, fills its charts, and shows two cells side by side. The address keeps the reader's
// choices. Labels come from specs and stores, so this script inserts them only as text, never as HTML.

(async () => {
  await window.storagelab.later;
  const data = window.storagelab.record;
  if (!data) return;
  const place = (id) => document.getElementById(id);
  const table = place("cells-table");
  const around = table.closest(".scroll");
  const rows = [...table.tBodies[0].rows];
  const paper = place("explore-paper"); // is there if not all cells are printed
  const PINS = ["A", "B"];
  const MOST_BOXES = 8; // if a factor has more levels, they are folded
  const MOST_COUNTERS = 16;
  const MOST_PRINTED = 40; // see page.css
  const ONE_CELL = "A and B are of one cell, and this page has only its means. The waits and counters of each run are in the raw data.";
  const PLOT_CHOICES = ["axis", "colour", "panels"];
  const SCALES = [["linear", "linear"], ["log", "logarithmic"], ["own", "own axis for each panel"]];
  const first = data.pinned.length === 2 ? data.pinned : data.cells.length > 1 ? [0, 1] : [0, 0];
  const state = { sort: "", levels: new Map(), tied: false, find: "", pins: [...first], runs: [null, null], quantity: "", scale: "linear" };
  const views = {};
  const latest = {};

  const { make, labelled, choice } = window.storagelab;
  const figure = (value, digits = 3) => (value === null || value === undefined ? "" : value.toLocaleString("en", { maximumSignificantDigits: digits }));
  const sum = (values) => values.reduce((all, one) => all + one, 0);
  const pairText = () => `A: ${pinned()[0].name}. B: ${pinned()[1].name}`;
  const pinned = () => state.pins.map((at) => data.cells[at]);

  // ---- Choosing: filters, order, pins ---------------------------------------------------------------------------------

  const front = ["fastest", "may be fastest", "not told apart"];
  const shown = (cell) =>
    [...state.levels].every(([factor, levels]) => levels.has(cell.at[factor])) &&
    (!state.tied || front.includes(cell.verdict)) &&
    cell.name.toLowerCase().includes(state.find.toLowerCase());

  // Returns the filters in words; "" if there are none.
  function filterWords() {
    const of = [...state.levels].map(([factor, levels]) => `${data.factors[factor].text} = ${data.factors[factor].levels.filter((_, at) => levels.has(at)).join(" or ")}`);
    if (state.tied) of.push("what may be the fastest");
    if (state.find) of.push(`names with “${state.find}”`);
    return of.length ? `only ${of.join("; ")}` : "";
  }

  // If no level of a factor is ticked, all its levels are shown.
  function choose(factor, level, isChosen) {
    const levels = state.levels.get(factor) || new Set();
    if (isChosen) levels.add(level); else levels.delete(level);
    if (levels.size) state.levels.set(factor, levels); else state.levels.delete(factor);
    changed();
  }
  const found = make("output", { className: "quiet" });
  function filters() {
    const of = data.factors.map((factor, at) => {
      const boxes = factor.levels.map((text, level) => {
        const box = make("input", { type: "checkbox", checked: Boolean(state.levels.get(at)?.has(level)), onchange: () => choose(at, level, box.checked) });
        return make("label", { className: "tick" }, box, make("span", {}, text));
      });
      const many = boxes.length > MOST_BOXES ? [make("details", { open: state.levels.has(at) }, make("summary", {}, `${boxes.length} levels`), ...boxes)] : boxes;
      return make("fieldset", {}, make("legend", {}, factor.text), ...many);
    });
    const tied = make("input", { type: "checkbox", checked: state.tied, onchange: () => { state.tied = tied.checked; changed(); } });
    const find = make("input", { type: "search", value: state.find, oninput: () => { state.find = find.value; changed(); } });
    const all = make("button", { type: "button", className: "small", onclick: () => {
      Object.assign(state, { sort: "", levels: new Map(), tied: false, find: "" });
      filters();
      changed();
    } }, "Show all");
    place("explore-filters").replaceChildren(...of, labelled("name contains", find),
      ...(data.cells.some(({ verdict }) => front.includes(verdict)) ? [make("label", { className: "tick" }, tied, make("span", {}, "only what may be the fastest"))] : []), all, found);
  }

  // The Tab key reaches one control in all rows; the arrow keys go from there to the others.
  function headings() {
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = make("button", { type: "button", className: "sort", title: cell.title, onclick: () => {
        state.sort = state.sort === `${column}` ? `-${column}` : `${column}`;
        changed();
      } }, cell.textContent);
      cell.removeAttribute("title");
      cell.dataset.name = cell.textContent; // for paper: headings with a button would not be repeated on each sheet
      cell.replaceChildren(button);
    });
    table.tHead.rows[0].prepend(make("th", { scope: "col", className: "pin" }, "pin"));
    rows.forEach((row, at) => {
      const buttons = PINS.map((name, pin) => make("button", { type: "button", className: "pin",
        "aria-label": `Pin ${name}: ${data.cells[at].name}`, onclick: () => setPin(pin, at) }, name));
      row.prepend(make("td", { className: "pin" }, ...buttons));
      // The style shows the levels beside the id. With one factor, a name has no id.
      const { id, name } = data.cells[at];
      Object.assign(row.querySelector("th"), { title: name }).dataset.levels = name.startsWith(`${id} (`) ? name.slice(id.length + 2, -1) : name;
    });
    around.addEventListener("scroll", hold, { passive: true });
    document.head.append(covered);
    const controls = (row) => [...row.querySelectorAll("a, button")];
    const stop = (control) => {
      table.tBodies[0].querySelectorAll("[tabindex='0']").forEach((one) => { one.tabIndex = -1; });
      control.tabIndex = 0;
    };
    rows.flatMap(controls).forEach((one) => { one.tabIndex = -1; });
    stop(controls(rows[0])[0]);
    table.tBodies[0].addEventListener("focusin", (event) => stop(event.target));
    table.tBodies[0].addEventListener("keydown", (event) => {
      const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] || [0, 0];
      const there = [...table.tBodies[0].rows].filter((row) => !row.hidden);
      const row = event.target.closest("tr");
      const next = controls(there[there.indexOf(row) + down] || row)[controls(row).indexOf(event.target) + right];
      if (!next || !(down || right)) return;
      event.preventDefault();
      next.focus();
    });
  }

  // A column that is partly below the fixed column is hidden, because a part of a figure looks like another figure.
  const covered = make("style");
  function hold() {
    const [pin, held, ...boxes] = [...table.tHead.rows[0].cells].map((cell) => cell.getBoundingClientRect());
    const at = boxes.findIndex((box) => box.left < held.right - 1 && box.right > held.right + 1);
    const column = `#cells-table tr > :nth-child(${at + 3})`;
    covered.textContent = around.scrollLeft > pin.width && at >= 0 ? `@media screen { ${column} { color: transparent; } ${column} * { visibility: hidden; } }` : "";
  }

  // Scrolls the table sideways until a column is in view, beside the fixed column.
  function bring(heading) {
    const [box, view, held] = [heading, around, heading.parentElement.cells[1]].map((one) => one.getBoundingClientRect());
    around.scrollLeft += Math.max(0, box.right - view.right) || Math.min(0, box.left - held.right);
  }

  function ordered() {
    const column = Math.abs(Number(state.sort));
    const sign = state.sort.startsWith("-") ? -1 : 1;
    return rows.map((_, at) => at).sort((a, b) => {
      const [one, other] = state.sort ? [a, b].map((at) => data.keys[at][column]) : [a, b];
      if (one === null || other === null) return (one === null) - (other === null);
      return sign * (typeof one === "string" ? one.localeCompare(other) : one - other);
    });
  }

  // A newly pinned cell shows its median run, until the reader chooses another run.
  function setPin(pin, at) {
    state.pins[pin] = at;
    place("explore-two").open = true;
    state.runs[pin] = null;
    pins();
    changed();
  }
  function pins() {
    const options = data.cells.map((cell, at) => [String(at), cell.name]);
    place("explore-pins").replaceChildren(...PINS.map((name, pin) =>
      labelled(`pin ${name}`, choice(options, String(state.pins[pin]), (value) => setPin(pin, Number(value))))));
  }

  // The address keeps what the reader does, but not what the page does by itself.
  function changed(byReader = true) {
    performance.mark("explore-begins");
    const visible = data.cells.map(shown);
    if (isNew("table", [state.sort, visible])) {
      const body = document.createDocumentFragment();
      for (const at of ordered()) {
        rows[at].hidden = !visible[at];
        body.append(rows[at]);
      }
      table.tBodies[0].append(body);
      window.storagelab.showCells(data.cells, visible, filterWords());
    }
    [...table.tHead.rows[0].cells].slice(1).forEach((cell, column) => {
      const direction = { [`${column}`]: "ascending", [`-${column}`]: "descending" }[state.sort];
      if (direction) cell.setAttribute("aria-sort", direction); else cell.removeAttribute("aria-sort");
    });
    const by = table.tHead.querySelector("[aria-sort]");
    if (by && isNew("sort", state.sort)) bring(by);
    place("explore-more").hidden = around.scrollHeight <= around.clientHeight;
    table.caption.dataset.said ??= table.caption.textContent;
    const said = table.caption.dataset.said.replace(by ? "in the order of the ladder" : "", by ? `by ${by.textContent}` : "");
    const count = visible.filter(Boolean).length;
    found.textContent = `${count} of ${data.cells.length} cells`;
    const words = filterWords();
    table.caption.textContent = words ? `${said.replace("Every cell", found.textContent)}: ${words}` : said;
    paper?.toggleAttribute("hidden", count <= MOST_PRINTED);
    paper?.firstElementChild.replaceChildren(count);
    hold();
    if (byReader) keepAddress();
    const pair = [state.pins, state.runs, Boolean(views.series), window.innerWidth];
    const drawings = [];
    if (isNew("pair", pair)) {
      rows.forEach((row, at) => PINS.forEach((_, pin) => row.cells[0].children[pin].setAttribute("aria-pressed", state.pins[pin] === at)));
      side();
      drawings.push(waits.draw(), series.draw());
    }
    drawings.push(drawAll(visible));
    return Promise.all(drawings).then(() => performance.measure("explore", "explore-begins"));
  }

  // Whether a value differs from that of the last call. If it does not, nothing is drawn again.
  function isNew(name, value) {
    const said = JSON.stringify(value);
    const differs = latest[name] !== said;
    latest[name] = said;
    return differs;
  }

  // ---- The address ----------------------------------------------------------------------------------------------------

  function keepAddress() {
    const said = new URLSearchParams();
    if (state.sort) said.set("sort", state.sort);
    for (const [factor, levels] of state.levels) levels.forEach((level) => said.append(`is.${data.factors[factor].name}`, data.factors[factor].levels[level]));
    if (state.tied) said.set("tied", "yes");
    if (state.find) said.set("find", state.find);
    pinned().forEach((cell, pin) => said.set(PINS[pin], cell.id));
    PINS.forEach((name, pin) => { if (state.runs[pin] !== null) said.set(`run${name}`, state.runs[pin]); });
    if (state.quantity) said.set("over", state.quantity);
    if (state.scale !== "linear") said.set("scale", state.scale);
    if (views.all) for (const name of PLOT_CHOICES) said.set(name, fieldName(views.all.signal(name)));
    history.replaceState(null, "", `#explore&${said}`);
  }
  const fieldName = (field) => (/^f\d+$/.test(field) ? data.factors[Number(field.slice(1))].name : field);

  let chosen = new URLSearchParams();
  function readAddress() {
    const [section, ...rest] = location.hash.slice(1).split("&");
    const run = /^run-(.+?)-(-?\d+)$/.exec(section);
    const of = run ? data.cells.findIndex((cell) => encodeURI(cell.id) === run[1]) : -1;
    if (of >= 0) return pinRun(of, Number(run[2]));
    if (section !== "explore" || !rest.length) return false;
    chosen = new URLSearchParams(rest.join("&"));
    const column = Math.abs(Number(chosen.get("sort") || "x"));
    state.sort = column < data.keys[0].length ? chosen.get("sort") : "";
    state.levels = new Map();
    data.factors.forEach((factor, at) => {
      const levels = chosen.getAll(`is.${factor.name}`).map((text) => factor.levels.indexOf(text)).filter((level) => level >= 0);
      if (levels.length) state.levels.set(at, new Set(levels));
    });
    state.tied = chosen.get("tied") === "yes";
    state.find = chosen.get("find") || "";
    state.quantity = chosen.get("over") || "";
    state.scale = SCALES.some(([name]) => name === chosen.get("scale")) ? chosen.get("scale") : "linear";
    PINS.forEach((name, pin) => {
      const at = data.cells.findIndex((cell) => cell.id === chosen.get(name));
      if (at >= 0) state.pins[pin] = at;
      state.runs[pin] = chosen.has(`run${name}`) ? Number(chosen.get(`run${name}`)) : null;
    });
    return true;
  }

  // Shows a run beside the median run of its cell.
  function pinRun(at, repetition) {
    Object.assign(state, { pins: [at, at], runs: [null, repetition] });
    return true;
  }
  function showRun(at, repetition) {
    pinRun(at, repetition);
    pins();
    changed();
    window.storagelab.reveal(place("explore-series"));
  }

  // ---- Two cells, as tables -------------------------------------------------------------------------------------------

  function tableOf(caption, heads, lines, kind = "") {
    const row = (cells) => make("tr", {}, ...cells.map((text, column) =>
      make(column ? "td" : "th", column ? { className: "n" } : { scope: "row" }, text)));
    return make("div", { className: `scroll ${kind}`, tabIndex: 0, role: "group", "aria-label": caption },
      make("table", {}, make("caption", {}, caption),
        make("thead", {}, make("tr", {}, ...heads.map((text, column) => make("th", { scope: "col", className: column ? "n" : "" }, text)))),
        make("tbody", {}, ...lines.map(row))));
  }

  function side() {
    const [a, b] = pinned();
    const differ = data.factors.map((factor, at) => [factor.text, factor.levels[a.at[at]] ?? "", factor.levels[b.at[at]] ?? ""])
      .filter(([, one, other]) => one !== other);
    const ratio = a.mean && b.mean ? `${(b.mean / a.mean).toFixed(2)} × A` : "";
    const runs = (cell) => (cell.runs || []).map(([, value, odd]) => figure(value, 4) + (odd ? "*" : "")).join(", ");
    const odd = [a, b].some((cell) => (cell.runs || []).some((run) => run[2])) ? " * an odd run, left out of the mean." : "";
    const lines = [
      ...differ, ["mean", a.figure, `${b.figure}${ratio ? `; ${ratio}` : ""}`], [`every run, ${data.unit}`, runs(a), runs(b)],
      ["verdict", a.mark, b.mark],
    ];
    place("explore-pair").replaceChildren(tableOf(`Side by side (${data.where}).${odd}`, ["what", `A: ${a.name}`, `B: ${b.name}`], lines, "pair"));
    sideWaits();
    sideCounters();
    sideFacts();
    if (a === b) [place("explore-waits-table"), place("explore-counters-table")].forEach((table) => table.replaceChildren(make("p", {}, ONE_CELL)));
  }

  function sideWaits() {
    const { of, all } = waits.ofPair();
    const part = (pin, wait, which) => { const parts = of[pin].get(wait); return parts ? parts[which] : 0; };
    const line = (wait) => [data.waits[wait].name, ...[0, 1].flatMap((pin) => [1, 2, 0].map((which) => figure(part(pin, wait, which)))),
      figure(part(1, wait, 0) - part(0, wait, 0))];
    const total = (pin, which) => figure(sum(all.map((wait) => part(pin, wait, which) || 0)));
    const totals = ["all", ...[0, 1].flatMap((pin) => [1, 2, 0].map((which) => total(pin, which))),
      figure(sum(all.map((wait) => part(1, wait, 0) - part(0, wait, 0))))];
    const heads = ["wait", "A resource", "A signal", "A", "B resource", "B signal", "B", "B − A"];
    const lines = all.length ? [...all.map(line), totals] : [];
    place("explore-waits-table").replaceChildren(all.length ?
      make("details", {}, make("summary", {}, "The same numbers as a table"),
        tableOf(`The mean run: ${data.waited_in} (${data.where}); empty: not split into resource and signal`, heads, lines))
      : make("p", {}, "No waits were observed in these cells."));
    place("figure-pair-waits").parentElement.hidden = !all.length || state.pins[0] === state.pins[1];
    const [top] = all.slice().sort((one, other) => Math.abs(part(1, other, 0) - part(0, other, 0)) - Math.abs(part(1, one, 0) - part(0, one, 0)));
    place("figure-pair-waits").dataset.title = `Waits. ${pairText()}`;
    place("figure-pair-waits").setAttribute("aria-label", top === undefined ? "No waits" :
      `Chart: waits of A and B, ${data.waited_in} (${data.where}). ${data.waits[top].name} differs most: ` +
      `${figure(part(0, top, 0))} in A, ${figure(part(1, top, 0))} in B.`);
  }

  function sideCounters() {
    const of = state.pins.map((at) => new Map(data.counted[at].map(([counter, value, text]) => [counter, [value, text]])));
    const all = [...new Set([...of[0].keys(), ...of[1].keys()])];
    const ratio = (counter) => { const [a, b] = of.map((one) => (one.get(counter) || [0])[0]); return a && b ? b / a : Infinity; };
    const moved = (counter) => Math.abs(Math.log(Math.abs(ratio(counter)) || 1));
    const groups = of.map((one) => new Set([...one.keys()].map((counter) => data.counters[counter][1])));
    const none = (pin, counter) => (groups[pin].has(data.counters[counter][1]) ? "0" : "not counted");
    const text = (pin, counter) => (of[pin].get(counter) || [0, none(pin, counter)])[1];
    const lines = all.sort((one, other) => (moved(other) - moved(one)) || 0).map((counter) => {
      const [name, group] = data.counters[counter];
      const times = ratio(counter);
      return [`${name}, ${group}`, text(0, counter), text(1, counter), Number.isFinite(times) ? `× ${figure(times)}` : ""];
    });
    const heads = ["counter", "A", "B", "B / A"];
    const caption = `Arithmetic means of the runs (${data.where}), the largest differences first`;
    const rest = lines.slice(MOST_COUNTERS);
    place("explore-counters-table").replaceChildren(...(lines.length ? [tableOf(caption, heads, lines.slice(0, MOST_COUNTERS), "counted")] : [make("p", {}, "None.")]),
      ...(rest.length ? [make("details", {}, make("summary", {}, `${rest.length} more`), tableOf(`The rest. ${caption}`, heads, rest, "counted"))] : []));
  }

  function sideFacts() {
    const [a, b] = state.pins;
    const lines = data.facts.filter(({ of }) => of[a] !== of[b] && ![of[a], of[b]].includes(null)).map((fact) => [fact.name, fact.values[fact.of[a]], fact.values[fact.of[b]]]);
    const caption = "Requested and read-back facts that differ between A and B, but not between the runs of one";
    place("explore-facts-table").replaceChildren(lines.length ? tableOf(caption, ["fact", "A", "B"], lines, "pair") : make("p", {}, "Nothing that was asked for or read back differs."));
  }

  // ---- Charts ---------------------------------------------------------------------------------------------------------

  function cellRows(visible) {
    const runs = sum(data.cells.map((cell) => (cell.runs || []).length)) <= data.most_runs;
    const made = [];
    data.cells.forEach((cell, at) => {
      if (!visible[at] || cell.mean === undefined) return;
      const row = { id: at, kind: "cell", mean: cell.mean, low: cell.low ?? cell.mean, high: cell.high ?? cell.mean, hollow: cell.low === null,
        tip: `${cell.name}: ${cell.figure}${cell.mark ? `; ${cell.mark}` : ""}`,
        verdict: cell.verdict, verdict_place: data.verdicts.indexOf(cell.verdict), none: "", none_place: 0 };
      data.factors.forEach((factor, number) => { row[`f${number}`] = factor.levels[cell.at[number]] ?? ""; row[`f${number}_place`] = cell.at[number]; });
      made.push(row);
      if (runs) for (const [repetition, value] of cell.runs) made.push({ ...row, kind: "run", value, repetition,
        tip: `${cell.name}, repetition ${repetition}: ${figure(value, 4)} ${data.unit}` });
    });
    return made;
  }

  // A chart in a closed part has no width yet. Once it is open, its width will be that of its section.
  const widthOf = (name) => Math.min(place(name).clientWidth || place("explore").clientWidth, 1200);
  function panelWidth(panelled, made) {
    const panels = new Set(made.map((row) => row[panelled])).size || 1;
    return Math.max(150, (widthOf("figure-all-cells") - 75) / Math.min(views.columns, panels) - 18);
  }
  // Whether the labels of the axis don't fit side by side. Long labels have lines of about 18 letters.
  function isUpright(field, width) {
    const { levels } = data.factors[Number(field.slice(1))] || { levels: [""] };
    return levels.length * 7 * Math.min(18, Math.max(...levels.map((text) => text.length))) > width;
  }
  // A level or verdict has the same colour and shape, whatever the filters leave.
  function keysOf(field, made) {
    const { lines, shapes, verdicts, other } = data.plots.all.usermeta;
    const keys = [...new Map(made.map((row) => [row[`${field}_place`], row[field]]))].sort(([one], [next]) => one - next);
    const ink = ([at, text]) => (field === "verdict" ? verdicts[text] || other : lines.at(at % lines.length));
    return { texts: keys.map(([, text]) => text), inks: keys.map(ink), shapes: keys.map(([at]) => shapes.at(at % shapes.length)) };
  }
  async function drawAll(visible) {
    const view = views.all;
    if (!view) return;
    const choices = PLOT_CHOICES.map((name) => view.signal(name));
    const made = cellRows(visible);
    view.signal("pinned", [...state.pins]);
    place("explore-pinned").textContent = PINS.filter((_, at) => visible[state.pins[at]]).map((pin) => `${pin}: ${pinned()[PINS.indexOf(pin)].name}.`).join(" ");
    if (made.length && isNew("all", [visible, choices, window.innerWidth])) {
      const width = panelWidth(choices[2], made);
      await view.signal("keys", { texts: [] }).runAsync(); // otherwise, Vega leaves the legend's entries where they were
      view.signal("child_width", width).signal("upright", isUpright(choices[0], width)).signal("keys", keysOf(choices[1], made)).data("cells", made).resize();
    }
    const chosenTexts = choices.map((field) => (/^f/.test(field) ? data.factors[Number(field.slice(1))].text : field));
    Object.assign(place("figure-all-cells").dataset, { title: `Every cell by ${chosenTexts[0]}; colour: ${chosenTexts[1]}`, filter: filterWords() });
    place("figure-all-cells").parentElement.classList.toggle("empty", !made.length);
    const times = made.filter((row) => row.kind === "cell").sort((one, other) => one.mean - other.mean);
    place("figure-all-cells").setAttribute("aria-label", `Chart: every cell that the filters show (${data.where}), ${times.length} of them. ` +
      (times.length ? `First: ${times[0].tip}. Last: ${times[times.length - 1].tip}.` : ""));
    await view.runAsync();
  }

  // The chart must be made again if the reader chooses another kind of axis. It keeps the reader's other choices.
  async function embedAll(drawn) {
    const spec = structuredClone(data.plots.all);
    spec.columns = views.columns;
    if (views.all) {
      PLOT_CHOICES.forEach((name, at) => { spec.params[at].value = views.all.signal(name); });
      views.all.finalize();
    }
    if (state.scale === "own") spec.resolve = { scale: { y: "independent" } };
    if (state.scale === "log") for (const layer of spec.spec.layer) if (layer.encoding.y.scale) layer.encoding.y.scale = { type: "log", nice: false };
    spec.params[PLOT_CHOICES.length].value = [...state.pins];
    spec.spec.width = panelWidth(spec.params[2].value, cellRows(data.cells.map(shown)));
    spec.params[PLOT_CHOICES.length + 1].value = isUpright(spec.params[0].value, spec.spec.width);
    const made = cellRows(data.cells.map(data.cells.some(shown) ? shown : () => true));
    spec.params[PLOT_CHOICES.length + 2].value = keysOf(spec.params[1].value, made);
    place("explore-choices").replaceChildren();
    latest.all = undefined;
    views.all = await drawn("all-cells", spec, made);
    place("explore-choices").append(labelled("Scale", choice(SCALES, state.scale, async (value) => {
      state.scale = value;
      await embedAll(drawn);
      changed();
    })));
    PLOT_CHOICES.forEach((name) => views.all.addSignalListener(name, () => changed()));
    views.all.addEventListener("click", (event, item) => {
      if (item && item.datum && item.datum.kind === "run") showRun(item.datum.id, item.datum.repetition);
      if (item && item.datum && item.datum.kind === "cell") setPin(event.shiftKey ? 0 : 1, item.datum.id);
    });
  }

  async function draw() {
    await window.storagelab.runScript("runtime");
    // Titles, colours and shapes depend on the reader's choice. Vega-Lite can't express this, Vega can.
    const titled = { "of the axis": "titles[axis]", "of colours": `titles[colour] + ' (${data.where})'` };
    const patched = (key, value) => {
      if (key === "title" && titled[value]) return { signal: titled[value] };
      const of = value?.domain && value.range?.[0];
      return ["inks", "shapes"].includes(of) ? { ...value, domain: { signal: "keys.texts" }, range: { signal: `keys.${of}` } } : value;
    };
    const patch = (vega) => JSON.parse(JSON.stringify(vega), patched);
    const given = { mode: "vega-lite", actions: false, ast: true, renderer: "svg", tooltip: false, patch };
    const narrow = window.innerWidth <= 700;
    views.columns = narrow ? 1 : 3;
    data.plots.all.config.legend.columns = narrow ? 1 : 4;
    PLOT_CHOICES.forEach((name, at) => {
      const param = data.plots.all.params[at];
      const field = data.factors.findIndex((factor) => factor.name === chosen.get(name));
      const value = field >= 0 ? `f${field}` : chosen.get(name);
      if (param.bind.options.includes(value)) param.value = value;
    });
    // The chart gets rows for its first drawing, because an axis without rows has no ends.
    const drawn = async (figure, of, values) => {
      const { view } = await window.vegaEmbed(`#figure-${figure}`, { ...of, data: { ...of.data, values } }, given);
      place(`figure-${figure}`).setAttribute("role", "img");
      return view;
    };
    // A chart is not drawn if it would never have a row, because its axes would have no ends.
    if (data.cells.some((cell) => cell.mean !== undefined)) await embedAll(drawn);
    else place("figure-all-cells").parentElement.classList.add("empty");
    if (data.waited.some((of) => of.length)) views.waits = await drawn("pair-waits", data.plots.waits, waits.rows());
    await series.draw();
    if (series.any()) views.series = await drawn("pair-series", data.plots.series, series.rows());
    await changed(false);
    asked(); // again, because the charts above the target have become taller
    window.storagelab.settle();
    document.documentElement.dataset.explore = "drawn";
  }

  const waits = window.storagelab.waitsOfPair({ data, state, views, PINS, widthOf, figure });
  const series = window.storagelab.seriesOfPair({ data, state, views, PINS, place, widthOf, figure, keepAddress });
  series.leadTo(showRun);
  const asked = () => { if (location.hash.startsWith("#run-")) window.storagelab.reveal(place("explore-series")); };
  const folded = [place("explore-chart"), place("explore-two")];
  // Opens the parts with choices from the address. An address always names two cells, but they may be the first two.
  function openChosen() {
    if ([...PLOT_CHOICES, "scale"].some((name) => chosen.has(name))) folded[0].open = true;
    const isOther = (name, pin) => chosen.has(`run${name}`) || (chosen.has(name) && state.pins[pin] !== first[pin]);
    if (chosen.has("over") || PINS.some(isOther)) folded[1].open = true;
  }
  readAddress();
  headings();
  filters();
  pins();
  place("explore-filters").hidden = false;
  place("explore-rest").hidden = false;
  changed(false);
  window.addEventListener("hashchange", () => { if (readAddress()) { filters(); pins(); changed(false); asked(); openChosen(); } });
  window.addEventListener("resize", () => { clearTimeout(latest.resized); latest.resized = setTimeout(() => changed(false), 200); });
  asked();
  openChosen();
  // The charts are drawn when the reader opens one of these parts for the first time.
  let drawing;
  folded.forEach((part) => part.addEventListener("toggle", () => {
    drawing = drawing || draw().catch((error) => {
      place("explore-series-caption").textContent = `The charts of this part could not be drawn: ${error.message}`;
    });
  }));
  window.storagelab.settle();
  document.documentElement.dataset.explore = "ready";
})();
