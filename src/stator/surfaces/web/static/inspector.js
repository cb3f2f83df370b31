"use strict";
/* Keys, following, and what is fetched when it is opened. Every page works without this file. */

const find = (selector, from = document) => from.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];

/* -- what is opened is fetched into its place ------------------------------------------------- */

document.addEventListener("toggle", (event) => {
  /* Before htmx has seen the page, a click on the link would leave it. */
  if (!event.target.open || document.readyState !== "complete") return;
  find(":scope > .in > .rest > .part, :scope > .run > .rest > .part", event.target)?.click();
}, true);

/* A line that an address names may be inside a folded run: then it is where the run begins. */
const openTarget = () => {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  if (target && target.matches("details")) target.open = true;
};
addEventListener("hashchange", openTarget);
openTarget();

/* -- keys -------------------------------------------------------------------------------------- */

const CARDS = ".turn, .need, .rows > li";
const PLACES = { n: "/", s: "/sessions", p: "/project", f: "/files", c: "/cost" };
const HELP = [
  ["j k", "the next, the one before"],
  ["Enter o", "open it"],
  ["g n", "Needs you"], ["g s", "Sessions"], ["g p", "Project"], ["g f", "Files"], ["g c", "Cost"],
  ["/ Ctrl-K", "search"],
  [".", "show what is new"],
  ["?", "these keys"],
];
let going = false;

const typing = (event) => event.target.matches("input, textarea, select, [contenteditable]");

function move(step) {
  const cards = all(CARDS);
  if (!cards.length) return;
  const top = find(".top")?.offsetHeight ?? 0;
  let at = cards.indexOf(document.activeElement?.closest(CARDS));
  if (at < 0) {
    const below = cards.findIndex((card) => card.getBoundingClientRect().bottom > top + 8);
    at = step > 0 ? below : below + 1;
  } else at += step;
  const card = cards[Math.max(0, Math.min(at, cards.length - 1))];
  card.tabIndex = -1;
  card.focus({ preventScroll: true });
  card.scrollIntoView({ block: card.offsetHeight > innerHeight - top ? "start" : "nearest" });
}

function openCard() {
  const card = document.activeElement?.closest(CARDS);
  if (card && card === document.activeElement) find("a[href]", card)?.click();
}

function search(event) {
  event.preventDefault();
  find(".find input")?.focus();
}

/* Escape leaves a field as it is, where a browser would empty it; the arrow goes on to what was found. */
function leave(event) {
  const down = event.key === "ArrowDown" && event.target.matches(".search input");
  if (event.key !== "Escape" && !down) return;
  event.preventDefault();
  event.target.blur?.();
  if (down) move(1);
}

function showHelp() {
  let dialog = find("dialog.help");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.className = "help";
    dialog.setAttribute("aria-label", "Keys");
    const title = document.createElement("h2");
    title.textContent = "Keys";
    const list = document.createElement("dl");
    for (const [keys, words] of HELP) {
      const term = document.createElement("dt");
      for (const key of keys.split(" ")) {
        const shown = document.createElement("kbd");
        shown.textContent = key;
        term.append(shown, " ");
      }
      const about = document.createElement("dd");
      about.textContent = words;
      list.append(term, about);
    }
    const form = document.createElement("form");
    form.method = "dialog";
    const close = document.createElement("button");
    close.className = "btn";
    close.textContent = "Close";
    form.append(close);
    dialog.append(title, list, form);
    document.body.append(dialog);
  }
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") return search(event);
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event)) {
    return leave(event);
  }
  const gone = going;
  going = false;
  const named = find(`[data-key="${CSS.escape(event.key)}"]`); // an element names the key that clicks it
  if (named) named.click();
  else if (gone && PLACES[event.key]) location.href = PLACES[event.key];
  else if (event.key === "g") going = true;
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "o" || event.key === "Enter") openCard();
  else if (event.key === "/") search(event);
  else if (event.key === "?") showHelp();
  else if (event.key === ".") find(".news")?.click();
});

/* -- following: what is new never moves the page, a button does ---------------------------------- */

const followed = find("[data-follow]");
if (followed) follow(followed.dataset.follow);

function follow(address) {
  const source = new EventSource(address);
  let seen = 0;
  let told = false;
  const news = document.createElement("button");
  news.className = "btn main news";
  news.hidden = true;
  news.type = "button";
  const live = document.createElement("p");
  live.className = "hide";
  live.setAttribute("role", "status");
  document.body.append(news, live);
  const count = (added) => {
    seen += added;
    news.hidden = false;
    news.textContent = `${seen} new`;
    live.textContent = `${seen} new`;
  };
  source.addEventListener("commit", () => count(1));
  const moved = new Set();
  const heads = new Map();
  source.addEventListener("heads", (event) => {
    const before = moved.size;
    for (const [session, head] of Object.entries(JSON.parse(event.data).moved)) {
      const row = document.getElementById(session);
      const known = row ? Number(row.dataset.head) : heads.get(session);
      /* of a session that is not on this page, the first event only says where it is */
      if (known === undefined ? told : head > known) moved.add(session);
      heads.set(session, head);
    }
    told ||= heads.size > 0;
    if (moved.size > before) count(moved.size - before);
  });
  source.addEventListener("reset", () => count(1));
  news.addEventListener("click", async () => {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const open = new Set(all("details[open][id]").map((one) => one.id));
    const main = find("#main", page);
    for (const one of main.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = true;
    find("#main").replaceWith(document.adoptNode(main));
    htmx.process(find("#main"));
    seen = 0;
    moved.clear();
    news.hidden = true;
    find(".turn .talk > :last-child, .rows > li")?.scrollIntoView({ block: "center" });
  });
  addEventListener("pagehide", () => source.close());
}
