"use strict";
// Adds tooltips, links into closed parts, and the raw data as a file. The page is readable without it.

(() => {
  const tip = document.getElementById("tip");
  let shownAt = 0;

  // Each mark of a chart has its text as its label. If both drawings have the same text, only the wide one carries it, and
  // the mark in the other has its number.
  function labelOf(mark) {
    if (!mark.dataset.mark) return mark.getAttribute("aria-label");
    const wide = mark.closest("figure").querySelector("svg.wide");
    return wide.querySelectorAll("[aria-label]")[mark.dataset.mark].getAttribute("aria-label");
  }

  // As many digits as a chart can support: a thousandth of its axis.
  function rounded(value, end) {
    return value.toLocaleString("en", { maximumFractionDigits: Math.max(0, 2 - Math.floor(Math.log10(end))) });
  }

  // A line over time is one mark: the pointer's place selects the point, and the axes give its value.
  function pointOf(line, event) {
    const { endS, most, unit } = line.closest("figure").dataset;
    const frame = line.closest(".mark-group").querySelector(".background").getAttribute("d");
    const [, width, height] = frame.match(/h([\d.]+)v([\d.]+)/).map(Number);
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(line.getScreenCTM().inverse());
    const points = [...line.getAttribute("d").matchAll(/[ML](-?[\d.]+),(-?[\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);
    const [x, y] = points.reduce((best, one) => (Math.abs(one[0] - at.x) < Math.abs(best[0] - at.x) ? one : best));
    return `, at ${rounded((x / width) * endS, endS)} s: ${rounded((1 - y / height) * most, most)} ${unit}`;
  }

  // Phones show it on touch.
  function show(event) {
    const mark = event.target.closest && event.target.closest(".chart svg :is([aria-label], [data-mark])");
    const overTime = mark && mark.closest(".mark-line") && mark.closest("figure[data-end-s]");
    const words = mark ? labelOf(mark) + (overTime ? pointOf(mark, event) : "") : "";
    tip.hidden = !words;
    if (!words) return;
    tip.textContent = words;
    shownAt = window.scrollY;
    const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    const above = event.clientY - tip.offsetHeight - 14;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above > 8 ? above : event.clientY + 18}px`;
  }
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", () => {
    if (Math.abs(window.scrollY - shownAt) > 8) tip.hidden = true;
  }, { passive: true });

  // A link to a closed part opens it.
  function openTarget() {
    const target = document.getElementById(location.hash.slice(1).split("&")[0]);
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    if (target) target.scrollIntoView();
  }
  window.addEventListener("hashchange", openTarget);
  if (location.hash) openTarget();

  // The section in view is marked in the contents.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      const link = links.get(entry.target.id);
      if (link) link.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  document.querySelectorAll("main > section").forEach((section) => seen.observe(section));

  function offer(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  // The raw data, unpacked only on request.
  const state = document.getElementById("download-state");
  const bytesOf = (packed) => Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
  const inflated = (packed) => new Response(new Blob([bytesOf(packed)]).stream().pipeThrough(new DecompressionStream("gzip")));
  async function unpacked(packed) {
    if (typeof DecompressionStream === "undefined") return [new Blob([bytesOf(packed)], { type: "application/gzip" }), ".gz"];
    return [new Blob([await inflated(packed).arrayBuffer()], { type: "application/json" }), ""];
  }
  const download = document.getElementById("download");
  if (download) download.addEventListener("click", async () => {
    const data = document.getElementById("raw-data");
    try {
      const [blob, ending] = await unpacked(data.textContent.trim());
      offer(blob, data.dataset.name + ending);
      state.textContent = ` ${data.dataset.name}${ending} is ready.`;
    } catch (error) {
      state.textContent = ` The data could not be unpacked: ${error.message}`;
    }
  });

  // The page's policy names this script by its hash, so nothing else can be run this way.
  window.storagelab = {
    async runScript(packed) {
      const script = document.createElement("script");
      script.textContent = await inflated(packed.textContent.trim()).text();
      document.head.append(script);
    },
  };
})();
