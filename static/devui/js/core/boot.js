// Runs before the first paint, so that a chosen theme never flashes and no row of a timeline changes its height.
try {
  const theme = localStorage.getItem("devui-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  if (localStorage.getItem("devui.session.timeline") === "everything") document.documentElement.dataset.timeline = "everything";
  // The messages that a person has sent, and the hits of the last search, which quote sessions, are not left to the next person who signs in.
  if ("signIn" in document.currentScript.dataset) {
    for (const name of Object.keys(localStorage)) {
      if (name === "devui.session.hits" || name.startsWith("devui.messages.")) localStorage.removeItem(name);
    }
  }
} catch {
  // Storage is not available: the page follows the system, and a timeline shows the conversation.
}

// Reload on Back or Forward before the page's modules have loaded; otherwise only the address would change.
{
  const page = () => location.href.split("#")[0];
  const loadedPage = page();
  const early = () => page() !== loadedPage && location.reload();
  addEventListener("popstate", early);
  document.addEventListener("DOMContentLoaded", () => removeEventListener("popstate", early));
}
