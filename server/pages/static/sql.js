// The SQL page's script: runs statements over the documented HTTP calls and shows rows, progress and errors as they come.
import { improve } from "./pages.js";
import { clock, el, number, rowsTable } from "./rows.js";

const form = document.querySelector("#ask");
const area = document.querySelector("#statement");
const outcome = document.querySelector("#outcome");
const running = document.querySelector("#running");
const said = document.querySelector("#progress-said");
const cancelButton = document.querySelector("#cancel");
const most = Number(form.dataset.most);
const secret = document.querySelector('meta[name="csrf-token"]').content;
const LIVE_ROWS = 300;
let editor = plainEditor();
let present = null;

function plainEditor() {
  return {
    selected: () => {
      const { selectionStart: from, selectionEnd: to, value } = area;
      if (from === to) return null;
      const before = value.slice(0, from).split("\n");
      return { text: value.slice(from, to), line: before.length - 1, column: before.at(-1).length };
    },
    set: (text) => { area.value = text; area.focus(); },
    mark: ({ line, column, fragment }) => {
      area.setAttribute("aria-invalid", "true");
      const start = area.value.split("\n").slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
      area.focus();
      area.setSelectionRange(start, start + Math.max(1, (fragment ?? "").length));
    },
    unmark: () => area.removeAttribute("aria-invalid"),
    focus: () => area.focus(),
  };
}

const call = (path, options = {}) =>
  fetch(path, { ...options, headers: { "X-CSRF-Token": secret, ...options.headers }, redirect: "error" });

// What runs: a query without end over one connection; anything else is handed in, asked about, and its rows are fetched at the end

class Run {
  constructor(part, live) {
    this.part = part;
    this.live = live;
    this.began = performance.now();
    this.stopper = new AbortController();
    this.handle = null;
    this.canceled = false;
  }

  seconds() { return (performance.now() - this.began) / 1000; }

  async ask(path, options = {}) {
    const answer = await call(path, { signal: this.stopper.signal, ...options });
    if (!answer.ok) throw Object.assign(new Error("refused"), { problem: await problemOf(answer) });
    return answer;
  }

  async start() {
    const asked = { statement: this.part.text, database: form.elements.database.value };
    if (this.live) return this.ask(form.dataset.live, { method: "POST", body: new URLSearchParams(asked) });
    const headers = { "Content-Type": "application/json", "Accept": "application/json" };
    const body = JSON.stringify({ ...asked, async: true, max_rows: most + 1 });
    // Not broken off: a statement whose handle nobody knows could not be canceled.
    let status = await (await this.ask("/sql", { method: "POST", body, headers, signal: null })).json();
    this.handle = status.statementId;
    if (this.canceled) await this.letGo();
    while (status.result === undefined && status.error === undefined) {
      if (this.seconds() > 0.3) showProgress(this, status);
      status = await (await this.ask(`/statements/${this.handle}?wait=${this.seconds() > 10 ? 1 : 0.4}`)).json();
    }
    if (status.error) throw Object.assign(new Error("failed"), { problem: status.error });
    return this.ask(status.result, { headers: { Accept: "application/json" } });
  }

  cancel() {
    this.canceled = true;
    this.stopper.abort();
    return this.letGo();
  }

  // Whatever it still does ends, and what is kept of it goes; also when the page is left.
  async letGo() {
    const handle = this.handle;
    this.handle = null;
    if (handle) await call(`/statements/${handle}`, { method: "DELETE", keepalive: true }).catch(() => {});
  }
}

const problemOf = async (answer) => {
  try { return await answer.json(); } catch { return { title: `The server answered ${answer.status}.`, detail: "", errorClass: "" }; }
};

// Lines of a body, as they come
async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      yield* lines;
    }
    if (rest) yield rest;
  } finally {
    await reader.cancel().catch(() => {});
  }
}

async function runStatement() {
  if (present) return;
  const selected = editor.selected();
  const part = selected ?? { text: area.value, line: 0, column: 0 };
  if (!part.text.trim()) { editor.focus(); return; }
  const run = present = new Run(part, form.elements.live.checked);
  editor.unmark();
  begin(run);
  try {
    const answer = await run.start();
    await (run.live ? showLive(run, answer) : showRows(run, answer));
  } catch (failure) {
    if (run.canceled) note("Canceled", `The statement was canceled after ${clock(run.seconds())}.`);
    else if (failure.problem) showProblem(failure.problem, run.part);
    else note("The server does not answer", "The connection broke; the statement may have ended or not.");
  } finally {
    end(run);
  }
}

function begin(run) {
  form.classList.add("busy");
  cancelButton.hidden = false;
  cancelButton.textContent = run.live ? "Stop" : "Cancel";
  running.hidden = false;
  running.replaceChildren(el("span", { class: "state busy" }, run.live ? "following" : "running"));
  said.textContent = "The statement runs.";
}

function end(run) {
  run.letGo();
  present = null;
  form.classList.remove("busy");
  cancelButton.hidden = true;
  running.hidden = true;
  running.replaceChildren();
  freshHistory();
}

function showProgress(run, { state, seconds, progress }) {
  const waits = state === "PENDING";
  const parts = [el("span", { class: `state ${waits ? "idle" : "busy"}` }, waits ? "waiting for its turn" : progress.stage || "running"), el("span", {}, clock(seconds))];
  if (progress.total) parts.push(el("span", {}, `${number(progress.done)} of ${number(progress.total)}`));
  const stages = progress.stages.map((stage) =>
    el("li", {},
      el("span", { class: "name" }, `Stage ${stage.id} `, el("small", {}, stage.name.split(" at ")[0])),
      bar(stage.done / (stage.total || 1), (stage.done + stage.active) / (stage.total || 1)),
      el("span", { class: "n" }, `${stage.done} of ${stage.total}`)));
  if (!stages.length && progress.total) parts.push(bar(progress.done / progress.total));
  running.replaceChildren(el("p", { class: "line" }, ...parts), el("ul", { class: "stages" }, ...stages));
}

function bar(share, started = 0) {
  const svg = el("svg", { class: "bar", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const [name, width] of [["track", 1], ["second", started], ["fill", share]]) {
    svg.append(el("rect", { class: name, width: 100 * Math.min(1, width), height: 6 }));
  }
  return svg;
}

// What came of it

async function showRows(run, answer) {
  let columns = [];
  const rows = [];
  let more = false;
  let tail = "";
  for await (const line of linesOf(answer.body)) {
    if (!columns.length && line.startsWith('{"columns"')) {
      const end = line.endsWith("]}") ? line : `${line}]}`;
      columns = JSON.parse(end).columns;
    } else if (line.startsWith("[")) {
      if (rows.length === most) { more = true; break; }
      rows.push(JSON.parse(line.endsWith(",") ? line.slice(0, -1) : line));
    } else tail += line;
  }
  const seconds = run.seconds();
  const head = el("h2", { id: "result-head" }, plural(rows.length, "row"), el("small", {}, `${more ? " · the first of more" : ""} · ${clock(seconds)}`));
  const tools = el("div", { class: "result-tools" });
  const files = /^\s*(--.*\n\s*)*(select|with|values|\()/i.test(run.part.text) ? filesForm(run) : null;
  const section = el("section", { class: "result", "aria-labelledby": "result-head" }, el("div", { class: "section-head" }, head, tools));
  if (rows.length) section.append(rowsTable(columns, rows));
  else section.append(el("p", { class: "empty slim" }, "No rows. The columns are ", ...columns.flatMap((one, at) => [at ? ", " : "", el("code", {}, `${one.name} ${one.type}`)]), "."));
  await addChart(section, tools, columns, rows);
  if (files) tools.append(files);
  outcome.replaceChildren(section);
  said.textContent = `${plural(rows.length, "row")}${more ? ", the first of more" : ""}, after ${clock(seconds)}.`;
  if (tail.includes('"error"')) showProblem(JSON.parse(`{"x":[${tail}`).error, run.part, true);
}

async function addChart(section, tools, columns, rows) {
  const { Chart, canDraw } = await import("./chart.js");
  if (!canDraw(columns, rows)) return;
  const button = el("button", { type: "button", class: "small", "aria-pressed": "false" }, "Chart");
  let chart = null;
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    if (on && !chart) {
      chart = new Chart(columns, rows).element;
      section.insertBefore(chart, section.children[1]);
    } else if (chart) chart.hidden = !on;
  });
  tools.append(button);
}

function filesForm(run) {
  const made = document.querySelector("#files").content.firstElementChild.cloneNode(true);
  made.elements.statement.value = run.part.text;
  made.elements.database.value = form.elements.database.value;
  return made;
}

async function showLive(run, answer) {
  let columns = null;
  let table = null;
  let count = 0;
  let counted = 0;
  const perSecond = [];
  const head = el("h2", { id: "result-head" }, "Waiting for rows");
  const pulse = el("svg", { class: "pulse", viewBox: "0 0 60 20", preserveAspectRatio: "none", role: "img", "aria-label": "Rows a second over the last minute" });
  const place = el("div", {});
  outcome.replaceChildren(el("section", { class: "result", "aria-labelledby": "result-head" }, el("div", { class: "section-head" }, head, pulse), place));
  const tick = setInterval(() => {
    perSecond.push(count - counted);
    counted = count;
    drawPulse(pulse, perSecond.splice(0, perSecond.length - 60) && perSecond);
  }, 1000);
  const title = (words) => head.replaceChildren(plural(count, "row"), el("small", {}, ` · ${words}`));
  try {
    for await (const line of linesOf(answer.body)) {
      if (!line) continue;
      const row = JSON.parse(line);
      if (row.$error) { showProblem(row.$error, run.part, count > 0); return; }
      if (!columns) {
        columns = Object.keys(row).map((name) => ({ name, type: "" }));
        table = rowsTable(columns, []);
        place.replaceChildren(table);
      }
      count += 1;
      table.prependRow(Object.values(row), LIVE_ROWS);
      title(`live, the newest ${number(Math.min(count, LIVE_ROWS))} shown`);
    }
    title(`ended after ${clock(run.seconds())}`);
  } catch (failure) {
    if (!run.canceled) throw failure;
    title(`stopped after ${clock(run.seconds())}`);
  } finally {
    clearInterval(tick);
    said.textContent = `${plural(count, "row")} came.`;
  }
}

function drawPulse(svg, values) {
  const highest = Math.max(1, ...values);
  svg.replaceChildren(...values.map((value, at) => {
    const height = Math.max(value ? 1 : 0.4, 19 * value / highest);
    return el("rect", { class: "fill", x: 60 - values.length + at + 0.15, y: 20 - height, width: 0.7, height });
  }));
}

function showProblem(problem, part, added = false) {
  const line = problem.line ? problem.line + part.line : null;
  const column = problem.line === 1 ? problem.column + part.column : problem.column;
  const block = el("div", { class: "trouble", id: "trouble", role: "alert" }, el("h2", {}, problem.title), el("p", {}, problem.detail));
  const text = line ? area.value.split("\n")[line - 1] : undefined;
  if (text !== undefined) {
    const from = Math.max(0, column - 1);
    const to = from + Math.max(1, (problem.fragment ?? "").split("\n")[0].length);
    block.append(el("pre", { class: "place" }, el("span", { class: "where" }, `${line}:${column}`), " ", el("code", {}, text.slice(0, from), el("mark", {}, text.slice(from, to) || " "), text.slice(to))));
    editor.mark({ ...problem, line, column });
  }
  if (problem.completed?.length) block.append(el("p", { class: "fine" }, `Took effect before it: ${problem.completed.join("; ")}`));
  block.append(el("p", { class: "fine" }, problem.errorClass));
  if (added) outcome.append(block);
  else outcome.replaceChildren(block);
}

function note(title, text) {
  outcome.replaceChildren(el("div", { class: "note plain" }, el("p", {}, el("strong", {}, `${title}. `), text)));
  said.textContent = text;
}

const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

// Pages made by the server, in place

const documentOf = async (answer) => new DOMParser().parseFromString(await answer.text(), "text/html");

async function explain() {
  if (present || !area.value.trim()) return;
  editor.unmark();
  form.classList.add("busy");
  said.textContent = "The statement is being planned.";
  try {
    const data = new FormData(form);
    data.set("action", "explain");
    data.set("part", "yes");
    const page = await documentOf(await fetch(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(data), redirect: "error" }));
    const found = page.querySelector("#outcome");
    if (!found) return;
    outcome.replaceChildren(...found.childNodes);
    improve(outcome);
    const [line, column] = (outcome.querySelector(".where")?.textContent ?? "").split(":").map(Number);
    if (line) editor.mark({ line, column, fragment: outcome.querySelector("mark").textContent, detail: outcome.querySelector(".trouble p").textContent });
    said.textContent = outcome.querySelector("h2")?.textContent ?? "";
  } finally {
    form.classList.remove("busy");
  }
}

async function freshHistory() {
  try {
    const page = await documentOf(await fetch(form.getAttribute("action"), { redirect: "error" }));
    const place = document.querySelector("#history");
    const [list, found] = [place, page].map((one) => one.querySelector("#history .past, .past"));
    if (list && found) list.replaceChildren(...found.childNodes);
    else place.replaceChildren(...page.querySelector("#history").childNodes);
    improve(place);
    filterHistory();
  } catch { /* the next run tries again */ }
}

function filterHistory() {
  const field = document.querySelector("#history-filter");
  if (!field) return;
  field.closest("[hidden]")?.removeAttribute("hidden");
  const wanted = field.value.trim().toLowerCase();
  for (const row of document.querySelectorAll("#history li")) row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
}

const complete = async (text, position) => {
  const start = Math.max(0, position - 4000);
  const near = text.slice(start, position + 2000);
  const query = new URLSearchParams({ text: near, position: [...near.slice(0, position - start)].length, database: form.elements.database.value });
  try {
    const answer = await fetch(`${form.dataset.complete}?${query}`, { redirect: "error" });
    return answer.ok ? (await answer.json()).candidates : [];
  } catch { return []; }
};

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (event.submitter?.value === "explain") explain();
  else runStatement();
});
area.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    if (event.shiftKey) explain();
    else runStatement();
  }
});
cancelButton.addEventListener("click", () => present?.cancel());
addEventListener("pagehide", () => present?.cancel());
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-statement]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  editor.unmark();
  editor.set(link.querySelector("code").textContent);
  form.scrollIntoView({ block: "nearest" });
});

document.querySelector("#history").addEventListener("input", filterHistory);
filterHistory();

if (form.dataset.editor) {
  const { edit } = await import(form.dataset.editor);
  editor = edit(area, { nonce: form.dataset.nonce, complete, run: runStatement, explain });
}
