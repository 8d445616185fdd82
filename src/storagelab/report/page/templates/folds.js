"use strict";
// Opens folded parts: where a link leads, on paper, and all of them on request. The browser's own search opens them by itself.

(() => {
  const parts = [...document.querySelectorAll("details.part")];

  // A link to a section opens it; a link into a closed part opens whatever it lies in.
  function openTarget() {
    const target = document.getElementById(location.hash.slice(1).split("&")[0]);
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
})();
