"use strict";
/* Lanes wider than the screen begin where something runs, waits or has failed. */
(() => {
  const panel = document.getElementById("lanes");
  const active = panel && panel.querySelector("[data-active]");
  if (active && panel.scrollWidth > panel.clientWidth) {
    const box = active.getBoundingClientRect();
    panel.scrollLeft += box.left - panel.getBoundingClientRect().left - panel.clientWidth / 2 + box.width / 2;
  }
})();
