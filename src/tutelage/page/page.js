/* A trajectory with a slider for time, drawn from data of the schema in document.py.
     tutelagePage.render(data, stay)   everything again, at the first time or (stay) at
                                       the present one
     tutelagePage.setTime(place)       the marker, the heat maps, the diagram and the
                                       words at one recorded time, or between two
     tutelagePage.play(last)           moves the time from the present one, or from the
                                       beginning, to the end or this place
     tutelagePage.setVariant(index)    another of the trajectories that differ in one
                                       number
     tutelagePage.add(more)            more of the data: runs and code (appended), band,
                                       escape, rates {lr, critical}
     tutelagePage.pin(curves, draw)    curves to compare with: {name, times, errors,
                                       color}, errors one array for each task
     tutelagePage.save(name, address)  saves a file: its name, and its content as a
                                       data: or blob: address
     tutelagePage.data()               the data that are shown
   Needs Plotly and the elements of template.html. */
const tutelagePage = (() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const SETTINGS = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  // Rows or columns beyond which numbers in cells are too small to read
  const LARGEST_WITH_NUMBERS = 6;
  const SECONDS = 12; // that playing takes
  // Of the largest error: what lies below is not drawn on a logarithmic axis
  const ROUNDING = 1e-15;
  let data = null;
  let pinned = [];
  let index = 0; // of the time that is shown; while playing, between two recorded times
  let playing = null; // the frame that was asked for, while playing
  let turn = 0; // of the heat maps, while playing

  // Colors come from the style sheet, so that charts follow light, dark and paper.
  let colors = {};
  const color = (name) => (
    colors[name] ??= getComputedStyle(
      document.documentElement
    ).getPropertyValue(`--${name}`).trim()
  );
  const show = (x, digits) => (
    x === null ? "–" : String(Number(x.toPrecision(digits)))
  );

  // A chart follows the size of its element a moment later; paper does not wait, so
  // there its size is stated.
  function draw(id, traces, more) {
    const size = matchMedia("print").matches
      ? { width: byId(id).clientWidth, height: byId(id).clientHeight }
      : { autosize: true };
    Plotly.react(id, traces, layout({ ...more, ...size }), SETTINGS);
  }

  function layout(more) {
    const axis = {
      gridcolor: color("line"),
      zeroline: false,
      linecolor: color("soft"),
      automargin: true,
      fixedrange: true,
    };
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: {
        color: color("ink"),
        family: getComputedStyle(document.body).fontFamily,
        size: 12,
      },
      margin: { l: 8, r: 8, t: 8, b: 8 },
      showlegend: false,
      hoverlabel: {
        bgcolor: color("card"),
        bordercolor: color("soft"),
        font: { color: color("ink") },
      },
      ...more,
      xaxis: { ...axis, ...more.xaxis },
      yaxis: { ...axis, ...more.yaxis },
    };
  }

  // What is recorded, at the time that is shown: between two recorded times a mean of
  // both.
  function at(values) {
    const [before, share] = [values[Math.floor(index)], index - Math.floor(index)];
    return share === 0 ? before : between(before, values[Math.ceil(index)], share);
  }

  const between = (a, b, share) => {
    if (Array.isArray(a)) return a.map((x, i) => between(x, b[i], share));
    return a === null || b === null ? null : a + share * (b - a);
  };

  function phaseAt(time) {
    const begun = data.phases.filter((phase) => phase.start <= time);
    return begun.length ? begun[begun.length - 1] : data.phases[0];
  }

  // The learning curve. Its traces: 0 the curve, 1 the marker. Its shapes: the phases,
  // then the line through the marker.

  function shapes() {
    const first = data.times[0];
    const base = {
      type: "rect",
      yref: "paper",
      y0: 0,
      y1: 1,
      layer: "below",
      line: { width: 0 },
      opacity: Number(color("shade")),
    };
    const phases = data.phases.map((phase) => ({
      ...base,
      x0: Math.max(phase.start, first),
      x1: Math.max(phase.end, first),
      fillcolor: phase.color,
    }));
    const line = (x, dash) => ({
      type: "line",
      yref: "paper",
      y0: 0,
      y1: 1,
      x0: x,
      x1: x,
      line: { color: color("soft"), width: 1, dash },
    });
    return [
      ...phases,
      { ...line(at(data.times), "dot"), visible: playing === null },
      ...(escapes() ? [line(data.escape, "dash")] : [])
    ];
  }

  function drawCurve() {
    const hover = "time %{x:.5g}<br>error %{y:.4g}<extra></extra>";
    const line = (color, width) => ({ color, width, simplify: false });
    const beside = { type: "scatter", mode: "lines", x: data.times, hoverinfo: "skip" };
    const curve = (error, stroke, more) => ({
      ...beside,
      y: error,
      line: line(stroke, 2.5),
      hoverinfo: "all",
      hovertemplate: hover,
      zorder: 3,
      ...more
    });
    const named = (task) => curve(
      task.error,
      task.color,
      { name: task.name, showlegend: true }
    );
    const kept = ({ name, times, errors, color: stroke }) => errors.map((y, i) => ({
      ...beside,
      x: times,
      y,
      name,
      line: { ...line(stroke, 2), dash: "dash" },
      zorder: 2,
      showlegend: i === 0,
      legendgroup: name,
    }));
    const traces = [
      tasks().length
        ? named(tasks()[0])
        : curve(
          data.error,
          color("curve"),
          { name: "these settings", showlegend: pinned.length > 0 }
        ),
      {
        type: "scatter",
        mode: "markers",
        ...marked(),
        hoverinfo: "skip",
        cliponaxis: false,
        zorder: 4,
        showlegend: false,
        marker: {
          size: 12,
          color: color("mark"),
          line: { color: color("paper"), width: 2 },
        }
      },
      ...tasks().slice(1).map(named),
      ...data.runs.map(
        (run) => ({
          ...beside,
          y: run,
          line: line(color("run"), 1),
          opacity: 0.75,
          zorder: 2,
          showlegend: false
        })
      ),
      ...pinned.flatMap(kept),
    ];
    if (data.band) {
      const x = data.times.slice(0, data.band.low.length); // it may end early
      const edge = { ...beside, x, line: { width: 0 }, zorder: 1, showlegend: false };
      traces.push(
        { ...edge, y: data.band.low },
        { ...edge, y: data.band.high, fill: "tonexty", fillcolor: color("band") }
      );
    }
    const logTime = byId("log-time").checked;
    const xaxis = {
      title: { text: `time ${data.time_name}` },
      type: logTime ? "log" : "linear",
    };
    const yaxis = {
      title: { text: data.error_name },
      type: byId("log").checked ? "log" : "linear",
      exponentformat: "power",
    };
    // Few numbers
    if (byId("log").checked && highest() > 10 * lowest())
      yaxis.dtick = highest() > 100 * lowest() ? 1 : "D2";
    if (!byId("log").checked) yaxis.rangemode = "tozero";
    else if (lowest() < ROUNDING * highest())
      Object.assign(
        yaxis,
        {
          range: [ROUNDING * highest(), 2 * highest()].map(Math.log10),
          autorange: false,
        }
      );
    const legend = {
      showlegend: tasks().length > 1 || pinned.length > 0,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    };
    draw(
      "curve",
      traces,
      {
        xaxis,
        yaxis,
        shapes: shapes(),
        annotations: escapeLabel(logTime),
        hovermode: "x",
        ...legend
      }
    );
    describe();
  }

  function escapeLabel(logTime) {
    if (!escapes()) return [];
    const x = logTime ? Math.log10(data.escape) : data.escape;
    return [
      {
        x,
        y: 1,
        yref: "paper",
        yanchor: "top",
        text: "predicted escape",
        showarrow: false,
        textangle: -90,
        xshift: -8,
        font: { color: color("soft") },
      },
    ];
  }

  const escapes = () => data.escape !== null
    && data.escape <= data.times[data.times.length - 1];

  function describe() {
    const parts = ["Line: theory."];
    // A curve for each task
    const networks = data.runs.length / Math.max(1, tasks().length);
    if (networks)
      parts.push(`Thin: ${networks} simulated network${networks > 1 ? "s" : ""}.`);
    if (data.band)
      parts.push(
        `Band: ± 2 standard deviations of single networks, N = ${data.band.dim}.`
      );
    if (data.escape !== null)
      parts.push(`Predicted escape: α = ${show(data.escape, 4)}.`);
    byId("legend").textContent = parts.length > 1 ? parts.join(" ") : "";
    byId("seen").textContent = seen();
  }

  // One sentence on what is seen.
  function seen() {
    const { rates, phases, times, error } = data;
    const [last, end] = [phases[phases.length - 1], show(times[times.length - 1], 4)];
    if (data.warning.includes("diverged"))
      return "The overlaps diverge: this learning rate is too large.";
    if (rates && rates.lr > rates.critical)
      return `Beyond the critical rate ${show(rates.critical, 3)}: zero error is unstable.`;
    if (tasks().length) return forgetting(last);
    if (last.name === "rise")
      return `The error is smallest at time ${show(last.start, 3)} and rises from there: to train longer harms.`;
    if (last.name === "symmetric plateau")
      return `The student units stay nearly identical up to time ${end}: they do not specialize.`;
    if (last.name === "noise floor")
      return `Label noise keeps the error at ${show(error[error.length - 1], 2)} from time ${show(last.start, 3)} on.`;
    const longest = phases
      .filter((phase) => phase.name === "symmetric plateau")
      .sort((a, b) => b.end - b.start - a.end + a.start)[0];
    if (longest)
      return `The student units stay nearly identical until time ${show(longest.end, 3)}; then they specialize${extraUnits() ? "" : " on different teacher units"}.`;
    if (error[error.length - 1] > error[0])
      return `The error rises from ${show(error[0], 2)} to ${show(error[error.length - 1], 2)}.`;
    return `The error falls from ${show(error[0], 2)} to ${show(error[error.length - 1], 2)} at time ${end}.`;
  }

  function extraUnits() {
    const { rows, columns } = data.maps.find((map) => map.name === "R");
    return rows.labels.length > columns.labels.length;
  }

  function forgetting(last) {
    const { error } = tasks()[0];
    const [before, after] = [error[firstIn(last)], error[error.length - 1]];
    if (data.phases.length < 2)
      return `All ${tasks().length} tasks are learned at once.`;
    const change = `from ${show(before, 2)} to ${show(after, 2)}`;
    if (after > 1.2 * before)
      return `After the switch at time ${show(last.start, 3)} the error of task 1 rises ${change}: the student forgets.`;
    return `After the switch at time ${show(last.start, 3)} the error of task 1 goes ${change}: nothing is forgotten.`;
  }

  const tasks = () => data.tasks ?? []; // several tasks: one curve each
  const drawn = () => (
    tasks().length ? tasks().flatMap((task) => task.error) : data.error
  );
  const highest = () => Math.max(...drawn());
  const lowest = () => Math.min(...drawn());
  const errors = () => (
    tasks().length ? tasks().map((task) => at(task.error)) : [at(data.error)]
  );
  const marked = () => (
    playing === null
      ? { x: errors().map(() => at(data.times)), y: errors() }
      : { x: [], y: [] }
  );

  function moveMarker() {
    const time = at(data.times);
    const line = `shapes[${data.phases.length}]`;
    const moved = {
      [`${line}.x0`]: time,
      [`${line}.x1`]: time,
      [`${line}.visible`]: playing === null,
    };
    Plotly.update("curve", { x: [marked().x], y: [marked().y] }, moved, [1]);
  }

  // While playing, marker and line are drawn above the chart: to move them inside it
  // takes longer than a frame.
  function movePlayhead() {
    const { x, y, width, height } = plotArea();
    const { xaxis, yaxis } = byId("curve").layout;
    const along = x + width * share(xaxis, at(data.times));
    const dots = errors().map(
      (error) => node(
        "circle",
        { cx: along, cy: y + height * (1 - share(yaxis, error)), r: 6 }
      )
    );
    byId("playhead").replaceChildren(
      node("line", { x1: along, x2: along, y1: y, y2: y + height }),
      ...dots
    );
  }

  // Where between the ends of an axis a value lies, from 0 to 1; Plotly writes the
  // range that it chose into the layout.
  function share({ range: [first, last], type }, value) {
    return ((type === "log" ? Math.log10(value) : value) - first) / (last - first);
  }

  // The rectangle between the axes, in the coordinates of the chart: that of the
  // element which takes the pointer.
  function plotArea() {
    const [inside, chart] = [
      byId("curve").querySelector(".nsewdrag"),
      byId("curve"),
    ].map((part) => part.getBoundingClientRect());
    return {
      x: inside.x - chart.x,
      y: inside.y - chart.y,
      width: inside.width,
      height: inside.height,
    };
  }

  // Heat maps, one element each; the colors of a map have one range for all times.

  const mapsOf = (content) => JSON.stringify(
    content.maps.map((map) => [map.title, map.rows, map.columns])
  );
  let made = ""; // the maps that there are elements for

  function makeMaps() {
    if (mapsOf(data) === made) return;
    made = mapsOf(data);
    byId("maps").replaceChildren(...data.maps.map((map) => {
      const part = document.createElement("section");
      part.className = "map";
      const title = document.createElement("h2");
      title.textContent = map.title;
      const chart = document.createElement("div");
      chart.className = "chart";
      chart.id = `map-${map.name}`;
      // Room for numbers
      chart.style.minHeight =
        `${6 + 2.75 * Math.min(map.rows.labels.length, LARGEST_WITH_NUMBERS)}rem`;
      chart.setAttribute("role", "img");
      chart.setAttribute("aria-label", `${map.title}, at the time of the slider`);
      part.append(title, chart);
      return part;
    }));
  }

  function cells(axis) {
    const ticks = {
      tickvals: axis.labels.map((_, i) => i),
      ticktext: axis.labels,
      tickangle: 0,
      ticks: "",
    };
    return {
      ...ticks,
      title: { text: axis.name, standoff: 4 },
      showgrid: false,
      showline: false,
      constrain: "domain"
    };
  }

  function drawMaps() {
    const scale = [[0, color("cold")], [0.5, color("zero")], [1, color("warm")]];
    for (const map of data.maps) {
      const [rows, columns] = [map.rows.labels, map.columns.labels];
      const small = Math.max(rows.length, columns.length) <= LARGEST_WITH_NUMBERS;
      const wide = byId(`map-${map.name}`).clientWidth;
      // Pixels of a cell; three decimals need 48
      const room = (wide - 45) / columns.length;
      const cell = (row, column) =>
        `${map.rows.name} ${row}, ${map.columns.name} ${column}`;
      const trace = {
        type: "heatmap",
        z: at(map.values),
        zmin: -map.bound,
        zmax: map.bound,
        colorscale: scale,
        xgap: 2,
        ygap: 2,
        texttemplate: small ? `%{z:.${room > 48 ? 3 : room > 26 ? 2 : 1}f}` : "",
        textfont: { color: color("ink"), size: room > 36 ? 13 : 11 },
        customdata: rows.map((row) => columns.map((column) => cell(row, column))),
        hovertemplate: `${map.name} = %{z:.5g}<br>%{customdata}<extra></extra>`,
        colorbar: {
          orientation: "h",
          y: -0.02,
          yanchor: "top",
          thickness: 10,
          outlinewidth: 0,
          nticks: wide > 190 ? 5 : 4,
          tickangle: 0,
          len: 1,
          xpad: 0,
        },
      };
      const xaxis = { ...cells(map.columns), side: "top" };
      const yaxis = { ...cells(map.rows), autorange: "reversed", scaleanchor: "x" };
      draw(`map-${map.name}`, [trace], { xaxis, yaxis });
    }
  }

  function moveMaps(maps = data.maps) {
    for (const map of maps)
      Plotly.restyle(`map-${map.name}`, { z: [at(map.values)] }, [0]);
  }

  // The diagram: students on the left, teachers on the right; edges are the entries of
  // R at this time.

  function node(kind, attributes, text) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(attributes))
      element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  const ROW = 34;
  const place = (i, count, most) => ROW * (i + (most - count) / 2 + 0.5) + 14;

  function drawDiagram() {
    const map = data.maps.find((m) => m.name === "R");
    const [students, teachers] = [map.rows.labels, map.columns.labels];
    const most = Math.max(students.length, teachers.length);
    const edgeOf = (k, m) => node("line", {
      x1: 52,
      y1: place(k, students.length, most),
      x2: 208,
      y2: place(m, teachers.length, most),
      "stroke-linecap": "round",
      class: "edge",
    });
    const edges = students.flatMap((_, k) => teachers.map((_, m) => edgeOf(k, m)));
    const circles = (labels, x, name) => labels.flatMap((label, i) => {
      const y = place(i, labels.length, most);
      return [
        node("circle", { cx: x, cy: y, r: 12, class: name }),
        node("text", { x, y: y + 4 }, label),
      ];
    });
    const heads = [
      node("text", { x: 40, y: 12, class: "head" }, "students"),
      node(
        "text",
        { x: 220, y: 12, class: "head" },
        map.columns.name === "mean" ? "means" : "teachers"
      ),
    ];
    byId("diagram").setAttribute("viewBox", `0 0 260 ${ROW * most + 18}`);
    byId("diagram").replaceChildren(
      ...edges,
      ...circles(students, 40, "student"),
      ...circles(teachers, 220, "teacher"),
      ...heads
    );
  }

  function moveDiagram() {
    const { values, bound } = data.maps.find((m) => m.name === "R");
    const R = at(values).flat();
    byId("diagram").querySelectorAll(".edge").forEach((edge, i) => {
      const size = Math.min(1, Math.abs(R[i]) / bound);
      edge.setAttribute("stroke", color(R[i] < 0 ? "cold" : "warm"));
      edge.setAttribute("stroke-width", (0.3 + 7 * size).toFixed(2));
      edge.setAttribute("stroke-dasharray", R[i] < 0 ? "7 7" : "none");
    });
  }

  // Words and controls.

  function makePhases() {
    byId("phases").replaceChildren(...data.phases.map((phase) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = phase.name;
      button.title = `from ${show(phase.start, 4)} to ${show(phase.end, 4)}`;
      button.style.setProperty("--color", phase.color);
      button.addEventListener("click", () => { pause(); setTime(firstIn(phase)); });
      item.append(button);
      return item;
    }));
  }

  const firstIn = (phase) => Math.max(0, data.times.findIndex((t) => t >= phase.start));

  function say() {
    const time = at(data.times);
    const phase = phaseAt(time);
    byId("now-time").textContent = show(time, 5);
    byId("now-error").textContent = errors().map((error) => show(error, 4)).join(", ");
    byId("now-phase").textContent = phase.name;
    byId("time").value = Math.round(index);
    byId("time").setAttribute("aria-valuetext", `${show(time, 5)}, ${phase.name}`);
    [...byId("phases").querySelectorAll("button")].forEach((button, i) => {
      button.setAttribute("aria-current", String(data.phases[i] === phase));
    });
  }

  function setTime(place) {
    index = Math.min(data.times.length - 1, Math.max(0, Number(place) || 0));
    say();
    if (playing === null) {
      moveMarker();
      moveMaps();
    } else {
      movePlayhead();
      moveMaps([data.maps[(turn += 1) % data.maps.length]]); // one in each frame
    }
    moveDiagram();
  }

  function pause() {
    if (playing !== null) {
      cancelAnimationFrame(playing);
      playing = null;
      byId("playhead").replaceChildren();
      setTime(Math.round(index));
    }
    byId("now").setAttribute("aria-live", "polite");
    byId("play").textContent = "Play";
    byId("play").setAttribute("aria-pressed", "false");
  }

  function play(last = data.times.length - 1) {
    // Recorded times in a millisecond
    const speed = (data.times.length - 1) / SECONDS / 1000;
    const from = index >= last ? 0 : index;
    const began = performance.now();
    byId("now").setAttribute("aria-live", "off"); // too quick to be read out
    byId("play").textContent = "Pause";
    byId("play").setAttribute("aria-pressed", "true");
    const step = (now) => {
      const next = Math.min(last, from + Math.max(0, now - began) * speed);
      setTime(next);
      if (next === last) pause();
      else playing = requestAnimationFrame(step);
    };
    playing = requestAnimationFrame(step);
    moveMarker(); // the playhead takes its place
  }

  // Milliseconds between two drawings of the overlaps: while a slider moves, the curve
  // comes first
  const PAUSE = 120;
  let drawnAt = -PAUSE;

  function drawOverlaps() {
    drawnAt = performance.now();
    makeCode();
    drawMaps();
    drawDiagram();
    moveDiagram();
  }

  let later = null; // overlaps that are drawn once the curve is on the screen

  function redrawCurveFirst() {
    drawCurve();
    say();
    clearTimeout(later);
    requestAnimationFrame(() => {
      clearTimeout(later);
      later = setTimeout(
        drawOverlaps,
        Math.max(0, drawnAt + PAUSE - performance.now())
      );
    });
  }

  function redraw() {
    if (data === null) return;
    colors = {};
    drawCurve();
    say();
    drawOverlaps();
  }

  // Things to keep: the chart as it is, and the problem as text.

  function save(name, href) {
    const link = document.createElement("a");
    link.download = name;
    link.href = href;
    link.click();
  }

  async function savePicture(format) {
    const { clientWidth: width, clientHeight: height } = byId("curve");
    const picture = await Plotly.toImage(
      "curve",
      { format, width, height, scale: format === "png" ? 3 : 1 }
    );
    save(`learning-curve.${format}`, picture);
  }

  function makeCode() {
    byId("code").replaceChildren(...data.code.map((code) => {
      const part = document.createElement("details");
      const name = document.createElement("summary");
      name.textContent = code.name;
      const text = document.createElement("pre");
      text.textContent = code.text;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `Save as ${code.file}`;
      button.addEventListener(
        "click",
        () => save(
          code.file,
          `data:text/plain;charset=utf-8,${encodeURIComponent(code.text)}`
        )
      );
      part.append(name, text, button);
      return part;
    }));
  }

  function makeAll() {
    document.title = byId("title").textContent = data.title;
    byId("conditions").textContent = data.conditions;
    byId("warning").textContent = data.warning;
    byId("warning").hidden = data.warning === "";
    byId("note").textContent = data.note;
    byId("time").max = data.times.length - 1;
    makePhases();
    makeMaps();
  }

  // A second slider: trajectories that differ in one number.

  function makeVariants() {
    const some = data.variants ?? null;
    byId("variant-part").hidden = some === null;
    if (some === null) return;
    byId("variant-name").textContent = some.name;
    byId("variant").max = some.labels.length - 1;
    byId("variant").value = 0;
    byId("variant").setAttribute("aria-label", some.name);
    byId("variant-value").textContent = some.labels[0];
  }

  function setVariant(i) {
    const { labels, list } = data.variants;
    data = { ...data, ...list[i] };
    byId("variant-value").textContent = labels[i];
    byId("variant").setAttribute("aria-valuetext", labels[i]);
    makeAll();
    redrawCurveFirst();
  }

  function render(given, stay = false) {
    const before = stay ? data : null;
    if (!stay) pause();
    data = given;
    if (before === null) {
      index = 0;
      byId("log").checked = data.log_error;
      byId("log-time").checked = data.log_time;
    } else {
      index = nearest(before.times[Math.round(index)]);
    }
    makeAll();
    makeVariants();
    if (before === null) redraw();
    else redrawCurveFirst();
    const curve = byId("curve");
    // The pointer on the curve moves the time
    for (const event of ["plotly_click", "plotly_hover"]) {
      curve.removeAllListeners(event);
      curve.on(event, ({ points: [point] }) => {
        if (event === "plotly_hover" && playing !== null) return;
        pause();
        setTime(point.pointNumber);
      });
    }
  }

  const nearest = (time) => {
    const later = data.times.findIndex((t) => t >= time);
    return later < 0 ? data.times.length - 1 : later;
  };

  function add(more) {
    data = {
      ...data,
      ...more,
      runs: [...data.runs, ...(more.runs ?? [])],
      code: [...data.code, ...(more.code ?? [])]
    };
    if (more.code) makeCode();
    drawCurve();
  }

  function pin(curves, draw = true) {
    pinned = curves;
    if (draw) drawCurve();
  }

  byId("time").addEventListener(
    "input",
    (event) => { pause(); setTime(event.target.value); }
  );
  byId("variant").addEventListener(
    "input",
    (event) => setVariant(Number(event.target.value))
  );
  byId("play").addEventListener("click", () => (playing === null ? play() : pause()));
  for (const id of ["log", "log-time"]) byId(id).addEventListener("change", redraw);
  for (const format of ["png", "svg"])
    byId(format).addEventListener("click", () => savePicture(format));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);
  return { render, setTime, setVariant, add, pin, play, pause, save, data: () => data };
})();
