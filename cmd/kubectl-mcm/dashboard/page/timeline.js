// The timeline of an object as a chart: a track for each object, a bar from each thing that happened until the next one
// of that object.
const mostTracks = 40;
let scaleChosen = null; // "linear" or "short", where the reader has chosen

const seconds = (time) => Date.parse(time) / 1000;

// scale maps times to parts of the width. The short one gives a wait the logarithm of its length, so that a machine
// that joined in minutes and ran for weeks shows both.
const scale = (times, short) => {
  const points = [...new Set(times)].sort((a, b) => a - b);
  const starts = [0];
  for (let i = 1; i < points.length; i++) {
    const gap = points[i] - points[i - 1];
    starts.push(starts[i - 1] + (short ? Math.log2(2 + gap) : gap));
  }
  const total = starts[starts.length - 1] || 1;
  return { points, at: (t) => starts[points.indexOf(t)] / total };
};

const isShort = (times) => {
  if (scaleChosen) return scaleChosen === "short";
  const points = [...new Set(times)].sort((a, b) => a - b);
  const longest = Math.max(...points.map((p, i) => (i ? p - points[i - 1] : 0)));
  return points.length > 2 && longest > 0.6 * (points[points.length - 1] - points[0]);
};

// tone is the colour of what happened.
const tone = (e) => {
  if (/=False|Failed|Denied|Exhausted|Unhealthy|Unknown|CrashLoop|TimedOut/.test(e.what)) return "bad";
  if (/^DeletionRequested|Terminating/.test(e.what)) return "leaving";
  return { object: "object", node: "node", event: "event" }[e.source] || "status";
};

const tracksOf = (entries) => {
  const all = new Map();
  for (const e of entries) {
    const key = JSON.stringify(e.object);
    if (!all.has(key)) all.set(key, { object: e.object, entries: [] });
    all.get(key).entries.push(e);
  }
  return [...all.values()];
};

const lane = (track, end, position) => {
  const bars = track.entries.map((e, i) => {
    const next = i + 1 < track.entries.length ? seconds(track.entries[i + 1].time) : end;
    const from = position.at(seconds(e.time)), to = position.at(next), lasts = next - seconds(e.time);
    const title = `${e.what}, ${offset(lasts)}\n${e.message || ""}`.trim();
    const bar = h("span", { class: `segment ${tone(e)}`, title },
      `${e.what} ${offset(lasts)}`);
    bar.style.left = `${100 * from}%`;
    bar.style.width = `${100 * (to - from)}%`;
    return bar;
  });
  return h("div", { class: "lane" }, bars);
};

const axis = (position, end) => {
  const first = position.points[0];
  const room = innerWidth < 720 ? 0.26 : 0.12; // what a label needs
  let last = -1;
  const ticks = [];
  for (const p of position.points) {
    const x = position.at(p);
    const close = x - last < room || 1 - x < room;
    if (close && ticks.length && p !== end) continue;
    last = x;
    const t = h("span", { class: p === end ? "tick end" : "tick" }, `${p === end ? "now " : ""}+${offset(p - first)}`);
    t.style.left = `${100 * x}%`;
    ticks.push(t);
  }
  return h("div", { class: "track" },
    h("span", { class: "label quiet" }, moment(new Date(first * 1000).toISOString())),
    h("div", { class: "axis" }, ticks));
};

const chart = (timeline) => {
  const last = timeline.entries[timeline.entries.length - 1];
  const end = seconds(last.time) + last.seconds;
  const times = [...timeline.entries.map((e) => seconds(e.time)), end];
  const short = isShort(times), position = scale(times, short), tracks = tracksOf(timeline.entries);
  return h("section", { "aria-label": "Chart of the timeline" },
    h("div", { class: "legend" }, [["object", "time stamps"], ["status", "status"], ["event", "Event"],
      ["node", "Node"],
      ["bad", "a failure or a condition that is False"], ["leaving", "deletion"]]
      .map(([kind, text]) => h("span", {}, h("i", { class: `segment ${kind}` }), text)),
    h("button", { id: "scale", onclick: () => { scaleChosen = short ? "linear" : "short"; render(); } },
      short ? "Scale: long waits are shortened" : "Scale: linear")),
    h("div", { class: "gantt", role: "img", "aria-label": "Bars of what the table below tells" },
      axis(position, end), tracks.slice(0, mostTracks).map((t) => h("div", { class: "track" },
        h("span", { class: "label", title: titleOf(t.object) }, titleOf(t.object)), lane(t, end, position)))),
    tracks.length > mostTracks ? h("p", { class: "quiet" },
      `The chart has ${mostTracks} of ${tracks.length} objects; the table has all.`) : "");
};

const entryTitles = ["Time", "After", "For", "Object", "What", "Source", "Message"];

const entryRow = (e, first) => row(entryTitles, [h("time", { datetime: e.time }, moment(e.time)),
  offset(seconds(e.time) - first), offset(e.seconds), unbroken(titleOf(e.object)),
  h("span", { class: `what ${tone(e)}` }, e.what + (e.count > 1 ? ` (${e.count} times)` : "")),
  e.source + (e.by ? ` of ${e.by}` : ""), dash(e.message)]);

const timelineOf = (timeline) => {
  if (!timeline.entries.length) return h("p", { class: "panel" }, "Nothing is known about what happened.");
  const first = seconds(timeline.entries[0].time);
  return [h("h2", {}, "Timeline"), chart(timeline),
    table(plural(timeline.entries.length, "entry").replace("entrys", "entries"), entryTitles,
      timeline.entries.map((e) => entryRow(e, first))),
    timeline.traceID ? h("p", { class: "quiet" }, "Trace ID: ", h("code", {}, timeline.traceID)) : ""];
};
