// The data is in the page, where it was written to a file, or behind the endpoints of the server.
const kept = document.getElementById("data");
const saved = kept ? JSON.parse(kept.textContent) : null;

class Gone extends Error {}

const fetched = async (path, parameters) => {
  const query = new URLSearchParams(parameters).toString();
  const answer = await fetch(`/api/${path}${query ? "?" + query : ""}`, { cache: "no-store" });
  if (!answer.ok) {
    const text = (await answer.text()).trim();
    throw answer.status === 404 ? new Gone(text) : new Error(text);
  }
  return answer.json();
};

const fromFile = (path, parameters) => {
  if (path !== "why" && path !== "timeline") return saved[path];
  const ref = refOf(new URLSearchParams(parameters));
  const found = saved.objects.find((o) => sameRef(o.why.object, ref));
  if (!found) throw new Gone(`${titleOf(ref)} is not in this file, which explains objects of pools one by one`);
  return found[path];
};

const ask = async (path, parameters = []) => (saved ? fromFile(path, parameters) : fetched(path, parameters));
