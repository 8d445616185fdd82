"use strict";
// Adds tooltips for pointer and keyboard, and saves charts and raw data as files. The page is readable without this script.

(() => {
  const tip = document.getElementById("tip");
  const heard = document.getElementById("heard");
  const MARKS = ".chart svg :is(path, line, rect)[aria-label]";
  let shownAt = 0;

  function make(tag, given = {}, ...inside) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
      if (name in made && name !== "list") made[name] = value;
      else made.setAttribute(name, value);
    }
    made.append(...inside);
    return made;
  }

  function labelled(text, control) {
    control.setAttribute("aria-label", text);
    return make("label", {}, make("span", {}, text), control);
  }
  function choice(options, chosen, onchange) {
    const select = make("select", { onchange: () => onchange(select.value) });
    select.append(...options.map(([value, text]) => make("option", { value, selected: value === chosen }, text)));
    return select;
  }

  // Writes a value with as many digits as can be read from a chart: to a thousandth of its axis.
  function rounded(value, end) {
    return value.toLocaleString("en", { maximumFractionDigits: Math.max(0, 2 - Math.floor(Math.log10(end))) });
  }

  // A line over time is one mark. The pointer's position selects the point, whose value follows from the ends of the axes.
  function pointOf(line, event) {
    const { endS, most, unit } = line.closest("figure").dataset;
    const frame = line.closest(".mark-group").querySelector('.background:not([d="M0,0h0v0h0Z"])').getAttribute("d");
    const [, width, height] = frame.match(/h([\d.]+)v([\d.]+)/).map(Number);
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(line.getScreenCTM().inverse());
    const points = [...line.getAttribute("d").matchAll(/[ML](-?[\d.]+),(-?[\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);
    const [x, y] = points.reduce((best, one) => (Math.abs(one[0] - at.x) < Math.abs(best[0] - at.x) ? one : best));
    const tops = most.split(" ").map(Number); // the ends of each panel's axis, or the end of their common axis
    const panel = [...line.closest("svg").querySelectorAll(".cell > g")].findIndex((one) => one.contains(line));
    const top = tops[panel] || tops[0];
    return `, at ${rounded((x / width) * endS, endS)} s: ${rounded((1 - y / height) * top, top)} ${unit}`;
  }

  // Shows the tooltip of a mark. On phones, a touch shows it.
  function show(event) {
    const mark = event.target.closest && event.target.closest(MARKS);
    const overTime = mark && mark.closest(".mark-line") && mark.closest("figure[data-end-s]");
    const more = mark && mark.matches(".chart figure:has(.wide) [aria-label*=', repetition ']") && document.getElementById("explore-two") ? ". Click: its time series" : "";
    say(mark ? mark.getAttribute("aria-label") + (overTime ? pointOf(mark, event) : "") + more : "", event);
  }
  function say(words, at) {
    tip.hidden = !words;
    if (!words) return;
    tip.textContent = words;
    shownAt = window.scrollY;
    const left = Math.min(at.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    const above = at.clientY - tip.offsetHeight - 14;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above > 8 ? above : at.clientY + 18}px`;
  }
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", () => {
    if (Math.abs(window.scrollY - shownAt) > 8) tip.hidden = true;
  }, { passive: true });

  // The Tab key reaches a chart, the arrow keys go from mark to mark, and Enter does what a click does. The label of each
  // mark is shown and given to screen readers.
  const places = new WeakMap();
  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  function marksOf(figure) {
    const marks = [...figure.querySelectorAll(MARKS)].filter((mark) => mark.getClientRects().length);
    const at = (mark) => mark.getBoundingClientRect();
    return marks.sort((one, other) => at(one).left - at(other).left || at(one).top - at(other).top);
  }
  function walk(event) {
    const figure = event.currentTarget;
    const marks = marksOf(figure);
    if (event.key === "Escape") return leave(figure);
    if (!marks.length || !(event.key in STEPS || event.key === "Enter")) return undefined;
    event.preventDefault();
    const now = marks.indexOf(places.get(figure));
    if (event.key === "Enter") {
      if (now >= 0) marks[now].dispatchEvent(new MouseEvent("click", { bubbles: true, shiftKey: event.shiftKey }));
      return undefined;
    }
    const next = marks[Math.max(0, Math.min(marks.length - 1, now + STEPS[event.key]))];
    leave(figure);
    places.set(figure, next);
    next.classList.add("at");
    const box = next.getBoundingClientRect();
    say(next.getAttribute("aria-label"), { clientX: box.left + box.width / 2, clientY: box.top });
    heard.textContent = next.getAttribute("aria-label");
    return undefined;
  }
  function leave(figure) {
    if (places.has(figure)) places.get(figure).classList.remove("at");
    tip.hidden = true;
  }

  // Makes a file of a chart: on a white ground, with its title above it and its caption below it.
  const SVG = "http://www.w3.org/2000/svg";
  const FONTS = "Helvetica, Arial, sans-serif";
  function paper(figure) {
    const drawn = figure.querySelector(".wide svg") || figure.querySelector("svg");
    const shown = drawn.cloneNode(true);
    const [, , width, height] = drawn.getAttribute("viewBox").split(" ").map(Number);
    const pen = document.createElement("canvas").getContext("2d");
    const lines = (words, font) => {
      pen.font = `${font} ${FONTS}`;
      return words.split(/[ \n]+/).filter(Boolean).reduce((made, word) => {
        const longer = made.length ? `${made[made.length - 1]} ${word}` : word;
        return made.length && pen.measureText(longer).width > width - 16 ? [...made, word] : [...made.slice(0, -1), longer];
      }, []);
    };
    const caption = figure.closest(".chart").querySelector(".caption").cloneNode(true);
    caption.querySelectorAll(".on-page, [hidden]").forEach((one) => one.remove()); // hints for the page, and what the filters hide
    const title = lines((figure.dataset.title || document.title).replace(/^Every cell/, figure.dataset.filter ? "Cells" : "$&"), "600 16px");
    const source = lines([document.title.replace(/ · storagelab$/, ""), document.querySelector(".badge").textContent.replace(/\.$/, ""), figure.dataset.filter].filter(Boolean).join(" · "), "12px");
    const foot = lines(caption.textContent, "12px");
    const head = 14 + 20 * title.length + 18 * source.length;
    const whole = head + height + 18 * foot.length + (foot.length && 12);
    const outer = document.createElementNS(SVG, "svg");
    const give = (element, given) => Object.entries(given).forEach(([name, value]) => element.setAttribute(name, value));
    give(outer, { xmlns: SVG, viewBox: `0 0 ${width} ${whole}`, width, height: whole, "font-family": FONTS, "font-size": 12 });
    const text = (words, y, size, fill, weight) => {
      const line = document.createElementNS(SVG, "text");
      give(line, { x: 8, y, "font-size": size, fill, "font-weight": weight });
      line.textContent = words;
      return line;
    };
    const ground = document.createElementNS(SVG, "rect");
    give(ground, { width: "100%", height: "100%", fill: "#ffffff" });
    shown.querySelectorAll(".at").forEach((mark) => mark.classList.remove("at"));
    shown.querySelectorAll(".left-out").forEach((one) => one.remove());
    ["class", "style", "aria-hidden", "focusable"].forEach((name) => shown.removeAttribute(name));
    give(shown, { y: head, width, height });
    outer.append(ground, ...title.map((words, at) => text(words, 22 + 20 * at, 16, "#1f2328", 600)),
      ...source.map((words, at) => text(words, 21 + 20 * title.length + 18 * at, 12, "#59636e", 400)), shown,
      ...foot.map((words, at) => text(words, head + height + 18 * (at + 1), 12, "#1f2328", 400)));
    return { text: new XMLSerializer().serializeToString(outer), width, height: whole };
  }
  async function picture(figure, form) {
    const { text, width, height } = paper(figure);
    const blob = new Blob([text], { type: "image/svg+xml" });
    const name = figure.id.replace(/^figure-/, "");
    if (form === "svg") return offer(blob, `${name}.svg`);
    const image = new Image();
    const address = URL.createObjectURL(blob);
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(address);
    return canvas.toBlob((png) => offer(png, `${name}.png`), "image/png");
  }
  // The labels of marks in the page's drawings have the ids of cells. Replaces the ids by names.
  function inFull(root) {
    const names = new Map((api.record?.cells || []).map(({ id, name }) => [id, name]));
    root.querySelectorAll("svg [aria-label]").forEach((mark) => {
      mark.setAttribute("aria-label", mark.getAttribute("aria-label").replace(/^[^ ,:]+(?=[,:] )|(?<=; )[^ ]+$/g, (id) => names.get(id) || id));
    });
  }
  // Prepares the charts of a part that is new on the page: adds narrow drawings, keyboard control, and buttons to save them.
  function adopt(part) {
    part.querySelectorAll(".chart figure").forEach((figure) => {
      narrow(figure);
      inFull(figure);
      if (figure.tabIndex === 0) return;
      figure.tabIndex = 0;
      figure.addEventListener("keydown", walk);
      figure.addEventListener("blur", () => leave(figure));
      figure.after(make("p", { className: "save" }, ...["png", "svg"].map((form) => make("button", { type: "button", className: "small",
        "aria-label": `Save the chart “${figure.dataset.title || ""}” as ${form.toUpperCase()}`, onclick: () => picture(figure, form) }, `Save as ${form.toUpperCase()}`))));
    });
  }
  function narrow(figure) {
    const drawn = api.narrow[figure.id.replace(/^figure-/, "")];
    if (drawn && !figure.querySelector(".narrow")) figure.insertAdjacentHTML("beforeend", drawn);
  }

  // Marks the current section in the contents. It is the section that a link led to, until the reader scrolls. Then it is the
  // last section that begins in the top quarter of the window or above.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [document.getElementById(link.hash.slice(1)), link]));
  let led = null;
  function lead(section) {
    led = section;
    const read = [...links.keys()].filter((one) => one.getBoundingClientRect().top <= window.innerHeight / 4);
    const now = links.get(led || (window.scrollY > 60 && read[read.length - 1])) || links.values().next().value;
    document.querySelector(".to-top").hidden = window.scrollY < window.innerHeight;
    links.forEach((link) => (link === now ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  }
  for (const by of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    window.addEventListener(by, (event) => { if (!event.target.closest?.("nav")) led = null; }, { passive: true });
  }
  document.addEventListener("scroll", () => lead(led), { passive: true });

  function offer(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  // The raw data are unpacked only on request.
  const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%/[)*+-;,=.?@^_`{|}~"; // the digits of base 85
  const VALUES = new Map([...DIGITS].map((digit, at) => [digit.charCodeAt(0), at]));
  function bytesOf(letters) {
    const whole = letters.trim();
    const bytes = new DataView(new ArrayBuffer(4 * Math.ceil(whole.length / 5)));
    for (let at = 0; at < whole.length; at += 5) {
      let value = 0;
      for (let digit = at; digit < at + 5; digit += 1) value = 85 * value + (digit < whole.length ? VALUES.get(whole.charCodeAt(digit)) : 84);
      bytes.setUint32((4 * at) / 5, value);
    }
    return bytes.buffer.slice(0, Math.floor((4 * whole.length) / 5));
  }
  const inflated = (packed) => new Response(new Blob([bytesOf(packed)]).stream().pipeThrough(new DecompressionStream("gzip")));
  const download = document.getElementById("download");
  if (download) download.addEventListener("click", async () => {
    const data = document.getElementById("raw-data");
    const state = document.getElementById("download-state");
    try {
      offer(new Blob([await inflated(data.textContent).arrayBuffer()], { type: "application/json" }), data.dataset.name);
      state.textContent = ` ${data.dataset.name} is ready.`;
    } catch (error) {
      state.textContent = ` The data could not be unpacked: ${error.message}`;
    }
  });

  // `runScript` can run only scripts whose hash is in the page's content policy.
  const text = (id) => inflated(document.getElementById(id).textContent).text();
  const api = {
    make, labelled, choice, adopt, inFull, lead, narrow: {}, whole: {},
    later: text("later").then((known) => { Object.assign(api, JSON.parse(known)); adopt(document); }),
    async runScript(id) { document.head.append(make("script", { textContent: await text(id) })); },
  };
  window.storagelab = api;
  adopt(document);
  lead(null);
})();
