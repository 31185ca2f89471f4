// A quick chart of a result: a line over numbers or times, bars over anything else; drawn as SVG, no library needed.
import { el, isNumeric, number } from "./rows.js";

const HEIGHT = 280, LEFT = 56, RIGHT = 12, TOP = 12, BOTTOM = 34, LETTER = 6.7;
const MOST_BARS = 40;
const TIME = /^(DATE|TIMESTAMP|TIME)/;
const KINDS = ["line", "points", "bars"];
const STEPS = [1, 5, 15, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000].map((one) => one * 1000);

const value = (raw) => (raw === null || raw === "" ? NaN : Number(raw));
const time = (raw) => Date.parse(/[zZ]$|[+-]\d\d:\d\d$/.test(raw) || !raw?.includes("T") ? raw : `${raw}Z`);

export const canDraw = (columns, rows) => rows.length > 1 && columns.some(isNumeric);

const niceStep = (span, count) => {
  const rough = span / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough);
};

const ticks = (low, high, count) => {
  const step = niceStep(high - low, count);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(Math.abs(at) < step / 1e6 ? 0 : at);
  return found;
};

const timeTicks = (first, last, count) => {
  const step = STEPS.find((one) => (last - first) / one <= count) ?? STEPS.at(-1);
  const found = [];
  for (let at = Math.ceil(first / step) * step; at <= last; at += step) found.push(at);
  return found;
};

const short = (amount) => {
  const size = Math.abs(amount);
  for (const [unit, factor] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) if (size >= factor) return `${Number((amount / factor).toPrecision(3))}${unit}`;
  return size >= 100 || Number.isInteger(amount) ? number(amount) : String(Number(amount.toPrecision(3)));
};

const shownTime = (millis, span) => {
  const text = new Date(millis).toISOString();
  return span > 2 * 86_400_000 ? text.slice(0, 10) : span > 120_000 ? text.slice(11, 16) : text.slice(11, 19);
};

export class Chart {
  constructor(columns, rows) {
    this.columns = columns;
    this.rows = rows;
    const numbers = columns.map((_, at) => at).filter((at) => isNumeric(columns[at]));
    const x = [columns.findIndex((one) => TIME.test(one.type)), columns.findIndex((one) => !isNumeric(one)), numbers.length > 1 ? numbers[0] : -1].find((at) => at >= 0) ?? -1;
    const varies = (at) => new Set(rows.map((row) => row[at])).size > 1;
    const y = numbers.find((at) => at !== x && varies(at)) ?? numbers.find((at) => at !== x) ?? numbers[0];
    const continuous = x < 0 || TIME.test(columns[x].type) || isNumeric(columns[x]);
    this.x = this.choice("Across", [["-1", "row"], ...columns.map((one, at) => [String(at), one.name])], String(x));
    this.y = this.choice("Up", numbers.map((at) => [String(at), columns[at].name]), String(y));
    this.kind = this.choice("As", KINDS.map((one) => [one, one]), continuous ? (x >= 0 && new Set(rows.map((row) => row[x])).size < rows.length ? "points" : "line") : "bars");
    this.place = el("div", { class: "drawing" });
    this.element = el("figure", { class: "chart card" }, el("div", { class: "choices" }, this.x.label, this.y.label, this.kind.label), this.place);
    this.width = 720;
    new ResizeObserver(([seen]) => {
      this.width = Math.max(280, Math.round(seen.contentRect.width));
      this.draw();
    }).observe(this.place);
  }

  choice(words, options, chosen) {
    const select = el("select", {}, ...options.map(([key, text]) => el("option", { value: key, ...(key === chosen ? { selected: "" } : {}) }, text)));
    select.addEventListener("change", () => this.draw());
    return { select, label: el("label", {}, el("span", {}, words), select) };
  }

  points() {
    const x = Number(this.x.select.value), y = Number(this.y.select.value);
    const column = x < 0 ? null : this.columns[x];
    const read = column === null ? (_, at) => at + 1 : TIME.test(column.type) ? (row) => time(row[x]) : isNumeric(column) ? (row) => value(row[x]) : (_, at) => at;
    const label = column === null ? (_, at) => String(at + 1) : (row) => (row[x] === null ? "NULL" : String(row[x]));
    return this.rows.map((row, at) => ({ x: read(row, at), y: value(row[y]), label: label(row, at) })).filter((one) => Number.isFinite(one.y));
  }

  draw() {
    const points = this.points();
    const x = Number(this.x.select.value);
    const [across, up] = [x < 0 ? "row" : this.columns[x].name, this.columns[Number(this.y.select.value)].name];
    const svg = el("svg", { class: "picture", viewBox: `0 0 ${this.width} ${HEIGHT}`, role: "img", "aria-label": `${up} by ${across}, ${points.length} points; the rows are in the table below` });
    const high = Math.max(0, ...points.map((one) => one.y)), low = Math.min(0, ...points.map((one) => one.y));
    const step = niceStep(high - low, 5);
    const top = high === low ? high + 1 : Math.ceil(high / step - 1e-9) * step;
    const toY = (amount) => TOP + (HEIGHT - TOP - BOTTOM) * (top - amount) / (top - low);
    for (const tick of ticks(low, top, 5)) {
      svg.append(el("line", { class: tick === 0 ? "axis" : "grid", x1: LEFT, x2: this.width - RIGHT, y1: toY(tick), y2: toY(tick) }), el("text", { x: LEFT - 8, y: toY(tick) + 4, "text-anchor": "end" }, short(tick)));
    }
    const isTime = x >= 0 && TIME.test(this.columns[x].type);
    if (this.kind.select.value !== "bars") this.line(svg, points, toY, isTime);
    else this.bars(svg, points, toY);
    this.place.replaceChildren(svg);
  }

  line(svg, points, toY, isTime) {
    const placed = points.filter((one) => Number.isFinite(one.x)).sort((a, b) => a.x - b.x);
    if (!placed.length) return;
    const [first, last] = [placed[0].x, placed.at(-1).x];
    const toX = (at) => LEFT + (this.width - LEFT - RIGHT) * (last === first ? 0.5 : (at - first) / (last - first));
    let taken = -Infinity;
    for (const tick of isTime ? timeTicks(first, last, this.width / 110) : ticks(first, last, this.width / 90)) {
      const text = isTime ? shownTime(tick, last - first) : short(tick);
      const half = text.length * LETTER / 2;
      const at = Math.min(toX(tick), this.width - half);
      if (at - half < taken + LETTER) continue;
      taken = at + half;
      svg.append(el("text", { x: at, y: HEIGHT - 12, "text-anchor": "middle" }, text));
    }
    const joined = this.kind.select.value === "line";
    if (joined) svg.append(el("path", { class: "stroke", d: `M${placed.map((one) => `${toX(one.x).toFixed(1)} ${toY(one.y).toFixed(1)}`).join("L")}` }));
    if (!joined || placed.length <= 80) for (const one of placed) svg.append(el("circle", { class: "fill", cx: toX(one.x), cy: toY(one.y), r: 2.6 }, el("title", {}, `${one.label}: ${one.y}`)));
  }

  bars(svg, points, toY) {
    const shown = points.slice(0, MOST_BARS);
    const step = (this.width - LEFT - RIGHT) / Math.max(1, shown.length);
    const every = Math.ceil(shown.length / Math.max(1, Math.floor((this.width - LEFT) / 74)));
    shown.forEach((one, at) => {
      const [from, to] = [toY(Math.max(0, one.y)), toY(Math.min(0, one.y))];
      svg.append(el("rect", { class: "fill", x: LEFT + at * step + step * 0.14, y: from, width: Math.min(step * 0.72, 64), height: Math.max(0.5, to - from), rx: 1.5 }, el("title", {}, `${one.label}: ${one.y}`)));
      if (at % every === 0) {
        const space = Math.max(3, Math.floor(step * every / 7));
        const text = one.label.length > space ? `${one.label.slice(0, space - 1)}…` : one.label;
        svg.append(el("text", { x: LEFT + at * step + step * 0.14 + Math.min(step * 0.72, 64) / 2, y: HEIGHT - 12, "text-anchor": "middle" }, text));
      }
    });
    if (points.length > shown.length) svg.append(el("text", { x: this.width - RIGHT, y: TOP + 2, "text-anchor": "end" }, `the first ${MOST_BARS} of ${number(points.length)}`));
  }
}
