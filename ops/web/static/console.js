// Live parts and the theme. Without this script every page still works, without live updates.
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
  // Rows that have a key keep their element wherever they move, and with it ticks and focus.
  const keyed = new Map();
  for (const child of old.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  const wanted = new Set([...fresh.children].map((child) => child.dataset.key));
  for (const [key, child] of keyed) if (!wanted.has(key)) child.remove();
  const focused = document.activeElement;
  [...fresh.childNodes].forEach((child, at) => {
    const here = old.childNodes[at];
    const known = child.nodeType === Node.ELEMENT_NODE && keyed.get(child.dataset.key);
    if (known) {
      if (known !== here) old.insertBefore(known, here || null);
      morph(known, child);
    } else if (!here) old.append(child.cloneNode(true));
    else if (here.nodeType === Node.ELEMENT_NODE && here.dataset.key) old.insertBefore(child.cloneNode(true), here);
    else morph(here, child);
  });
  while (old.childNodes.length > fresh.childNodes.length) old.lastChild.remove();
  if (focused && focused !== document.activeElement && old.contains(focused)) focused.focus();
  if (isAtEnd) old.scrollTop = old.scrollHeight;
}

// Times in the reader's zone, with UTC beside them.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const isUtc = new Date().getTimezoneOffset() === 0;
const digits = (number) => String(number).padStart(2, "0");
function localise(root) {
  if (isUtc) return;
  for (const label of root.querySelectorAll("[data-at]")) {
    const utc = label.textContent;
    const at = new Date(Number(label.dataset.at) * 1000);
    const date = utc.includes("-") ? `${digits(at.getMonth() + 1)}-${digits(at.getDate())} ` : "";
    label.textContent = `${date}${digits(at.getHours())}:${digits(at.getMinutes())}`;
    label.append(Object.assign(document.createElement("small"), { textContent: `${utc} UTC` }));
  }
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.title = `${new Date(time.dateTime).toLocaleString("sv")} ${zone}, ${time.title}`;
  }
}
localise(document);
for (const place of document.querySelectorAll(".zone")) place.textContent = isUtc ? "all times are UTC" : `times are UTC; in charts and beside relative times also those of ${zone}`;

function show(parts) {
  for (const [id, html] of Object.entries(parts)) {
    const old = document.getElementById(id);
    if (!old) continue;
    const fresh = old.cloneNode(false);
    fresh.innerHTML = html;
    localise(fresh);
    morph(old, fresh);
  }
  light();
}

// A mark that is hovered or in focus, in the list of events or in a chart, is highlighted in both.
let lit = null;
function light() {
  for (const each of document.querySelectorAll("[data-mark]")) each.classList.toggle("lit", each.dataset.mark === lit);
}
for (const kind of ["pointerover", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const mark = event.target.closest("[data-mark]");
    const now = mark ? mark.dataset.mark : null;
    if (now === lit) return;
    lit = now;
    light();
  });
}

function showPulse(state, text) {
  pulse.dataset.live = state;
  pulse.textContent = text;
}

let source = null;
function follow(address) {
  if (source) source.close();
  source = new EventSource(address);
  let last = "";
  source.addEventListener("parts", (event) => {
    show(JSON.parse(event.data));
    last = new Date().toISOString().slice(11, 19);
    showPulse("here", "live");
    count();
  });
  source.addEventListener("away", (event) => showPulse("away", `${JSON.parse(event.data)}; this is the state at ${last} UTC`));
  source.onerror = () => showPulse("away", `this node does not answer; this is the state at ${last || "the start"}${last ? " UTC" : ""}`);
}
if (document.body.dataset.live && window.EventSource) {
  follow(document.body.dataset.live);
  addEventListener("pagehide", () => source.close());
}

// A filter acts while one types: it requests the live parts again, and updates the address.
for (const form of document.querySelectorAll("form[data-instant]")) {
  let timer = 0;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
      history.replaceState(null, "", `${form.action}?${query}`);
      follow(`${form.dataset.instant}?${query}`);
      for (const other of document.querySelectorAll('form[method="post"][data-asked]')) other.action = `${other.dataset.asked}?${query}`;
    }, 250);
  });
}

// One box that ticks all shown tasks, and the number of chosen ones.
const all = document.getElementById("choose_all");
const boxes = () => [...document.querySelectorAll('#chosen tbody input[type="checkbox"]')];
function count() {
  if (!all) return;
  const chosen = boxes().filter((box) => box.checked).length;
  document.getElementById("number_chosen").textContent = `${chosen} chosen`;
  all.querySelector("input").checked = chosen > 0 && chosen === boxes().length;
  all.querySelector("input").indeterminate = chosen > 0 && chosen < boxes().length;
}
if (all) {
  all.hidden = false;
  all.querySelector("input").addEventListener("change", (event) => {
    for (const box of boxes()) box.checked = event.target.checked;
    count();
  });
  document.getElementById("chosen").addEventListener("change", count);
  count();
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
