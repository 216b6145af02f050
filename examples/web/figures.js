/* figures.js - the tabs "The clip" and "GAE": formulas that move under the hand. Nothing is trained here. */
"use strict";

/* -- the clip: one sample -- */

const clipped = (r, A, e) => Math.min(r * A, Math.max(1 - e, Math.min(1 + e, r)) * A);
/* The gradient of that along log pi(action): r A, or 0 where the gain is flat. */
const clipGradient = (r, A, e) => A > 0 && r > 1 + e || A < 0 && r < 1 - e ? 0 : r * A;

const clipSpan = [0, 2];
let clipPlace;  // of a ratio, in the figure as it was drawn last

function arrow(g, x0, y0, x1, y1) {
    const angle = Math.atan2(y1 - y0, x1 - x0), head = Math.min(9, Math.hypot(x1 - x0, y1 - y0));
    g.beginPath(), g.moveTo(x0, y0), g.lineTo(x1, y1);
    for (const side of [-0.5, 0.5])
        g.moveTo(x1, y1), g.lineTo(x1 - head * Math.cos(angle + side), y1 - head * Math.sin(angle + side));
    g.stroke();
}

/* A range of ratios without gradient, and the words, at that height. */
function drawShade(g, {x, pad, base}, left, right, colour, height = pad.top + 4) {
    g.fillStyle = colours.shade;
    g.fillRect(x(left), pad.top, x(right) - x(left), base - pad.top);
    g.fillStyle = colour, g.textAlign = "center", g.textBaseline = "top";
    if (x(right) - x(left) > 66) g.fillText("no gradient", (x(left) + x(right)) / 2, height);
}

function drawClipSample() {
    const [r, A, e] = sliders.clip.map(valueOf), most = 1.1 * Math.max(1, Math.abs(A)) * clipSpan[1];
    const heights = A < 0 ? [-most, most / 4] : [-most / 4, most];
    const {g, x, y, w, h, pad} =
        axes("clip-curve", [...clipSpan, ...heights], {label: "ratio: probability now / then"});
    const base = h - pad.bottom, gradient = clipGradient(r, A, e), gain = clipped(r, A, e);
    const colour = A < 0 ? colours.minus : colours.plus;
    clipPlace = {left: pad.left, width: w - pad.left - pad.right};
    if (A > 0) drawShade(g, {x, pad, base}, 1 + e, clipSpan[1], colour);
    if (A < 0) drawShade(g, {x, pad, base}, clipSpan[0], 1 - e, colour);
    g.strokeStyle = colours.soft, g.lineWidth = 1;
    g.beginPath(), g.moveTo(x(clipSpan[0]), y(0)), g.lineTo(x(clipSpan[1]), y(0)), g.stroke();
    g.setLineDash([4, 4]);
    for (const v of [1 - e, 1, 1 + e])
        g.beginPath(), g.moveTo(x(v), pad.top), g.lineTo(x(v), base), g.stroke();
    g.strokeStyle = colour;  // r A, without the clip
    g.beginPath(), g.moveTo(x(clipSpan[0]), y(0)), g.lineTo(x(clipSpan[1]), y(A * clipSpan[1])), g.stroke();
    g.setLineDash([]);
    g.lineWidth = 3;
    g.beginPath();
    for (let k = 0; k <= 200; k++) {
        const v = clipSpan[0] + (clipSpan[1] - clipSpan[0]) * k / 200;
        g.lineTo(x(v), y(clipped(v, A, e)));
    }
    g.stroke();
    g.fillStyle = colours.soft, g.textAlign = "left", g.textBaseline = "bottom";
    g.fillText("gain", pad.left + 4, base - 2);
    g.fillStyle = g.strokeStyle = colours.text;
    g.beginPath(), g.arc(x(r), y(gain), 6, 0, 7), g.fill();
    if (gradient) g.lineWidth = 3, arrow(g, x(r), y(gain), x(r) + 0.25 * gradient * (x(1) - x(0)), y(gain));
    const which = A === 0 ? "An action as good as expected" : A > 0 ? "A good action" : "A bad action";
    const now = r === 1 ? "as likely as it was" : `${number(r, 2)} times as likely as it was`;
    const effect = gradient === 0 ?
        A === 0 ? "Nothing to learn from." :
                  "The change went far enough: the gain is flat, and the sample has no effect." :
        (A > 0 ? "The arrow makes it more likely" : "The arrow makes it less likely") +
            (A * (r - 1) < 0 ? ", which undoes a change for the worse." : ".");
    $("clip-text").textContent =
        `${which}, now ${now}: gain ${number(gain, 2)}, gradient ${number(gradient, 2)}. ${effect}`;
    describe("clip-curve", $("clip-text").textContent);
}

/* -- the clip: three samples that share a weight, as in lesson 7, from a weight of -1 -- */

const shared = {
    x: [3, 1, 0.5],
    first: -1,
    rate: 0.1,
    w: -1,
    ratios: [[1, 1, 1]]
};
const sigmoid = z => 1 / (1 + Math.exp(-z));

function sharedReset() { shared.w = shared.first, shared.ratios = [[1, 1, 1]]; }

/* One epoch: a step up the mean gain of the three, all good ones. */
function sharedEpoch() {
    const e = valueOf(sliders.clip[2]), now = shared.ratios.at(-1);
    let push = 0;
    shared.x.forEach((x, i) => push += clipGradient(now[i], 1, e) * x * (1 - sigmoid(shared.w * x)) / 3);
    shared.w += shared.rate * push;
    shared.ratios.push(shared.x.map(x => sigmoid(shared.w * x) / sigmoid(shared.first * x)));
}

function drawShared() {
    const e = valueOf(sliders.clip[2]), last = shared.ratios.at(-1), epochs = shared.ratios.length - 1;
    const most = Math.max(1.5 * (1 + e), ...shared.ratios.flat()) * 1.05, across = Math.max(10, epochs);
    const {g, x, y, w, pad} =
        axes("clip-shared", [0, across, 0.8, most], {label: "epoch", bottomTicks: Math.min(10, across)});
    g.fillStyle = colours.shade;
    g.fillRect(pad.left, y(most), w - pad.right - pad.left, y(1 + e) - y(most));
    g.fillStyle = colours.soft, g.textAlign = "left", g.textBaseline = "top";
    g.fillText("no gradient of its own", pad.left + 4, y(most) + 4);
    shared.x.forEach((_, i) => {
        g.strokeStyle = g.fillStyle = [colours.plus, colours.minus, colours.text][i], g.lineWidth = 2;
        g.setLineDash([[], [7, 4], [2, 3]][i]);
        g.beginPath(), shared.ratios.forEach((r, k) => g.lineTo(x(k), y(r[i]))), g.stroke();
        g.setLineDash([]);
        g.beginPath(), g.arc(x(epochs), y(last[i]), 4, 0, 7), g.fill();
    });
    const gradients = last.map(r => clipGradient(r, 1, e));
    $("clip-shared-text").textContent = `Epoch ${epochs}. ` +
        last.map((r, i) => `Sample ${i + 1}: ratio ${number(r, 2)}, gradient ${number(gradients[i], 2)}`)
            .join("; ") +
        ".";
    describe("clip-shared", $("clip-shared-text").textContent);
}

function drawClip() {
    drawClipSample();
    drawShared();
}

function clipDrag(event) {
    if (event.type === "pointermove" && !event.buttons) return;
    const box = $("clip-curve").getBoundingClientRect(), ratio = sliders.clip[0];
    const at = (event.clientX - box.left - clipPlace.left) / clipPlace.width;
    ratio.input.value = clipSpan[0] + at * (clipSpan[1] - clipSpan[0]);
    showSlider(ratio);
    drawClipSample();
    writeAddress();
}
for (const type of ["pointerdown", "pointermove"]) $("clip-curve").addEventListener(type, clipDrag);
$("clip-epoch").addEventListener("click", () => {
    sharedEpoch();
    drawShared();
});
$("clip-epochs").addEventListener("click", () => {
    for (let k = 0; k < 10; k++) sharedEpoch();
    drawShared();
});
$("clip-again").addEventListener("click", () => {
    sharedReset();
    drawShared();
});

/* -- GAE: the random walk of lesson 4. States 1 to 9; each step goes left or right; the right end pays 1 -- */

const walk = {
    cells: 9,
    start: 5,
    episode: 1,
    curve: null,
    of: ""
};
const critics = {
    exact: gamma => {
        const V = Array(walk.cells + 2).fill(0);
        for (let sweep = 0; sweep < 1000; sweep++)
            for (let s = 1; s <= walk.cells; s++)
                V[s] = 0.5 * (gamma * V[s - 1] + gamma * V[s + 1] + (s === walk.cells));
        return V;
    },
    coarse: gamma => {  // one value for three neighbours
        const V = critics.exact(gamma);
        return V.map((v, s) => s < 1 || s > walk.cells ? 0 : V[3 * Math.floor((s - 1) / 3) + 2]);
    },
    zero: () => Array(walk.cells + 2).fill(0)
};

/* Mulberry32: numbers of 0 to 1 from a seed. */
function chance(seed) {
    return () => {
        let t = seed += 0x6D2B79F5;
        t = Math.imul(t ^ t >>> 15, t | 1);
        t ^= t + Math.imul(t ^ t >>> 7, t | 61);
        return ((t ^ t >>> 14) >>> 0) / 4294967296;
    };
}

/* The states of an episode, which begins with a step to the right. */
function walkOnce(random) {
    const states = [walk.start, walk.start + 1];
    while (states.at(-1) >= 1 && states.at(-1) <= walk.cells)
        states.push(states.at(-1) + (random() < 0.5 ? -1 : 1));
    return states;
}

const rewardOf = next => next === walk.cells + 1 ? 1 : 0;
const deltasOf = (states, V, gamma) =>
    states.slice(1).map((next, t) => rewardOf(next) + gamma * V[next] - V[states[t]]);
function advantages(deltas, decay) {
    const A = [];
    for (let t = deltas.length - 1; t >= 0; t--) A[t] = deltas[t] + decay * (A[t + 1] || 0);
    return A;
}

/* Bias and noise of the first step's advantage for 21 lambdas, exactly: mean[s] and square[s] are the mean of the sum of
   deltas that follow state s, each with its weight, and of its square. */
function measureWalk(V, truth, gamma) {
    const delta = (s, next) => rewardOf(next) + gamma * V[next] - V[s];
    return Array.from({length: 21}, (_, k) => {
        const decay = gamma * k / 20, mean = Array(walk.cells + 2).fill(0), square = [...mean];
        for (let sweep = 0; sweep < 600; sweep++)
            for (let s = 1; s <= walk.cells; s++) {
                const sides = [s - 1, s + 1];
                mean[s] = sides.reduce((sum, n) => sum + 0.5 * (delta(s, n) + decay * mean[n]), 0);
                square[s] = sides.reduce((sum, n) => {
                    const d = delta(s, n);
                    return sum + 0.5 * (d * d + 2 * d * decay * mean[n] + decay * decay * square[n]);
                }, 0);
            }
        const s = walk.start, A = delta(s, s + 1) + decay * mean[s + 1];
        const spread = decay * Math.sqrt(Math.max(0, square[s + 1] - mean[s + 1] ** 2));
        return {lambda: k / 20, bias: Math.abs(A - truth), noise: spread};
    });
}

/* Bars over the steps of an episode, in a canvas; marks: other numbers, as lines. */
function bars(id, values, marks, label) {
    const all = [...values, ...marks || [], 0], low = Math.min(...all), high = Math.max(...all, low + 0.1);
    const room = 0.12 * (high - low), n = values.length;
    const {g, x, y, pad} = axes(
        id, [-0.5, n - 0.5, low - room, high + room],
        {label: "step", bottomTicks: Math.min(n, 12), head: 24});
    const wide = Math.max(2, (x(1) - x(0)) * 0.7);
    g.strokeStyle = colours.soft, g.lineWidth = 1;
    g.beginPath(), g.moveTo(x(-0.5), y(0)), g.lineTo(x(n - 0.5), y(0)), g.stroke();
    values.forEach((v, t) => {
        g.fillStyle = v < 0 ? colours.minus : colours.plus;
        g.fillRect(x(t) - wide / 2, Math.min(y(0), y(v)), wide, Math.max(1, Math.abs(y(v) - y(0))));
    });
    g.strokeStyle = colours.text, g.lineWidth = 2;
    (marks || []).forEach((v, t) => {
        g.beginPath(), g.moveTo(x(t) - wide / 2, y(v)), g.lineTo(x(t) + wide / 2, y(v)), g.stroke();
    });
    g.fillStyle = colours.soft, g.textAlign = "left", g.textBaseline = "top";
    g.fillText(label, pad.left, 4);
}

function drawGae() {
    const [lambda, gamma] = sliders.gae.map(valueOf), critic = $("gae-critic").value,
                   mean = Number($("gae-mean").value);
    const V = critics[critic](gamma), exact = critics.exact(gamma), states = walkOnce(chance(walk.episode));
    const deltas = deltasOf(states, V, gamma), A = advantages(deltas, gamma * lambda);
    const truth = states.slice(1).map((next, t) => rewardOf(next) + gamma * exact[next] - exact[states[t]]);
    const weights = deltas.map((_, k) => (gamma * lambda) ** k);
    bars("gae-deltas", deltas, null, "delta: how wrong the critic was");
    bars("gae-weights", weights, null, "weights in the first step's advantage");
    bars("gae-advantages", A, truth, "advantage; line: the truth");
    const key = critic + gamma;
    if (walk.of !== key)
        walk.of = key, walk.curve = measureWalk(V, gamma * exact[walk.start + 1] - exact[walk.start], gamma);
    const rows = walk.curve.map(
        p =>
            ({...p, noise: p.noise / Math.sqrt(mean), error: Math.hypot(p.bias, p.noise / Math.sqrt(mean))}));
    const most = 1.1 * Math.max(...rows.map(p => p.error));
    const {g, x, y, h, pad} = axes("gae-error", [0, 1, 0, most], {label: "lambda"});
    for (const [of, colour, dash] of [
             ["bias", colours.minus, [7, 4]], ["noise", colours.plus, [2, 3]], ["error", colours.text, []]]) {
        g.strokeStyle = colour, g.lineWidth = 2, g.setLineDash(dash);
        g.beginPath(), rows.forEach(p => g.lineTo(x(p.lambda), y(p[of]))), g.stroke();
    }
    g.setLineDash([]), g.strokeStyle = colours.soft, g.lineWidth = 1;
    g.beginPath(), g.moveTo(x(lambda), pad.top), g.lineTo(x(lambda), h - pad.bottom), g.stroke();
    const best = rows.reduce((a, b) => b.error < a.error ? b : a), at = rows[Math.round(20 * lambda)];
    $("gae-text").textContent =
        `Lambda ${number(lambda, 2)}: bias ${number(at.bias, 3)}, noise ${number(at.noise, 3)}, ` +
        `together ${number(at.error, 3)}. Least at lambda ${number(best.lambda, 2)}: ${
            number(best.error, 3)}.`;
    $("gae-episode").textContent =
        `Cells ${states.join(" ")}: ${deltas.length} steps, return ${rewardOf(states.at(-1))}.`;
    describe("gae-error", $("gae-text").textContent);
    describe("gae-deltas", "TD errors of the episode. " + $("gae-episode").textContent);
    describe("gae-weights", `Weights fall by ${number(gamma * lambda, 3)} with each step.`);
    describe(
        "gae-advantages", `Advantage of the first step ${number(A[0], 3)}, in truth ${number(truth[0], 3)}.`);
}
$("gae-new").addEventListener("click", () => {
    walk.episode++;
    drawGae();
    writeAddress();
});
for (const id of ["gae-critic", "gae-mean"])
    $(id).addEventListener("change", () => {
        drawGae();
        writeAddress();
    });

figures.clip = drawClip;
figures.gae = drawGae;
