// Keys for a page that works without them: arrows or j and k walk the states,
// [ and ] go to the other branches of a fork, / looks in the words, ? lists them.
const rows = [...document.querySelectorAll(".cs-row a")].filter((a) => !a.closest("details:not([open])"));
let at = rows.findIndex((a) => a.closest("[aria-current]"));

function go(step) {
  if (!rows.length) return;
  at = Math.max(0, Math.min(rows.length - 1, at + step));
  rows[at].focus();
  rows[at].click();
}

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let up = target?.parentElement; up; up = up.parentElement)
    if (up.tagName === "DETAILS") up.open = true;
  target?.scrollIntoView({ block: "center" });
}

function search() {
  const field = document.querySelector("#search");
  if (field) field.focus();
}

const keys = {
  ArrowDown: () => go(1), j: () => go(1), ArrowUp: () => go(-1), k: () => go(-1),
  "/": search,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, textarea, select")) return;
  const act = keys[event.key];
  if (act && (rows.length || event.key === "/")) {
    event.preventDefault();
    act();
  }
});
addEventListener("hashchange", openTarget);
if (location.hash) openTarget();

// A live page follows other writers: it says so, and leaves the reader alone.
const content = document.querySelector("#content[data-revision]");
if (content) {
  const name = new URLSearchParams({ name: content.dataset.name });
  new EventSource(`/follow?${name}`).onmessage = (event) => {
    if (Number(event.data) <= Number(content.dataset.revision)) return;
    let notice = document.querySelector("#newer");
    if (!notice) {
      notice = document.createElement("a");
      notice.id = "newer";
      notice.setAttribute("role", "status");
      notice.href = `/name?${name}`;
      content.prepend(notice);
    }
    notice.textContent = `Revision ${event.data} was saved. Show it.`;
  };
}
