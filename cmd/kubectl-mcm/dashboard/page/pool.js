// A pool: its sets, its machines with their nodes, the unhealthy ones first.
const mostRows = 300;
let everyRow = false;

const machineTitles = ["Machine", "Status", "Reason and next step", "Node", "Set", "Age", "Class", "Provider ID"];

const childOf = (b, kind) => (b.children || []).find((c) => c.object.kind === kind);

const nodeCell = (b) => {
  const node = childOf(b, "Node");
  if (!node) return "–";
  return h("div", {}, node.object.name, h("br"), pill(node.status, node.status === "Ready" ? "good" : "warn"));
};

const machineRow = (state, pool, [b, set]) => {
  const infra = childOf(b, "MCMMachine") || {};
  return row(machineTitles, [unbroken(link(b.object, pool, b.object.name)), pill(dash(b.status), shade(b.missing)),
    reasonCell(b, pool), nodeCell(b), unbroken(set ? set.object.name : "–"), aged(b.created, state), 
    unbroken(dash(b.class || infra.class)),
    h("span", { class: "mono" }, dash(b.providerID || infra.providerID))], shade(b.missing));
};

const setTitles = ["Set", "Ready", "Status", "Reason", "Class", "Age"];

const setRow = (state, pool, b) => row(setTitles, [unbroken(link(b.object, pool, b.object.name)),
  meter(b.ready || 0, b.desired || 0, shade(b.missing)), pill(dash(b.status), shade(b.missing)),
  b.missing ? h("strong", { class: shade(b.missing) }, b.missing.reason) : "–", dash(b.class),
  aged(b.created, state)]);

const poolTiles = (load, branch) => h("div", { class: "tiles" },
  tile(`${load.ready}/${load.desired}`, "ready", load.ready < load.desired ? "warn" : "good"),
  tile(String(load.updated), "of the newest template"),
  tile(load.joinP50Seconds === undefined ? "–" : span(load.joinP50Seconds), "time to join, p50"),
  tile(load.joinP95Seconds === undefined ? "–" : span(load.joinP95Seconds), "time to join, p95"),
  tile(String(load.failedLastHour), "machines failed in 1h", load.failedLastHour ? "warn" : ""),
  tile(String(load.goneLastHour), "machines gone in 1h"),
  tile(dash(branch.class), "class", "small"));

// machinesBelow are the machines of a branch with their set.
const machinesBelow = (branch) => {
  const found = [];
  walk([branch], (b, above) => {
    if (b.object.kind === "Machine") found.push([b, above.findLast((a) => a.object.kind === "MachineSet")]);
  });
  return found.sort(([a], [b]) =>
    rank(a.missing) - rank(b.missing) || a.object.name.localeCompare(b.object.name));
};

const machineTable = (state, ref, machines) => {
  const unhealthy = machines.filter(([b]) => b.missing).length;
  const shown = everyRow ? machines : machines.slice(0, mostRows);
  if (!machines.length) return h("p", { class: "panel" }, "The pool has no machines.");
  return [table(`Machines (${machines.length}, ${unhealthy} not healthy)`, machineTitles,
    shown.map((m) => machineRow(state, ref, m))),
  shown.length < machines.length ? h("button", { id: "every", onclick: () => { everyRow = true; render(); } },
    `Show all ${machines.length}`) : ""];
};

const poolView = async (state, parameters) => {
  const ref = refOf(parameters);
  const [top, tree] = await Promise.all([ask("top"), ask("tree", [["pool", ref.name], ["all", "true"]])]);
  const branch = findBranch(tree, ref);
  if (!branch) throw new Gone(`${titleOf(ref)} does not exist any more`);
  const load = top.items.find((l) => sameRef(l.object, ref)) || {
    ready: branch.ready || 0, desired: branch.desired || 0, updated: "–", failedLastHour: "–", goneLastHour: "–",
  };
  const sets = (branch.children || []).filter((b) => b.object.kind === "MachineSet");
  return {
    title: titleOf(ref),
    content: [crumbs(titleOf(ref)),
      h("h1", { tabindex: "-1" }, titleOf(ref), " ", pill(dash(branch.status), shade(branch.missing)), " ",
        pill(apiName(branch.api), "plain")),
      h("p", { class: "quiet" }, ref.namespace ? `Namespace ${ref.namespace}. ` : "",
        h("a", { href: place("object", ref, ref) }, "Explanation and timeline of the pool")),
      poolTiles(load, branch), finding(branch.missing, state, ref), machineTable(state, ref, machinesBelow(branch)),
      sets.length ? table("Machine sets", setTitles, sets.map((b) => setRow(state, ref, b))) : ""],
  };
};
