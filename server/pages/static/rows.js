// Elements, numbers and tables of rows, for scripts that show results.
const SVG = new Set(["svg", "rect", "path", "line", "text", "g", "title", "circle"]);

export const el = (name, attributes = {}, ...children) => {
  const made = SVG.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

const parted = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const number = (value) => parted.format(value).replaceAll(",", "\u202f");

export const clock = (seconds) => {
  if (seconds < 1) return `${Math.round(seconds * 1000)}\u00a0ms`;
  if (seconds < 10) return `${seconds.toFixed(1)}\u00a0s`;
  if (seconds < 60) return `${Math.round(seconds)}\u00a0s`;
  return `${Math.floor(seconds / 60)}\u00a0min ${Math.round(seconds % 60)}\u00a0s`;
};

const NUMERIC = /^(TINYINT|SMALLINT|INT|BIGINT|DECIMAL|FLOAT|DOUBLE)\b/;
export const isNumeric = (column) => NUMERIC.test(column.type);

const MOST_CHARS = 300;

const cell = (value, right) => {
  const made = el("td", right ? { class: "n" } : {});
  if (value === null) made.append(el("span", { class: "null" }, "NULL"));
  else {
    const text = typeof value === "object" ? JSON.stringify(value) : String(value);
    made.append(text.length > MOST_CHARS ? `${text.slice(0, MOST_CHARS)}…` : text);
    if (text.length > 40) made.title = text.slice(0, 2000);
  }
  return made;
};

// A table that scrolls by itself; `prependRow` puts a row on top and keeps so many.
export const rowsTable = (columns, rows) => {
  const right = columns.map(isNumeric);
  const row = (values) => el("tr", {}, ...values.map((value, at) => cell(value, right[at] || (!columns[at].type && typeof value === "number"))));
  const body = el("tbody", {}, ...rows.map(row));
  const heads = columns.map((column, at) => el("th", { scope: "col", ...(right[at] ? { class: "n" } : {}) }, column.name, ...(column.type ? [el("small", {}, column.type)] : [])));
  const place = el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Rows" },
    el("table", { class: "data" }, el("thead", {}, el("tr", {}, ...heads)), body));
  place.prependRow = (values, most) => {
    body.prepend(row(values));
    while (body.childElementCount > most) body.lastElementChild.remove();
  };
  return place;
};
