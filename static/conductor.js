"use strict";
/* What every page gets on top of plain links and forms: partials that poll say so when nobody answers, keep their
   scroll positions and what was folded or unfolded, and rest while the page is not looked at. */
(() => {
  const offline = () => document.querySelector(".offline");
  const kept = new Map();
  const unfolded = new Map();
  const toEnd = (wanted) => document.querySelectorAll("pre[data-to-end]").forEach((box) => {
    if (wanted(box)) box.scrollTop = box.scrollHeight;
  });

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.detail.elt.hasAttribute("data-poll")) event.preventDefault();
  });
  document.addEventListener("htmx:beforeSwap", () => {
    kept.clear();
    unfolded.clear();
    document.querySelectorAll("details[data-keep-open]").forEach((box) => unfolded.set(box.id, box.open));
    document.querySelectorAll("[data-keep-scroll]").forEach((box) => {
      const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
      kept.set(box.id, { left: box.scrollLeft, top: atEnd ? Infinity : box.scrollTop });
    });
  });
  document.addEventListener("htmx:afterSwap", () => {
    unfolded.forEach((open, id) => {
      const box = document.getElementById(id);
      if (box) box.open = open;
    });
    kept.forEach((at, id) => {
      const box = document.getElementById(id);
      if (!box) return;
      box.scrollLeft = at.left;
      box.scrollTop = at.top === Infinity ? box.scrollHeight : at.top;
    });
    toEnd((box) => !kept.has(box.id));
  });
  for (const name of ["htmx:sendError", "htmx:timeout", "htmx:responseError"]) {
    document.addEventListener(name, () => { offline().hidden = false; });
  }
  document.addEventListener("htmx:afterOnLoad", (event) => {
    if (event.detail.xhr.status < 400) offline().hidden = true;
  });

  toEnd(() => true);
})();
