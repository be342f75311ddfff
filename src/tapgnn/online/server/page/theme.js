// The colours of a page: those of the system, light or dark, as chosen last on this machine.

const button = document.getElementById("theme");
const THEMES = [["", "system"], ["light", "light"], ["dark", "dark"]];
function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  const words = `Colours: ${THEMES.find(([theme]) => theme === name)[1]}`;
  button.setAttribute("aria-label", words);
  button.title = words;
}
button.addEventListener("click", () => {
  const place = THEMES.findIndex(([theme]) => theme === (document.documentElement.dataset.theme ?? ""));
  const next = THEMES[(place + 1) % THEMES.length][0];
  localStorage.setItem("tapgnn-theme", next);
  setTheme(next);
});
setTheme(THEMES.some(([theme]) => theme === localStorage.getItem("tapgnn-theme")) ? localStorage.getItem("tapgnn-theme") : "");
