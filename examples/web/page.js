/* page.js - the page: it tells the worker what to do, and draws the frames that come back. */
"use strict";

const $ = id => document.getElementById(id);
const number = (x, digits = 0) => Number.isFinite(x) ?
    x.toLocaleString("en", {maximumFractionDigits: digits, minimumFractionDigits: digits})
        .replace("-", "\u2212") :
    "\u2013";

/* -- the worker -- */

const worker =
    new Worker(URL.createObjectURL(new Blob([$("worker").textContent], {type: "text/javascript"})));
const tell = (type, more) => worker.postMessage({type, ...more});

/* -- settings -- */

/* A slider: its names in ppo_config or ppo_rlhf_config, its range, and what the position stands for. */
const same = x => x;
const sliders = {
    control: [
        {names: ["clip_low", "clip_high"], label: "Clip", min: 0.02, max: 0.6, step: 0.01, digits: 2},
        {names: ["gae_lambda"], label: "GAE lambda", min: 0, max: 1, step: 0.01, digits: 2},
        {names: ["epochs"], label: "Epochs", min: 1, max: 20, step: 1, digits: 0},
        {
            names: ["learning_rate"],
            label: "Learning rate",
            min: -5,
            max: -1.5,
            step: 0.05,
            digits: 5,
            of: x => 10 ** x,
            to: Math.log10
        },
        {names: ["entropy_coef"], label: "Entropy bonus", min: 0, max: 0.1, step: 0.002, digits: 3},
    ],
    words: [
        {names: ["kl_coef"], label: "KL penalty", min: 0, max: 0.3, step: 0.005, digits: 3},
        {names: ["clip_low", "clip_high"], label: "Clip", min: 0.02, max: 0.6, step: 0.01, digits: 2},
        {names: ["epochs"], label: "Epochs", min: 1, max: 10, step: 1, digits: 0},
        {
            names: ["learning_rate"],
            label: "Learning rate",
            min: -5,
            max: -2,
            step: 0.05,
            digits: 5,
            of: x => 10 ** x,
            to: Math.log10
        },
    ],
    clip: [
        {names: ["ratio"], label: "Ratio r", min: 0, max: 2, step: 0.01, digits: 2, value: 1.1},
        {names: ["advantage"], label: "Advantage A", min: -2, max: 2, step: 0.1, digits: 1, value: 1},
        {names: ["clip"], label: "Clip, epsilon", min: 0.02, max: 0.6, step: 0.01, digits: 2, value: 0.2},
    ],
    gae: [
        {names: ["lambda"], label: "Lambda", min: 0, max: 1, step: 0.05, digits: 2, value: 0.8},
        {names: ["gamma"], label: "Discount, gamma", min: 0.8, max: 1, step: 0.01, digits: 2, value: 1},
    ],
};
const tabs = ["control", "clip", "gae", "words"], engines = ["control", "words"];
const figures = {};  // of the tabs without an engine, in figures.js: what draws them
const valueOf = s => Number((s.of || same)(Number(s.input.value)).toPrecision(4));
const settingsOf = tab => sliders[tab].flatMap(s => s.names.map(name => name + "=" + valueOf(s))).join(" ");

function showSlider(s) {
    s.output.textContent = number(valueOf(s), s.digits);
    s.input.setAttribute("aria-valuetext", s.output.textContent);
}

for (const tab of tabs)
    for (const s of sliders[tab]) {
        const row = document.createElement("div");
        const id = tab + "-" + s.names[0];
        row.className = "slider";
        row.innerHTML = `<label for="${id}">${s.label}</label><output for="${id}"></output>
            <input id="${id}" type="range" min="${s.min}" max="${s.max}" step="${s.step}">`;
        $(tab).querySelector(".sliders").append(row);
        s.input = row.querySelector("input");
        s.output = row.querySelector("output");
        if (s.value !== undefined) s.input.value = s.value;
        showSlider(s);
        s.input.addEventListener("input", () => {
            showSlider(s);
            if (figures[tab]) figures[tab]();
            else set(tab);
            writeAddress();
        });
    }

/* The sliders show what is in use, as after the choice of a task. */
function adopt(tab, frame) {
    for (const s of sliders[tab]) {
        s.input.value = (s.to || same)(frame[s.names[0]]);
        showSlider(s);
    }
    writeAddress();
}

/* -- what is running -- */

const state = {
    tab: "control",
    running: false,
    fresh: {control: true, words: true},
    history: {control: [], words: []},
    ghost: {control: [], words: []},  // the history of the run before
    spoken: 0,
    frame: {},
    start: {control: 0, words: 0},
    asked: {control: "", words: ""}  // the settings of a start whose first frame has not come yet
};
const seedOf = id => Math.max(1, Math.floor(Number($(id).value)) || 1);

/* The state in the address, as "#clip?ratio=1.2&advantage=1&clip=0.2": a link or a bookmark brings it back. */
const fieldsOf = {
    control: ["task", "seed"],
    clip: [],
    gae: ["gae-critic", "gae-mean"],
    words: ["wish", "words-seed"]
};
const partOf = e => e.tagName === "SELECT" ? "selectedIndex" : "value";

function writeAddress() {
    const tab = state.tab, query = new URLSearchParams();
    for (const id of fieldsOf[tab]) query.set(id, $(id)[partOf($(id))]);
    if (tab === "gae") query.set("episode", walk.episode);
    for (const s of sliders[tab]) query.set(s.names[0], valueOf(s));
    history.replaceState(null, "", "#" + tab + "?" + query);
}

/* Opens what the address says; returns 0 if it names no tab. What is no number, or out of range, is left out. */
function readAddress() {
    const [tab, text] = location.hash.slice(1).split("?"), query = new URLSearchParams(text || "");
    if (!tabs.includes(tab)) return 0;
    for (const id of fieldsOf[tab]) {
        const e = $(id), v = Number(query.get(id));
        if (query.get(id) !== null && Number.isInteger(v) && v >= 0 && !(e.options && v >= e.options.length))
            e[partOf(e)] = v;
    }
    if (Number(query.get("episode")) > 0) walk.episode = Math.floor(Number(query.get("episode"))) % 1e9;
    const settings = [];
    for (const s of sliders[tab]) {
        const v = Number(query.get(s.names[0])), at = (s.to || same)(v);
        if (query.get(s.names[0]) === null || !(at >= s.min && at <= s.max)) continue;
        s.input.value = at;
        showSlider(s);
        settings.push(...s.names.map(name => name + "=" + valueOf(s)));
    }
    open(tab, settings.join(" "));
    return 1;
}

function set(tab) { tell("set", {settings: settingsOf(tab), wish: $("wish").selectedIndex}); }

function run(on) {
    state.running = on;
    for (const button of document.querySelectorAll(".run")) button.textContent = on ? "Pause" : "Start";
    tell("run", {on});
}

/* Begins anew: with those of the sliders, or with the settings of the task and these. */
function start(keep, settings = "") {
    const tab = state.tab;
    if (keep) settings = state.fresh[tab] ? state.asked[tab] : settingsOf(tab);
    else state.fresh[tab] = true;
    state.asked[tab] = settings;
    if (state.history[tab].length > 1) state.ghost[tab] = state.history[tab];
    state.history[tab] = [];
    state.start[tab]++;
    $("error").hidden = true;
    tell("start", {
        start: state.start[tab],
        task: $("task").selectedIndex,
        wish: $("wish").selectedIndex,
        settings,
        seed: seedOf(tab === "control" ? "seed" : "words-seed")
    });
}

const started = {};
function open(tab, settings = "") {
    run(false);
    state.tab = tab;
    for (const name of tabs) {
        $(name).hidden = name !== tab;
        $("tab-" + name).setAttribute("aria-selected", name === tab);
        $("tab-" + name).tabIndex = name === tab ? 0 : -1;
    }
    if (figures[tab]) writeAddress(), draw();
    if (!engines.includes(tab)) return;
    tell("tab", {tab});
    tell("pace", {pace: $(tab).querySelector(".pace").selectedIndex});
    if (!started[tab] || settings) started[tab] = true, start(false, settings);
    else if (state.frame[tab]) writeAddress(), draw();
}

for (const tab of engines) {
    const panel = $(tab);
    panel.querySelector(".run").addEventListener("click", () => run(!state.running));
    panel.querySelector(".step").addEventListener("click", () => {
        run(false);
        tell("step");
    });
    panel.querySelector(".reset").addEventListener("click", () => start(true));
    for (const button of panel.querySelectorAll(".try"))
        button.addEventListener("click", () => {
            if (tab === "control") $("task").selectedIndex = 0;
            else $("wish").selectedIndex = Number(button.dataset.wish);
            start(false, button.dataset.settings);
            run(true);
        });
    panel.querySelector(".pace").addEventListener(
        "change", e => tell("pace", {pace: e.target.selectedIndex}));
}
tabs.forEach((tab, k) => {
    $("tab-" + tab).addEventListener("click", () => open(tab));
    $("tab-" + tab).addEventListener("keydown", e => {
        const by = {ArrowLeft: -1, ArrowRight: 1}[e.key];
        if (!by) return;
        open(tabs[(k + by + tabs.length) % tabs.length]);
        $("tab-" + state.tab).focus();
    });
});
window.addEventListener("hashchange", readAddress);
$("task").addEventListener("change", () => {
    state.history.control = state.ghost.control = [];  // returns of another task say nothing
    start(false);
});
$("seed").addEventListener("change", () => start(true));
$("words-seed").addEventListener("change", () => start(true));
$("wish").addEventListener("change", () => {
    set("words");
    writeAddress();
});
for (const radio of document.querySelectorAll("[name=colour]"))
    radio.addEventListener("change", () => drawSamples());

/* -- drawing -- */

let colours = {};
function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["card", "text", "soft", "line", "grid", "plus", "minus", "shade"])
        colours[name] = style.getPropertyValue("--" + name).trim();
    for (const name of ["plus", "minus"])
        colours[name + "Rgb"] = style.getPropertyValue(`--${name}-rgb`).trim();
}

/* An empty canvas of the size that it has on the page. */
function clear(id) {
    const canvas = $(id), scale = window.devicePixelRatio || 1, g = canvas.getContext("2d");
    const w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale))
        canvas.width = Math.round(w * scale), canvas.height = Math.round(h * scale);
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, w, h);
    g.font = "12px system-ui, sans-serif";
    g.lineJoin = g.lineCap = "round";
    return {g, w, h};
}

function describe(id, words) { $(id).setAttribute("aria-label", words); }

/* Round numbers for an axis. */
function ticks(low, high, most) {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(k => k * power).find(s => s >= rough * 0.999), list = [];
    for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + 1e-9 * step; x += step)
        list.push(Math.abs(x) < 1e-12 ? 0 : x);
    return {list, digits: Math.max(0, Math.ceil(-Math.log10(step) - 1e-9))};
}
const short = (x, digits) => Math.abs(x) >= 1e6 ? number(x / 1e6, 1) + "M" :
    Math.abs(x) >= 1e4                          ? number(x / 1e3) + "k" :
                                                  number(x, digits);

/* Axes in a canvas, and functions from numbers to places. box: [left, right, bottom, top]; label: below; root: the
   heights are square roots; room: on the right, for an axis of its own; head: above. */
function axes(
    id, [left, right, bottom, top], {bottomTicks = 5, label = "", root = false, room = 10, head = 8} = {}) {
    const {g, w, h} = clear(id), pad = {left: 46, right: room, top: head, bottom: label ? 36 : 22};
    const up = root ? Math.sqrt : same;
    const x = v => pad.left + (v - left) / (right - left) * (w - pad.left - pad.right);
    const y = v =>
        h - pad.bottom - (up(v) - up(bottom)) / (up(top) - up(bottom)) * (h - pad.top - pad.bottom);
    const rows =
        root ? {list: [0, 1, 5, 20, 50, 100, 200].filter(v => v <= top), digits: 0} : ticks(bottom, top, 4);
    const columns = ticks(left, right, bottomTicks);
    g.strokeStyle = colours.grid;
    g.fillStyle = colours.soft;
    g.lineWidth = 1;
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const v of rows.list) {
        g.beginPath(), g.moveTo(pad.left, y(v)), g.lineTo(w - pad.right, y(v)), g.stroke();
        g.fillText(short(v, rows.digits), pad.left - 6, y(v));
    }
    g.textAlign = "center";
    g.textBaseline = "top";
    for (const v of columns.list)
        g.fillText(short(v, columns.digits), Math.min(x(v), w - 14), h - pad.bottom + 6);
    if (label) g.fillText(label, (pad.left + w - pad.right) / 2, h - 14);
    return {g, x, y, w, h, pad};
}

/* Lines over a tab's history: each {of, colour}, of a record's field; and those of the run before, in grey. low and
   high: what the axis has at least. */
function lines(id, tab, across, list, low, high) {
    const now = state.history[tab], before = state.ghost[tab];
    const all = list.flatMap(l => [...before, ...now].map(r => r[l.of])).filter(Number.isFinite);
    const bottom = all.length ? Math.min(low, ...all) : 0, top = all.length ? Math.max(high, ...all) : 1;
    const end = Math.max(1, now.at(-1)?.[across] || 0, before.at(-1)?.[across] || 0);
    const {g, x, y, w} = axes(id, [0, end, bottom, top + (top - bottom) * 0.04]);
    const line = (history, of, colour) => {
        let down = false;
        g.strokeStyle = colour, g.beginPath();
        for (const r of history) {
            if (Number.isFinite(r[of]))
                down ? g.lineTo(x(r[across]), y(r[of])) : g.moveTo(x(r[across]), y(r[of]));
            down = Number.isFinite(r[of]);
        }
        g.stroke();
    };
    g.lineWidth = 2, g.globalAlpha = 0.5;
    for (const l of list) line(before, l.of, colours.soft);
    g.globalAlpha = 1;
    for (const l of list) line(now, l.of, l.colour);
    if (!before.length) return;
    g.fillStyle = colours.soft, g.textAlign = "right", g.textBaseline = "top";
    g.fillText("grey: the run before", w - 12, 2);
}

/* Adds a record to a history, which keeps at most 800: then every two become one, with the larger `peaks`. */
const peaks = ["kl", "clip_fraction"];
function remember(tab, record) {
    const history = state.history[tab];
    history.push(record);
    if (history.length <= 800) return;
    const halved = [];
    for (let k = 0; k < history.length; k += 2) {
        const merged = {...(history[k + 1] || history[k])};
        if (tab === "control")
            for (const of of peaks) merged[of] = Math.max(merged[of], history[k][of]);
        halved.push(merged);
    }
    state.history[tab] = halved;
}

/* -- the tasks -- */

const worlds = [
    {
        text:
            "The policy as it is now, at natural speed. Look for the moment it begins to save poles that lean; a return of 500 " +
            "is the most there is.",
        draw(s, {g, w, h}) {
            const scale = Math.min(w / 5.2, h / 2.1), x = w / 2 + s[0] * scale, y = h * 0.72;
            g.strokeStyle = colours.line, g.lineWidth = 2;
            g.beginPath(), g.moveTo(w / 2 - 2.4 * scale, y), g.lineTo(w / 2 + 2.4 * scale, y), g.stroke();
            g.fillStyle = colours.text;
            g.beginPath(), g.roundRect(x - 0.25 * scale, y - 0.12 * scale, 0.5 * scale, 0.24 * scale, 4),
                g.fill();
            g.strokeStyle = colours.minus, g.lineWidth = Math.max(4, 0.07 * scale);
            g.beginPath(), g.moveTo(x, y - 0.06 * scale);
            g.lineTo(x + Math.sin(s[1]) * scale, y - 0.06 * scale - Math.cos(s[1]) * scale), g.stroke();
        }
    },
    {
        text:
            "The policy as it is now, at natural speed. The motor is too weak to lift the rod at once. Look for the moment " +
            "it begins to swing; about \u2212150 is good.",
        draw(s, {g, w, h}) {
            const length = Math.min(w, h) * 0.4, x = w / 2, y = h / 2;
            g.strokeStyle = colours.line, g.lineWidth = 1;
            g.beginPath(), g.arc(x, y, length, 0, 7), g.stroke();
            g.strokeStyle = colours.minus, g.lineWidth = length * 0.14;
            g.beginPath(), g.moveTo(x, y), g.lineTo(x - Math.sin(s[0]) * length, y - Math.cos(s[0]) * length),
                g.stroke();
            g.fillStyle = colours.text;
            g.beginPath(), g.arc(x, y, length * 0.07, 0, 7), g.fill();
        }
    },
    {
        text:
            "The policy as it is now, at natural speed. Look for three phases: it falls, it hovers and never lands, it lands " +
            "between the flags; 200 is a good landing.",
        draw(s, {g, w, h}) {
            const scale = Math.min(w / 20, h / 13.4), left = w / 2 - 10 * scale, x = v => left + v * scale,
                  y = v => h - v * scale;
            const corner = (dx, dy) => {
                const c = Math.cos(s[2]), n = Math.sin(s[2]);
                return [x(s[0] + c * dx - n * dy), y(s[1] + n * dx + c * dy)];
            };
            const path = points => {
                g.beginPath();
                points.forEach((p, k) => k ? g.lineTo(...corner(...p)) : g.moveTo(...corner(...p)));
            };
            g.save(), g.beginPath(), g.rect(left, 0, 20 * scale, h), g.clip();
            g.fillStyle = colours.line;
            g.beginPath(), g.moveTo(x(0), h);
            for (let k = 0; k < 11; k++) g.lineTo(x(2 * k), y(s[4 + k]));
            g.lineTo(x(20), h), g.fill();
            g.strokeStyle = colours.plus, g.lineWidth = 2;
            for (const side of [8, 12]) {
                g.beginPath(), g.moveTo(x(side), y(10 / 3)), g.lineTo(x(side), y(4.3));
                g.lineTo(x(side + 0.6), y(4.1)), g.lineTo(x(side), y(3.9)), g.stroke();
            }
            g.strokeStyle = colours.minus, g.lineWidth = 3;
            if (s[3] === 2) path([[0, -0.4], [0, -1.1]]), g.stroke();
            if (s[3] === 1) path([[-0.6, 0.4], [-1, 0.4]]), g.stroke();
            if (s[3] === 3) path([[0.6, 0.4], [1, 0.4]]), g.stroke();
            g.strokeStyle = colours.soft, g.lineWidth = 2;
            for (const k of [-1, 1]) path([[k * 0.45, -0.3], [k * 0.67, -0.6]]), g.stroke();
            g.fillStyle = colours.text;
            path([[-0.47, 0.57], [-0.57, 0], [-0.57, -0.33], [0.57, -0.33], [0.57, 0], [0.47, 0.57]]),
                g.fill();
            g.restore();
        }
    }
];

/* -- the first tab -- */

/* A histogram of ratios, whose bins begin at the borders of the clip; and the clipped objective, for an advantage of 1
   and of -1, on an axis of its own. */
function drawRatios(f) {
    const clip = Math.max(0.005, f.clip_low), half = 5, width = clip / half;
    const below = Math.min(2 * half, Math.floor(1 / width)), bins = below + 2 * half;
    const low = 1 - below * width, high = 1 + 2 * clip, plus = Array(bins).fill(0),
          minus = Array(bins).fill(0);
    for (let k = 0; k < f.samples; k++) {
        const bin = Math.floor((f.ratio[k] - low) / width + 1e-6);
        (f.advantage[k] > 0 ? plus : minus)[Math.max(0, Math.min(bins - 1, bin))]++;
    }
    const {g, x, y, w, h, pad} = axes(
        "ratio", [low, high, 0, Math.max(8, ...plus, ...minus)],
        {label: "ratio: probability now / then", root: true, room: 40});
    const wide = x(low + width) - x(low), base = y(0), most = 1.1 * high;
    const gain = v => pad.top + (base - pad.top) * (0.5 - 0.5 * v / most);
    drawShade(g, {x, pad, base}, 1 + clip, high, colours.plus, gain(0.7));
    drawShade(g, {x, pad, base}, low, 1 - clip, colours.minus, gain(-0.3));
    for (let k = 0; k < bins; k++) {
        const left = x(low + k * width) + 0.5;
        g.fillStyle = `rgba(${colours.plusRgb}, 0.75)`;
        g.fillRect(left, y(plus[k]), wide / 2 - 0.5, base - y(plus[k]));
        g.fillStyle = `rgba(${colours.minusRgb}, 0.75)`;
        g.fillRect(left + wide / 2, y(minus[k]), wide / 2 - 0.5, base - y(minus[k]));
    }
    for (const sign of [1, -1]) {
        g.strokeStyle = sign > 0 ? colours.plus : colours.minus, g.lineWidth = 2;
        g.beginPath();
        for (let k = 0; k <= 100; k++) {
            const r = low + (high - low) * k / 100;
            g.lineTo(x(r), gain(clipped(r, sign, clip)));
        }
        g.stroke();
        g.fillStyle = g.strokeStyle;
        g.beginPath(), g.arc(x(1), gain(sign), 3.5, 0, 7), g.fill();
    }
    g.strokeStyle = colours.soft, g.lineWidth = 1, g.setLineDash([4, 4]);
    for (const v of [1 - clip, 1, 1 + clip])
        g.beginPath(), g.moveTo(x(v), pad.top), g.lineTo(x(v), base), g.stroke();
    g.beginPath(), g.moveTo(pad.left, gain(0)), g.lineTo(w - pad.right, gain(0)), g.stroke();
    g.setLineDash([]);
    g.fillStyle = colours.soft, g.textAlign = "left", g.textBaseline = "middle";
    for (const v of [-1, 0, 1]) g.fillText(number(v), w - pad.right + 6, gain(v));
    g.textBaseline = "top", g.fillText("gain", w - pad.right + 6, pad.top - 6);
    describe(
        "ratio",
        `Ratios of ${f.samples} samples. Beyond the clip of ${number(clip, 2)}: ` +
            `${number(100 * f.now_clip_fraction)} percent. KL ${number(f.now_kl, 4)}.`);
}

function drawValues(f) {
    const n = f.samples, all = [...f.value.slice(0, n), ...f.target.slice(0, n)];
    const low = Math.min(0, ...all), high = Math.max(1, ...all), room = 0.05 * (high - low);
    const box = [low - room, high + room, low - room, high + room];
    const {g, x, y} = axes("value", box, {label: "return"});
    g.strokeStyle = colours.soft, g.setLineDash([4, 4]);
    g.beginPath(), g.moveTo(x(box[0]), y(box[0])), g.lineTo(x(box[1]), y(box[1])), g.stroke();
    g.setLineDash([]);
    g.fillStyle = `rgba(${colours.plusRgb}, 0.55)`;
    for (let k = 0; k < n; k++) g.beginPath(), g.arc(x(f.target[k]), y(f.value[k]), 2.5, 0, 7), g.fill();
    g.fillStyle = colours.soft, g.textAlign = "left", g.textBaseline = "top";
    g.fillText("predicted value", 52, 8);
    if (f.iteration) {
        g.textAlign = "right", g.textBaseline = "bottom", g.fillStyle = colours.text;
        g.fillText("explained variance " + number(f.explained_variance, 2), x(box[1]) - 4, y(box[2]) - 4);
    }
    describe(
        "value", `Predicted values against returns. Explained variance ${number(f.explained_variance, 2)}.`);
}

function drawControl(f) {
    const world = worlds[$("task").selectedIndex];
    const canvas = clear("world");
    world.draw(f.state, canvas);
    canvas.g.fillStyle = colours.soft, canvas.g.textBaseline = "top";
    canvas.g.fillText("return so far " + number(f.shown_return), 2, 2);
    $("world-text").textContent = world.text;
    lines(
        "return", "control", "steps", [{of: "mean_return", colour: colours.plus}], Infinity,
        $("task").selectedIndex ? -Infinity : 500);
    drawRatios(f);
    drawValues(f);
    lines("kl", "control", "steps", [{of: "kl", colour: colours.plus}], 0, 0.01);
    lines("clip-fraction", "control", "steps", [{of: "clip_fraction", colour: colours.plus}], 0, 0.2);
    lines("entropy", "control", "steps", [{of: "entropy", colour: colours.plus}], 0, 0.1);
    $("mean-return").textContent = number(f.mean_return, Math.abs(f.mean_return) < 100 ? 1 : 0);
    $("steps").textContent = number(f.steps);
    $("speed").textContent = number(state.running ? f.speed : 0);
    $("phase").textContent = `iteration ${number(f.iteration + 1)}, ` +
        (f.learning ? "learning " : "collecting ") + number(100 * f.progress) + "%, gradient step " +
        number(f.gradient_steps);
    describe("world", `${$("task").value}. Return of this episode so far ${number(f.shown_return)}.`);
    describe("return", `Mean return ${number(f.mean_return, 1)} after ${number(f.steps)} steps.`);
    describe("kl", `KL of the latest iteration ${number(f.kl, 4)}.`);
    describe("clip-fraction", `Clip fraction of the latest iteration ${number(f.clip_fraction, 3)}.`);
    describe("entropy", `Entropy ${number(f.entropy, 3)}.`);
}

function takeControl(f) {
    const last = state.history.control.at(-1);
    if (f.iteration && (!last || last.iteration !== f.iteration))
        remember("control", {
            iteration: f.iteration,
            steps: f.learned_steps,
            mean_return: f.mean_return,
            kl: f.most_kl,  // of all iterations since the frame before
            clip_fraction: f.most_clip_fraction,
            entropy: f.entropy
        });
}

/* -- the second tab -- */

const letters = 12, colourTexts = {
    advantage: "<span class=plus>Blue</span>: this letter turned out better than the critic expected; " +
        "<span class=minus>orange</span>: worse. Look for the letter that decides a word's reward: those after it hardly matter.",
    log_ratio:
        "<span class=plus>Blue</span>: the model now likes this letter more than the one that only read; " +
        "<span class=minus>orange</span>: less. Look for the places where it left what it had learned from words.",
};

function drawSamples() {
    const f = state.frame.words, by = document.querySelector("[name=colour]:checked").value,
          list = $("samples");
    $("colour-text").innerHTML = colourTexts[by];
    list.textContent = "";
    if (!f || !f.iteration) {
        list.innerHTML =
            "<li>" + (f && f.step ? "It reads names of animals \u2026" : "Press Start.") + "</li>";
        return;
    }
    for (let s = 0; s < f.score.length; s++) {
        const item = document.createElement("li");
        let word = "";
        for (let k = 0; k < letters && f.letter[s * letters + k]; k++) {
            const at = s * letters + k, span = document.createElement("span"),
                  letter = String.fromCharCode(f.letter[at]);
            const strength = Math.max(-1, Math.min(1, f[by][at] / (by === "advantage" ? 2.5 : 3)));
            span.textContent = letter;
            if (!k) span.className = "given";
            else
                span.style.background = `rgba(${strength > 0 ? colours.plusRgb : colours.minusRgb}, ${
                    Math.abs(0.75 * strength)})`;
            if (k)
                span.title =
                    `${by === "advantage" ? "advantage" : "log p / p of the reader"} ${number(f[by][at], 2)}`;
            if (letter !== ".") word += letter;
            item.append(span);
        }
        const score = document.createElement("span");
        score.className = "score";
        score.textContent = number(f.score[s], 2);
        item.append(score);
        item.setAttribute("aria-label", `${word}, reward ${score.textContent}`);
        list.append(item);
    }
}

function drawWords(f) {
    drawSamples();
    lines("words-reward", "words", "iteration", [{of: "reward", colour: colours.plus}], 0, 1);
    lines("words-kls", "words", "iteration", [{of: "kl", colour: colours.plus}], 0, 5);
    lines(
        "words-variety", "words", "iteration",
        [{of: "entropy", colour: colours.minus}, {of: "distinct", colour: colours.plus}], 0, 1);
    $("reward").textContent = f.iteration ? number(f.reward, 2) : "\u2013";
    $("words-kl").textContent = f.iteration ? number(f.kl, 1) : "\u2013";
    $("iteration").textContent = number(f.iteration);
    $("words-phase").textContent = !f.iteration && !f.step ? "ready" :
        f.reading || !f.iteration ? `it reads: step ${number(f.step)} of 300, loss ${number(f.loss, 2)}` :
                                    "PPO on tokens";
    describe("words-reward", `Mean reward ${number(f.reward, 2)} in iteration ${number(f.iteration)}.`);
    describe("words-kls", `KL ${number(f.kl, 1)} per word.`);
    describe(
        "words-variety",
        `Different words ${number(100 * f.distinct)} percent, entropy ${number(f.entropy, 2)}.`);
}

function takeWords(f) {
    const last = state.history.words.at(-1);
    if (f.iteration && (!last || last.iteration !== f.iteration))
        remember(
            "words",
            {iteration: f.iteration, reward: f.reward, kl: f.kl, entropy: f.entropy, distinct: f.distinct});
}

/* -- frames -- */

let drawn = true;
function draw() {
    if (!drawn) return;
    drawn = false;
    requestAnimationFrame(() => {
        drawn = true;
        if (figures[state.tab]) figures[state.tab]();
        else if (!state.frame[state.tab]) return;
        else if (state.tab === "control") drawControl(state.frame.control);
        else drawWords(state.frame.words);
    });
}

/* Twice a minute, in words for a screen reader. */
function speak() {
    const f = state.frame[state.tab], now = performance.now();
    if (!state.running || now - state.spoken < 30000) return;
    state.spoken = now;
    $(state.tab).querySelector(".spoken").textContent = state.tab === "control" ?
        `${number(f.steps)} steps, mean return ${number(f.mean_return)}` :
        `Iteration ${number(f.iteration)}, reward ${number(f.reward, 2)}, KL ${number(f.kl, 1)}`;
}

worker.onmessage = ({data}) => {
    if (data.type === "ready") {
        $("kernels").textContent = data.kernels;
        if (!readAddress()) open("control");
    } else if (data.type === "error") {
        run(false);
        $("error").textContent = data.text;
        $("error").hidden = false;
    } else if (data.start === state.start[data.tab]) {  // not of a start before
        data.frame.speed = data.speed;
        state.frame[data.tab] = data.frame;
        if (state.fresh[data.tab]) adopt(data.tab, data.frame), state.fresh[data.tab] = false;
        (data.tab === "control" ? takeControl : takeWords)(data.frame);
        speak();
        draw();
    }
};

worker.onerror = error => {
    $("error").textContent = "The engine does not run: " + error.message;
    $("error").hidden = false;
};

readColours();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    draw();
});
new ResizeObserver(draw).observe(document.body);
fetch("data:application/octet-stream;base64," + $("wasm").textContent.trim())
    .then(r => r.arrayBuffer())
    .then(wasm => tell("load", {wasm}));
