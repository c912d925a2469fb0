// Search parameters in the address of the session: the query, and whether only hits are shown.

const NAMES = ["q", "only"];

/** Return the search parameters to append to other parameters; "" without a query. */
export function searchParams() {
  const query = new URLSearchParams(location.search);
  const params = new URLSearchParams(NAMES.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
  return query.get("q") ? `&${params}` : "";
}

export const isFiltering = () => searchParams() !== "" && new URLSearchParams(location.search).has("only");
