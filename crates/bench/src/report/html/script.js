// Tooltips, enlarging of drawings, copying. The page is complete without this.
(() => {
  "use strict";
  const words = document.body.dataset;

  // One floating tip for every `title`, so that touch and keyboard see it too.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const element of document.querySelectorAll("[title]")) {
    element.dataset.tip = element.title;
    element.removeAttribute("title");
  }
  for (const title of document.querySelectorAll("figure svg title")) {
    const element = title.parentNode;
    element.dataset.tip = title.textContent;
    title.remove();
  }
  const show = (event) => {
    const owner = event.target.closest && event.target.closest("[data-tip]");
    if (!owner || !owner.dataset.tip) {
      tip.hidden = true;
      return;
    }
    // The command is that of the page: it is not repeated in every row.
    tip.textContent = owner.dataset.tip + (owner.localName === "tr" ? "\n" + words.command : "");
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const below = event.clientY + 18;
    const y = below + box.height > innerHeight ? event.clientY - box.height - 12 : below;
    tip.style.left = Math.max(4, x) + "px";
    tip.style.top = Math.max(4, y) + "px";
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, true);

  // Enlarging: the drawing in a dialog whose view box is zoomed and moved.
  const dialog = document.createElement("dialog");
  const bar = document.createElement("p");
  const hint = document.createElement("span");
  const close = document.createElement("button");
  hint.textContent = words.hint;
  close.textContent = words.close;
  close.type = "button";
  close.addEventListener("click", () => dialog.close());
  bar.append(hint, close);
  dialog.append(bar);
  document.body.append(dialog);
  const enlarge = (figure) => {
    const old = dialog.querySelector("figure");
    if (old) old.remove();
    const copy = figure.cloneNode(true);
    const button = copy.querySelector(".enlarge");
    if (button) button.remove();
    dialog.append(copy);
    const svg = copy.querySelector("svg");
    const whole = svg.viewBox.baseVal;
    const all = [whole.x, whole.y, whole.width, whole.height];
    let view = all.slice();
    const apply = () => svg.setAttribute("viewBox", view.join(" "));
    const scaleAt = (clientX, clientY, factor) => {
      const box = svg.getBoundingClientRect();
      const width = Math.min(Math.max(view[2] * factor, all[2] / 20), all[2]);
      const ratio = width / view[2];
      const x = view[0] + (clientX - box.left) / box.width * view[2];
      const y = view[1] + (clientY - box.top) / box.height * view[3];
      view = [x - (x - view[0]) * ratio, y - (y - view[1]) * ratio, width, view[3] * ratio];
      apply();
    };
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      scaleAt(event.clientX, event.clientY, event.deltaY < 0 ? 0.85 : 1 / 0.85);
    }, { passive: false });
    const fingers = new Map();
    const spread = () => {
      const [a, b] = [...fingers.values()];
      return Math.hypot(a[0] - b[0], a[1] - b[1]);
    };
    svg.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, [event.clientX, event.clientY]);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      const last = fingers.get(event.pointerId);
      if (!last) return;
      if (fingers.size === 2) {
        const before = spread();
        fingers.set(event.pointerId, [event.clientX, event.clientY]);
        scaleAt(event.clientX, event.clientY, before / Math.max(spread(), 1));
        return;
      }
      const box = svg.getBoundingClientRect();
      view[0] -= (event.clientX - last[0]) / box.width * view[2];
      view[1] -= (event.clientY - last[1]) / box.height * view[3];
      fingers.set(event.pointerId, [event.clientX, event.clientY]);
      apply();
    });
    for (const end of ["pointerup", "pointercancel"]) {
      svg.addEventListener(end, (event) => fingers.delete(event.pointerId));
    }
    svg.addEventListener("dblclick", () => { view = all.slice(); apply(); });
    dialog.showModal();
    dialog.append(tip);
  };
  dialog.addEventListener("close", () => document.body.append(tip));
  for (const figure of document.querySelectorAll("main figure")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "enlarge";
    button.textContent = "⤢";
    button.setAttribute("aria-label", words.enlarge);
    button.dataset.tip = words.enlarge;
    button.addEventListener("click", () => enlarge(figure));
    figure.querySelector("figcaption").append(button);
  }

  for (const button of document.querySelectorAll(".copy")) {
    button.hidden = false;
    const before = button.textContent;
    button.addEventListener("click", async () => {
      const text = button.closest(".code").querySelector("pre");
      try {
        await navigator.clipboard.writeText(text.textContent);
      } catch (refused) {
        // A page from a file may not write to the clipboard: select the text and let the browser copy it.
        const range = document.createRange();
        range.selectNodeContents(text);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        document.execCommand("copy");
      }
      button.textContent = words.copied;
      setTimeout(() => { button.textContent = before; }, 1500);
    });
  }

  // Everything is shown on paper.
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details")) fold.open = true;
  });
})();
