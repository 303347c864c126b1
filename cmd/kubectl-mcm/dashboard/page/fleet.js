// The fleet: all pools of both APIs, and what is not well beside them.
let wanted = ""; // the text that pools are filtered by

const fleetTitles = (state) => ["Pool", ...(state.namespace ? [] : ["Namespace"]), "Ready", "Updated", "Status",
  "Reason and next step", "Join p50 / p95", "Failed 1h", "Gone 1h"];

const joins = (load) => (load.joinP50Seconds === undefined ? "–"
  : `${span(load.joinP50Seconds)} / ${span(load.joinP95Seconds)}`);

const waits = (load) => h("div", { class: "quiet" },
  (load.waiting || []).map((w) => `${w.machines} ${w.reason}`).join(", "));

const fleetRow = (state, load, branch) => {
  const m = branch && branch.missing, kind = ["bad", "warn", "good"][rankOf(load, branch)];
  const cells = [named(load.object, null, load.api),
    ...(state.namespace ? [] : [dash(load.object.namespace)]),
    meter(load.ready, load.desired, kind), String(load.updated),
    pill(dash(branch && branch.status), kind),
    m ? h("div", {}, reasonCell(branch, load.object), (load.waiting || []).length > 1 ? waits(load) : "") : "–",
    unbroken(joins(load)), count(load.failedLastHour), String(load.goneLastHour)];
  return row(fleetTitles(state), cells, kind);
};

const count = (n) => h("span", { class: n > 0 ? "warn strong" : "" }, String(n));

// others are Clusters, and machines without a pool.
const others = (tree) => tree.items.filter((b) => !pools.includes(b.object.kind) && !b.healthy);

const otherTitles = (state) =>
  ["Object", ...(state.namespace ? [] : ["Namespace"]), "Status", "Reason and next step", "Age"];

const otherRow = (state, b) => row(otherTitles(state), [
  named(b.object, b.object.kind === "Machine" ? b.object : null, b.api),
  ...(state.namespace ? [] : [dash(b.object.namespace)]), pill(dash(b.status), shade(b.missing)),
  reasonCell(b, b.object), aged(b.created, state)], shade(b.missing));

const matches = (state, load, branch) => {
  const text = [titleOf(load.object), load.object.namespace, apiName(load.api), branch && branch.status,
    branch && branch.class, branch && branch.missing && branch.missing.reason].join(" ").toLowerCase();
  return wanted.toLowerCase().split(/\s+/).every((w) => text.includes(w));
};

const rankOf = (load, branch) => (branch && branch.missing ? rank(branch.missing) : load.ready < load.desired ? 1 : 2);

const tiles = (all) => {
  const sum = (k) => all.reduce((n, [l]) => n + l[k], 0);
  const ofRank = (n, one, many, kind) => {
    const found = all.filter(([l, b]) => rankOf(l, b) === n).length;
    return tile(String(found), found === 1 ? one : many, found ? kind : "");
  };
  return h("div", { class: "tiles" },
    tile(String(all.length), all.length === 1 ? "pool" : "pools"),
    tile(`${sum("ready")}/${sum("desired")}`, "machines ready"),
    ofRank(0, "pool needs a person", "pools need a person", "bad"), ofRank(1, "pool waits", "pools wait", "warn"),
    ofRank(2, "pool is healthy", "pools are healthy", "good"),
    tile(String(sum("failedLastHour")), "machines failed in 1h", sum("failedLastHour") ? "warn" : ""));
};

const fleetView = async (state) => {
  const [top, tree] = await Promise.all([ask("top"), ask("tree")]);
  const all = top.items.map((l) => [l, findBranch(tree, l.object)]);
  all.sort(([a, x], [b, y]) => rankOf(a, x) - rankOf(b, y) || a.object.name.localeCompare(b.object.name));
  const shown = all.filter(([l, b]) => matches(state, l, b));
  const rest = others(tree), many = `${shown.length}${shown.length < all.length ? " of " + all.length : ""}`;
  return {
    title: "Fleet",
    content: [h("h1", { tabindex: "-1" }, "Fleet"), tiles(all),
      h("label", { class: "filter" }, "Filter pools ", h("input", {
        id: "filter", type: "search", value: wanted, placeholder: "name, reason, status", autocomplete: "off",
        oninput: (e) => { wanted = e.target.value; render(); },
      })),
      shown.length ? table(`Pools (${many})`, fleetTitles(state), shown.map(([l, b]) => fleetRow(state, l, b)))
        : h("p", { class: "panel" }, all.length ? "No pool matches the filter." : "There are no pools."),
      rest.length ? table("Clusters, and machines without a pool", otherTitles(state),
        rest.map((b) => otherRow(state, b))) : ""],
  };
};
