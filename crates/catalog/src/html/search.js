// Finds servers and tools by the beginnings of the words of their names. The index comes in pieces,
// each a script named by two letters, so that a page opened from a disk can load what it needs.
"use strict";
(() => {
  const SHOWN_MAX = 50;
  const pieces = new Set(document.currentScript.dataset.pieces.split(" "));
  const base = document.currentScript.src.replace(/search\.js$/, "search/");
  const loaded = new Map();
  const box = document.getElementById("search");
  const input = document.getElementById("words");
  const said = document.getElementById("said");
  const answers = document.getElementById("answers");

  window.tollgateFound = (piece, rows) => loaded.get(piece).take(rows);

  const load = (piece) => {
    if (!pieces.has(piece)) return Promise.resolve([]);
    if (!loaded.has(piece)) {
      const entry = {};
      entry.rows = new Promise((take) => { entry.take = take; });
      loaded.set(piece, entry);
      const script = document.createElement("script");
      script.src = base + piece + ".js";
      script.onerror = () => entry.take([]);
      document.head.append(script);
    }
    return loaded.get(piece).rows;
  };

  const cut = (text) =>
    text.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase().split(/[^a-z0-9]+/).filter(Boolean);

  const weigh = (asked, row) => {
    const [, name, server] = row;
    const own = cut(name);
    const whose = cut(server ?? "");
    let sum = server ? 0 : 5;
    for (const word of asked) {
      if (own.includes(word)) sum += 100;
      else if (own.some((w) => w.startsWith(word))) sum += 70;
      else if (whose.some((w) => w.startsWith(word))) sum += 40;
      else return -1;
    }
    return sum - own.length;
  };

  const element = (tag, text, className) => {
    const made = document.createElement(tag);
    made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  const show = (rows) => {
    answers.replaceChildren(...rows.map(([path, name, server, does, risk, category]) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = path;
      link.append(element("code", name));
      item.append(link, " ");
      if (risk) item.append(element("span", risk, "risk " + risk), " ");
      if (category) item.append(element("span", category, "kind"), " ");
      if (server) item.append(element("span", server, "kind"));
      item.append(element("p", does));
      return item;
    }));
  };

  let turn = 0;
  const ask = async () => {
    const mine = ++turn;
    const asked = cut(input.value).filter((word) => word.length > 1);
    if (asked.length === 0) {
      said.textContent = "";
      show([]);
      return;
    }
    const longest = asked.reduce((a, b) => (b.length > a.length ? b : a));
    const rows = await load(longest.slice(0, 2));
    if (mine !== turn) return;
    const found = rows.map((row) => [weigh(asked, row), row]).filter(([sum]) => sum >= 0);
    found.sort((a, b) => b[0] - a[0] || (a[1][0] < b[1][0] ? -1 : 1));
    said.textContent = found.length > SHOWN_MAX ? `the best ${SHOWN_MAX} of ${found.length}` : `${found.length} found`;
    show(found.slice(0, SHOWN_MAX).map(([, row]) => row));
  };

  box.hidden = false;
  input.addEventListener("input", ask);
})();
