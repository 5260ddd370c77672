"use strict";
/* On top of the plain list of slices: a slider. On top of the list of items: one at a time, with arrows. */
(() => {
  const el = (name, attributes = {}, text = "") => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    return made;
  };

  document.querySelectorAll("[data-slices]").forEach((box, n) => {
    const links = [...box.querySelectorAll("ol a")];
    if (links.length < 2) return;
    const [figureLink, image, caption] = ["figure > a", "img", "figcaption"].map((path) => box.querySelector(path));
    const start = Math.max(0, links.findIndex((link) => link.hasAttribute("data-start")));
    const slider = el("input", { type: "range", id: `slice-${n}`, min: 1, max: links.length, step: 1, value: start + 1 });
    const number = el("output", { class: "num", for: slider.id }, `${start + 1}`);
    const label = el("label", { for: slider.id }, "Through the stack: ");
    label.append(number, ` / ${links.length}`);
    const fetched = new Set();
    const fetchAhead = (at) => {
      for (const each of [at + 1, at - 1, at + 2, at - 2]) {
        if (links[each] && !fetched.has(each)) { fetched.add(each); new Image().src = links[each].href; }
      }
    };
    const show = () => {
      const at = Number(slider.value) - 1;
      image.src = figureLink.href = links[at].href;
      caption.textContent = image.alt = links[at].dataset.caption;
      number.textContent = at + 1;
      fetchAhead(at);
    };
    slider.addEventListener("input", show);
    slider.addEventListener("pointerdown", () => fetchAhead(Number(slider.value) - 1), { once: true });
    slider.addEventListener("change", (event) => event.stopPropagation());  // no answer of the form
    slider.addEventListener("input", (event) => event.stopPropagation());
    image.addEventListener("wheel", (event) => {
      if (!event.shiftKey) return;
      event.preventDefault();
      slider.value = Number(slider.value) + Math.sign(event.deltaY || event.deltaX);
      show();
    }, { passive: false });
    box.querySelector("details").replaceWith(label, slider);
  });

  const evidence = document.querySelector("[data-items]");
  const bar = evidence && evidence.querySelector("nav.items");
  if (bar) {
    const links = [...bar.querySelectorAll("a")];
    const sections = links.map((link) => document.getElementById(link.dataset.item));
    const worst = links.findIndex((link) => link.querySelector(".st-failed, .st-suspect"));
    let at = -1;
    const show = (next) => {
      at = next;
      sections.forEach((section, n) => { section.hidden = at >= 0 && n !== at; });
      links.forEach((link, n) => { if (n === at) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current"); });
      all.setAttribute("aria-pressed", `${at < 0}`);
      if (at >= 0) links[at].scrollIntoView({ block: "nearest", inline: "nearest" });
    };
    const step = (by) => show((Math.max(at, 0) + by + links.length) % links.length);
    const all = el("button", { type: "button", class: "btn", "aria-pressed": "false" }, "All");
    const back = el("button", { type: "button", class: "btn", "aria-label": "previous item" }, "←");
    const on = el("button", { type: "button", class: "btn", "aria-label": "next item" }, "→");
    all.addEventListener("click", () => show(-1));
    back.addEventListener("click", () => step(-1));
    on.addEventListener("click", () => step(1));
    links.forEach((link, n) => link.addEventListener("click", (event) => { event.preventDefault(); show(n); }));
    bar.append(back, on, all);
    show(Math.max(worst, 0));
  }
})();
