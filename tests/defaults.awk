# defaults.awk - writes what the headers say of defaults, for test_defaults.c:  awk -f defaults.awk ppo.h companion.h ...
#
# Of each struct ppo_x with a function ppo_x_default(), the fields whose comment ends in [default]. IS(ppo_x, field, number),
# SAYS(ppo_x, field, "word") for what its settings call it, POINTS_NOWHERE(ppo_x, field).

function put(type, path, value,    i, row) {
    if (value ~ /^ppo_[a-z_]+_default\(\)$/) {
        sub(/_default.*/, "", value)
        for (i = 1; i <= rows[value]; i++) put(type, path "." field[value, i], default[value, i])
    } else if (value == "NULL") row = "POINTS_NOWHERE(" type ", " path ")"
    else if (value ~ /^(yes|no|none)$/) row = "IS(" type ", " path (path == "conv" ? "_layers" : "") ", " (value == "yes") ")"
    else if (value ~ /^(-?[0-9.e-]+|PPO_[A-Z0-9_]+)$/) row = "IS(" type ", " path ", " value ")"
    else if (value != "defaults") row = "SAYS(" type ", " path ", \"" value "\")"
    if (row) print row
}

# A declaration's names, and the default that its comment ends with
function declare(type, names, comment,    n, m, i, name, value) {
    if (!match(comment, /\[[^]]*\] *$/)) return
    comment = substr(comment, RSTART + 1, RLENGTH - 2)
    sub(/\].*/, "", comment)
    gsub(/\[[^]]*\]|^ */, "", names)
    n = split(names, name, /, */)
    sub(/.*[ *]/, "", name[1])
    for (i = 1; i <= n; i++) sub(/^\*/, "", name[i])
    m = split(comment, value, /, /)
    for (i = 1; i <= n && m == n; i++) {
        field[type, ++rows[type]] = name[i]
        default[type, rows[type]] = value[i]
    }
}

FNR == 1 { inside = 0 }
/^typedef struct ppo_[a-z_]+ {/ { inside = 1; type = $3; text = comment = ""; n = 0; next }
inside && /^}/ { inside = 0 }
inside {
    line = $0
    while (line != "") {
        if (commented) {
            i = index(line, "*/")
            comment = comment " " substr(line, 1, i ? i - 1 : length(line))
            line = i ? substr(line, i + 2) : ""
            commented = !i
        } else if (i = index(line, "/*")) {
            text = text substr(line, 1, i - 1)
            line = substr(line, i + 2)
            commented = 1
            if (!(text ~ /;/ )) comment = "" # one above the field
        } else {
            text = text line
            line = ""
        }
        if (!commented && line == "" && (i = index(text, ";"))) {
            field_text[type, ++fields[type]] = substr(text, 1, i - 1)
            field_comment[type, fields[type]] = comment
            text = comment = ""
        }
    }
}
match($0, /ppo_[a-z_]+_default\(void\);/) {
    type = substr($0, RSTART, RLENGTH - length("_default(void);"))
    for (k = 1; k <= fields[type]; k++) declare(type, field_text[type, k], field_comment[type, k])
    for (k = 1; k <= rows[type]; k++) put(type, field[type, k], default[type, k])
}
