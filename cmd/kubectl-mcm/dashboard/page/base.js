// Elements are made of text only, so that no name or message becomes markup.
const h = (tag, attributes, ...children) => {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick" || name === "oninput") {
      e[name] = value;
    } else if (value !== undefined && value !== null && value !== false) {
      e.setAttribute(name, value === true ? "" : value);
    }
  }
  e.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== ""));
  return e;
};

const dash = (text) => (text === undefined || text === null || text === "" ? "–" : String(text));

const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

// span is a duration as kubectl prints it.
const span = (seconds) => {
  const s = Math.max(0, Math.floor(seconds));
  const parts = (big, bigUnit, small, smallUnit) => `${big}${bigUnit}${small ? small + smallUnit : ""}`;
  const m = Math.floor(s / 60), hours = Math.floor(m / 60), days = Math.floor(hours / 24);
  if (s < 120) return `${s}s`;
  if (m < 10) return parts(m, "m", s % 60, "s");
  if (hours < 3) return `${m}m`;
  if (hours < 8) return parts(hours, "h", m % 60, "m");
  if (hours < 48) return `${hours}h`;
  if (days < 8) return parts(days, "d", hours % 24, "h");
  return days < 730 ? `${days}d` : `${Math.floor(days / 365)}y`;
};

// offset is a duration with its two largest units, so that steps of one long wait differ.
const offset = (seconds) => {
  const s = Math.max(0, Math.floor(seconds));
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const i = units.findIndex(([, n]) => s >= n);
  if (i < 0) return "0s";
  const [big, size] = units[i], next = units[i + 1], rest = next ? Math.floor((s % size) / next[1]) : 0;
  return `${Math.floor(s / size)}${big}${rest ? rest + next[0] : ""}`;
};

const moment = (time) => (time ? time.replace("T", " ").replace(/\.\d+/, "") : "");

// age is how old something was when the clusters were read.
const age = (time, state) => (time ? span((Date.parse(state.time) - Date.parse(time)) / 1000) : "–");

const aged = (time, state) => (time ? h("time", { datetime: time, title: moment(time) }, age(time, state)) : "–");

const sameRef = (a, b) => a.kind === b.kind && a.name === b.name && a.apiVersion === b.apiVersion &&
  (a.namespace || "") === (b.namespace || "");

const titleOf = (ref) => `${ref.kind}/${ref.name}`;

const apiName = (api) => (api === "clusterapi" ? "Cluster API" : "native");

const pools = ["MachineDeployment", "MachineSet"];

// words are a reference as parameters of a URL.
const words = (ref, prefix = "") =>
  ["apiVersion", "kind", "namespace", "name"].filter((k) => ref && ref[k]).map((k) => [prefix + k, ref[k]]);

// place is the URL of a view of an object, below the pool that it belongs to.
const place = (view, ref, pool) =>
  `#/${view}?${new URLSearchParams([...words(ref), ...words(pool, "pool.")])}`;

// refOf reads a reference from the parameters of a URL.
const refOf = (parameters, prefix = "") => {
  const ref = {};
  for (const k of ["apiVersion", "kind", "namespace", "name"]) {
    if (parameters.get(prefix + k)) ref[k] = parameters.get(prefix + k);
  }
  return ref;
};

const link = (ref, pool, text) => {
  const view = !pool && pools.includes(ref.kind) ? "pool" : "object";
  return h("a", { href: place(view, ref, pool) }, text || titleOf(ref));
};

// named is an object in a column: its name, and below it what it is.
const named = (ref, pool, api) => h("div", { class: "named" }, link(ref, pool, ref.name),
  h("div", { class: "quiet" }, ref.kind === "Cluster" ? ref.kind : `${ref.kind}, ${apiName(api)}`));

const unbroken = (text) => h("span", { class: "unbroken" }, text);

// every branch of a tree with those above it.
const walk = (branches, visit, above = []) => {
  for (const b of branches || []) {
    visit(b, above);
    walk(b.children, visit, [...above, b]);
  }
};

const findBranch = (tree, ref) => {
  let found = null;
  walk(tree.items, (b) => { if (!found && !b.healthy && sameRef(b.object, ref)) found = b; });
  return found;
};

// rank orders what needs a person before what waits, and that before what is well.
const rank = (missing) => (!missing ? 2 : missing.needsPerson ? 0 : 1);

const shade = (missing) => ["bad", "warn", "good"][rank(missing)];

const pill = (text, kind) => h("span", { class: `pill ${kind}` }, text);

const table = (caption, titles, rows) =>
  h("div", { class: "scroll" }, h("table", {},
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, titles.map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, rows)));

// row is a line of a table whose first cell names it. Narrow windows show the titles beside the cells.
const row = (titles, cells, kind) =>
  h("tr", { class: kind }, cells.map((c, i) =>
    h(i === 0 ? "th" : "td", { "data-title": titles[i], scope: i === 0 ? "row" : null }, c)));

const tile = (value, text, kind) =>
  h("div", { class: `tile ${kind || ""}` }, h("b", {}, value), h("span", {}, text));

const meter = (ready, desired, kind) => {
  const bar = h("span", { class: `bar ${kind}`, "aria-hidden": "true" }, h("i", {}));
  bar.firstChild.style.width = `${desired > 0 ? Math.min(100, 100 * ready / desired) : 100}%`;
  return h("span", { class: "meter" }, bar, `${ready}/${desired}`);
};

const crumbs = (...parts) => h("nav", { "aria-label": "Breadcrumb", class: "crumbs" },
  h("a", { href: "#/" }, "Fleet"), parts.filter(Boolean).map((p) => [h("span", { "aria-hidden": "true" }, "›"), p]));
