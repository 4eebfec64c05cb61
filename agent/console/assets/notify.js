// Notifies of questions that begin to wait while the inbox is open, once a person has asked for it: the
// page is kept current by live.js, and what is new on it is told of. It says who asks, and not what.
"use strict";
(() => {
  if (!("Notification" in window)) return;
  const main = document.getElementById("main");
  const waiting = () => [...main.querySelectorAll("li[data-notice]")];
  const wanted = () => { try { return localStorage.getItem("troupe-notify") === "yes"; } catch { return false; } };
  const want = (yes) => { try { localStorage.setItem("troupe-notify", yes ? "yes" : "no"); } catch { /* for this page only */ } };
  let on = wanted() && Notification.permission === "granted";
  let known = new Set(waiting().map((li) => li.dataset.ask));

  function show() {
    const place = document.getElementById("notify");
    if (!place) return;
    place.hidden = Notification.permission === "denied";
    place.querySelector("button").textContent = on ? "Stop notifying me" : "Notify me of new questions";
    place.querySelector("span").textContent = on ? "This browser notifies you while the inbox is open." : "";
  }

  document.addEventListener("click", async (e) => {
    if (!e.target.closest("#notify button")) return;
    on = !on && await Notification.requestPermission() === "granted";
    want(on);
    show();
  });

  new MutationObserver(() => {
    const now = waiting();
    for (const li of now) {
      if (!on || known.has(li.dataset.ask)) continue;
      const told = new Notification("A question waits for you", { body: li.dataset.notice, tag: li.dataset.ask });
      told.onclick = () => { window.focus(); location.href = li.querySelector("a").href; };
    }
    known = new Set(now.map((li) => li.dataset.ask));
    show();
  }).observe(main, { childList: true });
  show();
})();
