/* web.js PAGE.html FOLDER - opens the playground in headless Chromium, presses its controls as a person would, and
   reports in TAP. Screenshots at three widths go to FOLDER. Called by web.sh; speaks the DevTools protocol through
   Chromium's pipe, so it needs nothing but node. */
"use strict";

const {spawn} = require("child_process"), fs = require("fs"), path = require("path");
const [, , page, folder] = process.argv;
const sleep = ms => new Promise(done => setTimeout(done, ms));

/* -- a browser -- */

const chromium = spawn(
    "chromium",
    [
        "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
        "--user-data-dir=" + folder + "/profile", "about:blank"
    ],
    {stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"]});
const answers = new Map(), complaints = [];
let calls = 0, session, left = "";

chromium.stdio[4].on("data", data => {
    const parts = (left + data).split("\0");
    left = parts.pop();
    for (const m of parts.map(JSON.parse)) {
        if (m.id) answers.get(m.id)(m);
        if (m.method === "Runtime.exceptionThrown")
            complaints.push(m.params.exceptionDetails.exception?.description);
        if (m.method === "Runtime.consoleAPICalled" && m.params.type === "error")
            complaints.push(m.params.args[0].value);
        if (m.method === "Log.entryAdded" && m.params.entry.level === "error")
            complaints.push(m.params.entry.text);
        if (m.method === "Network.requestWillBeSent" && !/^(file|data|blob):/.test(m.params.request.url))
            complaints.push("the page asks for " + m.params.request.url);
    }
});

function call(method, params = {}) {
    const id = ++calls;
    chromium.stdio[3].write(JSON.stringify({id, method, params, sessionId: session}) + "\0");
    return new Promise(
        (done, fail) =>
            answers.set(id, m => m.error ? fail(Error(method + ": " + m.error.message)) : done(m.result)));
}

async function evaluate(expression) {
    const {result, exceptionDetails} =
        await call("Runtime.evaluate", {expression, awaitPromise: true, returnByValue: true});
    if (exceptionDetails) throw Error(exceptionDetails.exception.description);
    return result.value;
}
const textOf = id => evaluate(`document.getElementById("${id}")?.textContent || ""`);
const numberOf = async id => Number((await textOf(id)).replace(/,/g, "").replace("\u2212", "-"));

async function until(what, seconds) {
    for (const end = Date.now() + 1000 * seconds; Date.now() < end; await sleep(50))
        if (await what()) return true;
    return false;
}

/* A click in the middle of an element. */
async function click(selector) {
    const at = await evaluate(`(() => { const e = document.querySelector(${
        JSON.stringify(selector)}); e.scrollIntoView({block: "center"});
        const b = e.getBoundingClientRect(); return {x: b.x + b.width / 2, y: b.y + b.height / 2}; })()`);
    for (const type of ["mousePressed", "mouseReleased"])
        await call("Input.dispatchMouseEvent", {type, ...at, button: "left", clickCount: 1});
}

async function key(name) {
    const text = {Enter: "\r", " ": " "}[name];
    const code = {
        Enter: 13,
        " ": 32,
        Tab: 9,
        ArrowRight: 39,
        ArrowLeft: 37,
        ArrowUp: 38,
        ArrowDown: 40,
        Home: 36,
        End: 35
    }[name];
    const event = {key: name, code: name === " " ? "Space" : name, windowsVirtualKeyCode: code};
    await call("Input.dispatchKeyEvent", {type: text ? "keyDown" : "rawKeyDown", text, ...event});
    await call("Input.dispatchKeyEvent", {type: "keyUp", ...event});
}
const choose = (selector, index) =>
    evaluate(`{ const e = document.querySelector("${selector}"); e.selectedIndex = ${index};
    e.dispatchEvent(new Event("change")); }`);
const focus = selector => evaluate(`document.querySelector(${JSON.stringify(selector)}).focus()`);

async function picture(name, width, dark) {
    await call(
        "Emulation.setDeviceMetricsOverride", {width, height: 900, deviceScaleFactor: 1, mobile: false});
    await call(
        "Emulation.setEmulatedMedia",
        {features: [{name: "prefers-color-scheme", value: dark ? "dark" : "light"}]});
    await sleep(400);
    const {cssContentSize} = await call("Page.getLayoutMetrics");
    const {data} = await call(
        "Page.captureScreenshot", {captureBeyondViewport: true, clip: {...cssContentSize, scale: 1}});
    fs.writeFileSync(path.join(folder, name + ".png"), Buffer.from(data, "base64"));
    return evaluate("document.documentElement.scrollWidth <= innerWidth");
}

/* -- checks -- */

let number = 0, failures = 0;
async function check(name, what) {
    let passed = false, said = "";
    try {
        passed = await what();
    } catch (error) {
        said = error.message;
    }
    console.log(`${passed ? "ok" : "not ok"} ${++number} - ${name}`);
    if (said) console.log("# " + said);
    if (!passed) failures++;
}
const note = text => console.log("# " + text);

async function main() {
    const {targetInfos} = await call("Target.getTargets");
    ({sessionId: session} = await call(
         "Target.attachToTarget",
         {targetId: targetInfos.find(t => t.type === "page").targetId, flatten: true}));
    for (const domain of ["Runtime", "Log", "Page", "Network"]) await call(domain + ".enable");
    await call(
        "Emulation.setDeviceMetricsOverride",
        {width: 1400, height: 900, deviceScaleFactor: 1, mobile: false});
    await call("Page.navigate", {url: "file://" + path.resolve(page)});

    await check("page_has_at_most_1_MB", () => {
        note(fs.statSync(page).size + " bytes");
        return fs.statSync(page).size <= 1e6;
    });
    await check(
        "page_opens_from_the_file_system",
        () => until(async () => /^[a-z]/.test(await textOf("kernels")), 10));
    await check(
        "sliders_show_the_defaults",
        async () => await until(
            async () => await evaluate(`document.getElementById("control-clip_low").value`) === "0.2", 20));
    await check("nothing_runs_before_start", async () => {
        await sleep(200);
        return await textOf("steps") === "0";
    });

    await check("one_gradient_step_is_one", async () => {
        await click("#control .step");
        const one = await until(async () => /gradient step 1$/.test(await textOf("phase")), 20);
        await click("#control .step");
        return one && await until(async () => /gradient step 2$/.test(await textOf("phase")), 20);
    });
    await check(
        "ratios_have_left_1_after_it",
        async () => / percent. KL 0\.\d*[1-9]/.test(
            await evaluate(`document.getElementById("ratio").getAttribute("aria-label")`)));

    await check("space_on_start_begins_and_pauses", async () => {
        await focus("#control .run");
        await key(" ");
        const runs = await until(async () => await numberOf("steps") > 3000, 20);
        await key(" ");
        const stops = await until(async () => {
            const before = await textOf("steps");
            await sleep(300);
            return await textOf("steps") === before;
        }, 20);
        return runs && stops;
    });
    await check("reset_begins_anew", async () => {
        await click("#control .reset");
        return until(async () => await textOf("steps") === "0", 20);
    });
    await check("arrow_keys_move_a_slider", async () => {
        await focus("#control-epochs");
        await key("ArrowRight");
        return await evaluate(`document.querySelector("output[for=control-epochs]").textContent`) === "5";
    });

    await check("speed_of_single_steps_takes_them", async () => {
        const gradientStep = async () =>
            Number(/gradient step ([\d,]+)/.exec(await textOf("phase"))[1].replace(",", ""));
        await choose("#control .pace", 2);
        await click("#control .step");
        const one = await until(async () => await gradientStep() === 1, 20);
        await click("#control .run");
        const more = await until(async () => await gradientStep() >= 4, 20), steps = await gradientStep();
        await click("#control .run");
        await choose("#control .pace", 0);
        return one && more && steps < 60;  // in that time it takes hundreds at full speed
    });
    await check("an_experiment_sets_the_sliders_and_runs", async () => {
        const valueOf = name => evaluate(`document.getElementById("control-${name}").value`);
        await click("#control .try");
        const sets = await until(async () => await valueOf("gae_lambda") === "0", 20);
        const runs = await until(async () => await numberOf("steps") > 2000, 30);
        await click("#control .run");
        return sets && runs && await valueOf("clip_low") === "0.2";
    });
    await choose("#task", 0);

    let fastest = 0, reached = 0;
    await check("cartpole_reaches_475", async () => {
        await choose("#control .pace", 0);
        await evaluate(
            `window.longest = 0; { let last = performance.now(); (function frame() { const now = performance.now();
            longest = Math.max(longest, now - last); last = now; requestAnimationFrame(frame); })(); }`);
        await click("#control .reset");
        await click("#control .run");
        const defaults =
            await until(() => evaluate(`document.getElementById("control-gae_lambda").value === "0.95"`), 20);
        return defaults && until(async () => {
                   fastest = Math.max(fastest, await numberOf("speed"));
                   reached = await numberOf("steps");
                   return await numberOf("mean-return") >= 475;
               }, 180);
    });
    note(
        `${reached} steps, fastest second ${fastest} steps, longest time without a picture ` +
        `${Math.round(await evaluate("longest"))} ms`);
    await check("fits_1400_pixels", () => picture("control-1400", 1400));
    await check("fits_800_pixels_in_the_dark", () => picture("control-800-dark", 800, true));
    await check("fits_360_pixels", () => picture("control-360", 360));

    await check("run_before_stays_in_grey", async () => {
        const records = await evaluate("state.history.control.length");
        await click("#control .reset");
        return records > 1 && await evaluate("state.ghost.control.length") >= records &&
            await evaluate("state.history.control.length") === 0;
    });
    await check("long_history_keeps_its_peaks", () => evaluate(`(() => {
        const before = state.history.control;
        state.history.control = [];
        for (let k = 0; k < 1700; k++) remember("control", {kl: k === 300 || k === 501 ? 9 : 0, clip_fraction: 0});
        const kept = state.history.control;
        state.history.control = before;
        return kept.length <= 800 && kept.filter(r => r.kl === 9).length === 2;
    })()`));

    for (const [index, task] of ["Pendulum", "Lander"].entries())
        await check(task.toLowerCase() + "_trains", async () => {
            await choose("#task", index + 1);
            const trains = await until(async () => /^iteration ([4-9]|\d\d)/.test(await textOf("phase")), 20);
            await picture(task.toLowerCase() + "-800", 800);
            return trains && await numberOf("mean-return") < 0 &&
                await evaluate(`document.getElementById("control-gae_lambda").value`) ===
                ["0.95", "0.98"][index];
        });

    const visible = id =>
        evaluate(`!document.getElementById("${id}").hidden && document.getElementById("control").hidden`);
    await check("arrow_key_opens_the_tab_of_the_clip", async () => {
        await focus("#tab-control");
        await key("ArrowRight");
        return visible("clip");
    });
    await check("gradient_is_0_where_the_gain_is_flat", async () => {
        const says = async at => {
            await evaluate(`{ const e = document.getElementById("clip-ratio"); e.value = ${at};
                e.dispatchEvent(new Event("input")); }`);
            return textOf("clip-text");
        };
        return / gradient 1\.19\. The arrow/.test(await says(1.19)) &&
            / gradient 0\.00\. /.test(await says(1.21));
    });
    await check("a_drag_sets_the_ratio", async () => {
        await click("#clip-curve");
        const ratio = Number(await evaluate(`document.getElementById("clip-ratio").value`));
        return ratio > 0.8 && ratio < 1;
    });
    await check(
        "a_ratio_moves_on_outside_the_range",
        async () => {  // as in lesson 7, from a weight of -1
            await click("#clip-epoch");
            const one = await textOf("clip-shared-text");
            await click("#clip-epochs");
            return /ratio 1\.44, gradient 0\.00/.test(one) &&
                /ratio 2\.5\d, gradient 0\.00/.test(await textOf("clip-shared-text"));
        });
    await check("tab_of_the_clip_fits_360_pixels", () => picture("clip-360", 360));
    await check("tab_of_gae_says_which_lambda_is_best", async () => {
        await click("#tab-gae");
        const best = async mean => {
            await choose("#gae-mean", mean);
            return Number(/Least at lambda ([\d.]+)/.exec(await textOf("gae-text"))[1]);
        };
        const few = await best(1), more = await best(2);
        await choose("#gae-critic", 0);
        return await visible("gae") && few < more && more < 1 &&
            await best(1) === 0;  // exact: no bias to fear
    });
    await check("tab_of_gae_fits_360_pixels", () => picture("gae-360", 360));
    await check("address_holds_the_state", async () => {
        const address = await evaluate("location.hash");
        await call("Page.navigate", {url: "about:blank"});
        await call(
            "Page.navigate", {url: "file://" + path.resolve(page) + "#clip?ratio=0.5&clip=0.3&advantage=9"});
        const clip = await until(async () => / 0\.50 times as likely/.test(await textOf("clip-text")), 20);
        return /^#gae\?gae-critic=0&gae-mean=1&/.test(address) && clip &&
            await evaluate(`document.getElementById("clip-advantage").value`) === "1";  // 9 is out of range
    });
    await check("last_tab_opens", async () => {
        await click("#tab-words");
        return await visible("words") &&
            until(() => evaluate(`document.getElementById("words-kl_coef").value === "0.05"`), 20);
    });
    await check("model_reads_and_then_is_rewarded", async () => {
        await click("#words .run");
        return await until(async () => await numberOf("iteration") >= 1, 120) &&
            await until(async () => await numberOf("iteration") >= 12 && await numberOf("reward") > 0.5, 120);
    });
    await check(
        "letters_have_colours",
        () => evaluate(
            `[...document.querySelectorAll("#samples span")].filter(e => /rgba/.test(e.style.background)).length > 30`));
    await check("tab_of_words_fits_1400_pixels", () => picture("words-1400", 1400));
    await check("tab_of_words_fits_800_pixels_in_the_dark", async () => {
        await click("[value=log_ratio]");
        return picture("words-800-dark", 800, true);
    });
    await check("tab_of_words_fits_360_pixels", () => picture("words-360", 360));
    await check(
        "every_control_has_a_name",
        () => evaluate(`[...document.querySelectorAll("button, input, select, canvas")].every(
        e => e.textContent.trim() || e.getAttribute("aria-label") || e.labels && e.labels.length)`));
    await check(
        "no_error_and_no_request",
        () => complaints.length === 0 && evaluate(`document.getElementById("error").hidden`));
    for (const text of complaints) note(text);
    console.log("1.." + number);
}

main()
    .catch(error => {
        console.log("Bail out! " + error.message);
        failures++;
    })
    .finally(() => {
        chromium.on("exit", () => process.exit(failures ? 1 : 0));
        chromium.kill();
    });
