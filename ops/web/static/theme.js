// Before the page is drawn: the theme that was chosen on this machine; without one, that of the system.
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;
