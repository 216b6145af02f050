# coverage.awk - reads what `gcov -t -b -c` prints, of any number of objects, and prints for each section of ppo.h and each
# companion how many of its lines and branches ran; then those that did not. tests/unreached.txt has what no test can reach:
# "file: source line: reason", * for a whole file. Variables: lines, branches: the least percentages outside the kernels;
# list=1: prints those that did not run. The exit status is 1 below them, and where a line of unreached.txt is not there any
# more, or did run.
#
# The compiler may make other branches of a line in each object. Their numbers mean the same only in objects that have as many
# of them, a form of the line: what ran in those is added up, and the form with most branches counts of those that ran.
function trimmed(text) { gsub(/^[ \t]+|[ \t]+$/, "", text); return text }
function percent(a, b) { return b ? 100 * a / b : 100 }
function keep(b) { # what was read of the line `now`
    if (!now) return
    if (!((now, many) in ran_as)) forms[now] = forms[now] " " many
    ran_as[now, many] += ran_now
    for (b = 0; b < many; b++) taken[now, many, b] += taken_now[b]
    now = ""
}
function most_branches(key, i, n, most, number) { # of the forms in which the line ran, if it did
    n = split(forms[key], number, " ")
    for (i = 1; i <= n; i++)
        if (number[i] > most && (ran_as[key, number[i]] || !runs[key])) most = number[i]
    return most + 0
}
function row(name, a) {
    printf "%-24s %6d %6.1f %%   %6d %6.1f %%\n", name, total[a, "lines"], percent(ran[a, "lines"], total[a, "lines"]),
           total[a, "branches"], percent(ran[a, "branches"], total[a, "branches"])
}
FILENAME ~ /unreached\.txt$/ {
    if (/^#/ || !NF) next
    i = index($0, ": ")
    rest = substr($0, i + 2)
    match(rest, /: [^:]*$/)
    reason[substr($0, 1, i - 1), trimmed(substr(rest, 1, RSTART - 1))] = substr(rest, RSTART + 2)
    next
}
/^ *-: *0:Source:/ {
    keep()
    file = $0
    sub(/.*Source:/, "", file)
    wanted = file == "ppo.h" || file == "ppo_cuda.cuh" || file ~ /^examples\/companions\//
    sub(/.*\//, "", file)
    section = file
    next
}
/^ *-: *0:Graph:/ { as_cpp = /cuda/ } # which counts other lines of a statement: those of headers in C are known by then
!wanted { next }
/^ *[-#=0-9*]+: *[0-9]+:/ {
    count = $0
    sub(/:.*/, "", count)
    text = substr($0, index($0, ":") + 1)
    line = text + 0
    text = trimmed(substr(text, index(text, ":") + 1))
    if (!line) next
    keep()
    if (file == "ppo.h" && !((file, line) in place)) {
        if (text ~ /^@@ [0-9]+ /) { split(text, word, " "); section = sprintf("ppo.h %2d", word[2]) }
        if (text ~ /^#ifdef PPO__KERNEL_PASS/) kernels = 1
        if (kernels && text ~ /^#if defined\(PPO_IMPLEMENTATION\)/) kernels = 0
        place[file, line] = kernels ? "ppo.h kernels" : section
    } else if (!((file, line) in place)) place[file, line] = section
    source[file, line] = text
    if (count ~ /-/) next
    if (!((file, line) in runs) && as_cpp && file !~ /\.cuh$/) next
    if (!((file, line) in runs)) order[++count_of_lines] = file SUBSEP line
    now = file SUBSEP line
    many = 0
    ran_now = count ~ /[1-9]/
    runs[now] += ran_now
    next
}
/^branch / && now && !/\(throw\)/ { taken_now[many++] = $0 ~ /taken [1-9]/ }
END {
    keep()
    for (i = 1; i <= count_of_lines; i++) {
        key = order[i]
        split(key, word, SUBSEP)
        where = place[key]
        if ((word[1], "*") in reason) {
            used[word[1], "*"] = 1
            if (!runs[key]) { excused++; continue }
        }
        known = (word[1], source[key]) in reason
        if (known && !runs[key]) { used[word[1], source[key]] = 1; excused++; continue }
        total[where, "lines"]++
        ran[where, "lines"] += runs[key] > 0
        missed = 0
        most = most_branches(key)
        for (b = 0; b < most; b++) {
            total[where, "branches"]++
            ran[where, "branches"] += taken[key, most, b] > 0
            missed += !taken[key, most, b]
        }
        if (known && !missed) continue
        if (known) { used[word[1], source[key]] = 1; excused++; total[where, "branches"] -= missed; continue }
        if (list && !runs[key]) print word[1] ":" word[2] ": never ran: " source[key]
        else if (list && missed) print word[1] ":" word[2] ": " missed " of " most " branches: " source[key]
        if (!(where in seen)) { seen[where] = 1; name[++names] = where }
    }
    for (i = 1; i <= names; i++) {
        if (name[i] != "ppo.h kernels")
            for (k = 1; k <= 2; k++) {
                what = k == 1 ? "lines" : "branches"
                total["all", what] += total[name[i], what]
                ran["all", what] += ran[name[i], what]
            }
    }
    printf "%-24s %15s   %17s\n", "", "lines, ran", "branches, ran"
    for (i = 1; i <= names; i++) row(name[i], name[i])
    row("all but the kernels", "all")
    print excused + 0 " lines are excused in tests/unreached.txt"
    for (key in reason) if (!(key in used)) { split(key, word, SUBSEP); print "unreached.txt: runs, or is gone: " word[1] ": " word[2]; bad = 1 }
    if (percent(ran["all", "lines"], total["all", "lines"]) < lines) { print "fewer lines than " lines " %"; bad = 1 }
    if (percent(ran["all", "branches"], total["all", "branches"]) < branches) { print "fewer branches than " branches " %"; bad = 1 }
    exit bad
}
