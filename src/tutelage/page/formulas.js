/* The equations of the present settings, and the chapter of the course about them.
   The equations are MathML, which browsers draw without a library.
     tutelageFormulas.lines(settings)     [{words, tex}]: text, and the formulas, with
                                          \quad between them
     tutelageFormulas.chapter(settings)   {title, file}
     tutelageFormulas.math(tex)           a math element; a few commands of TeX: \frac
                                          \sqrt \sum, _ and ^, Greek letters
   The letters are those of docs/notation.md. */
const tutelageFormulas = (() => {
  "use strict";
  const SPACE = "http://www.w3.org/1998/Math/MathML";
  const LETTERS = {
    alpha: "α",
    eta: "η",
    lambda: "λ",
    rho: "ρ",
    sigma: "σ",
    kappa: "κ",
    delta: "δ",
    pi: "π",
    ell: "ℓ",
    epsilon: "ε",
    yhat: "ŷ",
    ystar: "y*",
  };
  const SIGNS = { sum: "∑", ne: "≠", top: "⊤" };
  const FUNCTIONS = ["erf", "tanh", "sign", "arcsin", "max", "P", "E"];

  function element(kind, ...children) {
    const made = document.createElementNS(SPACE, kind);
    made.append(...children);
    return made;
  }

  function math(tex) {
    const tokens = tex.match(/\\[a-zA-Z]+|[0-9.]+|[a-zA-Z]|[^\s]/g);
    let at = 0;

    function group() { // {...}, or one token
      if (tokens[at] !== "{") return atom();
      at += 1;
      const inside = row("}");
      at += 1;
      return inside;
    }

    function atom() {
      const token = tokens[at++];
      const name = token.slice(1);
      if (token === "\\frac") return element("mfrac", group(), group());
      if (token === "\\sqrt") return element("msqrt", group());
      if (name in LETTERS) return element("mi", LETTERS[name]);
      if (name in SIGNS) return element("mo", SIGNS[name]);
      if (FUNCTIONS.includes(name)) return element("mi", name);
      if (/^[0-9]/.test(token)) return element("mn", token);
      const made = element(
        /[a-zA-Z]/.test(token) ? "mi" : "mo",
        token === "-" ? "−" : token
      );
      if ("()[]".includes(token)) made.setAttribute("stretchy", "false");
      return made;
    }

    function row(end) {
      const parts = [];
      while (at < tokens.length && tokens[at] !== end) {
        let part = tokens[at] === "{" ? group() : atom();
        const [first, under] = [tokens[at], part.textContent === SIGNS.sum];
        if (first === "_" || first === "^") {
          at += 1;
          const script = group();
          const both = tokens[at] === "^" && first === "_";
          if (both) at += 1;
          const kind = first === "^"
            ? "msup"
            : both
            ? "msubsup"
            : under
            ? "munder"
            : "msub";
          part = element(kind, part, script, ...(both ? [group()] : []));
        }
        parts.push(part);
      }
      return element("mrow", ...parts);
    }

    const whole = element("math", row());
    whole.setAttribute("displaystyle", "true");
    return whole;
  }

  const ACTIVATIONS = {
    erf: [
      "\\erf(z/\\sqrt{2})",
      "\\frac{2}{\\pi} \\frac{1}{\\sqrt{(1 + C_{kk})(1 + C_{aa}) - C_{ka}^2}}",
      "- \\sum_a w_a J_{ka} \\frac{C_{ka}}{1 + C_{kk}}",
    ],
    relu: [
      "\\max(0, z)",
      "\\frac{1}{4} + \\frac{1}{2\\pi} \\arcsin \\frac{C_{ka}}{\\sqrt{C_{kk} C_{aa}}}",
      "\\sum_a w_a \\frac{\\sqrt{C_{kk} C_{aa} - C_{ka}^2}}{2 \\pi C_{kk}}",
    ],
    linear: ["z", "1", "0"],
    quadratic: ["z^2", "4 C_{ka}", "2 \\sum_a w_a C_{aa}"],
    tanh: ["\\tanh z"],
    gelu: ["z \\P(Z < z)"],
  };

  function lines(s) {
    const [loss, aligned] = [s.loss ?? "squared", s.rule === "feedback alignment"];
    const clusters = ["two clusters", "XOR"].includes(s.spectrum);
    const levels = ["power law", "digits"].includes(s.spectrum);
    const classes = clusters
      ? ["logistic", "hinge"].includes(loss)
      : (s.labels ?? "real") !== "real";
    const [g, slopes, bend] = ACTIVATIONS[s.activation];
    const closed = loss === "squared"
      && !classes
      && !clusters
      && s.rule !== "dropout"
      && slopes !== undefined;
    const [r, q, t, lam] = levels
      ? ["r_l", "q_l", "t_l", "\\lambda_l "]
      : ["R", "Q", "T", ""];
    const decay = (overlap) => (s.decay > 0 ? ` - \\eta \\kappa ${overlap}` : "");
    const back = aligned ? "f_k" : "v_k";
    const slope = loss === "squared" ? "(y - \\yhat)" : "(- \\frac{d\\ell}{d\\yhat})";
    const target = clusters ? "y" : "\\ystar";
    const error = classes
      ? "\\epsilon = \\P(\\sign \\yhat \\ne \\sign " + target + ")"
      : `\\epsilon_g = \\frac{1}{2} \\E[(\\yhat - ${target})^2]`;
    const taught = clusters ? "" : " , \\quad \\ystar = \\sum_m g(\\rho_m)";
    const found = [
      {
        words: "The output and its error:",
        tex: `\\yhat = \\sum_k v_k g(\\lambda_k)${taught} , \\quad ${error}`,
      },
      {
        words: `The overlaps with the ${clusters ? "means of the clusters" : "teacher"}${levels ? ", level by level" : ""}:`,
        tex: `\\frac{d${r}}{d\\alpha} = \\eta ${lam}(A ${r} + B ${t})${decay(r)}`,
      },
      {
        words: "The overlaps of the student units; G is the noise of single steps:",
        tex: `\\frac{d${q}}{d\\alpha} = F + F^{\\top} + ${s.batch > 1 ? "\\frac{\\eta^2}{b}" : "\\eta^2"} ${lam}G , \\quad F = \\eta ${lam}(A ${q} + B ${r}^{\\top})${decay(q)}`,
      },
    ];
    if (levels)
      found.push({
        words: "A, B and G depend on the sums over levels:",
        tex: "R = \\sum_l p_l \\lambda_l r_l , \\quad Q = \\sum_l p_l \\lambda_l q_l",
      });
    if (s.train_readout)
      found.push({
        words: "The readout:",
        tex: `\\frac{dv_k}{d\\alpha} = \\eta \\E[g(\\lambda_k) ${slope}]`,
      });
    found.push({
      words: `One sample moves unit k along x by${s.rule === "dropout" ? " (kept units only)" : ""}:`,
      tex: `\\delta_k = ${back} g'(\\lambda_k) ${slope} , \\quad G_{kj} = \\E[\\delta_k \\delta_j]`,
    });
    if (!closed)
      return [
        ...found,
        {
          words: "A and B are averages of this step over the inputs, for the activation:",
          tex: `g(z) = ${g}`,
        }
      ];
    return [...found,
      {
        words: "Its mean, with w = −v for student units and w = 1 for teacher units:",
        tex: `A_{kj} = ${back} (w_j J_{kj} + [k = j] h_k) , \\quad B_{km} = ${back} J_{km}`,
      },
      {
        words: `For ${s.activation} units, with C the covariance of all fields:`,
        tex: `g(z) = ${g} , \\quad J_{ka} = ${slopes} , \\quad h_k = ${bend}`,
      },
    ];
  }

  const CHAPTERS = {
    plateaus: "Plateaus, and how symmetry breaks",
    "rates-and-noise": "Learning rates and noise",
    "both-layers": "Both layers trained",
    "mismatched-students": "Students that do not match their teacher",
    relu: "ReLU units",
    classification: "Classification",
    "structured-data": "Structured data",
    "quadratic-networks": "Quadratic networks",
    "continual-learning": "Continual learning",
  };

  function chapter(s) {
    const fitting = [
      [s.tasks === "two", "continual-learning"],
      [
        ["two clusters", "XOR"].includes(s.spectrum) || (s.labels ?? "real") !== "real",
        "classification",
      ],
      [s.spectrum !== "isotropic", "structured-data"],
      [s.activation === "quadratic", "quadratic-networks"],
      [s.activation === "relu", "relu"],
      [s.train_readout, "both-layers"],
      [s.students !== s.teachers, "mismatched-students"],
      [s.noise > 0 || s.decay > 0 || s.lr > 2, "rates-and-noise"], [true, "plateaus"],
    ];
    const [, file] = fitting.find(([fits]) => fits);
    return { title: CHAPTERS[file], file: `docs/learn/${file}.md` };
  }

  let shown = ""; // the formulas that are there

  function show(place, s) {
    const all = lines(s);
    if (shown === JSON.stringify(all) && place.hasChildNodes()) return;
    shown = JSON.stringify(all);
    const rows = all.map(({ words, tex }) => {
      const part = document.createElement("div");
      const text = document.createElement("p");
      text.textContent = words;
      part.append(text, ...tex.split(/ ,? *\\quad /).map(math));
      return part;
    });
    place.replaceChildren(...rows);
  }

  return { lines, math, chapter, show, CHAPTERS };
})();
