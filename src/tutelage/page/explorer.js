/* The controls of the explorer.
   They are built from a table and held in the address. A source gives the results: the
   server, over a websocket, or the solver in the page (local.js). Both take
   `ask(number, settings)` and give parts of the result to `receive`. The newest
   settings win: while a curve is on its way, only the latest change is remembered and
   asked for next. */
const tutelageExplorer = (() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  // Of the page itself, before anything is changed
  const pageSource = document.documentElement.outerHTML;
  const { controls, presets, initial, tables } = JSON.parse(byId("data").textContent);
  const TICKS = 1000; // positions of a slider
  // Milliseconds after which the reader is told that something takes time
  const MOMENT = 300;
  // Milliseconds to wait for a curve before a newer request is sent all the same
  const PATIENCE = 400;
  // That the server makes
  const FILES = { "file-nc": "curve.nc", "file-explorer": "explorer.html" };
  const MOST_PINNED = 6;
  const MOST_TEXT = 60000; // characters of a problem file
  // Controls next to a problem file
  const WITH_FILE = ["scale", "seed", "dim", "runs", "band", "end", "log_time"];
  const PIN_COLORS = ["#d55e00", "#009e73", "#cc79a7", "#b8860b", "#7b61c9", "#8c8c8c"];
  const byName = Object.fromEntries(controls.map((control) => [control.name, control]));
  let values = defaults();
  let source = null; // who answers: {ask, ready}
  let pins = []; // curves to compare with: {settings, times, errors, color}
  let number = 0; // of the last request that was sent
  let answered = 0; // of the newest request that has a curve
  let wanted = false; // there are changes that have not been sent
  let timer = null;
  let shown = null; // settings of the curve on the page
  let asked = null;
  let late = null; // the timer after which a curve of other settings is dimmed
  let clock = null; // counts the seconds of what is under way

  function defaults() {
    return Object.fromEntries(
      controls.map((control) => [control.name, control.default])
    );
  }

  // Sliders: even in the number, or in its logarithm.

  function toSlider(control, value) {
    const [a, b, x] = control.log
      ? [control.least, control.most, value].map(Math.log)
      : [control.least, control.most, value];
    return Math.round((TICKS * (x - a)) / (b - a));
  }

  function fromSlider(control, tick) {
    const share = tick / TICKS;
    const { least, most } = control;
    const x = control.log
      ? least * (most / least) ** share
      : least + (most - least) * share;
    const value = control.kind === "count" ? Math.round(x) : Number(x.toPrecision(3));
    return Math.min(most, Math.max(least, value));
  }

  // An arrow key moves to the next value, however many positions of the slider share
  // the present one.
  const ARROWS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };

  function nextTick(control, tick, way) {
    let next = tick + way;
    while (
      next > 0 && next < TICKS && fromSlider(control, next) === values[control.name]
    )
      next += way;
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
    const groups = [
      ...new Set(controls.map((control) => control.group))
    ].filter((group) => group !== "Main");
    const ofGroup = (group) => controls
      .filter((control) => control.group === group)
      .map(buildOne);
    byId("main-control").replaceChildren(...ofGroup("Main"));
    byId("form").replaceChildren(
      ...groups.map(
        (group) => make(
          "fieldset",
          {},
          make("legend", { textContent: group }),
          ...ofGroup(group)
        )
      )
    );
    const option = ({ name }) => make("option", { value: name, textContent: name });
    const guided = presets.filter((preset) => preset.words);
    const figures = presets.filter((preset) => !preset.words);
    byId("preset").replaceChildren(
      make("option", { value: "", textContent: "(custom settings)" }),
      make("optgroup", { label: "Guided" }, ...guided.map(option)),
      make("optgroup", { label: "Figures" }, ...figures.map(option))
    );
    byId("form").addEventListener("submit", (event) => event.preventDefault());
    byId("preset").addEventListener("change", (event) => {
      const chosen = presets.find(({ name }) => name === event.target.value);
      if (chosen) change({ ...defaults(), ...chosen.settings });
    });
  }

  function buildOne(control) {
    const id = `control-${control.name}`;
    const part = make(
      "div",
      { className: `control ${control.kind}`, id: `part-${control.name}` }
    );
    const set = (value) => change({ ...values, [control.name]: value });
    if (control.kind === "flag") {
      const box = make("input", { type: "checkbox", id });
      box.addEventListener("change", () => set(box.checked));
      part.append(make("label", {}, box, control.words));
    } else if (control.kind === "choice") {
      const select = make(
        "select",
        { id },
        ...control.options.map(
          (name) => make("option", { value: name, textContent: name })
        )
      );
      select.addEventListener("change", () => set(select.value));
      part.append(make("label", {}, control.words, select));
    } else {
      const { least: min, most: max } = control;
      const field = make(
        "input",
        { type: "number", id, min, max, step: control.kind === "count" ? 1 : "any" }
      );
      field.addEventListener("change", () => set(typed(control, field)));
      const slider = make(
        "input",
        { type: "range", id: `slider-${control.name}`, min: 0, max: TICKS, step: 1 }
      );
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
      if (control.name === "lr")
        part.append(make("div", { className: "marks", id: "marks" }));
    }
    return part;
  }

  function typed(control, field) {
    const value = field.value.trim() === "" ? control.default : Number(field.value);
    const inside = Math.min(
      control.most,
      Math.max(control.least, Number.isFinite(value) ? value : control.default)
    );
    return control.kind === "count" ? Math.round(inside) : inside;
  }

  function showValues(but) {
    for (const control of controls) {
      const field = byId(`control-${control.name}`);
      const slider = byId(`slider-${control.name}`);
      const value = values[control.name];
      if (control.kind === "flag") field.checked = value;
      else field.value = value;
      if (slider && slider !== but) slider.value = toSlider(control, value);
      slider?.setAttribute("aria-valuetext", value);
      byId(`part-${control.name}`).hidden = !applies(control, values)
        || (values.toml !== undefined && !WITH_FILE.includes(control.name));
    }
    for (const group of byId("form").children)
      group.hidden = [
        ...group.querySelectorAll(".control")
      ].every((part) => part.hidden);
    byId("given").hidden = values.toml === undefined;
    byId("given-name").textContent = values.file ?? "";
    // A file is not in the address
    for (const part of ["share", "notebook"])
      byId(part).hidden = values.toml !== undefined;
    byId("file-explorer").hidden = values.toml !== undefined || tables !== null;
    byId("optimize-tasks").hidden = tables !== null
      || values.tasks !== "two"
      || values.toml !== undefined;
    byId("equations").hidden = values.toml !== undefined;
    const same = ({ settings }) => controls.every(
      (c) => (settings[c.name] ?? c.default) === values[c.name]
    );
    const chosen = values.toml === undefined ? presets.find(same) : undefined;
    byId("preset").value = chosen?.name ?? "";
    byId("story").textContent = chosen?.words ?? "";
  }

  const applies = (control, settings) => Object
    .entries(control.only)
    .every(([name, wish]) => [wish].flat().includes(settings[name]));

  // The address holds what differs from the defaults: behind "?" for a server, behind
  // "#" on a page without one.

  function query() {
    const changed = controls.filter(
      (control) => values[control.name] !== control.default
    );
    return new URLSearchParams(
      changed.map((control) => [control.name, String(values[control.name])])
    ).toString();
  }

  // Only known words, and numbers within their range, are taken from the address.
  function fromText(control, text) {
    if (control.kind === "choice")
      return control.options.includes(text) ? text : undefined;
    if (control.kind === "flag") return { true: true, false: false }[text];
    const number = text.trim() === "" ? NaN : Number(text);
    const allowed = number >= control.least
      && number <= control.most
      && (control.kind !== "count" || Number.isInteger(number));
    return allowed ? number : undefined;
  }

  function readAddress() {
    const said = new URLSearchParams(tables ? location.hash.slice(1) : location.search);
    const found = { ...defaults(), ...(said.size ? {} : initial) };
    const refused = [];
    for (const [name, text] of said) {
      const value = byName[name] && fromText(byName[name], text);
      if (value === undefined) refused.push(name.slice(0, 40));
      else found[name] = value;
    }
    values = found;
    return refused;
  }

  function writeAddress() {
    const text = values.toml === undefined ? query() : "";
    try {
      history.replaceState(null, "", tables ? `#${text}` : `?${text}`);
    } catch { // a page inside another one has no address of its own
      byId("share").hidden = true;
    }
    byId("share").textContent = "Copy link";
  }

  function change(next) {
    values = next;
    tutelagePage.pause();
    showValues(document.activeElement);
    writeAddress();
    wanted = true;
    watch();
    send();
  }

  // Where the answer stands, for styles and tests; what searches begins when all else
  // is there.
  function setState(state) {
    document.body.dataset.state = state;
    for (const button of document.querySelectorAll(".optimize"))
      button.disabled = state !== "done";
  }

  // Pinned curves stay while a control moves; their names say in what the settings
  // differ.

  function pin() {
    if (shown === null) return;
    const { times, error, tasks } = tutelagePage.data();
    keep(shown, times, tasks ? tasks.map((task) => task.error) : [error]);
  }

  function keep(settings, times, errors) {
    const used = [
      ...pins,
      ...(tutelagePage.data().tasks ?? [])
    ].map(({ color }) => color.toLowerCase());
    const free = PIN_COLORS.find((color) => !used.includes(color));
    pins = [
      ...pins,
      { settings, times, errors, color: free ?? PIN_COLORS[0] }
    ].slice(-MOST_PINNED);
    showPins();
  }

  function showPins(draw = true) {
    const all = [...pins.map(({ settings }) => settings), shown];
    const differs = controls.filter(
      (c) => all.some((s) => applies(c, s) && s[c.name] !== all[0][c.name])
    );
    const said = (settings, { name, words, kind }) => (
      kind === "flag"
        ? `${settings[name] ? "" : "not: "}${words}`
        : `${words} ${settings[name]}`
    );
    const nameOf = (settings) => settings.file
      || differs
        .filter((c) => applies(c, settings))
        .map((c) => said(settings, c))
        .join(", ")
      || "pinned";
    const named = pins.map((pinned) => ({ ...pinned, name: nameOf(pinned.settings) }));
    byId("pins").replaceChildren(...named.map(({ name, color }, i) => {
      const item = make(
        "button",
        { type: "button", textContent: `${name} ✕`, title: `Remove: ${name}` }
      );
      item.style.setProperty("--color", color);
      item.addEventListener("click", () => {
        pins = pins.filter((_, j) => j !== i);
        showPins();
      });
      return make("li", {}, item);
    }));
    byId("pin").disabled = pins.length >= MOST_PINNED;
    tutelagePage.pin(named, draw);
  }

  // A curve of other settings is dimmed, and says so, unless the right one comes in a
  // moment.

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

  // What takes time: in words, with a bar (share null: it moves, but no end is known)
  // and the seconds so far.

  function sayBusy(sentence, share = null) {
    say(sentence);
    byId("progress").hidden = false;
    if (share === null) byId("progress").removeAttribute("value");
    else byId("progress").value = share;
    const began = performance.now();
    clock = setInterval(
      () => {
        byId("clock").textContent =
          `${Math.round((performance.now() - began) / 1000)} s`;
      },
      1000
    );
  }

  function send(patient = true) {
    if (!wanted || !source.ready()) return;
    clearTimeout(timer);
    if (patient && waiting()) {
      timer = setTimeout(() => send(false), PATIENCE);
      return;
    }
    wanted = false;
    number += 1;
    asked = values;
    byId("remarks").textContent = "";
    byId("protocol").hidden = true;
    setState("asked");
    timer = setTimeout(
      () => {
        if (waiting())
          sayBusy("Solving; a new shape is compiled first, which takes some seconds.");
      },
      MOMENT
    );
    source.ask(number, values);
  }

  function receive({ id, answer }) {
    if (id !== number) return; // of settings that are no longer there
    if (answer.part === "error") {
      answered = id;
      say(answer.sentence, true);
      setState("error");
      send();
      return;
    }
    const take = {
      curve: takeCurve,
      doing: takeDoing,
      rates: takeRates,
      runs: takeRun,
      band: takeBand,
      escape: takeEscape,
      protocol: takeProtocol,
      done: takeEnd,
    };
    take[answer.part]?.(answer, id);
    if (answer.note) remark(answer.part, answer.note);
  }

  function takeCurve({ content, share }, id) {
    const [begun, first] = [shown === asked, shown === null];
    answered = id;
    shown = asked;
    if (!shown.toml) {
      content.code.unshift(
        { name: "Python", text: script(shown), file: "problem.py" }
      );
      showEquations();
    }
    showPins(false);
    tutelagePage.render(
      content,
      tutelagePage.data() !== null && (begun || sameTimes(content))
    );
    if (first && share === 1) begin(content);
    watch(true);
    if (share < 1) sayBusy(`Solving: ${Math.round(100 * share)}%`, share);
    else say("Theory solved; more to come.");
    setState("curve");
    document.body.dataset.answered = id;
    send();
  }

  // The page opens in motion, up to where the plateau is left; not for readers who
  // asked for less of it.
  function begin({ phases, times }) {
    const left = phases.find(({ name }, i) => i > 0 && name === "convergence")
      ?? { start: Infinity };
    const last = times.findIndex((t) => t >= left.start);
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches)
      tutelagePage.play(last < 0 ? undefined : last);
  }

  const sameTimes = (content) => {
    const now = tutelagePage.data();
    return now.log_time === content.log_time && now.log_error === content.log_error;
  };

  function takeRates({ critical, best }) {
    const control = byName.lr;
    const mark = (value, name) => {
      if (!(value >= control.least && value <= control.most)) return [];
      const span = make(
        "span",
        {
          textContent: name,
          title: `${name}: ${value.toPrecision(5)}`,
          className: name,
        }
      );
      span.style.left = `${(100 * toSlider(control, value)) / TICKS}%`;
      return [span];
    };
    byId("marks").replaceChildren(...mark(best, "best"), ...mark(critical, "critical"));
    if (critical !== undefined) tutelagePage.add({ rates: { lr: shown.lr, critical } });
  }

  const takeDoing = ({ words, share }) => sayBusy(
    `Theory solved. Now: ${words}.`,
    share
  );
  const takeRun = ({ errors }) => { if (errors) tutelagePage.add({ runs: errors }); };
  const takeBand = ({ band }) => { if (band) tutelagePage.add({ band }); };
  const takeEscape = ({ escape }) => {
    if (escape !== undefined) tutelagePage.add({ escape });
  };

  function takeEnd() {
    say("");
    setState("done");
  }

  const NAMES = {
    rates: "Rates",
    runs: "Runs",
    band: "Band",
    escape: "Escape",
    protocol: "Optimize",
  };

  // The best course in time of the learning rate or of the tasks: its error is pinned,
  // the schedule is drawn in small.

  function optimize(what) {
    setState("optimizing");
    sayBusy("Searching for the best schedule.");
    source.optimize(number, values, what);
  }

  function takeProtocol({ what, schedule, times, errors, words, toml }) {
    if (!schedule) return;
    const name = what === "lr" ? "best η over time" : "best tasks over time";
    keep({ ...shown, file: name }, times, errors);
    showSchedule(what, schedule, words);
    tutelagePage.add(
      { code: [{ name: `TOML: ${name}`, text: toml, file: "best.toml" }] }
    );
  }

  function showSchedule(what, { times, values: rates }, words) {
    const left = 4;
    const right = 236;
    const top = 14;
    const bottom = 56;
    const most = Math.max(...rates, 1e-12);
    const place = (t, x) =>
      `${left + ((right - left) * t) / times[times.length - 1]},${bottom - ((bottom - top) * x) / most}`;
    const part = (kind, attributes, text = "") => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
      for (const [key, value] of Object.entries(attributes))
        made.setAttribute(key, value);
      made.textContent = text;
      return made;
    };
    const label = (x, y, text, anchor) => part(
      "text",
      { x, y, "text-anchor": anchor },
      text
    );
    const lastTime = Number(times[times.length - 1].toPrecision(4));
    const [picture, caption] = byId("protocol").children;
    const letter = what === "lr" ? "η" : "share of task 1";
    picture.setAttribute("aria-label", words);
    picture.replaceChildren(
      part("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }),
      part("polyline", { points: times.map((t, i) => place(t, rates[i])).join(" ") }),
      label(left, 10, `${letter}, up to ${Number(most.toPrecision(3))}`, "start"),
      label(left, 68, "0", "start"),
      label(right, 68, `α = ${lastTime}`, "end")
    );
    caption.textContent = words;
    byId("protocol").hidden = false;
  }

  function showEquations() {
    tutelageFormulas.show(byId("formulas"), shown);
    const { title, file } = tutelageFormulas.chapter(shown);
    byId("chapter").textContent =
      `The course explains what is seen here in the chapter “${title}” (${file}).`;
  }

  function remark(part, sentence) {
    const text = `${NAMES[part]}: ${sentence}\n`; // the style sheet keeps the lines
    if (!byId("remarks").textContent.includes(text))
      byId("remarks").textContent += text;
    if (part === "rates") byId("marks").replaceChildren();
  }

  // The curve as code: a script, and the same in the cells of a notebook.
  const script = (settings) => tutelageCode.script(settings, tables?.given);
  const notebook = (settings) => tutelageCode.notebook(
    script(settings),
    tutelagePage.data()
  );

  // A copy of this page with other data: what differs is changed in the copy.
  function copied(data, change) {
    const copy = new DOMParser().parseFromString(pageSource, "text/html");
    copy
      .getElementById("data").textContent = JSON
      .stringify(data)
      .replaceAll("<", "\\u003c");
    change?.(copy);
    return `<!doctype html>\n${copy.documentElement.outerHTML}`;
  }

  // The curve as it is shown, with the slider for time: without controls, and without
  // the scripts behind them.
  const curvePage = () => copied(tutelagePage.data(), (copy) => {
    // Plotly and page.js stay
    const [, , ...ours] = copy.querySelectorAll("script:not([type])");
    for (
      const part of [...copy.querySelectorAll("aside, #exports, #equations"), ...ours]
    )
      part.remove();
    copy.querySelector(".beside").className = "";
    copy.title = tutelagePage.data().title;
    const policy = copy.querySelector("meta[http-equiv]");
    policy.content = policy.content.replace("; connect-src 'self'", "");
    const begin = copy.createElement("script");
    begin.textContent =
      'tutelagePage.render(JSON.parse(document.getElementById("data").textContent));';
    copy.body.append(begin);
  });

  // This page with these settings at first.
  function itself() {
    const table = JSON.parse(byId("data").textContent);
    const changed = controls.filter(
      (control) => values[control.name] !== control.default
    );
    table.initial = Object.fromEntries(changed.map(({ name }) => [name, values[name]]));
    return copied(table);
  }

  function saveBlob(name, blob) {
    const address = URL.createObjectURL(blob);
    tutelagePage.save(name, address);
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  const saveText = (name, kind, text) => saveBlob(
    name,
    new Blob([text], { type: kind })
  );

  // A file that the server makes. It has a connection of its own: what the page waits
  // for goes on.
  function saveFromServer(name, { file, ...settings }) {
    const socket = new WebSocket(`ws://${location.host}/live`);
    socket.addEventListener(
      "open",
      () => socket.send(JSON.stringify({ id: 0, settings, want: name }))
    );
    socket.addEventListener("message", ({ data }) => {
      if (data instanceof Blob) saveBlob(name, data);
      else if (JSON.parse(data).answer.part === "error")
        say(JSON.parse(data).answer.sentence, true);
      else return;
      socket.close();
    });
  }

  // A problem file, dropped onto the page or chosen, replaces the controls of the
  // problem until it is closed.

  async function open(file) {
    const text = await file.text();
    if (text.length > MOST_TEXT)
      say(
        `${file.name} has ${text.length} characters; a problem file has at most ${MOST_TEXT}.`,
        true
      );
    else change({ ...values, toml: text, file: file.name });
  }

  function acceptFiles() {
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      if (event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
    });
    byId("open").addEventListener(
      "change",
      ({ target }) => { if (target.files.length) open(target.files[0]); }
    );
    byId("given-close").addEventListener("click", () => {
      byId("open").value = "";
      const { toml, file, ...rest } = values;
      change(rest);
    });
  }

  // The two sources.

  function serverSource() {
    const socket = new WebSocket(`ws://${location.host}/live`);
    socket.addEventListener(
      "open",
      () => { say(""); answered = number; wanted = true; send(); }
    );
    socket.addEventListener("message", (event) => receive(JSON.parse(event.data)));
    socket.addEventListener("close", () => {
      clearTimeout(timer);
      say(
        "The server has stopped. Start it again (tutelage explore), then reload this page.",
        true
      );
      setState("stopped");
    });
    return {
      ready: () => socket.readyState === WebSocket.OPEN,
      ask: (id, { file, ...settings }) => socket.send(JSON.stringify({ id, settings })),
      optimize: (id, { file, ...settings }, what) => socket.send(
        JSON.stringify({ id, settings, want: `optimize ${what}` })
      ),
    };
  }

  function localSource() {
    const local = tutelageLocal(tables);
    const answer = (settings) => {
      try {
        return { part: "curve", content: local.content(settings), share: 1 };
      } catch (error) {
        return { part: "error", sentence: error.message };
      }
    };
    return {
      ready: () => true,
      ask: (id, settings) => setTimeout(() => {
        const found = answer(settings);
        receive({ id, answer: found });
        if (found.part === "curve") receive({ id, answer: { part: "done" } });
      }),
    };
  }

  build();
  document.querySelector(".curve h2").append(make("span", { id: "stale" }));
  byId("keep").firstElementChild.append(...byId("exports").children);
  byId("exports").remove();
  byId("note").after(byId("remarks"));
  document.querySelector("main").after(byId("equations"));
  const refused = readAddress();
  showValues();
  writeAddress();
  byId("pin").addEventListener("click", pin);
  byId("share").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      byId("share").textContent = "Link copied";
    } catch {
      byId("share").textContent = "Copy the address of this page";
    }
  });
  byId("notebook").addEventListener(
    "click",
    () => saveText("problem.ipynb", "application/x-ipynb+json", notebook(shown))
  );
  byId("itself").addEventListener(
    "click",
    () => saveText("explorer.html", "text/html", itself())
  );
  byId("file-html").addEventListener(
    "click",
    () => saveText("page.html", "text/html", curvePage())
  );
  for (const [id, name] of Object.entries(FILES))
    byId(id).addEventListener("click", () => saveFromServer(name, values));
  for (const what of ["lr", "tasks"])
    byId(`optimize-${what}`).addEventListener("click", () => optimize(what));
  // A phone: the main slider and the curve are on the first screen
  if (matchMedia("(max-width: 60rem)").matches) {
    for (const id of ["panel", "equations"]) byId(id).open = false;
    byId("seen").after(byId("story"));
  }
  for (const part of document.querySelectorAll(".server"))
    if (tables) part.hidden = true;
  for (const part of document.querySelectorAll(".local")) part.hidden = tables === null;
  if (!tables) acceptFiles();
  watch();
  source = tables ? localSource() : serverSource();
  wanted = true;
  send();
  if (refused.length)
    byId("remarks").textContent =
      `The address has values that are not allowed here, which were left out: ${refused.join(", ")}.`;
  // settled: the newest settings have been asked for and their curve is there.
  return {
    values: () => values,
    change: (more) => change({ ...values, ...more }),
    settled: () => number > 0 && !wanted && !waiting(),
    script,
    notebook,
  };
})();
