// An object: the steps to what was asked for, what is missing, and the timeline.
const marks = { Done: "✓", Missing: "!", Later: "○" };

const stepItem = (s, state) => h("li", { class: s.state.toLowerCase() },
  h("span", { class: "mark", "aria-hidden": "true" }, marks[s.state] || "?"),
  h("div", {}, h("strong", {}, s.name), " ", h("span", { class: "quiet" }, s.state.toLowerCase(),
    s.since ? [" since ", aged(s.since, state)] : ""),
  h("div", {}, s.reason ? h("strong", {}, `${s.reason}: `) : "", s.message || "")));

const consolesOf = (e, state) => (e.consoles || []).map((c) => h("section", { class: "panel warn" },
  h("h2", {}, `Console of ${c.machine}: ${c.summary}`), h("p", {}, c.remedy),
  c.line ? h("code", { class: "command" }, c.line) : "",
  h("p", { class: "quiet" }, "read ", aged(c.read, state), " ago")));

const objectView = async (state, parameters) => {
  const ref = refOf(parameters), pool = refOf(parameters, "pool.");
  const [e, timeline] = await Promise.all([ask("why", words(ref)), ask("timeline", words(ref))]);
  const inPool = pool.kind && !sameRef(pool, ref) ? pool : null;
  return {
    title: titleOf(e.object),
    content: [
      crumbs(pools.includes(pool.kind) ? link(pool) : "", inPool || !pool.kind ? titleOf(e.object) : "why"),
      h("h1", { tabindex: "-1" }, titleOf(e.object), " ", e.phase ? pill(e.phase, shade(e.missing)) : "", " ",
        pill(apiName(e.api), "plain")),
      h("p", { class: "quiet" }, e.object.namespace ? `Namespace ${e.object.namespace}. ` : "",
        e.created ? ["Created ", aged(e.created, state), " ago."] : ""),
      finding(e.missing, state, pool.kind ? pool : null), consolesOf(e, state),
      h("h2", {}, "Steps"), h("ol", { class: "steps" }, e.steps.map((s) => stepItem(s, state))), timelineOf(timeline),
    ],
  };
};
