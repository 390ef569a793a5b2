"use strict";
// Draws what the server answers. Charts are black, grey and one brown, told apart by shape, for print and for everybody.

const INK = "#111", BAND = "#b4b4b4", WINDOW = "#f3e1c4", EDGE = "#a05a00";
const MARKS = ["circle", "square-open", "diamond", "triangle-up-open", "cross", "star-open", "triangle-down", "x"];
const INKS = ["#111", "#0a4a8f", "#a05a00", "#5a5a5a"];
const SMALL = window.innerWidth < 600;
const CONFIG = { responsive: true, displaylogo: false, displayModeBar: !SMALL,
  modeBarButtonsToRemove: ["lasso2d", "select2d", "toImage", "sendChartToCloud", "sendDataToCloud"] };

/** Texts come from plans and instruments, and the library reads tags in them. */
function plain(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function layout(more) {
  return { font: { family: "system-ui, sans-serif", size: SMALL ? 11 : 13, color: INK },
    margin: SMALL ? { l: 55, r: 10, t: 12, b: 48 } : { l: 70, r: 16, t: 32, b: 48 }, showlegend: false, paper_bgcolor: "#fff", plot_bgcolor: "#fff", hovermode: "closest",
    ...more };
}

function axis(title, unit, more) {
  return { title: { text: title ? plain(title) : "" }, automargin: true, ticksuffix: unit === "%" ? " %" : unit,
    tickangle: 0, exponentformat: unit === "%" ? "none" : "SI", minexponent: 1, gridcolor: "#e4e4e4", zerolinecolor: "#bbb", linecolor: "#888", ...more };
}

async function ask(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer.json();
}

function say(place, text) {
  Plotly.purge(place);
  place.textContent = text;
  place.classList.add("said");
}

/** Draws a capture's waveform; a zoom asks for the columns of what is then seen. */
async function drawWaveform(place, address, buttons) {
  const columns = () => Math.max(200, Math.min(2000, Math.round(place.clientWidth || 800)));
  let segment = 0, windows = [], asked = 0;

  async function show(start, stop) {
    const mine = (asked += 1);
    const span = start === undefined ? "" : `&start=${start}&stop=${stop}`;
    let data;
    try {
      data = await ask(`${address}waveform.json?segment=${segment}&columns=${columns()}${span}`);
    } catch (error) {
      say(place, `No waveform: ${error.message}.`);
      return;
    }
    if (mine !== asked) return;
    const unit = data.unit ? ` ${data.unit}` : "";
    const hover = { hovertemplate: `%{y:.4s}${unit} at %{x:.6s}${data.x_unit}<extra>%{fullData.name}</extra>` };
    const few = data.x.length < 150;
    const traces = [
      { name: "least", x: data.x, y: data.low, mode: "lines", line: { color: BAND, width: 1 }, ...hover },
      { name: "greatest", x: data.x, y: data.high, mode: "lines", line: { color: BAND, width: 1 }, fill: "tonexty",
        fillcolor: BAND, ...hover },
      { name: "mean", x: data.x, y: data.mean, mode: few ? "lines+markers" : "lines", line: { color: INK, width: 1.2 },
        marker: { size: 4 }, ...hover },
    ];
    const whole = data.n_samples * data.step;
    const range = [data.first * data.step, Math.min(whole, data.last * data.step)];
    const shapes = windows.filter((one) => one.segment === segment).map((one) => ({ type: "rect", layer: "below",
      x0: one.start, x1: one.stop, yref: "paper", y0: 0, y1: 1, fillcolor: WINDOW, line: { color: EDGE, width: 1 } }));
    await Plotly.react(place, traces, layout({ height: 340, shapes, dragmode: "zoom",
      xaxis: axis(data.x_unit === "s" ? "time from the segment's begin" : "sample", data.x_unit === "s" ? "s" : "", { range }),
      yaxis: axis(data.title, data.unit, { fixedrange: true }) }), CONFIG);
    place.dataset.first = data.first;
    place.dataset.last = data.last;
    if (buttons) {
      buttons.text.textContent = `segment ${segment + 1} of ${data.n_segments}`;
      buttons.before.disabled = segment === 0;
      buttons.after.disabled = segment + 1 >= data.n_segments;
    }
  }

  await show();
  if (!place.on) return {};
  let later;
  place.on("plotly_relayout", (change) => {
    const start = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0];
    const stop = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1];
    clearTimeout(later);
    if (start !== undefined && stop !== undefined) later = setTimeout(() => show(Math.max(0, start), stop), 60);
    else if (change["xaxis.autorange"]) later = setTimeout(() => show(), 60);
  });
  if (buttons) {
    buttons.before.onclick = () => { segment -= 1; show(); };
    buttons.after.onclick = () => { segment += 1; show(); };
    buttons.whole.onclick = () => show();
  }
  const runs = await ask(`${address}runs.json`);
  windows = runs.windows;
  await show();
  return runs;
}

function drawRuns(place, runs) {
  const mean = runs.energy_mean_j;
  if (runs.energies_j.length < 2) {
    say(place, "Fewer than two runs: no spread to show.");
    return;
  }
  const off = runs.energies_j.map((value) => (value / mean - 1) * 100);
  const numbers = off.map((_, k) => k + 1);
  const texts = runs.energies_j.map((value) => `${d3(value)}J`);
  Plotly.newPlot(place, [
    { name: "run", x: numbers, y: off, text: texts, mode: "markers", marker: { color: INK, size: 7 },
      hovertemplate: "run %{x}: %{text}, %{y:.3f} %<extra></extra>" },
    { name: "all", type: "box", y: off, xaxis: "x2", boxpoints: false, line: { color: INK }, fillcolor: BAND,
      hoverinfo: "y" },
  ], layout({ height: 280, xaxis: axis("run", "", { domain: [0, 0.86], range: [0.4, off.length + 0.6],
      dtick: Math.ceil(off.length / 10) }),
    xaxis2: { domain: [0.9, 1], showticklabels: false, fixedrange: true },
    yaxis: axis("energy off the mean", "%", { zeroline: true }) }), CONFIG);
}

/** A number with four digits and the prefix that suits it. */
function d3(value) {
  const step = Math.min(3, Math.max(-5, Math.floor(Math.log10(Math.abs(value) || 1) / 3)));
  return `${(value / 10 ** (3 * step)).toPrecision(4)} ${["f", "p", "n", "µ", "m", "", "k", "M", "G"][step + 5]}`;
}

function tall(n) {
  return Math.max(200, (SMALL ? 32 : 24) * n + 110);
}

function rows(items, more) {
  return { automargin: true, autorange: "reversed", tickvals: items.map((_, k) => k), gridcolor: "#eee", zeroline: false,
    ticktext: items.map((one) => (SMALL ? plain(one.name).replace(" (", "<br>(") : plain(one.name))), ...more };
}

async function drawStatistics(place, spread) {
  const data = await ask(place.dataset.address);
  const items = data.items.filter((one) => one.mean !== null);
  if (!items.length) {
    say(place, "No item is done yet.");
    say(spread, "");
    return;
  }
  document.getElementById("more").textContent = data.n_more ? `${data.n_more} more: choose a board or an operation.` : "";
  const boards = [...new Set(items.map((one) => one.board))];
  const traces = boards.map((board, n) => {
    const at = items.map((one, k) => ({ ...one, k })).filter((one) => one.board === board);
    return { name: plain(board), x: at.map((one) => one.mean), y: at.map((one) => one.k), mode: "markers",
      customdata: at.map((one) => one.item), marker: { symbol: MARKS[n % MARKS.length], color: INKS[n % INKS.length], size: 8 },
      error_x: { type: "data", array: at.map((one) => one.expanded ?? 0), color: INKS[n % INKS.length], thickness: 1.5 },
      hovertemplate: `%{x:.5s}${data.unit}<extra>%{fullData.name}</extra>` };
  });
  const signs = items.some((one) => one.mean <= 0);
  await Plotly.newPlot(place, traces, layout({ height: tall(items.length), showlegend: boards.length > 1,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom" }, xaxis: axis(data.title, data.unit,
      { type: signs ? "linear" : "log", nticks: SMALL ? 3 : 6 }), yaxis: rows(items) }), CONFIG);
  place.on("plotly_click", (click) => { location.href = place.dataset.items + click.points[0].customdata; });

  const spreads = items.filter((one) => one.spread);
  if (!spreads.length) {
    say(spread, "No item has two runs or more.");
    return;
  }
  const percent = (name) => spreads.map((one) => one.spread[name] * 100);
  await Plotly.newPlot(spread, [
    { name: "quartiles", type: "box", orientation: "h", y: spreads.map((_, k) => k), q1: percent("low"),
      median: percent("median"), q3: percent("high"), lowerfence: percent("low"), upperfence: percent("high"),
      whiskerwidth: 0, line: { color: INK, width: 1 }, fillcolor: BAND, hoverinfo: "x" },
    { name: "standard deviation", x: spreads.map(() => 0), y: spreads.map((_, k) => k), mode: "markers",
      marker: { color: EDGE, size: 5 }, error_x: { type: "data", array: percent("std"), color: EDGE, thickness: 1.5 },
      hovertemplate: "± %{error_x.array:.3f} %<extra></extra>" },
  ], layout({ height: tall(spreads.length), xaxis: axis("energy off the mean", "%"), yaxis: rows(spreads) }), CONFIG);
}

async function drawDrift(place, over) {
  const data = await ask(place.dataset.address);
  if (!data.series.length) {
    say(place, "The campaign has no reference and no baseline that is done.");
    return;
  }
  const draw = () => Plotly.react(place, data.series.map((one, n) => ({
    name: plain(one.name), x: one.points.map((point) => point[over.value]), mode: "lines+markers",
    y: one.points.map((point) => (point.ratio === null ? null : point.ratio * 100)),
    error_y: { type: "data", array: one.points.map((point) => (point.error ?? 0) * 100), thickness: 1 },
    text: one.points.map((point) => `${d3(point.value)}${data.unit}`), marker: { symbol: MARKS[n % MARKS.length], size: 7 },
    line: { color: INKS[n % INKS.length], width: 1, dash: ["solid", "dash", "dot"][Math.floor(n / INKS.length) % 3] },
    hovertemplate: "%{text}, %{y:.3f} %<extra>%{fullData.name}</extra>",
  })), layout({ height: 360 + 18 * data.series.length, showlegend: true, legend: { orientation: "h", y: -0.2 },
    xaxis: { ...axis(over.value === "utc" ? "time (UTC)" : "attempt in the order they were taken", ""),
      type: over.value === "utc" ? "date" : "linear" },
    yaxis: axis(`${data.title} off its series' mean`, "%", { zeroline: true }) }), CONFIG);
  over.onchange = draw;
  await draw();
}

async function begin() {
  const at = (id) => document.getElementById(id);
  if (at("waveform")) {
    const runs = await drawWaveform(at("waveform"), at("waveform").dataset.address,
      { before: at("before"), after: at("after"), whole: at("whole"), text: at("segment") });
    at("runs-reason").textContent = runs.reason ?? "";
    if (runs.energies_j) drawRuns(at("runs"), runs);
  }
  if (at("statistics")) await drawStatistics(at("statistics"), at("spread"));
  if (at("drift")) await drawDrift(at("drift"), at("over"));
}

begin();
