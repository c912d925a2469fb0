// Runs before the first paint, so that a chosen theme never flashes.
try {
  const theme = localStorage.getItem("devui-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is not available: the page follows the system.
}

// Reload on Back or Forward before the page's modules have loaded; otherwise only the address would change.
{
  const page = () => location.href.split("#")[0];
  const loadedPage = page();
  const early = () => page() !== loadedPage && location.reload();
  addEventListener("popstate", early);
  document.addEventListener("DOMContentLoaded", () => removeEventListener("popstate", early));
}
