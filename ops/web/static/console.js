// Live parts and the theme. Without this script every page works, as it was when it was loaded.
"use strict";

const said = document.getElementById("said");
const pulse = document.getElementById("pulse");

// Changes `old` into `fresh` where they differ, so that focus, selection and open details stay.
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(fresh.cloneNode(true));
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  const sentence = fresh.getAttribute("data-say");
  if (sentence && old.hasAttribute("data-say") && sentence !== old.getAttribute("data-say")) said.textContent = sentence;
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) {
    const isOurs = name === "open" && old.nodeName === "DETAILS";
    if (!fresh.hasAttribute(name) && !isOurs) old.removeAttribute(name);
  }
  const isAtEnd = old.nodeName === "PRE" && old.scrollTop + old.clientHeight >= old.scrollHeight - 4;
  while (old.childNodes.length > fresh.childNodes.length) old.lastChild.remove();
  [...fresh.childNodes].forEach((child, at) => {
    if (at < old.childNodes.length) morph(old.childNodes[at], child);
    else old.append(child.cloneNode(true));
  });
  if (isAtEnd) old.scrollTop = old.scrollHeight;
}

function show(parts) {
  for (const [id, html] of Object.entries(parts)) {
    const old = document.getElementById(id);
    if (!old) continue;
    const fresh = old.cloneNode(false);
    fresh.innerHTML = html;
    morph(old, fresh);
  }
}

function tell(state, text) {
  pulse.dataset.live = state;
  pulse.textContent = text;
}

const address = document.body.dataset.live;
if (address && window.EventSource) {
  const source = new EventSource(address);
  let last = "";
  source.addEventListener("parts", (event) => {
    show(JSON.parse(event.data));
    last = new Date().toISOString().slice(11, 19);
    tell("here", "live");
  });
  source.addEventListener("away", (event) => tell("away", `${JSON.parse(event.data)}; shown is what was known at ${last} UTC`));
  source.onerror = () => tell("away", `this node does not answer; shown is what was known at ${last || "the start"}${last ? " UTC" : ""}`);
  addEventListener("pagehide", () => source.close());
}

for (const log of document.querySelectorAll("pre[data-end]")) log.scrollTop = log.scrollHeight;

const toggle = document.getElementById("theme");
if (toggle) {
  const isDark = () => {
    const given = document.documentElement.dataset.theme;
    return given ? given === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const label = () => toggle.setAttribute("aria-pressed", String(isDark()));
  toggle.hidden = false;
  label();
  toggle.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("theme", document.documentElement.dataset.theme);
    label();
  });
}
