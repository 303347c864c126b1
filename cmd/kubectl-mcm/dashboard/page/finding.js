// finding shows what is missing, and what to do about it.
const finding = (m, state, pool) => {
  if (!m) return h("p", { class: "panel good" }, h("strong", {}, "Nothing is missing."));
  const facts = [
    ["Object", link(m.object, pools.includes(m.object.kind) ? null : pool)],
    ["Reason", m.reason + (m.condition ? `, of condition ${m.condition}` : "")],
    ["Since", m.since ? `${age(m.since, state)} (${moment(m.since)})` : ""],
    ["Concern", m.concern],
    ["Message", m.message],
    ["Remedy", m.remedy],
    ["Commands", (m.commands || []).length ? m.commands.map((c) => h("code", { class: "command" }, c)) : ""],
    ["Next", m.next + when(m, state)],
  ];
  return h("section", { class: `panel ${shade(m)}`, "aria-label": "What is missing" },
    h("h2", {}, `Missing: ${m.meaning}`),
    h("p", { class: "who" }, m.needsPerson ? "A person has to act." : "It passes by itself."),
    h("dl", {}, facts.filter(([, v]) => v).map(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])));
};

const when = (m, state) => {
  if (!m.nextTime) return "";
  const left = (Date.parse(m.nextTime) - Date.parse(state.time)) / 1000;
  return ` (${moment(m.nextTime)}, ${left > 0 ? "in " + span(left) : span(-left) + " ago"})`;
};

// reasonCell is the reason with the next step, and the object that lacks it where that is another one.
const reasonCell = (branch, pool) => {
  const m = branch.missing;
  if (!m) return "–";
  const other = !sameRef(m.object, branch.object);
  return h("div", { class: "reason" },
    h("strong", { class: shade(m) }, m.reason), other ? [" of ", link(m.object, pool)] : "",
    h("div", {}, m.remedy));
};
