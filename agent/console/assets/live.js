// Keeps a page current: when what it follows has changed, its main part is loaded again, but not
// while a button is pressed: a click needs the same element from the press to the release. A page whose form was touched,
// or that says why what was sent does not count, is left, and says that it has changed. Steps that are
// open stay open. What the model says in the turn under way comes as it says it.
"use strict";
(() => {
  const { follow, sent } = document.currentScript.dataset;
  let touched = sent !== undefined;
  let pressed = false;
  let loading = false;
  let again = false;
  document.addEventListener("input", (e) => { if (e.target.closest("form")) touched = true; });
  document.addEventListener("pointerdown", (e) => { pressed = e.button === 0; });
  for (const name of ["pointerup", "pointercancel"]) {
    document.addEventListener(name, () => setTimeout(() => { // the click comes first
      pressed = false;
      if (again) load();
    }));
  }

  let last = document.getElementById("main").innerHTML; // as the console has sent it

  async function load() {
    again = loading || pressed;
    if (again) return;
    loading = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = document.getElementById("main");
      const fresh = page.getElementById("main");
      if (pressed) again = true;
      else if (fresh && fresh.innerHTML !== last) show(page, main, fresh);
    } catch { /* the stream connects again, and tells of the next change */ }
    loading = false;
    if (again) load();
  }

  function show(page, main, fresh) {
    if (touched || main.querySelector("details[open]:not([id])")) {
      document.getElementById("stale").hidden = false;
      return;
    }
    const active = document.activeElement;
    const focus = active && (active.matches("summary") ? active.parentElement.id : active.getAttribute("href"));
    last = fresh.innerHTML;
    const stay = new Map([...main.querySelectorAll("details[id]")].map((d) => [d.id, d.open]));
    for (const d of fresh.querySelectorAll("details[id]")) if (stay.has(d.id)) d.open = stay.get(d.id);
    main.replaceChildren(...fresh.childNodes);
    document.title = page.title;
    if (focus) main.querySelector(`a[href="${CSS.escape(focus)}"], details[id="${CSS.escape(focus)}"] > summary`)?.focus();
  }

  const stream = new EventSource(follow);
  stream.addEventListener("changed", load);
  if (sent === undefined) stream.addEventListener("open", load); // of what has changed before, the stream says nothing
  stream.addEventListener("text", (e) => {
    const box = document.getElementById("stream");
    if (box) box.textContent = JSON.parse(e.data).text;
  });
})();
