// Keys for a page that works without them: arrows, or j and k, walk the states; [ and ]
// go to the next state with a label; / searches in the words.
const nav = document.querySelector("main > nav");
const listRows = () =>
  [...(nav?.querySelectorAll("a.cs-state[href], li li > a[href]") ?? [])].filter((a) => !a.closest("details:not([open]) > ul"));

function findCurrent(rows) {
  const marked = nav.querySelector("[aria-current=page]") ?? nav.querySelector("[aria-current]");
  return rows.findIndex((a) => a === document.activeElement || marked?.contains(a));
}

// One stop for the Tab key: arrows go on from there.
function rove(current) {
  for (const a of nav?.querySelectorAll(".cs-row a, .cs-fold summary") ?? []) a.tabIndex = -1;
  if (current) current.tabIndex = 0;
}

function go(step, wanted = () => true) {
  const rows = listRows();
  const focused = rows.indexOf(document.activeElement);
  let at = (focused < 0 ? findCurrent(rows) : focused) + step;
  while (rows[at] && !wanted(rows[at])) at += step;
  if (!rows[at]) return;
  for (const row of nav.querySelectorAll(".cs-selected")) row.classList.remove("cs-selected");
  rows[at].closest("li")?.classList.add("cs-selected");
  rove(rows[at]);
  // One step back in the browser leads out of the name, not through its rows.
  if (rows[at].getAttribute("href").startsWith("#")) rows[at].click();
  else location.replace(rows[at].href);
  rows[at].focus();
}

const hasLabel = (a) => a.querySelector(".cs-label");
const keys = {
  ArrowDown: () => go(1), j: () => go(1), ArrowUp: () => go(-1), k: () => go(-1),
  "]": () => go(1, hasLabel), "[": () => go(-1, hasLabel),
  "/": () => document.querySelector("#search")?.focus(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  // Elsewhere arrows scroll, and keys are words.
  const inNav = event.target === document.body || nav?.contains(event.target);
  if (!inNav || event.target.matches("input, textarea, select")) return;
  event.preventDefault();
  keys[event.key]();
});

function openTarget() {
  // Ids of this page have no escapes; an address may have invalid ones.
  const target = document.getElementById(location.hash.slice(1));
  for (let up = target; up; up = up.parentElement)
    if (up.tagName === "DETAILS") up.open = true;
  for (const fold of target?.querySelectorAll("details") ?? []) fold.open = true;
  target?.scrollIntoView({ block: "center" });
}

addEventListener("hashchange", openTarget);
if (location.hash) openTarget();
const shown = nav?.querySelector("[aria-current=page]") ?? nav?.querySelector("[aria-current]");
if (nav) rove(shown?.querySelector("a") ?? listRows()[0]);
if (shown && nav.scrollHeight > nav.clientHeight)
  nav.scrollTop = shown.getBoundingClientRect().top - nav.getBoundingClientRect().top - nav.clientHeight / 2;
if (shown && !location.hash && matchMedia("(hover: hover)").matches)
  nav.querySelector("[aria-current=page] a")?.focus({ preventScroll: true });

// The first page is filtered while one types; a search of the store is the form's.
const filter = document.querySelector(".cs-index input[name=prefix]");
filter?.addEventListener("input", () => {
  const wanted = filter.value.toLowerCase();
  for (const row of document.querySelectorAll(".cs-names > li"))
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
});

// The budget of a view: its number follows the slider, and the view when it is let go.
const slider = document.querySelector(".cs-slider");
if (slider) {
  slider.hidden = false;
  slider.addEventListener("input", () => { slider.form.elements.limit.value = slider.value; });
  slider.addEventListener("change", () => slider.form.requestSubmit());
}

// Without a clipboard the link shows the text.
document.addEventListener("click", async (event) => {
  const link = event.target.closest?.("a.cs-copy");
  if (!link || !navigator.clipboard) return;
  event.preventDefault();
  const answer = await fetch(link.href).catch(() => null);
  if (!answer?.ok) return location.assign(link.href);
  await navigator.clipboard.writeText(await answer.text());
  link.textContent = "copied";
});

// A live page follows other writers while it is visible: it says what is new,
// and leaves the reader alone. Browsers have few connections for all tabs.
const content = document.querySelector("#content[data-newest]");
let source;

function notify(text, link) {
  let notice = document.querySelector("#newer");
  if (!notice) {
    notice = document.createElement("div");
    notice.id = "newer";
    notice.setAttribute("role", "status");
    content.prepend(notice);
  }
  notice.replaceChildren(text);
  if (link) {
    const a = document.createElement("a");
    a.href = link;
    a.textContent = "Show it.";
    notice.append(" ", a);
  }
}

function follow() {
  source?.close();
  if (document.hidden) return;
  const query = new URLSearchParams({ quoted: content.dataset.name });
  source = new EventSource(`/follow?${query}`);
  source.onmessage = (event) => {
    // After a deletion another conversation may have the same number.
    if (event.data === content.dataset.newest) document.querySelector("#newer")?.remove();
    else notify(`Revision ${event.data.split(" ")[0]} was saved.`, location.pathname);
  };
  source.onerror = () => notify("The connection was lost: this page may be old.");
  source.addEventListener("gone", () => notify("This name is not in the store any more."));
}

if (content) {
  follow();
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", () => source?.close());
}
