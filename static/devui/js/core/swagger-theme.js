// Selects Swagger UI's own dark theme where DevUI's is dark. Runs after boot.js, before the first paint.
{
  const page = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    const isDark = page.dataset.theme ? page.dataset.theme === "dark" : system.matches;
    page.classList.toggle("dark-mode", isDark);
  };
  follow();
  system.addEventListener("change", follow);
}
