// Search parameters in the address of the session: the query, and whether only hits are shown.

const NAMES = ["q", "only"];

/** Return the search parameters to append to other parameters; "" without a query. */
export function asked() {
  const query = new URLSearchParams(location.search);
  const kept = new URLSearchParams(NAMES.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
  return query.get("q") ? `&${kept}` : "";
}

export const isFiltering = () => asked() !== "" && new URLSearchParams(location.search).has("only");
