/* A trajectory with a slider for time. Draws data of the schema in content.py, wherever they come from:
     tutelagePage.render(data)      everything anew, at the first time
     tutelagePage.setTime(index)    the marker, the heat maps and the words at one recorded time
   Needs Plotly and the elements of template.html. */
const tutelagePage = (() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const SETTINGS = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  const LARGEST_WITH_NUMBERS = 6; // rows or columns beyond which numbers in cells are too small to read
  const SECONDS = 12; // that playing takes
  let data = null;
  let index = 0;
  let playing = null; // the frame that was asked for, while playing

  // Colours come from the style sheet, so that charts follow light, dark and paper.
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const show = (x, digits) => (x === null ? "–" : String(Number(x.toPrecision(digits))));

  // A chart follows the size of its element a moment later; paper does not wait, so there its size is stated.
  function draw(id, traces, more) {
    const { clientWidth: width, clientHeight: height } = byId(id);
    Plotly.react(id, traces, layout(matchMedia("print").matches ? { ...more, width, height } : { ...more, autosize: true }), SETTINGS);
  }

  function layout(more) {
    const axis = { gridcolor: colour("line"), zeroline: false, linecolor: colour("soft"), automargin: true, fixedrange: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("ink"), family: getComputedStyle(document.body).fontFamily, size: 12 },
      margin: { l: 8, r: 8, t: 8, b: 8 },
      showlegend: false,
      hoverlabel: { bgcolor: colour("card"), bordercolor: colour("soft"), font: { color: colour("ink") } },
      ...more,
      xaxis: { ...axis, ...more.xaxis },
      yaxis: { ...axis, ...more.yaxis },
    };
  }

  function phaseAt(time) {
    const begun = data.phases.filter((phase) => phase.start <= time);
    return begun.length ? begun[begun.length - 1] : data.phases[0];
  }

  // The learning curve. Its traces: 0 the curve, 1 the marker. Its shapes: the phases, then the line through the marker.

  function shapes() {
    const first = data.times[0];
    const base = { type: "rect", yref: "paper", y0: 0, y1: 1, layer: "below", line: { width: 0 }, opacity: Number(colour("shade")) };
    const phases = data.phases.map((phase) => (
      { ...base, x0: Math.max(phase.start, first), x1: Math.max(phase.end, first), fillcolor: phase.colour }));
    const line = { type: "line", yref: "paper", y0: 0, y1: 1, x0: first, x1: first, line: { color: colour("soft"), width: 1, dash: "dot" } };
    return [...phases, line];
  }

  function drawCurve() {
    const hover = "time %{x:.5g}<br>error %{y:.4g}<extra></extra>";
    const traces = [
      { type: "scatter", mode: "lines", x: data.times, y: data.error, line: { color: colour("curve"), width: 2.5, simplify: false }, hovertemplate: hover },
      { type: "scatter", mode: "markers", x: [], y: [], hoverinfo: "skip", cliponaxis: false,
        marker: { size: 12, color: colour("mark"), line: { color: colour("paper"), width: 2 } } },
    ];
    const xaxis = { title: { text: `time ${data.time_name}` }, type: data.log_time ? "log" : "linear" };
    const yaxis = { title: { text: "generalisation error" }, type: byId("log").checked ? "log" : "linear", exponentformat: "power" };
    if (!byId("log").checked) yaxis.rangemode = "tozero";
    draw("curve", traces, { xaxis, yaxis, shapes: shapes() });
  }

  function moveMarker() {
    const time = data.times[index];
    const line = `shapes[${data.phases.length}]`;
    Plotly.update("curve", { x: [[time]], y: [[data.error[index]]] }, { [`${line}.x0`]: time, [`${line}.x1`]: time }, [1]);
  }

  // Heat maps, one element each; colours have one range for all maps and all times.

  function makeMaps() {
    byId("maps").replaceChildren(...data.maps.map((map) => {
      const part = document.createElement("section");
      part.className = "map";
      const title = document.createElement("h2");
      title.textContent = map.title;
      const chart = document.createElement("div");
      chart.className = "chart";
      chart.id = `map-${map.name}`;
      chart.setAttribute("role", "img");
      chart.setAttribute("aria-label", `${map.title}, at the time of the slider`);
      part.append(title, chart);
      return part;
    }));
  }

  function cells(axis) {
    const ticks = { tickvals: axis.labels.map((_, i) => i), ticktext: axis.labels, tickangle: 0, ticks: "" };
    return { ...ticks, title: { text: axis.name, standoff: 4 }, showgrid: false, showline: false, constrain: "domain" };
  }

  function drawMaps() {
    const scale = [[0, colour("cold")], [0.5, colour("zero")], [1, colour("warm")]];
    for (const map of data.maps) {
      const [rows, columns] = [map.rows.labels, map.columns.labels];
      const small = Math.max(rows.length, columns.length) <= LARGEST_WITH_NUMBERS;
      const cell = (row, column) => `${map.rows.name} ${row}, ${map.columns.name} ${column}`;
      const trace = {
        type: "heatmap", z: map.values[index], zmin: -data.bound, zmax: data.bound, colorscale: scale, xgap: 2, ygap: 2,
        texttemplate: small ? "%{z:.3f}" : "", textfont: { color: colour("ink"), size: 13 },
        customdata: rows.map((row) => columns.map((column) => cell(row, column))),
        hovertemplate: `${map.name} = %{z:.5g}<br>%{customdata}<extra></extra>`,
        colorbar: { orientation: "h", y: -0.02, yanchor: "top", thickness: 10, outlinewidth: 0, nticks: 5, len: 1, xpad: 0 },
      };
      const xaxis = { ...cells(map.columns), side: "top" };
      const yaxis = { ...cells(map.rows), autorange: "reversed", scaleanchor: "x" };
      draw(`map-${map.name}`, [trace], { xaxis, yaxis });
    }
  }

  function moveMaps() {
    for (const map of data.maps) Plotly.restyle(`map-${map.name}`, { z: [map.values[index]] }, [0]);
  }

  // Words and controls.

  function makePhases() {
    byId("phases").replaceChildren(...data.phases.map((phase) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = phase.name;
      button.title = `from ${show(phase.start, 4)} to ${show(phase.end, 4)}`;
      button.style.setProperty("--colour", phase.colour);
      button.addEventListener("click", () => { pause(); setTime(firstIn(phase)); });
      item.append(button);
      return item;
    }));
  }

  const firstIn = (phase) => Math.max(0, data.times.findIndex((t) => t >= phase.start));

  function say() {
    const time = data.times[index];
    const phase = phaseAt(time);
    byId("now-time").textContent = show(time, 5);
    byId("now-error").textContent = show(data.error[index], 4);
    byId("now-phase").textContent = phase.name;
    byId("time").value = index;
    byId("time").setAttribute("aria-valuetext", `${show(time, 5)}, ${phase.name}`);
    [...byId("phases").querySelectorAll("button")].forEach((button, i) => {
      button.setAttribute("aria-current", String(data.phases[i] === phase));
    });
  }

  function setTime(i) {
    index = Math.min(data.times.length - 1, Math.max(0, Math.round(Number(i)) || 0));
    say();
    moveMarker();
    moveMaps();
  }

  function pause() {
    if (playing !== null) cancelAnimationFrame(playing);
    playing = null;
    byId("play").textContent = "Play";
    byId("play").setAttribute("aria-pressed", "false");
  }

  function play() {
    const last = data.times.length - 1;
    const from = index === last ? 0 : index;
    const began = performance.now();
    byId("play").textContent = "Pause";
    byId("play").setAttribute("aria-pressed", "true");
    const step = (now) => {
      const next = Math.min(last, from + Math.round(((now - began) / 1000) * (last / SECONDS)));
      if (next !== index) setTime(next);
      if (next === last) pause();
      else playing = requestAnimationFrame(step);
    };
    playing = requestAnimationFrame(step);
  }

  function redraw() {
    if (data === null) return;
    drawCurve();
    drawMaps();
    setTime(index);
  }

  function render(given) {
    pause();
    [data, index] = [given, 0];
    document.title = byId("title").textContent = data.title;
    byId("conditions").textContent = data.conditions;
    byId("warning").textContent = data.warning;
    byId("warning").hidden = data.warning === "";
    byId("note").textContent = data.note;
    byId("log").checked = data.log_error;
    byId("time").max = data.times.length - 1;
    makePhases();
    makeMaps();
    redraw();
    const curve = byId("curve");
    curve.removeAllListeners("plotly_click");
    curve.on("plotly_click", (event) => { pause(); setTime(event.points[0].pointNumber); });
  }

  byId("time").addEventListener("input", (event) => { pause(); setTime(event.target.value); });
  byId("play").addEventListener("click", () => (playing === null ? play() : pause()));
  byId("log").addEventListener("change", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);
  return { render, setTime };
})();
