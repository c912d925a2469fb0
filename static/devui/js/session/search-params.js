// What the address asks for within the session: a query, and whether only what it finds is shown.

const NAMES = ["q", "only"];

/** Return this part of the address, to be put behind other parameters. */
export function asked() {
  const query = new URLSearchParams(location.search);
  const kept = new URLSearchParams(NAMES.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
  return query.get("q") ? `&${kept}` : "";
}

export const isFiltering = () => asked() !== "" && new URLSearchParams(location.search).has("only");
