// Runs before the first paint, so that a chosen theme never flashes.
try {
  const theme = localStorage.getItem("devui-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is refused: the page follows the system.
}

// Who goes back or forth before the page's scripts are there would see the address change alone.
{
  const page = () => location.href.split("#")[0];
  const loaded = page();
  const early = () => page() !== loaded && location.reload();
  addEventListener("popstate", early);
  document.addEventListener("DOMContentLoaded", () => removeEventListener("popstate", early));
}
