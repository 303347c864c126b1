// The page: which view is shown, and how it stays fresh.
const views = { "": fleetView, pool: poolView, object: objectView };
const main = document.getElementById("main");
const alertBox = document.getElementById("alert");
let state = null, shownPlace = null, turn = 0;

const route = () => {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: views[path] || fleetView, parameters: new URLSearchParams(query || "") };
};

const warn = (text) => {
  alertBox.hidden = !text;
  if (alertBox.textContent !== text) alertBox.textContent = text;
};

const keyOf = (e) => (e && main.contains(e) ? e.id || e.getAttribute("href") : null);

// put shows new content, and leaves the focus where it was; after a change of the view it is on its heading.
const put = (found, moved) => {
  const focused = document.activeElement, key = keyOf(focused), caret = focused && focused.selectionStart;
  main.replaceChildren(...found.content.flat(Infinity).filter(Boolean));
  document.title = `${found.title} – kubectl mcm dashboard`;
  if (moved && shownPlace !== null) {
    scrollTo(0, 0);
    main.querySelector("h1").focus();
  } else if (key) {
    const again = [...main.querySelectorAll("a, button, input")].find((e) => keyOf(e) === key);
    if (again) again.focus();
    if (again && again.id === "filter") again.setSelectionRange(caret, caret);
  }
};

const render = async () => {
  if (!state) return;
  const mine = ++turn, here = location.hash, moved = here !== shownPlace, { view, parameters } = route();
  try {
    if (moved) everyRow = false;
    const found = await view(state, parameters);
    if (mine !== turn) return; // a newer one is under way
    put(found, moved);
    shownPlace = here;
  } catch (e) {
    if (mine !== turn) return;
    if (e instanceof Gone) {
      const text = [crumbs(), h("h1", { tabindex: "-1" }, "Not there"), h("p", { class: "panel" }, e.message)];
      put({ title: "Not there", content: text }, moved);
      shownPlace = here;
      return;
    }
    failed(e);
  }
};

const failed = (e) => warn(e instanceof TypeError
  ? "Refresh failed: the dashboard does not answer. What is shown is of the time before; start kubectl mcm dashboard " +
    "again."
  : `Refresh failed: ${e.message}. What is shown is of the time before; it is tried again.`);

const showState = () => {
  const scope = state.namespace ? `namespace ${state.namespace}` : "all namespaces";
  document.getElementById("scope").textContent = state.selector ? `${scope}, ${state.selector}` : scope;
  document.getElementById("fresh").textContent = `${saved ? "Written" : "Read"} ${moment(state.time)}`;
  const unread = (state.unread || []).map((u) => `Not read: ${u}`);
  const failure = `Refresh failed: ${state.error}. What is shown is of ${moment(state.time)}; it is tried again.`;
  warn([...(state.error ? [failure] : []), ...unread].join("\n"));
};

// refresh asks for the state, and redraws the view where it is another one. Selected text stays.
const refresh = async () => {
  try {
    const before = state && state.time;
    state = await ask("state");
    showState();
    if (before !== state.time && !(before && String(getSelection()))) await render();
  } catch (e) {
    failed(e);
  }
};

const poll = async () => {
  if (!document.hidden) await refresh();
  setTimeout(poll, 1000 * (state ? state.pollSeconds : 5));
};

addEventListener("hashchange", render);
addEventListener("keydown", (e) => {
  const filter = document.getElementById("filter");
  if (e.key === "/" && filter && document.activeElement !== filter && !e.ctrlKey && !e.metaKey && !e.altKey) {
    e.preventDefault();
    filter.focus();
  }
});
document.addEventListener("visibilitychange", () => { if (!saved && !document.hidden) refresh(); });
if (saved) {
  refresh();
} else {
  poll();
}
