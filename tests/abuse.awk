# abuse.awk - writes calls of all public functions, by their declarations in headers and by the arguments in abuse.txt, for
# test_abuse.c:  awk -f abuse.awk abuse.txt ppo.h companion.h ...
#
# A function without a line in abuse.txt, one with another number of arguments, and a line without a function become an #error.

function error(text) { print "#error \"" text "\"" }

function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

# Splits s at the commas that are not within brackets or quotes, into part [1 ..].
function split_list(s, part,    n, i, c, depth, quoted, from) {
    n = depth = quoted = 0; from = 1
    s = trim(s)
    if (s == "" || s == "void") return 0
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        if (c == "\"") quoted = !quoted
        if (quoted) continue
        if (c ~ /[({[]/) depth++
        if (c ~ /[)}\]]/) depth--
        if (c == "," && depth == 0) { part[++n] = trim(substr(s, from, i - from)); from = i + 1 }
    }
    part[++n] = trim(substr(s, from))
    return n
}

# abuse.txt
FILENAME == ARGV[1] {
    if ($0 ~ /^[ \t]*(#|$)/) next
    if ($1 == "struct") { for (i = 2; i <= NF; i++) wild[$i] = 1; next }
    if ($1 == "keep") { for (i = 2; i <= NF; i++) keep[$i] = 1; next }
    if ($1 == "none") { name = $2; sub(/:$/, "", name); none[name] = 1; next }
    name = $0; sub(/:.*/, "", name)
    may_fail[substr(name, 2)] = substr(name, 1, 1) == "?"
    sub(/^\?/, "", name)
    given[name] = 1
    arguments[name] = substr($0, index($0, ":") + 1)
    next
}

# headers: declarations without comments
FNR == 1 { skipped = in_comment = in_cpp = 0; text = ""; depth = 0 }
/^#if defined\(PPO_IMPLEMENTATION\) && !defined/ { skipped = 1 }
skipped { next }
/^#ifdef __cplusplus/ { in_cpp = 1 }
/^#endif/ { in_cpp = 0 }
/^#/ || in_cpp { next }
{
    line = $0
    for (;;) {
        if (in_comment) {
            if (!(i = index(line, "*/"))) { line = ""; break }
            line = substr(line, i + 2); in_comment = 0
        }
        if (!(i = index(line, "/*"))) { sub(/\/\/.*/, "", line); text = text " " line; break }
        text = text " " substr(line, 1, i - 1)
        line = substr(line, i + 2); in_comment = 1
    }
    while ((end = statement_end(text)) > 0) { declare(trim(substr(text, 1, end - 1))); text = substr(text, end + 1) }
}

# The first semicolon outside braces; 0: there is none yet.
function statement_end(s,    i, c, d) {
    if (!index(s, ";")) return 0
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        if (c == "{") d++
        if (c == "}") d--
        if (c == ";" && d == 0) return i
    }
    return 0
}

function declare(s,    name) {
    gsub(/[ \t]+/, " ", s)
    if (s ~ /^typedef struct [a-z0-9_]+ \{/) {
        name = s; sub(/^typedef struct /, "", name); sub(/ .*/, "", name)
        body[name] = substr(s, index(s, "{") + 1)
        sub(/\}[^}]*$/, "", body[name])
    } else if (s ~ /^typedef enum [a-z0-9_]+ \{/) {
        name = s; sub(/^typedef enum /, "", name); sub(/ .*/, "", name)
        is_enum[name] = 1
    } else if (s ~ /^PPO_DEF /) {
        if (s ~ /\{/) return
        declaration[++functions] = substr(s, 9)
    }
}

# The kind of a type: p pointer, i int or enum, z size_t, l int64_t, u uint64_t, w uint32_t, f float, d double; "": other.
function kind_of(type) {
    gsub(/const|^ +| +$/, "", type)
    type = trim(type)
    if (type ~ /\*/ || type ~ /_fn$/ || type ~ /_hook$|_callback$|_watcher$/) return "p"
    if (type == "int" || type in is_enum) return "i"
    if (type == "size_t") return "z"
    if (type == "int64_t") return "l"
    if (type == "uint64_t") return "u"
    if (type == "uint32_t") return "w"
    if (type == "float") return "f"
    if (type == "double") return "d"
    return ""
}

# Rows of the table of fields of `of`, which is at `path` in the struct `top`.
function fields(top, of, path,    n, part, i, type, names, m, k, list, name, kind, dims) {
    n = split(body[of], part, ";")
    for (i = 1; i <= n; i++) {
        s = trim(part[i])
        if (s == "") continue
        if (s ~ /\(\*/) { # a function
            name = s; sub(/.*\(\*/, "", name); sub(/\).*/, "", name)
            field_row(top, path name, "p")
            continue
        }
        m = split_list(s, list)
        for (k = 1; k <= m; k++) {
            name = list[k]
            if (k == 1) {
                match(name, /[A-Za-z0-9_]+(\[[^]]*\])*$/)
                type = trim(substr(name, 1, RSTART - 1)); name = substr(name, RSTART)
                stars = type; gsub(/[^*]/, "", stars)
            } else if (name ~ /^\*/) { gsub(/^[* ]+(const )?/, "", name) }
            kind = kind_of(type)
            dims = gsub(/\[[^]]*\]/, "[0]", name)
            base = type; gsub(/const|struct| /, "", base)
            if (base in body && !(type ~ /\*/)) fields(top, base, path name ".")
            else if (kind == "") continue
            else if (!(dims && kind == "p")) field_row(top, path name, kind)
        }
    }
}

function field_row(top, name, kind) {
    full = top "." name
    printf "    {\"%s\", \"%s\", offsetof(%s, %s), '%s', %d},\n", top, name, top, name, kind, !(full in keep)
}

END {
    print "/* Written by abuse.awk. */"
    print "static const struct field {\n    const char *of, *name;\n    size_t offset;\n    char kind;\n    int wild; /* 0: left as it is */\n} fields[] = {"
    for (name in wild) {
        if (!(name in body)) error("abuse.txt: there is no struct " name)
        fields(name, name, "")
    }
    print "    {NULL, NULL, 0, 0, 0}};\n"
    for (f = 1; f <= functions; f++) {
        s = declaration[f]
        match(s, /[a-z0-9_]+ ?\(/)
        name = trim(substr(s, RSTART, RLENGTH - 1)); result = trim(substr(s, 1, RSTART - 1))
        list = substr(s, RSTART + RLENGTH); sub(/\)[^)]*$/, "", list)
        known[name] = 1
        if (name in none) continue
        if (!(name in given)) { error("abuse.txt has no line for " name); continue }
        n = split_list(list, parameter)
        m = split_list(arguments[name], argument)
        if (n != m) { error("abuse.txt gives " name " " m " arguments, it has " n); continue }
        call = kinds = structs = ""
        for (k = 1; k <= n; k++) {
            p = parameter[k]; x = argument[k]; mark = ""
            if (x ~ /^[!#]/) { mark = substr(x, 1, 1); x = trim(substr(x, 2)) }
            array = p ~ /\]$/
            sub(/(\[[^]]*\])+$/, "", p)
            if (p ~ /\(\*/) { type = "int *" } else { match(p, /[A-Za-z0-9_]+$/); type = trim(substr(p, 1, RSTART - 1)) }
            kind = array ? "p" : kind_of(type)
            base = type; gsub(/const|\*| /, "", base)
            of = type ~ /^const [a-z_0-9]+ \*$/ && (base in wild) ? base : ""
            if (x == "NULL" || kind == "" || mark == "!") kind = "-"
            else if (mark == "#") kind = toupper(kind)
            if (kind == "p" && type !~ /\*/ && !array) kind = "q" # a function
            kinds = kinds kind
            structs = structs (k > 1 ? ", " : "") (of == "" ? "NULL" : "\"" of "\"")
            if (of != "" && kind == "p") x = "S_(" k - 1 ", " x ", sizeof(" of "))"
            else if (kind != "-") x = toupper(kind) "_(" k - 1 ", " x ")"
            call = call (k > 1 ? ", " : "") x
        }
        call = name "(" call ")"
        if (result == "ppo_status") body_of = "return (int)" call ";"
        else if (result == "ppo_evaluation") body_of = "return (int)" call ".status;"
        else if (result == "ppo_player_figures") body_of = "return (int)" call ".episodes.status;"
        else if (result == "void") body_of = call ";\n    return NOTHING;"
        else if (result ~ /\*/) body_of = "return " call " ? SOMETHING : NULL_RESULT;"
        else body_of = "(void)" call ";\n    return NOTHING;"
        printf "static int call_%d(void) {\n    %s\n}\n", f, body_of
        table = table sprintf("    {\"%s\", call_%d, \"%s\", {%s}, %d},\n", name, f, kinds, structs == "" ? "NULL" : structs, may_fail[name])
    }
    for (name in given) if (!(name in known)) error("abuse.txt: there is no function " name)
    for (name in none) if (!(name in known)) error("abuse.txt: there is no function " name)
    print "static const struct function {\n    const char *name;\n    int (*call)(void);\n    const char *kinds;\n    const char *structs[12];\n    int may_fail;\n} functions[] = {"
    printf "%s    {NULL, NULL, NULL, {NULL}, 0}};\n", table
}
