/* worker.js - runs the engine (web.c) beside the page, in slices of a few milliseconds, so that the page is never
   waited for. It takes {type: "load", "start", "set", "run", "pace", "step" or "tab"} and sends frames: objects of
   numbers and arrays, with the names that control.h and words.h give them. */
"use strict";

let engine, memory, tab = "control", running = false, pace = 0, waiting = false;
let shown = 0, sent = 0, counted = 0, countedAt = 0, speed = 0;
const fields = {}, shownPerSecond = [50, 20, 50], channel = new MessageChannel();
const start = {}; /* of each tab: the number of its latest start, which its frames carry */
const pauses = {control: [0, 20, 100], words: [0, 250, 1000]}; /* ms after a slice, for each pace */
let task = 0, before = Promise.resolve();

/* What the C library asks of a system: the time. Everything else is absent. */
const system = new Proxy({}, {
    get: (_, name) => (...given) => {
        if (name === "clock_time_get")
            new DataView(memory.buffer)
                .setBigUint64(given[2], BigInt(Math.round(performance.now() * 1e6)), true);
        return 0;
    }
});

function text(at) {
    const bytes = new Uint8Array(memory.buffer, at);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
}

function settings(words) {
    new Uint8Array(memory.buffer, engine.web_settings())
        .set(new TextEncoder().encode(words.slice(0, 250) + "\0"));
}

function check(status) {
    if (!status) return;
    running = false;
    postMessage({type: "error", text: text(engine.web_error())});
}

/* The names and places of a frame's numbers. */
function layout(at) {
    const list = [], ints = new Int32Array(memory.buffer);
    for (let k = at / 4, offset = 0; ints[k]; k += 2) {
        list.push({name: text(ints[k]), offset, floats: ints[k + 1]});
        offset += ints[k + 1];
    }
    return list;
}

function send() {
    const frame = {}, now = performance.now();
    if (tab === "control") {
        for (; running && shown < now; shown += 1000 / shownPerSecond[task]) check(engine.web_control_show());
        check(engine.web_control_fill());
        if (now - countedAt > 1000) {
            const steps = engine.web_control_steps();
            speed = 1000 * (steps - counted) / (now - countedAt);
            counted = steps, countedAt = now;
        }
    }
    const floats = new Float32Array(memory.buffer, engine["web_" + tab + "_frame"]());
    for (const f of fields[tab])
        frame[f.name] = f.floats === 1 ? floats[f.offset] : floats.slice(f.offset, f.offset + f.floats);
    postMessage({type: "frame", tab, frame, speed, start: start[tab]});
    sent = now;
}

/* A slice of work; the next one waits in the queue of messages, behind what the page may have sent. */
function work() {
    waiting = false;
    if (!running) return;
    if (tab === "words") check(engine.web_words_advance());
    else if (pace < 2) check(engine.web_control_run(pace ? 2 : 8));
    else {
        const learning = fields.control.find(f => f.name === "learning").offset;
        if (new Float32Array(memory.buffer, engine.web_control_frame())[learning])
            check(engine.web_control_gradient_step());
        else check(engine.web_control_run(1));
    }
    if (pace === 2 || performance.now() - sent > 33) send();
    next();
}

function next() {
    if (waiting || !running) return;
    waiting = true;
    if (pace) setTimeout(work, pauses[tab][pace]);
    else channel.port2.postMessage(0);
}
channel.port1.onmessage = work;

const answers = {
    async load({wasm}) {
        const {instance} = await WebAssembly.instantiate(wasm, new Proxy({}, {get: () => system}));
        engine = instance.exports;
        memory = engine.memory;
        engine._initialize();
        fields.control = layout(engine.web_control_fields());
        fields.words = layout(engine.web_words_fields());
        postMessage({type: "ready", kernels: text(engine.web_kernels())});
    },
    start(m) {
        start[tab] = m.start;
        settings(m.settings);
        if (tab === "control") check(engine.web_control_start(task = m.task, m.seed));
        else check(engine.web_words_start(m.seed, m.wish));
        counted = speed = 0, countedAt = shown = performance.now();
        send();
    },
    set(m) {
        settings(m.settings);
        check(tab === "control" ? engine.web_control_set() : engine.web_words_set(m.wish));
        send();
    },
    run(m) {
        running = m.on;
        shown = countedAt = performance.now();
        counted = engine.web_control_steps();
    },
    pace(m) { pace = m.pace; },
    step() {
        check(tab === "control" ? engine.web_control_gradient_step() : engine.web_words_advance());
        send();
    },
    tab(m) { tab = m.tab; }
};

/* One after another: the first one takes its time. */
onmessage = m => {
    before = before.then(() => answers[m.data.type](m.data)).then(next);
};
