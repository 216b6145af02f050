
/* Shows the entries whose name contains what was typed; names that begin with it come first. */
const box = document.getElementById("search"), found = document.getElementById("found");
box.addEventListener("input", () => {
    const words = box.value.toLowerCase().trim().split(/[^a-z0-9_]+/).filter(Boolean);
    const rank =
        ([name]) => [words[0], "ppo_" + words[0]].some(w => name.toLowerCase().startsWith(w)) ? 0 : 1;
    const hits =
        entries.filter(([name, , text]) => words.every(w => (name + " " + text).toLowerCase().includes(w)));
    hits.sort((a, b) => rank(a) - rank(b));
    found.replaceChildren(...(words.length ? hits.slice(0, 12) : []).map(([name, address, text]) => {
        const item = document.createElement("li"), link = document.createElement("a"),
              more = document.createElement("small");
        link.href = address;
        link.textContent = name;
        more.textContent = text;
        item.append(link, more);
        return item;
    }));
});
box.addEventListener("keydown", e => {
    if (e.key === "Enter" && found.querySelector("a")) found.querySelector("a").click();
    if (e.key === "Escape") box.value = "", found.replaceChildren();
});
found.addEventListener("click", () => found.replaceChildren());

/* On a narrow screen the contents are closed at first. */
if (matchMedia("(max-width: 60rem)").matches) document.querySelector("nav details").open = false;
