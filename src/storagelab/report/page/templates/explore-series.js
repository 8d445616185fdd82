"use strict";
// Draws the waits and the series of two cells.

// Draws the time series of two runs. These are runs of the two pinned cells, or a run that the reader chooses. A click on a
// mark of a run, in any chart, shows its series.

window.storagelab.seriesOfPair = ({ data, state, views, PINS, place, widthOf, figure, keepAddress }) => {
  const { series: known, labelled, choice } = window.storagelab;
  let rows = [];
  const cellOf = (pin) => data.cells[state.pins[pin]];
  const runsOf = (pin) => known.of[state.pins[pin]];
  // The first run of a cell is its median run.
  const runOf = (pin) => runsOf(pin).find((run) => run.repetition === state.runs[pin]) || (state.runs[pin] === null ? runsOf(pin)[0] : null);
  const pairText = () => (state.pins[0] === state.pins[1] ? `Two runs of ${cellOf(0).name}` : `A: ${cellOf(0).name}. B: ${cellOf(1).name}`);

  // Both lines are drawn with about the same step, because a line with a longer step would look smoother than it is. A step
  // is the distance of two points, in seconds.
  const stepOf = (run) => (run.at.length > 1 ? run.at[1] - run.at[0] : run.at[0]);
  function joined(pin) {
    const longest = Math.max(...PINS.map((_, one) => runOf(one)).filter(Boolean).map(stepOf));
    return Math.round(longest / stepOf(runOf(pin)));
  }
  function linesOf(pin, quantity) {
    const run = runOf(pin);
    if (!run) return [];
    const by = joined(pin);
    const there = (values, at) => values.slice(at, at + by).filter((value) => value !== null);
    const join = (values, of) => values.flatMap((_, at) => (at % by ? [] : [there(values, at).length ? of(...there(values, at)) : null]));
    const mean = (...values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    return run.lines.filter(([line]) => known.lines[line][0] === quantity).map(([line, means, least, most]) => ({
      name: known.lines[line][1], at: join(run.at, Math.max), mean: join(means, mean),
      least: join(least || means, least ? Math.min : mean), most: join(most || means, most ? Math.max : mean) }));
  }

  const middle = (pin) => (runsOf(pin).length % 2 ? "median" : "near the median");

  function chooseRun(pin) {
    const runs = runsOf(pin).map((run, at) => [run, at ? "" : ` (${middle(pin)})`]).sort(([one], [other]) => one.repetition - other.repetition);
    const options = runs.map(([run, which]) => [`${run.repetition}`, `${run.repetition}${which}`]);
    const shown = runOf(pin);
    return labelled(`run of ${PINS[pin]}`, choice(options, shown ? `${shown.repetition}` : "", (value) => {
      state.runs[pin] = Number(value) === runsOf(pin)[0].repetition ? null : Number(value);
      keepAddress();
      draw();
    }));
  }

  function caption(title, unit) {
    const said = PINS.map((pin, number) => [pin, runOf(number), number]).filter(([, run]) => run).map(([pin, run, number]) => {
      const steps = stepOf(run) * joined(number);
      const median = run === runsOf(number)[0] ? `, ${middle(number)}` : "";
      const means = run.lines.some((line) => line.length > 2) ? "" : ", only means";
      return `${pin}: repetition ${run.repetition}${median}, a point about every ${figure(steps, 2)} s${means}`;
    });
    return `${title}, ${unit} (${data.where}). ${said.join("; ")}. Each point is the mean of a period; the band goes from its smallest to its largest sample.`;
  }

  async function draw() {
    const there = known.quantities.map((one, at) => [at, one]).filter(([at]) => PINS.some((_, pin) => linesOf(pin, at).length));
    const missing = PINS.filter((_, pin) => !runOf(pin));
    place("figure-pair-series").hidden = !there.length;
    place("explore-series-caption").textContent = !there.length ? "These runs have no time series." : "";
    place("explore-quantity").replaceChildren();
    if (!there.length) return;
    const at = (there.find(([, one]) => one.title === state.quantity) || there[0])[0];
    const { title, unit } = known.quantities[at];
    place("figure-pair-series").dataset.title = `${title}, ${unit}. ${pairText()}`;
    place("explore-quantity").append(labelled("Show", choice(there.map(([, one]) => [one.title, one.title]), title, (value) => {
      state.quantity = value;
      keepAddress();
      draw();
    })), ...PINS.map((_, pin) => chooseRun(pin)));
    const lines = PINS.flatMap((pin, number) => linesOf(number, at).map((line) => ({ pin, ...line })));
    rows = lines.flatMap((line) => line.at.map((at_s, step) => ({ kind: "line", pin: line.pin, line: line.name, at_s,
      mean: line.mean[step], least: line.least[step], most: line.most[step] })));
    const moments = lines.map((line) => line.at).sort((one, other) => other[other.length - 1] - one[one.length - 1])[0];
    const said = (line, at_s) => {
      const step = line.at.findIndex((end) => end >= at_s);
      if (step < 0 || line.mean[step] === null) return "";
      const range = line.least[step] === line.most[step] ? "" : ` (${figure(line.least[step])} to ${figure(line.most[step])})`;
      return `${line.pin}, ${line.name}: ${figure(line.mean[step])}${range}`;
    };
    moments.forEach((at_s) => rows.push({ kind: "moment", at_s, mean: null, least: null, most: null,
      tip: `${figure(at_s)} s, ${unit}. ${lines.map((line) => said(line, at_s)).filter(Boolean).join("; ")}` }));
    place("explore-series-caption").textContent = `${pairText()}. ${caption(title, unit)}` +
      (missing.length ? ` ${missing.join(" and ")}: no time series.` : "");
    const peak = (pin) => Math.max(...lines.filter((line) => line.pin === pin).flatMap((line) => line.mean));
    place("figure-pair-series").setAttribute("aria-label", `Chart: ${title.toLowerCase()} of A and B (${data.where}), ${unit}. Highest mean of a period: ` +
      PINS.filter((pin) => lines.some((line) => line.pin === pin)).map((pin) => `${figure(peak(pin))} in ${pin}`).join(", ") + ".");
    if (!views.series) return;
    const width = widthOf("figure-pair-series") - 70;
    await views.series.signal("width", Math.max(150, width)).signal("unit", unit).data("series", rows).resize().runAsync();
  }

  // The labels of marks outside of this part begin with "CELL, repetition N".
  const MARKS = ".chart > figure[id]:not(#figure-all-cells, #figure-pair-series) svg :is(path, line, rect)[aria-label]";
  function runNamed(words) {
    const found = /^(.*), repetition (-?\d+)\b/.exec(words || "");
    const at = found ? data.cells.findIndex((cell) => cell.name === found[1]) : -1;
    return at < 0 ? null : [at, Number(found[2])];
  }
  function leadTo(show) {
    document.addEventListener("click", (event) => {
      const mark = event.target.closest && event.target.closest(MARKS);
      const run = mark && runNamed(mark.getAttribute("aria-label"));
      if (run) show(...run);
    });
  }

  return { draw, leadTo, rows: () => rows, any: () => known.of.some((runs) => runs.length) };
};

// Draws the waits of two cells.
window.storagelab.waitsOfPair = ({ data, state, views, PINS, widthOf, figure }) => {
  const MOST_WAITS = 12;
  const SMALLEST_WAIT = 0.003; // smaller waits, as a fraction of the largest, are only in the table

  function ofPair() {
    const of = state.pins.map((at) => new Map(data.waited[at].map(([wait, ...parts]) => [wait, parts])));
    const all = [...new Set([...of[0].keys(), ...of[1].keys()])];
    const most = (wait) => Math.max(...of.map((waits) => (waits.get(wait) || [0])[0]));
    return { of, all: all.filter((wait) => most(wait) > 0).sort((one, other) => most(other) - most(one)) };
  }

  function rows() {
    const { of, all } = ofPair();
    const made = [];
    const most = (wait) => Math.max(...of.map((waits) => (waits.get(wait) || [0])[0]));
    all.filter((wait) => most(wait) > SMALLEST_WAIT * most(all[0])).slice(0, MOST_WAITS).forEach((wait, at) => PINS.forEach((pin, number) => {
      const [whole, resource, signal] = of[number].get(wait) || [0, 0, 0];
      const unsplit = data.waits[wait].wait ? "not split into resource and signal" : "no wait";
      const parts = resource === null || signal === null ? [[unsplit, whole, 1]] : [["resource", resource, 1], ["signal", signal, 0.45]];
      parts.forEach(([part, seconds, opacity], part_place) => made.push({ wait: data.waits[wait].name, place: at, pin, part_place, seconds, opacity,
        tip: `${pin}, ${data.waits[wait].name}: ${figure(seconds)} ${data.waited_in}, ${part}` }));
    }));
    return made;
  }
  async function draw() {
    if (!views.waits) return;
    const width = widthOf("figure-pair-waits");
    await views.waits.signal("width", Math.max(120, Math.min(width - 250, 640))).data("waits", rows()).resize().runAsync();
  }

  return { ofPair, rows, draw };
};
