/* The theory of a committee, solved in the browser.
   The state is R, Q and the readout v, with the letters of the library.
     tutelageTheory.solve(problem, start, times, method, rtol)
         {times, R, Q, v, error, finished, end}, one row for each time
     tutelageTheory.randomStart, asymmetricStart    the initial conditions of tutelage
     tutelageTheory.powerLaw    eigenvalues lam_l on equal fractions of the dimensions
   problem: {activation, K, units, lam, fractions, lr, noise, batch, decay,
       trainReadout, switchAt, vTeacher, feedback}
     units: how many teacher units each task has; from the time switchAt on, samples
       belong to the second of two tasks.
     feedback: the weights f through which the error returns in place of the readout v
       (feedback alignment); or null.
   start: {r, q, t, v}: r_l (K x M), q_l (K x K), t_l (M x M) of all levels in one array
     each, v one readout for each task.
   method: nodes, stages, errors and weights of the integrator, from
     solvers/dormand_prince.py.
   The formulas are those of stream/moments/averages.py, stream/moments/matrices.py and
   stream/order_parameters.py; tests/page/test_standalone.py compares the numbers. */
const tutelageTheory = (() => {
  "use strict";
  // The error is integrated in this unit, to guide the steps near perfect learning
  const FINE = 1e4;
  const BOUND = 1e8; // overlaps this much larger than at the start have diverged
  const MAX_STEPS = 20000;
  // Largest deviation from a copy of the teacher at which the error is integrated along
  // a path
  const NEAR = 0.03;
  // Nodes and weights of Gauss-Legendre on [0, 1]
  const PATH = [
    [0.046910077030668, 0.1184634425280945],
    [0.2307653449471585, 0.2393143352496832],
    [0.5, 0.2844444444444444],
    [0.7692346550528415, 0.2393143352496832],
    [0.953089922969332, 0.1184634425280945],
  ];
  const asin = (x) => Math.asin(Math.max(-1, Math.min(1, x)));

  // Averages over n Gaussian fields with covariance C (students first), for the error
  // Delta0 = sum_a w_a g_a. `update` fills slopes E[g'_i g'_a] (K x n), bend_i = sum_a
  // w_a E[g''_i g_a], pull_i = sum_a w_a E[g_i g_a], squared E[g'_i g'_j Delta0^2] (K x
  // K, if asked for); outputs(C, n) is E[g_a g_b] (n x n). The arrays are made once: to
  // allocate them at every call would take longer than to compute them.

  function fields(K, M) {
    const n = K + M;
    const sizes = {
      C: n * n,
      c: n * n,
      w: n,
      slopes: K * n,
      bend: K,
      pull: K,
      squared: K * K,
      AB: K * n,
      x: n,
      y: n,
      s: n,
    };
    return {
      n,
      K,
      ...Object.fromEntries(
        Object.entries(sizes).map(([name, size]) => [name, new Float64Array(size)])
      )
    };
  }

  const AVERAGES = {
    erf: {
      parity: -1,
      outputs(C, n) {
        return C.map(
          (x, at) => (2 / Math.PI) * asin(
            x / Math.sqrt(
              (1 + C[((at / n) | 0) * (n + 1)]) * (1 + C[(at % n) * (n + 1)])
            )
          )
        );
      },
      update({ n, K, C, c, w, slopes, bend, pull, squared, x, y, s }, asked) {
        // c: correlations of the softened fields, whose variances are d_a = 1 + C_aa
        for (let a = 0; a < n; a++)
          for (let b = 0; b < n; b++)
            c[a * n + b] = C[a * n + b] / Math.sqrt(
              (1 + C[a * n + a]) * (1 + C[b * n + b])
            );
        for (let i = 0; i < K; i++) {
          const d = 1 + C[i * n + i];
          bend[i] = pull[i] = 0;
          for (let a = 0; a < n; a++) {
            const slope = (2 / Math.PI) / Math.sqrt(
              d * (1 + C[a * n + a]) - C[i * n + a] ** 2
            );
            slopes[i * n + a] = slope;
            bend[i] -= (w[a] * slope * C[i * n + a]) / d;
            pull[i] += w[a] * (2 / Math.PI) * asin(c[i * n + a]);
          }
        }
        for (let i = 0; asked && i < K; i++) {
          // Given the softened fields i and j, what is left of the others
          for (let j = i; j < K; j++) {
            const cij = c[i * n + j], root = 1 / Math.sqrt(1 - cij * cij);
            for (let a = 0; a < n; a++) {
              const along = c[a * n + i], across = (c[a * n + j] - cij * along) * root;
              s[a] = 1 / Math.sqrt(1 - along * along - across * across);
              x[a] = along * s[a];
              y[a] = across * s[a];
            }
            let sum = 0;
            for (let a = 0; a < n; a++) {
              let row = 0.5 * w[a] * asin(
                c[a * n + a] * s[a] * s[a] - x[a] * x[a] - y[a] * y[a]
              );
              for (let b = 0; b < a; b++)
                row += w[b] * asin(
                  c[a * n + b] * s[a] * s[b] - x[a] * x[b] - y[a] * y[b]
                );
              sum += 2 * w[a] * row;
            }
            squared[i * K + j] = squared[j * K + i] = (
              2 / Math.PI
            ) * slopes[i * n + j] * sum;
          }
        }
      },
    },
    linear: {
      parity: -1,
      outputs: (C) => C,
      update({ n, C, w, slopes, bend, pull, squared, x }) {
        times(C, w, n, x);
        slopes.fill(1);
        bend.fill(0);
        for (let i = 0; i < pull.length; i++) pull[i] = x[i];
        squared.fill(dot(w, x)); // E[Delta0^2]
      },
    },
    // z^2; with W = diag(w):
    // E[z_i z_j (z.Wz)^2] = C_ij (tr^2 + 2 tr2) + 4 tr (CWC)_ij + 8 (CWCWC)_ij
    quadratic: {
      parity: 1,
      outputs: (C, n) => C.map(
        (x, at) => C[((at / n) | 0) * (n + 1)] * C[(at % n) * (n + 1)] + 2 * x * x
      ),
      // X: the student rows of CWC
      update({ n, K, C, c: X, w, slopes, bend, pull, squared }) {
        let [trace, trace2] = [0, 0]; // of WC and WCWC
        for (let a = 0; a < n; a++) {
          trace += w[a] * C[a * n + a];
          for (let b = 0; b < n; b++) trace2 += w[a] * w[b] * C[a * n + b] ** 2;
        }
        bend.fill(2 * trace);
        for (let i = 0; i < K; i++) {
          pull[i] = 0;
          for (let a = 0; a < n; a++) {
            slopes[i * n + a] = 4 * C[i * n + a];
            pull[i] += w[a] * (C[i * n + i] * C[a * n + a] + 2 * C[i * n + a] ** 2);
            let sum = 0;
            for (let b = 0; b < n; b++) sum += C[i * n + b] * w[b] * C[b * n + a];
            X[i * n + a] = sum;
          }
        }
        for (let i = 0; i < K; i++) {
          for (let j = 0; j < K; j++) {
            let Y = 0;
            for (let a = 0; a < n; a++) Y += X[i * n + a] * w[a] * C[a * n + j];
            squared[i * K + j] = 4 * (
              C[i * n + j] * (
                trace * trace + 2 * trace2
              ) + 4 * trace * X[i * n + j] + 8 * Y
            );
          }
        }
      },
    },
  };

  function dot(a, b) {
    let sum = 0;
    for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
    return sum;
  }

  function times(C, w, n, out) { // C w
    for (let a = 0; a < n; a++) {
      out[a] = 0;
      for (let b = 0; b < n; b++) out[a] += C[a * n + b] * w[b];
    }
    return out;
  }

  // The state y: r_l, q_l of all levels, the readout of each task, the error of each
  // task in units of 1 / FINE.

  function system(problem, start) {
    const { K, units, lam, fractions, lr, noise, batch, decay } = problem;
    const { trainReadout, switchAt, vTeacher, feedback } = problem;
    const averages = AVERAGES[problem.activation];
    const [L, M, tasks] = [lam.length, units.reduce((a, b) => a + b), units.length];
    const n = K + M;
    const [atQ, atV, atError] = [L * K * M, L * K * n, L * K * n + tasks * K];
    // Of the units of each task
    const first = units.map((_, s) => units.slice(0, s).reduce((a, b) => a + b, 0));
    const t = Float64Array.from(start.t);
    const T = summed(t, 0, new Float64Array(M * M));
    const each = units.map((count) => fields(K, count));
    const [R, dR, Q, dQ, force] = [
      K * M,
      K * M,
      K * K,
      K * K,
      K * n,
    ].map((size) => new Float64Array(size));

    function summed(blocks, at, sum) { // sum_l p_l lam_l blocks_l
      sum.fill(0);
      for (let l = 0, from = at; l < L; l++) {
        const share = fractions[l] * lam[l];
        for (let x = 0; x < sum.length; x++) sum[x] += share * blocks[from++];
      }
      return sum;
    }

    const readout = (y, s) => y.subarray(atV + s * K, atV + (s + 1) * K);

    // What task s sees at R and Q: the covariance C of its fields, and the weights w of
    // Delta0.
    function see(s, v) {
      const { C, w, n: count } = each[s];
      for (let a = 0; a < count; a++) {
        w[a] = a < K ? -v[a] : vTeacher[first[s] + a - K];
        for (let b = 0; b <= a; b++) {
          let x;
          if (a < K) x = (Q[a * K + b] + Q[b * K + a]) / 2;
          else
            x = b < K
              ? R[b * M + first[s] + a - K]
              : T[(first[s] + a - K) * M + first[s] + b - K];
          C[a * count + b] = C[b * count + a] = x;
        }
      }
    }

    // A and B side by side, their rows without the prefactor v_k (or f_k):
    // A_kj = v_k (w_j E[g'_k g'_j] + [k = j] bend_k), B_km = v_k w_m E[g'_k g'_m].
    function update(one, asked) {
      averages.update(one, asked);
      const { AB, n: count, slopes, bend, w } = one;
      for (let k = 0; k < K; k++) {
        for (let a = 0; a < count; a++)
          AB[k * count + a] = w[a] * slopes[k * count + a];
        AB[k * count + k] += bend[k];
      }
    }

    function rates(time, y, dy) {
      // The task of the samples at this time
      const present = tasks > 1 && time >= switchAt ? 1 : 0;
      summed(y, 0, R);
      summed(y, atQ, Q);
      for (let s = 0; s < tasks; s++) {
        see(s, readout(y, s));
        update(each[s], s === present);
      }
      const { AB, n: count, slopes, squared, pull } = each[present];
      const f = feedback ?? readout(y, present);
      force.fill(0); // A beside B, zero for the teachers of other tasks
      for (let k = 0; k < K; k++)
        for (let a = 0; a < count; a++)
          force[k * n + (a < K ? a : a + first[present])] = f[k] * AB[k * count + a];
      for (let l = 0; l < L; l++) {
        const [r, q, tt] = [l * K * M, atQ + l * K * K, l * M * M];
        for (let k = 0; k < K; k++) {
          for (let m = 0; m < M; m++) {
            let sum = 0;
            for (let j = 0; j < K; j++) sum += force[k * n + j] * y[r + j * M + m];
            for (let p = 0; p < M; p++) sum += force[k * n + K + p] * t[tt + p * M + m];
            dy[r + k * M + m] = lr * (lam[l] * sum - decay * y[r + k * M + m]);
          }
          for (let i = 0; i < K; i++) {
            let sum = 0;
            for (let j = 0; j < K; j++) sum += force[k * n + j] * y[q + j * K + i];
            for (let p = 0; p < M; p++) sum += force[k * n + K + p] * y[r + i * M + p];
            dy[q + k * K + i] = lr * (lam[l] * sum - decay * y[q + k * K + i]);
          }
        }
        for (let k = 0; k < K; k++) {
          // Dq = F.w + transpose + (eta^2 / batch) lam_l G
          for (let i = 0; i <= k; i++) {
            const G = f[k] * f[i] * (
              squared[k * K + i] + noise * noise * slopes[k * count + i]
            );
            const both = dy[q + k * K + i] + dy[q + i * K + k] + (
              (lr * lr) / batch
            ) * lam[l] * G;
            dy[q + k * K + i] = dy[q + i * K + k] = both;
          }
        }
      }
      dy.fill(0, atV);
      if (trainReadout)
        for (let k = 0; k < K; k++) dy[atV + present * K + k] = lr * pull[k];
      summed(dy, 0, dR);
      summed(dy, atQ, dQ);
      // Minus the derivatives of the error by Q (twice), R and v are A, B and pull
      for (let s = 0; s < tasks; s++) {
        const [{ AB: rows, n: width, pull: onReadout }, v] = [each[s], readout(y, s)];
        let slope = 0;
        for (let k = 0; k < K; k++) {
          for (let j = 0; j < K; j++)
            slope -= (v[k] * rows[k * width + j] * dQ[k * K + j]) / 2;
          for (let m = 0; m < units[s]; m++)
            slope -= v[k] * rows[k * width + K + m] * dR[k * M + first[s] + m];
          slope -= onReadout[k] * dy[atV + s * K + k];
        }
        dy[atError + s] = FINE * slope;
      }
    }

    // What is recorded, and the error of each task: sum_ab w_a w_b E[g_a g_b] / 2, a
    // difference of numbers of order one. Near perfect learning it is integrated along
    // the path from the state in which each student unit is its nearest teacher unit
    // (dynamics/order_parameters.py).
    function observe(y) {
      summed(y, 0, R);
      summed(y, atQ, Q);
      const error = units.map((_, s) => {
        see(s, readout(y, s));
        const { C, w, x, n: count } = each[s];
        const near = path(each[s], readout(y, s));
        return Math.max(
          0,
          near ?? dot(w, times(averages.outputs(C, count), w, count, x)) / 2
        );
      });
      return { R: R.slice(), Q: Q.slice(), v: y.slice(atV, atError), error };
    }

    function path(one, v) {
      const { C, w, AB, n: count } = one;
      // Of which field each field is a copy, and its sign
      const [copied, sign] = [w.map((_, a) => a), w.map(() => 1)];
      for (let k = 0; k < K; k++) {
        const cosine = (a) => C[k * count + a] / Math.sqrt(C[a * (count + 1)]);
        copied[k] = K;
        for (let a = K; a < count; a++)
          if (Math.abs(cosine(a)) > Math.abs(cosine(copied[k]))) copied[k] = a;
        sign[k] = cosine(copied[k]) < 0 ? -1 : 1;
      }
      const here = C.slice();
      const there = C.map(
        (_, at) => sign[(at / count) | 0]
          * sign[at % count]
          * here[copied[(at / count) | 0] * count + copied[at % count]]
      );
      if (here.some((x, at) => Math.abs(x - there[at]) >= NEAR)) return null;
      const left = w.slice(); // the mismatch of readouts: v*_m less those of its copies
      for (let k = 0; k < K; k++)
        left[copied[k]] -= averages.parity < 0 ? sign[k] * v[k] : v[k];
      left.fill(0, 0, K);
      let error = dot(
        left,
        times(averages.outputs(here, count), left, count, new Float64Array(count))
      ) / 2;
      for (const [share, weight] of PATH) {
        for (let at = 0; at < C.length; at++)
          C[at] = there[at] + share * (here[at] - there[at]);
        update(one, false);
        for (let at = 0; at < AB.length; at++)
          error -= weight * v[(at / count) | 0] * AB[at] * (here[at] - there[at]) * (
            at % count < K ? 0.5 : 1
          );
      }
      return error;
    }

    const y0 = Float64Array.from(
      [...start.r, ...start.q, ...start.v, ...units.map(() => 0)]
    );
    observe(y0).error.forEach((error, s) => { y0[atError + s] = FINE * error; });
    return { y0, rates, observe, atError, stops: tasks > 1 ? [switchAt] : [] };
  }

  // Dormand and Prince 8(5,3) with a curve of order 7 between the ends of a step:
  // solvers/dormand_prince.py.

  function integrate(
    { y0, rates, atError, stops },
    recorded,
    method,
    rtol,
    atol,
    record
  ) {
    const { nodes, stages, errors, weights } = method;
    const STEP = 12;
    const ALL = nodes.length;
    const size = y0.length;
    const end = Math.max(recorded[recorded.length - 1], 1e-12);
    const k = Array.from({ length: ALL }, () => new Float64Array(size));
    let [t, y, h, place, fresh] = [0, y0.slice(), 1e-3 * Math.min(end, 1), 0, true];
    const bound = BOUND * (
      1 + y0.subarray(0, atError).reduce((most, x) => Math.max(most, Math.abs(x)), 0)
    );
    const combined = (factors) => {
      const sum = new Float64Array(size);
      for (let s = 0; s < ALL; s++) {
        const [f, stage] = [factors[s], k[s]];
        if (f !== 0) for (let i = 0; i < size; i++) sum[i] += f * stage[i];
      }
      return sum;
    };
    const moved = (factors) => {
      const sum = combined(factors);
      for (let i = 0; i < size; i++) sum[i] = y[i] + h * sum[i];
      return sum;
    };
    for (let tried = 0; tried < MAX_STEPS; tried++) {
      const stop = Math.min(end, ...stops.filter((x) => x > t));
      const clipped = t + h * 1.0001 >= stop;
      const wanted = h;
      if (clipped) h = stop - t;
      const t1 = clipped ? stop : t + h;
      // A step that ends at a jump sees the rates before it
      const latest = stops.length ? t1 * (1 - 2.3e-16) : t1;
      const stage = (s) => rates(
        Math.min(t + nodes[s] * h, latest),
        s === 0 ? y : moved(stages[s]),
        k[s]
      );
      for (let s = fresh ? 0 : 1; s < STEP; s++) stage(s);
      const y1 = moved(stages[STEP]);
      const sizes = (factors) => combined(factors).map(
        (x, i) => x / (atol + rtol * Math.max(Math.abs(y[i]), Math.abs(y1[i])))
      );
      const [fifth, third] = [0, 1].map(
        (i) => sizes(errors[i]).reduce((sum, x) => sum + x * x, 0) / size
      );
      let error = (h * fifth) / Math.sqrt(Math.max(fifth + 0.01 * third, 1e-300));
      if (error < 1) stage(STEP);
      if (error < 1 && recorded[place] <= t1) {
        for (let s = STEP + 1; s < ALL; s++) stage(s);
        error = Math.max(
          error,
          h * sizes(errors[2]).reduce((most, x) => Math.max(most, Math.abs(x)), 0)
        );
      }
      const accept = error < 1;
      for (; accept && recorded[place] <= t1; place++) {
        const x = (recorded[place] - t) / h;
        record(
          moved(weights.map((row) => row.reduceRight((sum, w) => sum * x + w, 0)))
        );
      }
      const factor = Number.isFinite(error)
        ? Math.min(
          accept ? 10 : 1,
          Math.max(0.2, 0.9 * Math.max(error, 1e-300) ** (-1 / 8))
        )
        : 0.2;
      const longer = factor * h;
      h = accept && clipped ? Math.max(longer, wanted) : longer;
      if (accept) {
        [t, y, fresh] = [t1, y1, stops.includes(t1)];
        k[0].set(k[STEP]);
        if (!y.subarray(0, atError).every((x) => Math.abs(x) < bound))
          return { finished: false, end: t };
        if (t >= end) return { finished: true, end: t };
      } else {
        fresh = false;
      }
      if (h < 1e-14 * Math.max(end, 1)) break;
    }
    return { finished: false, end: t };
  }

  function solve(problem, start, recorded, method, rtol = 1e-8) {
    const equations = system(problem, start);
    const found = { R: [], Q: [], v: [], error: [] };
    const ending = integrate(equations, recorded, method, rtol, 1e-12, (y) => {
      for (const [name, value] of Object.entries(equations.observe(y)))
        found[name].push(value);
    });
    return { times: recorded.slice(0, found.error.length), ...found, ...ending };
  }

  // Random numbers: those of numpy.random.default_rng(seed), so that a seed means the
  // same here and in tutelage.

  function generator(seed) {
    const MASK = (1n << 128n) - 1n;
    const FACTOR = (2549297995355413924n << 64n) + 4865540595714422341n;
    const words = seedWords(seed); // 8 numbers of 32 bits
    const pair = (i) => (
      BigInt(words[i + 1]) << 96n
    ) | (BigInt(words[i]) << 64n) | (BigInt(
      words[i + 3]
    ) << 32n) | BigInt(words[i + 2]);
    const step = ((pair(4) << 1n) | 1n) & MASK;
    let state = ((step + pair(0)) * FACTOR + step) & MASK;
    const next = () => {
      state = (state * FACTOR + step) & MASK;
      const mixed = (state >> 64n) ^ (state & 0xffffffffffffffffn);
      const turn = state >> 122n;
      return ((mixed >> turn) | (mixed << (64n - turn))) & 0xffffffffffffffffn;
    };
    const uniform = () => Number(next() >> 11n) / 2 ** 53;

    function normal() { // Marsaglia and Tsang's ziggurat of 256 strips
      for (;;) {
        const bits = next();
        const strip = Number(bits & 0xffn);
        const size = Number((bits >> 9n) & 0xfffffffffffffn);
        const x = ((bits >> 8n) & 1n ? -size : size) * ZIGGURAT.width[strip];
        if (size < ZIGGURAT.inside[strip]) return x;
        if (strip === 0) {
          for (;;) {
            const far = -Math.log1p(-uniform()) / ZIGGURAT.end;
            const y = -Math.log1p(-uniform());
            if (2 * y > far * far)
              return ((BigInt(size) >> 8n) & 1n ? -1 : 1) * (ZIGGURAT.end + far);
          }
        } else {
          const layer = ZIGGURAT.height[strip - 1] - ZIGGURAT.height[strip];
          const y = layer * uniform() + ZIGGURAT.height[strip];
          if (y < Math.exp(-x * x / 2)) return x;
        }
      }
    }

    function chisquare(degrees) { // Marsaglia and Tsang; degrees > 2
      const b = degrees / 2 - 1 / 3;
      const c = 1 / Math.sqrt(9 * b);
      for (;;) {
        let [x, v] = [0, 0];
        do {
          x = normal();
          v = 1 + c * x;
        } while (v <= 0);
        v = v * v * v;
        const u = uniform();
        if (
          u < 1 - 0.0331 * x ** 4 || Math.log(u) < x * x / 2 + b * (1 - v + Math.log(v))
        )
          return 2 * b * v;
      }
    }

    return { uniform, normal, chisquare };
  }

  const ZIGGURAT = (() => {
    const [end, area] = [3.654152885361009, 0.004928673233974655];
    const f = (x) => Math.exp(-x * x / 2);
    const x = new Array(256).fill(end);
    for (let i = 254; i > 0; i--)
      x[i] = Math.sqrt(-2 * Math.log(area / x[i + 1] + f(x[i + 1])));
    const base = area / f(end);
    return {
      end,
      width: x.map((edge, i) => (i === 0 ? base : edge) / 2 ** 52),
      inside: x.map(
        (edge, i) => (i === 0 ? end / base : i === 1 ? 0 : x[i - 1] / edge) * 2 ** 52
      ),
      height: x.map((edge, i) => (i === 0 ? 1 : f(edge))),
    };
  })();

  function seedWords(seed) { // numpy's SeedSequence
    const mix = (x) => (x ^ (x >>> 16)) >>> 0;
    let factor = 0x43b0d7e5;
    const hashed = (value) => {
      const x = value ^ factor;
      factor = Math.imul(factor, 0x931e8875);
      return mix(Math.imul(x, factor));
    };
    const pool = [seed, 0, 0, 0].map(hashed);
    for (let i = 0; i < 4; i++) {
      for (let j = 0; j < 4; j++)
        if (i !== j)
          pool[j] = mix(
            Math.imul(0xca01f9dd, pool[j]) - Math.imul(0x4973f715, hashed(pool[i]))
          );
    }
    factor = 0x8b51f9dd;
    return Array.from({ length: 8 }, (_, i) => {
      const x = pool[i % 4] ^ factor;
      factor = Math.imul(factor, 0x58f38ded);
      return mix(Math.imul(x, factor));
    });
  }

  // Initial conditions (problem/start.py).

  // Whole numbers of dimensions per level that sum to dim: the nearest to p_l N, at
  // least one each.
  function levelDims(fractions, dim) {
    const exact = fractions.map((p) => p * dim);
    const dims = exact.map((x) => Math.max(1, Math.floor(x + 1e-9)));
    const best = (gaps) => gaps.reduce((at, gap, l) => (gap > gaps[at] ? l : at), 0);
    for (
      let left = dim - dims.reduce((a, b) => a + b); left !== 0; left -= Math.sign(left)
    ) {
      const gaps = exact.map(
        (x, l) => (left > 0 ? x - dims[l] : dims[l] > 1 ? dims[l] - x : -Infinity)
      );
      dims[best(gaps)] += Math.sign(left);
    }
    return dims;
  }

  function randomStart(K, M, fractions, dim, scale, seed) {
    const [random, n] = [generator(seed), K + M];
    const [r, q, t] = [[], [], []];
    for (const size of levelDims(fractions, dim)) {
      const factor = Array.from(
        { length: n },
        () => Array.from({ length: n }, random.normal)
      );
      for (let a = 0; a < n; a++) factor[a][a] = Math.sqrt(random.chisquare(size - a));
      const dot = (a, b) => factor[a].reduce(
        (sum, x, c) => sum + (c <= Math.min(a, b) ? x * factor[b][c] : 0),
        0
      ) / size;
      for (let a = 0; a < n; a++) {
        for (let b = 0; b < n; b++) {
          if (a >= K && b >= K) t.push(dot(a, b));
          else if (a < K && b < K) q.push(scale * scale * dot(a, b));
          else if (a < K) r.push(scale * dot(a, b));
        }
      }
    }
    return { r, q, t };
  }

  // w_k = sum_m a_km w*_m + what is orthogonal, a_km = 0.2 + 0.1 (1 - k / 2K) [m = k
  // mod M], on every level the same.
  function asymmetricStart(K, T, levels) {
    const M = Math.sqrt(T.length);
    const a = Array.from(
      { length: K * M },
      (_, at) => 0.2 + (
        at % M === ((at / M) | 0) % M ? 0.1 * (1 - ((at / M) | 0) / (2 * K)) : 0
      )
    );
    const r = a.map(
      (_, at) => a
        .slice(((at / M) | 0) * M, ((at / M) | 0) * M + M)
        .reduce((sum, x, m) => sum + x * T[m * M + (at % M)], 0)
    );
    const own = (k, j) => [...Array(M).keys()].reduce(
      (sum, m) => sum + r[k * M + m] * a[j * M + m],
      k === j ? 0.1 : 0
    );
    const q = Array.from(
      { length: K * K },
      (_, at) => (own((at / K) | 0, at % K) + own(at % K, (at / K) | 0)) / 2
    );
    const everywhere = (block) => Array.from({ length: levels }, () => block).flat();
    return { r: everywhere(r), q: everywhere(q), t: everywhere(T) };
  }

  // lam_l proportional to l^-(1 + beta), with mean one.
  function powerLaw(beta, levels) {
    const lam = Array.from({ length: levels }, (_, l) => (l + 1) ** -(1 + beta));
    const mean = lam.reduce((a, b) => a + b) / levels;
    return lam.map((x) => x / mean);
  }

  return { solve, levelDims, randomStart, asymmetricStart, powerLaw };
})();
