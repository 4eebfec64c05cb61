// Keeps a page current: when what it follows has changed, its main part is loaded again. A page
// whose form was touched, or that shows a step, is left, and says that it has changed.
"use strict";
(() => {
  const follow = document.currentScript.dataset.follow;
  let touched = false;
  let loading = false;
  let again = false;
  document.addEventListener("input", (e) => { if (e.target.closest("form.answer")) touched = true; });

  async function load() {
    if (loading) { again = true; return; }
    const main = document.getElementById("main");
    if (touched || main.querySelector("details[open]")) {
      document.getElementById("stale").hidden = false;
      return;
    }
    loading = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("main");
      if (fresh && !touched) {
        const focus = document.activeElement && document.activeElement.getAttribute("href");
        main.replaceChildren(...fresh.childNodes);
        document.title = page.title;
        if (focus) main.querySelector(`a[href="${CSS.escape(focus)}"]`)?.focus();
      }
    } catch { /* the stream connects again, and tells of the next change */ }
    loading = false;
    if (again) { again = false; load(); }
  }

  const stream = new EventSource(follow);
  let opened = false;
  stream.addEventListener("changed", load);
  stream.addEventListener("open", () => { if (opened) load(); opened = true; });
})();
