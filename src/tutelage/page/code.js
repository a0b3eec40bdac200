/* The settings of the explorer as Python.
     tutelageCode.script(settings, given)   solves and simulates what the page shows;
                                            given: the initial overlaps of a page that
                                            carries them
     tutelageCode.notebook(python, data)    such a script as a notebook, under the
                                            title and conditions of these data */
const tutelageCode = (() => {
  "use strict";

  // Values in the notation of Python

  const quoted = (text) => `"${text}"`;

  function float(x) {
    const isWhole = Number.isInteger(x) && Math.abs(x) < 1e16;
    return isWhole ? `${x}.0` : String(x);
  }

  // Numbers that lie one after the other, as nested lists of these sizes.
  function nested(flat, ...sizes) {
    if (sizes.length === 1) return `[${flat.join(", ")}]`;
    const [count, ...inner] = sizes;
    const size = flat.length / count;
    const rows = [];
    for (let i = 0; i < count; i += 1)
      rows.push(nested(flat.slice(i * size, (i + 1) * size), ...inner));
    return `[${rows.join(", ")}]`;
  }

  // The arguments of the problem

  const hasTwoTasks = (s) => s.tasks === "two";
  // Clusters have labels of their own.
  const hasTeacher = (s) => s.spectrum !== "two clusters" && s.spectrum !== "XOR";

  function student(s) {
    const network = [s.students, quoted(s.activation)];
    if (s.spectrum === "XOR") { // needs readouts of both signs
      const size = s.train_readout ? s.readout : 1;
      const readouts = [];
      for (let k = 0; k < s.students; k += 1)
        readouts.push(float(k % 2 ? -size : size));
      network.push(`readout=[${readouts.join(", ")}]`);
    } else if (s.train_readout) {
      network.push(`readout=[${float(s.readout)}] * ${s.students}`);
    }
    if (s.train_readout) network.push("train_readout=True");
    return `tu.Network(${network.join(", ")})`;
  }

  function teacher(s) {
    const network = `tu.Network(${s.teachers}, ${quoted(s.activation)})`;
    if (!hasTwoTasks(s)) return network;
    const schedule = `tu.Switch(${float(s.switch)})`;
    return `tu.Tasks([${network}] * 2, ${schedule}, similarity=${float(s.similarity)})`;
  }

  function rule(s) {
    if (s.rule === "feedback alignment") return "tu.rules.FeedbackAlignment()";
    if (s.rule === "dropout") return `tu.rules.Dropout(${float(s.keep)})`;
    return "";
  }

  function inputs(s) {
    switch (s.spectrum) {
      case "power law":
        return `tu.PowerLaw(${float(s.beta)}, ${s.levels})`;
      case "digits":
        return "tu.Spectrum(measured.eigenvalues, measured.fractions)";
      case "two clusters":
        return `tu.Mixture.two_gaussians(${float(s.distance)})`;
      case "XOR":
        return `tu.Mixture.xor(${float(s.distance)})`;
      default:
        return "tu.Isotropic()";
    }
  }

  function optimizer(s) {
    const sgd = [float(s.lr)];
    if (s.batch !== 1) sgd.push(`batch=${s.batch}`);
    if (s.decay) sgd.push(`weight_decay=${float(s.decay)}`);
    return `tu.SGD(${sgd.join(", ")})`;
  }

  // A page without a server has no control for loss and labels: they are the usual
  // ones.
  function problem(s) {
    const labels = s.labels ?? "real";
    const loss = s.loss ?? "squared";
    const lines = [`student=${student(s)}`];
    if (hasTeacher(s)) lines.push(`teacher=${teacher(s)}`);
    if (loss !== "squared") lines.push(`loss=${quoted(loss)}`);
    if (hasTeacher(s) && labels !== "real") lines.push(`labels=${quoted(labels)}`);
    if (rule(s)) lines.push(`rule=${rule(s)}`);
    lines.push(`inputs=${inputs(s)}`);
    lines.push(`optimizer=${optimizer(s)}`);
    if (hasTeacher(s) && labels === "real" && s.noise)
      lines.push(`noise=${float(s.noise)}`);
    return ["problem = tu.Problem(", ...lines.map((line) => `    ${line},`), ")"];
  }

  // Initial condition and times

  const columns = (s) => s.teachers * (hasTwoTasks(s) ? 2 : 1);

  // The overlaps of the page belong to one number of units.
  function fits(s, given) {
    const K = s.students;
    return given.q.length % (K * K) === 0
      && given.r.length * K === given.q.length * columns(s);
  }

  function givenStart(s, { r, q, t, v }) {
    const K = s.students;
    const M = columns(s);
    const levels = r.length > K * M ? [r.length / (K * M)] : [];
    const heads = hasTwoTasks(s) ? [2] : [];
    const overlaps = [
      `R=${nested(r, ...levels, K, M)}`,
      `Q=${nested(q, ...levels, K, K)}`,
      `T=${nested(t, ...levels, M, M)}`,
      `readout=${nested(v, ...heads, K)}`,
      `dim=${s.dim}`,
    ];
    return `Start(${overlaps.join(", ")})`;
  }

  function start(s, given) {
    if (s.start === "as given" && fits(s, given)) return givenStart(s, given);
    if (s.start === "random weights" && !hasTwoTasks(s)) {
      const weights = `dim=${s.dim}, scale=${float(s.scale)}, seed=${s.seed}`;
      return `random_start(problem, ${weights})`;
    }
    return `asymmetric_start(problem, dim=${s.dim})`;
  }

  function times(s) {
    if (s.log_time) return `log_times(${float(s.end / 1e4)}, ${float(s.end)}, 201)`;
    return `linear_times(${float(s.end)}, 201)`;
  }

  function script(s, given) {
    const lines = ["import tutelage as tu", ""];
    if (s.spectrum === "digits") {
      lines.unshift("import numpy as np");
      lines.push(
        "measured = tu.Spectrum.from_covariance(np.cov(tu.digits().reshape(-1, 64).T), levels=16)"
      );
    }
    const runs = Math.max(1, s.runs ?? 1);
    return [
      ...lines,
      ...problem(s),
      `start = tu.${start(s, given)}`,
      `times = tu.${times(s)}`,
      "theory = tu.solve(problem, start, times)",
      `runs = tu.simulate(problem, start, times=times, runs=${runs})`,
      "print(tu.compare(theory, runs))",
      "",
    ].join("\n");
  }

  // The problem, the theory with its figure, the comparison with simulated networks.
  function notebook(python, { title, conditions }) {
    const [setup, rest] = python.trimEnd().split(/\n(?=theory = )/);
    const [theory, ...runs] = rest.split("\n");
    const cells = [
      text(`# ${title}\n\n${conditions}`),
      code(setup),
      code(`${theory}\ntheory.plot()`),
      text("Networks of finite size, compared with the theory:"),
      code(runs.join("\n")),
      code("theory.widget()"),
    ];
    const kernelspec = {
      name: "python3",
      display_name: "Python 3",
      language: "python",
    };
    const content = {
      nbformat: 4,
      nbformat_minor: 5,
      metadata: { kernelspec },
      cells: cells.map((cell, i) => ({ ...cell, id: `cell-${i + 1}`, metadata: {} })),
    };
    return JSON.stringify(content, null, 1);
  }

  const text = (source) => ({ cell_type: "markdown", source });
  const code = (source) => ({
    cell_type: "code",
    source,
    execution_count: null,
    outputs: [],
  });

  return { script, notebook };
})();
