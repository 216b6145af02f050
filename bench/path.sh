#!/bin/sh
# path.sh - how many functions somebody meets who reads one iteration: those that ROOT names in its body, those that these
# name, ... A function that is handed over by its name counts as one that is called; calls through tables do not.
#     sh bench/path.sh [ROOT [HEADER]]      ROOT: ppo_trainer_iterate (default), ppo_rlhf_iterate, ...
# For each depth: how many are new there, how many there are so far, and of these how many are in the root's own section or
# in the one that collects (14). LIST=3 in the environment also prints the names down to that depth.
root=${1:-ppo_trainer_iterate} header=${2:-ppo.h}
awk -v root="$root" -v list="${LIST:-0}" '
function strip(line,  from, to, out) { # comments and strings
    while (1) {
        if (comment) {
            to = index(line, "*/")
            if (!to) return out
            comment = 0
            line = substr(line, to + 2)
        }
        from = index(line, "/*")
        if (!from) break
        out = out substr(line, 1, from - 1)
        comment = 1
        line = substr(line, from + 2)
    }
    out = out line
    gsub(/"([^"\\]|\\.)*"/, "", out)
    return out
}
/^   @@ [0-9]/ { section = $2 }
{
    line = strip($0)
    if (line == "") next
    if (!inside && line ~ /^[A-Za-z]/ && match(line, /ppo_[a-z0-9_]*\(/)) {
        name = substr(line, RSTART, RLENGTH - 1)
        inside = 1
        head = ""
        if (line ~ /^(typedef|struct|enum|#)/ || line ~ / = /) inside = 0
    } else if (!inside) next
    if (!inside) next
    head = head line
    if (!body) {
        if (line ~ /;$/ && line !~ /\{/) { inside = 0; next } # a declaration
        if (line !~ /\{/) next
        body = 1
        text[name] = ""
        where[name] = section
    }
    text[name] = text[name] " " line
    if (line ~ /^}/ || line ~ /\}$/ && head !~ /\n/ && line ~ /^[A-Za-z].*\{.*\}$/) inside = body = 0
}
END {
    if (!(root in text)) { print "there is no function " root; exit 1 }
    depth[root] = 0
    queue[1] = root
    last = 1
    for (k = 1; k <= last; ++k) {
        rest = text[queue[k]]
        while (match(rest, /ppo_[a-z0-9_]+/)) {
            name = substr(rest, RSTART, RLENGTH)
            rest = substr(rest, RSTART + RLENGTH)
            if (!(name in text) || name in depth) continue
            depth[name] = depth[queue[k]] + 1
            queue[++last] = name
        }
    }
    for (k = 1; k <= last; ++k) {
        d = depth[queue[k]]
        ++count[d]
        if (where[queue[k]] == where[root] || where[queue[k]] == 14) ++own[d]
        if (d > deepest) deepest = d
        if (d <= list) names[d] = names[d] " " queue[k]
    }
    printf "%s\ndepth   new   all   of the section\n", root
    for (d = 0; d <= deepest; ++d) {
        all += count[d]
        mine += own[d]
        printf "%5d %5d %5d %5d%s\n", d, count[d], all, mine, names[d] ? "  " names[d] : ""
    }
}' "$header"
