/* The controls of the explorer: built from the server's table, held in the address, answered over a websocket.
   The newest settings win: while a curve is on its way, only the latest change is remembered and sent next. */
const tutelageExplorer = (() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const { controls, presets } = JSON.parse(byId("data").textContent);
  const TICKS = 1000; // positions of a slider
  const MOMENT = 300; // milliseconds after which the reader is told that something takes time
  const PATIENCE = 400; // milliseconds to wait for a curve before a newer request is sent all the same
  const byName = Object.fromEntries(controls.map((control) => [control.name, control]));
  let values = defaults();
  let socket = null;
  let number = 0; // of the last request that was sent
  let answered = 0; // of the newest request that has a curve
  let wanted = false; // there are changes that have not been sent
  let timer = null;
  let shown = null; // settings of the curve on the page
  let asked = null;
  let late = null; // the timer after which a curve of other settings is dimmed
  let clock = null; // counts the seconds of what is under way

  function defaults() {
    return Object.fromEntries(controls.map((control) => [control.name, control.default]));
  }

  // Sliders: even in the number, or in its logarithm.

  function toSlider(control, value) {
    const [a, b, x] = control.log ? [control.least, control.most, value].map(Math.log) : [control.least, control.most, value];
    return Math.round((TICKS * (x - a)) / (b - a));
  }

  function fromSlider(control, tick) {
    const share = tick / TICKS;
    const { least, most } = control;
    const x = control.log ? least * (most / least) ** share : least + (most - least) * share;
    const value = control.kind === "count" ? Math.round(x) : Number(x.toPrecision(3));
    return Math.min(most, Math.max(least, value));
  }

  // An arrow key moves to the next value, however many positions of the slider share the present one.
  const ARROWS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };

  function nextTick(control, tick, way) {
    let next = tick + way;
    while (next > 0 && next < TICKS && fromSlider(control, next) === values[control.name]) next += way;
    return Math.min(TICKS, Math.max(0, next));
  }

  // Building the form.

  function make(kind, attributes = {}, ...children) {
    const element = document.createElement(kind);
    Object.assign(element, attributes);
    element.append(...children);
    return element;
  }

  function build() {
    const groups = [...new Set(controls.map((control) => control.group))];
    byId("form").replaceChildren(...groups.map((group) => make("fieldset", {}, make("legend", { textContent: group }),
      ...controls.filter((control) => control.group === group).map(buildOne))));
    byId("preset").replaceChildren(make("option", { value: "", textContent: "(own settings)" }),
      ...Object.keys(presets).map((name) => make("option", { value: name, textContent: name })));
    byId("form").addEventListener("submit", (event) => event.preventDefault());
    byId("preset").addEventListener("change", (event) => {
      if (event.target.value !== "") change({ ...defaults(), ...presets[event.target.value] });
    });
  }

  function buildOne(control) {
    const id = `control-${control.name}`;
    const part = make("div", { className: `control ${control.kind}`, id: `part-${control.name}` });
    const set = (value) => change({ ...values, [control.name]: value });
    if (control.kind === "flag") {
      const box = make("input", { type: "checkbox", id });
      box.addEventListener("change", () => set(box.checked));
      part.append(make("label", {}, box, control.words));
    } else if (control.kind === "choice") {
      const select = make("select", { id }, ...control.options.map((name) => make("option", { value: name, textContent: name })));
      select.addEventListener("change", () => set(select.value));
      part.append(make("label", {}, control.words, select));
    } else {
      const { least: min, most: max } = control;
      const field = make("input", { type: "number", id, min, max, step: control.kind === "count" ? 1 : "any" });
      field.addEventListener("change", () => set(typed(control, field)));
      const slider = make("input", { type: "range", id: `slider-${control.name}`, min: 0, max: TICKS, step: 1 });
      slider.setAttribute("aria-label", control.words);
      const slide = () => set(fromSlider(control, Number(slider.value)));
      slider.addEventListener("input", slide);
      slider.addEventListener("keydown", (event) => {
        if (!(event.key in ARROWS)) return;
        event.preventDefault();
        slider.value = nextTick(control, Number(slider.value), ARROWS[event.key]);
        slide();
      });
      part.append(make("label", {}, control.words, field), slider);
      if (control.name === "lr") part.append(make("div", { className: "marks", id: "marks" }));
    }
    return part;
  }

  function typed(control, field) {
    const value = field.value.trim() === "" ? control.default : Number(field.value);
    const inside = Math.min(control.most, Math.max(control.least, Number.isFinite(value) ? value : control.default));
    return control.kind === "count" ? Math.round(inside) : inside;
  }

  function showValues(but) {
    for (const control of controls) {
      const [field, slider] = [byId(`control-${control.name}`), byId(`slider-${control.name}`)];
      const value = values[control.name];
      if (control.kind === "flag") field.checked = value;
      else field.value = value;
      if (slider && slider !== but) slider.value = toSlider(control, value);
      slider?.setAttribute("aria-valuetext", value);
      const needed = Object.entries(control.only);
      byId(`part-${control.name}`).hidden = !needed.every(([name, wish]) => values[name] === wish);
    }
    const same = (settings) => controls.every((c) => (settings[c.name] ?? c.default) === values[c.name]);
    byId("preset").value = Object.keys(presets).find((name) => same(presets[name])) ?? "";
  }

  // The address holds what differs from the defaults.

  function query() {
    const changed = controls.filter((control) => values[control.name] !== control.default);
    return new URLSearchParams(changed.map((control) => [control.name, String(values[control.name])])).toString();
  }

  function readAddress() {
    const found = defaults();
    for (const [name, text] of new URLSearchParams(location.search)) {
      const control = byName[name];
      if (control === undefined) continue;
      if (control.kind === "choice") found[name] = text;
      else found[name] = control.kind === "flag" ? text === "true" : Number(text);
    }
    values = found;
  }

  function writeAddress() {
    const text = query();
    history.replaceState(null, "", text ? `?${text}` : location.pathname);
    byId("file-nc").href = `/file/curve.nc?${text}`;
    byId("file-html").href = `/file/page.html?${text}`;
    byId("share").textContent = "Copy link";
  }

  function change(next) {
    values = next;
    showValues(document.activeElement);
    writeAddress();
    wanted = true;
    watch();
    send();
  }

  // A curve of other settings is dimmed, and says so, unless the right one comes in a moment.

  function watch(again = false) {
    if (again || shown === values) { clearTimeout(late); late = null; }
    if (shown === values) mark("");
    else late ??= setTimeout(() => mark(shown === null ? "first" : "previous"), MOMENT);
  }

  function mark(which) {
    document.body.dataset.late = which;
    document.querySelector("main").setAttribute("aria-busy", which !== "");
    byId("stale").textContent = which === "previous" ? " of the previous settings" : "";
  }

  // Requests and answers.

  const waiting = () => number > answered;

  function say(sentence, bad = false) {
    clearInterval(clock);
    byId("clock").textContent = "";
    byId("progress").hidden = true;
    byId("state").textContent = sentence;
    byId("state").className = bad ? "bad" : "";
  }

  // What takes time: in words, with a bar (share null: it moves, but no end is known) and the seconds so far.

  function sayBusy(sentence, share = null) {
    say(sentence);
    byId("progress").hidden = false;
    if (share === null) byId("progress").removeAttribute("value");
    else byId("progress").value = share;
    const began = performance.now();
    clock = setInterval(() => { byId("clock").textContent = `${Math.round((performance.now() - began) / 1000)} s`; }, 1000);
  }

  function send(patient = true) {
    if (!wanted || socket === null || socket.readyState !== WebSocket.OPEN) return;
    clearTimeout(timer);
    if (patient && waiting()) {
      timer = setTimeout(() => send(false), PATIENCE);
      return;
    }
    wanted = false;
    number += 1;
    asked = values;
    byId("remarks").textContent = "";
    document.body.dataset.state = "asked";
    socket.send(JSON.stringify({ id: number, settings: values }));
    timer = setTimeout(() => { if (waiting()) sayBusy("Solving; a new shape is compiled first, which takes some seconds."); }, MOMENT);
  }

  function receive({ id, answer }) {
    if (id !== number) return; // of settings that are no longer there
    if (answer.part === "error") {
      answered = id;
      say(answer.sentence, true);
      document.body.dataset.state = "error";
      send();
      return;
    }
    const take = { curve: takeCurve, doing: takeDoing, rates: takeRates, runs: takeRun, band: takeBand, escape: takeEscape, "details done": takeEnd };
    take[answer.part]?.(answer, id);
    if (answer.note) remark(answer.part, answer.note);
  }

  function takeCurve({ content, share }, id) {
    const begun = shown === asked;
    answered = id;
    shown = asked;
    tutelagePage.render(content, tutelagePage.data() !== null && (begun || sameTimes(content)));
    watch(true);
    if (share < 1) sayBusy(`Solving: ${Math.round(100 * share)}%`, share);
    else say("Theory solved; more to come.");
    document.body.dataset.state = "curve";
    document.body.dataset.answered = id;
    send();
  }

  const sameTimes = (content) => {
    const now = tutelagePage.data();
    return now.log_time === content.log_time && now.log_error === content.log_error;
  };

  function takeRates({ critical, best }) {
    const control = byName.lr;
    const mark = (value, name) => {
      if (!(value >= control.least && value <= control.most)) return [];
      const span = make("span", { textContent: name, title: `${name}: ${value.toPrecision(5)}`, className: name });
      span.style.left = `${(100 * toSlider(control, value)) / TICKS}%`;
      return [span];
    };
    byId("marks").replaceChildren(...mark(best, "best"), ...mark(critical, "critical"));
  }

  const takeDoing = ({ words, share }) => sayBusy(`Theory solved. Now: ${words}.`, share);
  const takeRun = ({ error }) => { if (error) tutelagePage.add({ runs: [error] }); };
  const takeBand = ({ band }) => { if (band) tutelagePage.add({ band }); };
  const takeEscape = ({ escape }) => { if (escape !== undefined) tutelagePage.add({ escape }); };

  function takeEnd() {
    say("");
    document.body.dataset.state = "done";
  }

  const NAMES = { rates: "Rates", runs: "Runs", band: "Band", escape: "Escape" };

  function remark(part, sentence) {
    const text = `${NAMES[part]}: ${sentence} `;
    if (!byId("remarks").textContent.includes(text)) byId("remarks").textContent += text;
    if (part === "rates") byId("marks").replaceChildren();
  }

  function connect() {
    socket = new WebSocket(`ws://${location.host}/live`);
    socket.addEventListener("open", () => { say(""); answered = number; wanted = true; send(); });
    socket.addEventListener("message", (event) => receive(JSON.parse(event.data)));
    socket.addEventListener("close", ({ code, reason }) => {
      clearTimeout(timer);
      const full = code === 1013; // too many pages; the server says so
      say(full ? reason : "The server has stopped. Start it again (tutelage explore), then reload this page.", true);
      document.body.dataset.state = full ? "full" : "stopped";
    });
  }

  build();
  document.querySelector(".curve h2").append(make("span", { id: "stale" }));
  readAddress();
  showValues();
  writeAddress();
  byId("share").addEventListener("click", async () => {
    await navigator.clipboard.writeText(location.href);
    byId("share").textContent = "Link copied";
  });
  if (matchMedia("(max-width: 60rem)").matches) byId("panel").open = false;
  watch();
  connect();
  // settled: the newest settings have been sent and their curve is there.
  return { values: () => values, change: (more) => change({ ...values, ...more }), settled: () => number > 0 && !wanted && !waiting() };
})();
