// Keys for a page that works without them: arrows, or j and k, walk the states; [ and ]
// go to the next state with a label; / searches in the words.
const nav = document.querySelector("main > nav");
const listRows = () =>
  [...(nav?.querySelectorAll("a[href]:not(.cs-compare)") ?? [])].filter((a) => !a.closest("details:not([open]) > ul"));

function findCurrent(rows) {
  const marked = nav.querySelector("[aria-current=page]") ?? nav.querySelector("[aria-current]");
  return rows.findIndex((a) => a === document.activeElement || marked?.contains(a));
}

function go(step, wanted = () => true) {
  const rows = listRows();
  const focused = rows.indexOf(document.activeElement);
  let at = (focused < 0 ? findCurrent(rows) : focused) + step;
  while (rows[at] && !wanted(rows[at])) at += step;
  if (!rows[at]) return;
  for (const row of nav.querySelectorAll(".cs-selected")) row.classList.remove("cs-selected");
  rows[at].closest("li")?.classList.add("cs-selected");
  rows[at].click();
  rows[at].focus();
}

const hasLabel = (a) => a.parentElement.querySelector(".cs-label");
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
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let up = target; up; up = up.parentElement)
    if (up.tagName === "DETAILS") up.open = true;
  target?.scrollIntoView({ block: "center" });
}

addEventListener("hashchange", openTarget);
if (location.hash) openTarget();
const shown = nav?.querySelector("[aria-current=page]");
if (shown) {
  shown.scrollIntoView({ block: "nearest" });
  shown.querySelector("a").focus({ preventScroll: true });
}

// A live page follows other writers while it is visible: it says what is new,
// and leaves the reader alone. Browsers have few connections for all tabs.
const content = document.querySelector("#content[data-revision]");
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
    if (Number(event.data) > Number(content.dataset.revision))
      notify(`Revision ${event.data} was saved.`, location.pathname);
  };
  source.addEventListener("gone", () => {
    source.close();
    notify("This name is not in the store any more.");
  });
}

if (content) {
  follow();
  document.addEventListener("visibilitychange", follow);
}
