/* The data that page.js draws, computed in the browser.
   They follow the schema in document.py, from the settings of the controls.
     tutelageLocal(tables).content(settings)    solves, and cuts the curve into phases
   tables: {method, phaseColors, colors, faint, digits, given}: the numbers of the
     integrator, the colors of tutelage, the spectrum of the digits, and overlaps
     {r, q, t, v} of a start "as given", or null.
   The phases are those of tutelage.analysis.phases, with the same constants;
   tests/page/test_standalone.py compares them. */
const tutelageLocal = (tables) => {
  "use strict";
  const { method, phaseColors, colors, faint, digits, given } = tables;
  const POINTS = 201; // recorded times
  const TOO_FEW = 20; // recorded times that make no curve
  const range = (count) => Array.from({ length: count }, (_, i) => i);
  const ones = (count) => new Array(count).fill(1);
  const units = (count, name) =>
    `${count === 1 ? "one" : count} ${name} unit${count === 1 ? "" : "s"}`;

  // The problem and its initial condition.

  function problemOf(s) {
    const equal = (lam) => ({ lam, fractions: lam.map(() => 1 / lam.length) });
    const spectra = {
      isotropic: () => equal([1]),
      "power law": () => equal(tutelageTheory.powerLaw(s.beta, s.levels)),
      digits: () => digits,
    };
    const two = s.tasks === "two";
    const M = s.teachers * (two ? 2 : 1);
    return {
      activation: s.activation,
      K: s.students,
      units: two ? [s.teachers, s.teachers] : [s.teachers],
      ...spectra[s.spectrum](),
      lr: s.lr,
      noise: s.noise,
      batch: s.batch,
      decay: s.decay,
      trainReadout: s.train_readout,
      switchAt: s.switch,
      vTeacher: ones(M),
      feedback: s.rule === "feedback alignment" ? ones(s.students) : null,
    };
  }

  // The given overlaps belong to networks and levels of one size; for others the start
  // is the asymmetric one.
  function fitsGiven(s, { K, units: counts, lam }) {
    const M = counts.reduce((a, b) => a + b);
    return s.start === "as given"
      && given.r.length === lam.length * K * M
      && given.q.length === lam.length * K * K
      && given.v.length === K * counts.length;
  }

  function startOf(s, problem) {
    const { K, units: counts, lam, fractions } = problem;
    const M = counts.reduce((a, b) => a + b);
    if (fitsGiven(s, problem)) return given;
    const v = ones(K * counts.length).map((x) => x * (s.train_readout ? s.readout : 1));
    if (counts.length === 1 && s.start === "random weights") {
      if (
        Math.min(
          ...tutelageTheory.levelDims(fractions, Math.max(s.dim, lam.length))
        ) < K + M + 2
      ) {
        const least = Math.ceil((K + M + 3) / Math.min(...fractions));
        throw new Error(
          `N is ${s.dim}; random weights of these networks need about ${least} inputs here. Raise N.`
        );
      }
      return {
        ...tutelageTheory.randomStart(K, M, fractions, s.dim, s.scale, s.seed),
        v
      };
    }
    // Two tasks: unit m of both teachers
    const same = (a, b) => (
      a === b ? 1 : Math.abs(a - b) === s.teachers ? s.similarity : 0
    );
    const T = range(M * M).map((at) => same((at / M) | 0, at % M));
    return { ...tutelageTheory.asymmetricStart(K, T, lam.length), v };
  }

  function timesOf(s) {
    if (!s.log_time) return range(POINTS).map((i) => (s.end * i) / (POINTS - 1));
    return range(POINTS).map(
      (i) => (i === 0 ? 0 : s.end * 10 ** ((4 * (i - 1)) / (POINTS - 2) - 4))
    );
  }

  function solved(s) {
    const problem = problemOf(s);
    const [start, times] = [startOf(s, problem), timesOf(s)];
    const found = tutelageTheory.solve(problem, start, times, method);
    if (found.finished || found.times.length > TOO_FEW)
      return { problem, start, ...found };
    // Fill what there is before the end
    const within = range(POINTS).map((i) => (0.999 * found.end * i) / (POINTS - 1));
    return {
      problem,
      start,
      ...tutelageTheory.solve(problem, start, within, method),
      finished: false,
      end: found.end
    };
  }

  // The data for the page.

  function content(s) {
    const found = solved(s);
    const { problem: { K, units: counts } } = found;
    const M = counts.reduce((a, b) => a + b);
    const several = counts.length > 1;
    const from = s.log_time && found.times[0] === 0 ? 1 : 0;
    const curve = {
      times: found.times,
      error: found.error.map((each) => each[0]),
      R: found.R,
      Q: found.Q,
      K,
      M,
      noise: s.noise,
      activation: s.activation,
      diverged: !found.finished,
    };
    curve.T = summedT(found.start.t, found.problem, M);
    const cut = several ? null : phases(curve);
    const order = cut?.order ?? range(K);
    const students = { name: "student", labels: order.map((k) => String(k + 1)) };
    const unit = (m) => (
      s.teachers === 1
        ? String(m + 1)
        : `${1 + ((m / s.teachers) | 0)}.${1 + (m % s.teachers)}`
    );
    const teachers = several
      ? { name: s.teachers === 1 ? "task" : "task.unit", labels: range(M).map(unit) }
      : { name: "teacher", labels: range(M).map((m) => String(m + 1)) };
    const rows = (name, width, columns) => found[name]
      .slice(from)
      .map((x) => order.map((k) => columns.map((m) => x[k * width + m])));
    const maps = [
      {
        name: "R",
        title: "R: student and teacher units",
        rows: students,
        columns: teachers,
        values: rows("R", M, range(M)),
      },
      {
        name: "Q",
        title: "Q: student units",
        rows: students,
        columns: students,
        values: rows("Q", K, order),
      },
    ];
    if (s.train_readout) {
      const heads = several
        ? { name: "task", labels: ["1", "2"] }
        : { name: "", labels: ["v"] };
      const values = found.v
        .slice(from)
        .map((v) => order.map((k) => counts.map((_, task) => v[task * K + k])));
      maps.push(
        { name: "v", title: "v: readouts", rows: students, columns: heads, values }
      );
    }
    for (const map of maps)
      map.bound = Number(Math.max(...map.values.flat(2).map(Math.abs)).toPrecision(3))
        || 1;
    const tasks = counts.map(
      (_, task) => ({
        name: `task ${task + 1}`,
        error: found.error.slice(from).map((each) => each[task]),
        color: colors[task],
      })
    );
    const end = found.times[found.times.length - 1];
    const errors = found.error.flat().filter((x) => x > 0);
    const changes = [0, s.switch].filter((t) => t < end);
    const schedule = changes.map(
      (start, task) => ({
        name: `task ${task + 1}`,
        start,
        end: changes[task + 1] ?? end,
        color: colors[task],
      })
    );
    return {
      title: title(s),
      conditions: conditions(s, found.problem),
      time_name: "α = steps / N",
      error_name: "generalization error",
      runs: [],
      band: null,
      escape: null,
      code: [],
      note: order.some((k, i) => k !== i)
        ? "Student units are in the order of the teacher units to which they specialize."
        : "",
      warning: found.finished
        ? ""
        : `The solve diverged at alpha = ${Number(found.end.toPrecision(4))}.`,
      log_time: s.log_time,
      log_error: errors.length > 1
        && Math.max(...errors) / Math.min(...errors) > 10 ** 1.5,
      times: found.times.slice(from),
      error: tasks[0].error,
      ...(several ? { tasks } : {}),
      phases: several ? schedule : cut.phases,
      maps,
      frames: range(found.times.length - from).map((i) => i + from),
    };
  }

  function title(s) {
    const trained = s.train_readout ? " and a trained readout" : "";
    const text =
      `${units(s.students, s.activation)}${trained} ${s.students === 1 ? "learns" : "learn"} `;
    const whole = text + (
      s.tasks === "two"
        ? `2 tasks (${units(s.teachers, s.activation)} each)`
        : `from ${units(s.teachers, s.activation)}`
    );
    return whole[0].toUpperCase() + whole.slice(1);
  }

  function conditions(s, problem) {
    const words = s.tasks === "two"
      ? [`switch at ${s.switch}`, `similarity ${s.similarity}`]
      : [];
    words.push(`learning rate ${s.lr}`);
    if (s.batch !== 1) words.push(`batch ${s.batch}`);
    if (s.decay > 0) words.push(`weight decay ${s.decay}`);
    if (s.rule !== "gradient") words.push(`${s.rule} rule`);
    words.push(s.noise ? `label noise ${s.noise}` : "no label noise");
    const inputs = {
      isotropic: "isotropic inputs",
      "power law": `power-law inputs (beta = ${s.beta}, ${s.levels} levels)`,
    };
    words.push(inputs[s.spectrum] ?? `inputs with ${digits.lam.length} levels`);
    const other = s.start === "as given" && !fitsGiven(s, problem)
      ? ["asymmetric start (the given one has another size)"]
      : [];
    return [...words, `initial condition of N = ${s.dim}`, ...other].join(", ");
  }

  function summedT(t, { lam, fractions }, M) {
    return range(M * M).map(
      (at) => lam.reduce((sum, x, l) => sum + x * fractions[l] * t[l * M * M + at], 0)
    );
  }

  // Phases: analysis/curve_events/named_phases.py of a solved curve.

  const BAND = Math.log(1.1); // the error is on a plateau within 10% of its height
  // By which the logarithm of the dwell time falls when a plateau is left
  const DROP = Math.log(3);
  const median = (values) => {
    const [sorted, half] = [[...values].sort((a, b) => a - b), values.length / 2];
    return (sorted[Math.ceil(half) - 1] + sorted[Math.floor(half)]) / 2;
  };

  function interpolated(times, y, t) {
    const after = times.findIndex((x) => x >= t);
    if (after <= 0) return after < 0 ? y[y.length - 1] : y[0];
    return y[after - 1] + (
      (t - times[after - 1]) / (times[after] - times[after - 1])
    ) * (y[after] - y[after - 1]);
  }

  // Between which times around index `at` the curve stays within BAND of `center`;
  // Infinity: to the end of the record.
  function spanAround(times, y, at, center) {
    const crossing = (inside, outside) => {
      const edge = center + BAND * Math.sign(y[outside] - center);
      const part = Math.min(
        1,
        Math.max(0, (edge - y[inside]) / (y[outside] - y[inside]))
      );
      return times[inside] + part * (times[outside] - times[inside]);
    };
    const out = (i) => Math.abs(y[i] - center) > BAND;
    let [after, before] = [at, at];
    while (after < y.length && !out(after)) after++;
    while (before >= 0 && !out(before)) before--;
    return [
      before < 0 ? times[0] : crossing(before + 1, before),
      after === y.length ? Infinity : crossing(after - 1, after),
    ];
  }

  // Maxima of the dwell time that stand out by DROP; the end of the record, where it is
  // not known, counts as still slower.
  function slowMoments(spans) {
    const dwell = spans.map(([start, end]) => Math.log(Math.max(end - start, 1e-300)));
    const known = dwell.filter(Number.isFinite);
    if (!known.length) return [];
    const [low, high] = [Math.min(...known) - 2 * DROP, Math.max(...known) + 2 * DROP];
    const x = [low, ...dwell.map((d) => (Number.isFinite(d) ? d : high)), high];
    const found = [];
    for (let i = 1; i < x.length - 1; i++) {
      let last = i;
      while (last < x.length - 1 && x[last + 1] === x[i]) last++;
      if (x[i - 1] < x[i] && last < x.length - 1 && x[last + 1] < x[i]) {
        let [left, right] = [x[i], x[i]];
        for (let j = i; j >= 0 && x[j] <= x[i]; j--) left = Math.min(left, x[j]);
        for (let j = i; j < x.length && x[j] <= x[i]; j++)
          right = Math.min(right, x[j]);
        if (x[i] - Math.max(left, right) >= DROP) found.push(((i + last) >> 1) - 1);
      }
      i = last;
    }
    return found;
  }

  function plateaus(times, y) {
    const spans = y.map((value, i) => spanAround(times, y, i, value));
    const end = times[times.length - 1];
    const levels = slowMoments(spans).map((i) => {
      const [a, b] = [spans[i][0], Math.min(spans[i][1], end)];
      const height = median(
        range(1001).map((j) => interpolated(times, y, a + ((b - a) * j) / 1000))
      );
      const inside = range(times.length).filter(
        (j) => times[j] >= spans[i][0] && times[j] <= spans[i][1]
      );
      const at = inside.reduce(
        (best, j) => (Math.abs(y[j] - height) < Math.abs(y[best] - height) ? j : best)
      );
      return [height, ...spanAround(times, y, at, height)];
    });
    const different = levels.filter(
      (level, i) => levels.findIndex(
        (other) => other.every((x, j) => x === level[j])
      ) === i
    );
    return different.filter(
      ([height, , stop]) => end > stop
        && median(y.filter((_, i) => times[i] > stop)) < height - BAND
    );
  }

  function isSymmetric({ times, R, K, M }, time) {
    if (K < 2) return null;
    const at = times.reduce(
      (best, t, i) => (Math.abs(t - time) < Math.abs(times[best] - time) ? i : best),
      0
    );
    const rows = range(K).map((k) => range(M).map((m) => R[at][k * M + m]));
    const size = (row) => Math.hypot(...row);
    const gap = Math.max(
      ...rows.flatMap((a) => rows.map((b) => size(a.map((x, m) => x - b[m]))))
    );
    return gap <= 0.3 * (rows.reduce((sum, row) => sum + size(row), 0) / K);
  }

  // Which student unit copies which teacher unit, and the index of specialization: 0
  // symmetric, 1 each copies its own.
  function specialization({ R, Q, T, K, M }) {
    if (Math.min(K, M) < 2) return null;
    const cosine = (i, k, m) => Math.min(
      1,
      Math.max(-1, R[i][k * M + m] / Math.sqrt(Q[i][k * K + k] * T[m * M + m]) || 0)
    );
    const last = R.length - 1;
    const pairs = assignment(
      range(K).map((k) => range(M).map((m) => Math.abs(cosine(last, k, m))))
    );
    const signs = pairs.map(([k, m]) => (cosine(last, k, m) < 0 ? -1 : 1));
    const ownMinusOthers = (value) => {
      let own = 0;
      let all = 0;
      for (let i = 0; i < pairs.length; i++) {
        own += value(i, i);
        for (let j = 0; j < pairs.length; j++) all += value(i, j);
      }
      return (own - (all - own) / (pairs.length - 1)) / pairs.length;
    };
    const whole = ownMinusOthers((i, j) => {
      const [a, b] = [pairs[i][1], pairs[j][1]];
      return T[a * M + b] / Math.sqrt(T[a * M + a] * T[b * M + b]);
    });
    const index = R.map(
      (_, time) => Math.min(
        1,
        Math.max(
          0,
          ownMinusOthers(
            (i, j) => signs[i] * cosine(time, pairs[i][0], pairs[j][1])
          ) / whole
        )
      )
    );
    return { index, pairs };
  }

  // Pairs (row, column), one to one, with the largest sum; small tables only
  function assignment(gain) {
    const [rows, columns] = [gain.length, gain[0].length];
    const best = new Map();
    const from = (row, used, left) => {
      if (row === rows) return { sum: left === 0 ? 0 : -Infinity, pairs: [] };
      const key = (row << 8) | used;
      if (best.has(key)) return best.get(key);
      let found = rows - row > left
        ? from(row + 1, used, left)
        : { sum: -Infinity, pairs: [] };
      for (let m = 0; left > 0 && m < columns; m++) {
        if (used & (1 << m)) continue;
        const rest = from(row + 1, used | (1 << m), left - 1);
        if (gain[row][m] + rest.sum > found.sum)
          found = { sum: gain[row][m] + rest.sum, pairs: [[row, m], ...rest.pairs] };
      }
      best.set(key, found);
      return found;
    };
    return from(0, 0, Math.min(rows, columns)).pairs;
  }

  // When the index rises through a value for good
  function reaches(times, index, value) {
    const below = index.findLastIndex((x) => x < value);
    if (below < 0 || below === times.length - 1) return null;
    return times[below] + (
      (value - index[below]) / (index[below + 1] - index[below])
    ) * (times[below + 1] - times[below]);
  }

  const ROTATING = ["linear", "quadratic"];

  function phases(curve) {
    const { times, error, K } = curve;
    const rounding = Math.max(1e-13 * Math.max(...error.map(Math.abs)), 2.3e-308);
    const y = error.map((x) => Math.log(Math.max(x, rounding)));
    const last = times.length - 1;
    const [found, special] = [plateaus(times, y), specialization(curve)];
    let begins = [[times[0], "search"]];
    for (const [, start, end] of found) {
      begins.push(
        [
          start,
          isSymmetric(curve, (start + end) / 2) ? "symmetric plateau" : "plateau",
        ],
        [end, special ? "specialization" : "escape"]
      );
    }
    const learned = special && reaches(times, special.index, 0.9);
    if (learned !== null && special) {
      if (!found.length) begins = [[times[0], "specialization"]];
      begins.push([Math.max(learned, begins[begins.length - 1][0]), "convergence"]);
    } else if (!special) begins[begins.length - 1][1] = "convergence";
    const followedBy = (name, time) => [
      ...begins.filter(([t]) => t < time),
      [time, name]
    ];
    let lowest = error.indexOf(Math.min(...error));
    if (error[last] <= error[lowest] * (1 + 1e-6) || error[last] <= rounding)
      lowest = last;
    if (curve.diverged) begins = followedBy("divergence", times[lowest]);
    else {
      if (error[last] > 1.1 * error[lowest]) begins = followedBy("rise", times[lowest]);
      const level = finalLevel(times, y, rounding);
      if (level !== null) {
        const left = found.length ? found[found.length - 1][2] : times[0];
        const symmetric = special
          && special.index[last] < 0.5
          && isSymmetric(curve, times[last]);
        const name = symmetric
          ? "symmetric plateau"
          : curve.noise > 0
          ? "noise floor"
          : "final level";
        begins = followedBy(name, Math.max(spanAround(times, y, last, level)[0], left));
      }
    }
    const list = [];
    // Equal neighbors become one, those of no length vanish
    begins.forEach(([start, name], i) => {
      const end = begins[i + 1]?.[0] ?? times[last];
      if (list.length && list[list.length - 1].name === name)
        list[list.length - 1].end = end;
      else if (end > start)
        list.push({ name, start, end, color: phaseColors[name] ?? faint });
    });
    const own = range(K).map(
      (k) => special?.pairs.find(([student]) => student === k)?.[1] ?? K + curve.M
    );
    // Units that can rotate among themselves have no teacher unit of their own
    const order = ROTATING.includes(curve.activation)
      ? range(K)
      : range(K).sort((a, b) => own[a] - own[b] || a - b);
    return { phases: list, order };
  }

  // ln of the error that the curve keeps at its end; null if it still changes, or has
  // no digits left.
  function finalLevel(times, y, rounding) {
    const [end, span] = [times[times.length - 1], times[times.length - 1] - times[0]];
    const [late, early] = [0, 0.1].map(
      (share) => median(
        range(101).map((i) => interpolated(times, y, end - span * (share + i / 1000)))
      )
    );
    if (late <= Math.log(rounding) + 1e-6) return null;
    return Math.abs(late - early) <= 0.1 * Math.log(
      (end - 0.05 * span) / (end - 0.15 * span)
    )
      ? late
      : null;
  }

  return { content };
};
