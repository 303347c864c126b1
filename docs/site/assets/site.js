"use strict";
(() => {
  const root = document.documentElement;
  const up = root.dataset.up;
  const most = 40; // results
  const perPage = 4;

  // Storage may be refused, for example to pages without a server.
  const stored = (name, value) => {
    try {
      if (value !== undefined) localStorage.setItem(name, value);
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  };

  const theme = stored("theme");
  if (theme) root.dataset.theme = theme;

  const isDark = () =>
    (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  let waiting = null;
  const index = () => {
    waiting ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = up + "assets/index.js";
      script.onload = () => resolve(window.searchIndex.map((e) => ({
        ...e,
        lowText: e.text.toLowerCase(),
        lowTitle: e.title.toLowerCase(),
        lowHeading: (e.heading || e.title).toLowerCase(),
      })));
      script.onerror = () => reject(new Error("the index of the search cannot be read"));
      document.head.append(script);
    });
    return waiting;
  };

  const beginsWord = (text, word) => {
    const at = text.indexOf(word);
    return at === 0 || at > 0 && !/[\p{L}\p{N}]/u.test(text[at - 1]);
  };

  // score is 0 where a word is missing, or all of them if any of them will do.
  const score = (entry, words, whole, any) => {
    let sum = 0;
    for (const word of words) {
      let best = 0;
      if (entry.lowHeading.includes(word)) best = beginsWord(entry.lowHeading, word) ? 30 : 15;
      if (entry.lowTitle.includes(word)) best = Math.max(best, 12) + 2;
      if (entry.lowText.includes(word)) best += Math.min(6, entry.lowText.split(word).length);
      if (best === 0 && !any) return 0;
      sum += best;
    }
    if (sum === 0) return 0;
    if (entry.lowHeading === whole) sum += entry.heading ? 60 : 90;
    if (words.length > 1 && entry.lowText.includes(whole)) sum += 15;
    return entry.aside ? sum / 2 : sum;
  };

  const rank = (entries, words, whole, any) => {
    const pages = new Map();
    return entries
      .map((entry) => ({ entry, score: score(entry, words, whole, any) }))
      .filter((r) => r.score > 0)
      .sort((a, b) => b.score - a.score)
      .filter((r) => {
        const page = r.entry.to.split("#")[0];
        pages.set(page, (pages.get(page) || 0) + 1);
        return pages.get(page) <= perPage;
      })
      .slice(0, most);
  };

  // find returns sections with all words, or those with some if there are none.
  const find = (entries, query) => {
    const whole = query.toLowerCase().trim();
    const words = whole.split(/\s+/);
    const found = rank(entries, words, whole, false);
    if (found.length > 0 || words.length === 1) return { words, found, all: true };
    return { words, found: rank(entries, words, whole, true), all: false };
  };

  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text) element.textContent = text;
    return element;
  };

  // marked appends a text with its words marked.
  const marked = (element, text, words) => {
    const escaped = words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    text.split(new RegExp(`(${escaped.join("|")})`, "i")).forEach((part, i) => {
      element.append(i % 2 ? make("mark", "", part) : part);
    });
    return element;
  };

  const snippet = (entry, words) => {
    const places = words.map((w) => entry.lowText.indexOf(w)).filter((at) => at >= 0);
    let from = places.length ? Math.max(0, Math.min(...places) - 60) : 0;
    if (from > 0) from = entry.text.indexOf(" ", from) + 1;
    let end = from + 200;
    if (end < entry.text.length) end = Math.max(entry.text.lastIndexOf(" ", end), from + 100);
    return (from > 0 ? "… " : "") + entry.text.slice(from, end) + (end < entry.text.length ? " …" : "");
  };

  const item = (entry, words) => {
    const link = make("a");
    link.href = up + entry.to;
    const where = entry.heading ? `${entry.title}: ${entry.heading}` : entry.title;
    link.append(marked(make("span", "where"), where, words), " ", make("span", "group", entry.group));
    link.append(marked(make("span", "snippet"), snippet(entry, words), words));
    const line = make("li");
    line.append(link);
    return line;
  };

  const summary = (found, all, query) => {
    if (found.length === 0) return `Nothing has “${query}”.`;
    if (!all) return `Nothing has all words of “${query}”. These sections have some:`;
    const plural = found.length === 1 ? "section has" : "sections have";
    return `${found.length}${found.length === most ? " or more" : ""} ${plural} “${query}”.`;
  };

  const show = (panel, { words, found, all }, query) => {
    const count = make("p", "count", summary(found, all, query));
    count.setAttribute("role", "status");
    const list = make("ol");
    list.append(...found.map((r) => item(r.entry, words)));
    panel.replaceChildren(count, list);
    panel.hidden = false;
    panel.scrollTop = 0;
  };

  const remember = (query) => {
    const at = new URL(location.href);
    if (query) at.searchParams.set("q", query);
    else at.searchParams.delete("q");
    try {
      history.replaceState(null, "", at);
    } catch {
      // The address stays as it is.
    }
  };

  const search = (panel, input) => {
    const query = input.value.trim();
    remember(query);
    if (query === "") {
      panel.hidden = true;
      return;
    }
    index().then((entries) => {
      if (input.value.trim() === query) show(panel, find(entries, query), query);
    }, (error) => {
      panel.replaceChildren(make("p", "count", `Search failed: ${error.message}; build the site again with make docs.`));
      panel.hidden = false;
    });
  };

  // move puts the focus on the next result, or the one before.
  const move = (panel, input, by) => {
    const stops = [input, ...panel.querySelectorAll("a")];
    const at = stops.indexOf(document.activeElement);
    if (at < 0) return;
    stops[Math.min(Math.max(at + by, 0), stops.length - 1)].focus();
  };

  const keys = (panel, input) => (event) => {
    const typing = /^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      input.focus();
    } else if (event.key === "Escape" && !panel.hidden) {
      input.value = "";
      search(panel, input);
    } else if (event.key === "ArrowDown" && !panel.hidden) {
      move(panel, input, 1);
    } else if (event.key === "ArrowUp" && !panel.hidden) {
      move(panel, input, -1);
    } else {
      return;
    }
    event.preventDefault();
  };

  addEventListener("DOMContentLoaded", () => {
    const panel = document.getElementById("site-results");
    const form = document.getElementById("site-search");
    const input = form.elements.q;
    input.addEventListener("focus", () => index().catch(() => {}), { once: true });
    input.addEventListener("input", () => search(panel, input));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      panel.querySelector("a")?.click();
    });
    panel.addEventListener("click", (event) => {
      if (event.target.closest("a")) panel.hidden = true;
    });
    addEventListener("keydown", keys(panel, input));
    input.value = new URLSearchParams(location.search).get("q") || "";
    if (input.value) search(panel, input);

    document.getElementById("site-theme").addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      stored("theme", root.dataset.theme);
    });
    const pages = document.getElementById("site-pages");
    const menu = document.getElementById("site-menu");
    menu.addEventListener("click", () => {
      menu.setAttribute("aria-expanded", String(pages.classList.toggle("shown")));
    });
    const here = pages.querySelector("[aria-current]");
    if (here && here.offsetParent && here.offsetTop > pages.clientHeight) pages.scrollTop = here.offsetTop - 200;
  });
})();
