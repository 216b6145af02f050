# pages.awk - the manual as pages: awk -v out=FOLDER -v script=search.js [-v source=URL] -f pages.awk ppo.h COMPANION...
#
# Reads the interface parts of ppo.h and its companions and writes index.html (the comment at the top of ppo.h), a page
# for each wing and each companion, the sources with numbered lines, and what a search needs. It relies on how the headers
# are written: a banner opens each wing and each section; a comment stands before what it explains; a field's comment stands at the end of
# its line, with the default in brackets where the struct says so; what is indented by four or more is not
# running text.
#
# source: where links to lines go, such as https://.../ppo.h#L (the number follows); the default is source.html.

FNR == 1 {
    path[++files] = FILENAME
    start[files] = NR
}
{ line[NR] = $0 }

# The implementation: where a function begins.
/^PPO_DEF .*ppo_[a-z0-9_]+\(.*[{},]$/ { defined[function_name($0)] = NR }

END {
    start[files + 1] = NR + 1
    for (end = 1; line[end] !~ /^#endif \/\* PPO_H \*\//; ) end++
    read_interface()
    for (f = 2; f <= files; f++) read_companion(f)
    write_manual()
    for (w = 1; w <= wings; w++) write_wing(w)
    write_search()
    for (f = 1; f <= files; f++) write_source(f)
}

# -- reading: sections, and items of a comment and declarations --

function function_name(s) {
    if (!match(s, /ppo_[a-z0-9_]+\(/)) return ""
    s = substr(s, RSTART, RLENGTH - 1)
    return s
}

# The line at which the comment that begins in line i ends.
function comment_end(i) {
    while (line[i] !~ /\*\//) i++
    return i
}

function read_interface(    i) {
    manual_end = comment_end(1)
    for (i = 2; i < manual_end; i++)
        if (line[i] ~ /^[A-Z][A-Z]/) {
            chapter[++chapters] = line[i]
            chapter_line[chapters] = i
        }
    chapter_line[chapters + 1] = manual_end + 1
    add_wing("FOUNDATION")
    read_items(manual_end + 1, end)
}

# A companion is a page of its own: the comment at its top, then its declarations.
function read_companion(f,    i) {
    add_wing(file_name(f))
    companion[wings] = f
    section++ # what stands before the first banner
    section_wing[section] = wings
    item_open = 0
    for (i = start[f]; i < start[f + 1] && line[i] !~ /^   IMPLEMENTATION/; ) i++
    if (i < start[f + 1]) read_items(comment_end(start[f]) + 1, i - 1) # else it is macros
}

function file_name(f,    s) {
    s = path[f]
    sub(/.*\//, "", s)
    return s
}

function read_items(from, end,    i, e, depth, title, name) {
    for (i = from; i < end; i++) {
        if (line[i] ~ /^\/\* =====/) {
            name = line[i]
            sub(/^\/\* =+ */, "", name)
            add_wing(name == "" ? trim(line[i + 1]) : name)
            i = comment_end(i)
        } else if (line[i] ~ /^\/\* -----/) {
            e = comment_end(i)
            section++
            section_wing[section] = wings
            section_from[section] = i + 1
            section_to[section] = e - 1
            title = trim(line[i + 1])
            match(title, /^[0-9]+ [^:.]*/)
            section_title[section] = substr(title, 1, RLENGTH)
            line[i + 1] = "   " capital(trim(substr(title, RLENGTH + 2)))
            i = e
        } else if (!section || line[i] ~ /^(#|extern "C"|}$)/ || line[i] == "") {
            item_open = 0
        } else if (line[i] ~ /^\/\*/) {
            add_item(i)
            item_text[items] = i
            i = item_text_end[items] = comment_end(i)
        } else {
            if (!item_open) add_item(i)
            if (!item_from[items]) item_from[items] = i
            do {
                depth += gsub(/[{]/, "{", line[i]) - gsub(/[}]/, "}", line[i])
                item_to[items] = i
                add_names(i)
            } while (depth > 0 && ++i < end)
            if (line[i + 1] ~ /^\/\*/) item_open = 0
        }
    }
}

function add_wing(name) {
    wing_name[++wings] = name
    wing_page[wings] = tolower(name) ".html"
    sub(/\.(h|cuh)\./, ".", wing_page[wings])
    sub(/ppo's /, "", wing_page[wings])
}

function add_item(i) {
    item_section[++items] = section
    item_line[items] = i
    item_from[items] = 0
    item_text[items] = 0
    item_open = 1
}

# Public names in a line of declarations: functions, types, constants.
function add_names(i,    s, name, type) {
    s = line[i]
    gsub(/\/\*.*/, "", s)
    if (s ~ /^PPO_DEF/) add_name(function_name(s ~ /\(/ ? s : s " " line[i + 1]))
    if (match(s, /\(\*ppo_[a-z0-9_]+\)/)) add_name(substr(s, RSTART + 2, RLENGTH - 3))
    if (s ~ /^typedef (struct|enum)/ || s ~ /^struct/) {
        name = s
        sub(/^(typedef )?(struct|enum) /, "", name)
        if (name ~ /^[{].*[}]/) sub(/.*[}] */, "", name) # all of it in one line
        sub(/[ ;].*/, "", name)
        add_name(name)
    }
    if (s ~ /^(typedef )?enum/) in_enum = 1
    if (in_enum)
        while (match(s, /PPO_[A-Z0-9_]+/)) {
            name = substr(s, RSTART, RLENGTH)
            if (name !~ /^PPO__/) add_name(name)
            s = substr(s, RSTART + RLENGTH)
        }
    if (line[i] ~ /}/) in_enum = 0
}

function add_name(name) {
    if (name == "" || name in page) return
    page[name] = wing_page[wings]
    name_item[name] = items
    names[++name_count] = name
}

# -- text --

function trim(s) {
    gsub(/^ +| +$/, "", s)
    return s
}

function capital(s) { return toupper(substr(s, 1, 1)) substr(s, 2) }

function escape(s) {
    gsub(/&/, "\\&amp;", s)
    gsub(/</, "\\&lt;", s)
    gsub(/>/, "\\&gt;", s)
    return s
}

# Escaped text with its public names as links; those in `own` become anchors, once each.
function linked(s, own,    done, name, before) {
    s = escape(s)
    while (match(s, /(ppo|PPO)_[A-Za-z0-9_]+/)) {
        name = substr(s, RSTART, RLENGTH)
        before = substr(s, 1, RSTART - 1)
        s = substr(s, RSTART + RLENGTH)
        if (own && (name in page) && !(name in anchored) && name_item[name] == own) {
            anchored[name] = 1
            done = done before "<a class=\"name\" id=\"" name "\" href=\"" \
                at(name in defined ? defined[name] : now) "\">" name "</a>"
        } else if (name in page) done = done before "<a href=\"" page[name] "#" name "\">" name "</a>"
        else done = done before name
    }
    return done s
}

# The link to a line: of a file's own page of its source, or where `source` says.
function at(number,    f, s) {
    for (f = 1; number >= start[f + 1]; ) f++
    s = source
    if (s == "") s = source_page(f) "#L"
    else if (f > 1) sub(/ppo\.h/, path[f], s)
    return s (number - start[f] + 1)
}

function source_page(f,    s) {
    s = file_name(f)
    sub(/\..*/, "", s)
    return f > 1 ? "source_" s ".html" : "source.html"
}

function indent(s) {
    match(s, /^ */)
    return RLENGTH
}

# Lines from .. to as paragraphs; what is indented by four or more beyond `base`, has columns, or is code stays
# as it is.
function prose(from, to, base,    i, s, kind, was, block, from_indent) {
    block = ""
    was = ""
    for (i = from; i <= to; i++) {
        s = line[i]
        if (i == from) sub(/^\/\*/, "  ", s)
        sub(/ *\*\/$/, "", s)
        if (s ~ /^ *$/) {
            if (was == "pre" && block !~ /\n}\n$/) block = block "\n"
            else {
                flush(block, was)
                block = was = ""
            }
            continue
        }
        kind = indent(s) >= base + 4 || (s ~ /[^ .]    *[^ ]/ && s !~ /^ *[0-9]+\. /) ? "pre" : "p"
        if (s ~ /^ *[#}]/ || s ~ /[{]$/) kind = "pre"
        if (kind != was || (kind == "p" && s ~ /^ *[0-9]+\. /)) {
            flush(block, was)
            block = ""
        }
        block = block (kind == "pre" ? substr(s, base + 1) : trim(s)) "\n"
        was = kind
    }
    flush(block, was)
}

function flush(block, kind,    rows, n, least, k, code) {
    sub(/\n+$/, "", block)
    if (block == "") return
    if (kind == "pre") { # without what all lines are indented by
        n = split(block, rows, "\n")
        least = 99
        for (k = 1; k <= n; k++) if (rows[k] != "" && indent(rows[k]) < least) least = indent(rows[k])
        block = ""
        for (k = 1; k <= n; k++) block = block substr(rows[k], least + 1) (k < n ? "\n" : "")
    }
    if (kind == "pre") {
        code = block ~ /;( *\/\/[^\n]*)?(\n|$)|\);  / ? " class=\"code\"" : ""
        print "<pre" code ">" linked(block) "</pre>" >file
    } else print "<p>" quoted(linked(block)) "</p>" >file
}

# `word` as code.
function quoted(s,    done) {
    while (match(s, /`[^`]+`/)) {
        done = done substr(s, 1, RSTART - 1) "<code>" substr(s, RSTART + 1, RLENGTH - 2) "</code>"
        s = substr(s, RSTART + RLENGTH)
    }
    return done s
}

# -- pages --

function top(title, more) {
    print "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">" >file
    print "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">" >file
    print "<title>ppo.h: " title "</title>\n<link rel=\"stylesheet\" href=\"docs.css\">\n</head>\n<body" more ">" >file
}

function head(title,    w, s) {
    top(title, "")
    print "<a class=\"skip\" href=\"#main\">To the text</a>\n<nav aria-label=\"Contents\">" >file
    print "<p class=\"title\"><a href=\"index.html\">ppo.h</a></p>" >file
    print "<input id=\"search\" type=\"search\" placeholder=\"Search names\" aria-label=\"Search names\" " \
        "autocomplete=\"off\">\n<ul id=\"found\" aria-live=\"polite\"></ul>" >file
    print "<details open><summary>Contents</summary>\n<p><a href=\"index.html\">Manual</a></p><ul>" >file
    for (s = 1; s <= chapters; s++)
        print "<li><a href=\"index.html#chapter-" s "\">" escape(chapter_title(chapter[s])) "</a></li>" >file
    print "</ul>" >file
    for (w = 1; w <= wings; w++) {
        print "<p><a href=\"" wing_page[w] "\">" wing_title(w) "</a></p><ul>" >file
        for (s = 1; s <= section; s++)
            if (section_wing[s] == w && section_title[s])
                print "<li><a href=\"" wing_page[w] "#" section_id(s) "\">" escape(short_title(s)) "</a></li>" >file
        print "</ul>" >file
    }
    print "</details>\n</nav>\n<main id=\"main\">" >file
}

function foot() {
    print "</main>\n<script src=\"search.js\"></script>\n</body>\n</html>" >file
    close(file)
}

function short_title(s) {
    s = section_title[s]
    sub(/ \(.*/, "", s)
    return s
}

function section_id(s) { return "section-" (section_title[s] + 0) }

function wing_title(w) {
    if (w in companion) return wing_name[w]
    return substr(wing_name[w], 1, 3) == "PPO" ? "PPO's mathematics" : capital(tolower(wing_name[w]))
}

function write_manual(    c, title) {
    file = out "/index.html"
    head("manual")
    print "<h1>ppo.h</h1>" >file
    prose(1, chapter_line[1] - 1, 3)
    for (c = 1; c <= chapters; c++) {
        title = chapter[c]
        print "<h2 id=\"chapter-" c "\">" escape(chapter_title(title)) "</h2>" >file
        if (match(title, /\(.*\)/)) print "<p>" linked(capital(substr(title, RSTART + 1, RLENGTH - 2))) ".</p>" >file
        prose(chapter_line[c] + 1, chapter_line[c + 1] - 1, 4)
    }
    foot()
}

function chapter_title(s) {
    sub(/ \(.*/, "", s)
    if (s ~ /^GPU/) return s
    return capital(tolower(s))
}

function write_wing(w,    s, k) {
    file = out "/" wing_page[w]
    head(wing_title(w))
    print "<h1>" wing_title(w) "</h1>" >file
    if (w in companion) write_companion_manual(start[companion[w]])
    for (s = 1; s <= section; s++) {
        if (section_wing[s] != w) continue
        if (section_title[s]) {
            print "<h2 id=\"" section_id(s) "\">" escape(section_title[s]) "</h2>" >file
            prose(section_from[s], section_to[s], 3)
        }
        for (k = 1; k <= items; k++) if (item_section[k] == s) write_item(k)
    }
    foot()
}

function write_companion_manual(from,    i, to) {
    to = comment_end(from)
    sub(/^\/\* .* - /, "   ", line[from])
    line[from] = "   " capital(trim(line[from])) "."
    for (i = from; i <= to + 1; i++)
        if (i > to || line[i] ~ /^[A-Z][A-Z]/) {
            prose(from, i - 1, 3)
            if (i <= to) print "<h2>" escape(chapter_title(line[i])) "</h2>" >file
            from = i + 1
        }
}

# Declarations, then the comment, then structs as tables.
function write_item(k,    i, block, tables, first, depth) {
    now = item_line[k]
    print "<article><a class=\"line\" href=\"" at(now) "\">line " now "</a>" >file
    tables = 0
    if (item_from[k]) {
        block = ""
        for (i = item_from[k]; i <= item_to[k]; i++) {
            if (line[i] ~ /^(typedef )?struct .*[{]/) {
                first[++tables] = i
                while (line[i] !~ /^}/) i++
            } else {
                if (!sub(/^PPO_DEF /, "", line[i])) sub(/^        /, "", line[i]) # what follows it moves along
                block = block line[i] "\n"
            }
        }
        sub(/\n$/, "", block)
        if (block != "") print "<pre class=\"declaration\">" comments(linked(block, k)) "</pre>" >file
    }
    if (item_text[k]) prose(item_text[k], item_text_end[k], 3)
    for (i = 1; i <= tables; i++) write_struct(first[i], k)
    print "</article>" >file
}

function comments(s) {
    gsub(/\/\*/, "<i>/*", s)
    gsub(/\*\//, "*/</i>", s)
    return s
}

# A table of fields: declaration, meaning, default. A comment on lines of its own is a row of its own.
function write_struct(i, k,    name, defaults, s, text, field, value) {
    now = i
    name = line[i]
    defaults = name item_words(k) ~ /[Dd]efaults in brackets/
    gsub(/^typedef | [{].*/, "", name)
    print "<table><caption><code>" linked(name, k) "</code>" >file
    if (match(line[i], /\/\*.*\*\//) && !defaults)
        print " " linked(trim(substr(line[i], RSTART + 2, RLENGTH - 4))) >file
    print "</caption><thead><tr><th>Field</th><th>Meaning</th>" (defaults ? "<th>Default</th>" : "") >file
    print "</tr></thead><tbody>" >file
    for (i++; line[i] !~ /^}/; i++) {
        s = trim(line[i])
        if (s == "") continue
        while (s !~ /;/ && s !~ /^\/\*/) s = s " " trim(line[++i])
        while (s ~ /\/\*/ && s !~ /\*\//) s = s " " trim(line[++i])
        text = value = ""
        field = s
        if (match(s, /\/\*.*\*\//)) {
            text = trim(substr(s, RSTART + 2, RLENGTH - 4))
            field = trim(substr(s, 1, RSTART - 1))
        }
        gsub(/  +/, " ", field)
        if (field == "" && line[i + 1] ~ /^ *[a-z].*;$/) { # of the field that follows, which has none
            field = trim(line[++i])
        }
        if (field == "") {
            print "<tr><td class=\"group\" colspan=\"3\">" linked(text) "</td></tr>" >file
            continue
        }
        if (defaults && match(text, /\[[^][]*(\[[^][]*\][^][]*)?\]$/)) {
            value = substr(text, RSTART + 1, RLENGTH - 2)
            text = trim(substr(text, 1, RSTART - 1))
        }
        print "<tr><td><code>" linked(field) "</code></td><td>" linked(text) "</td>" \
            (defaults ? "<td><code>" linked(value) "</code></td>" : "") "</tr>" >file
    }
    print "</tbody></table>" >file
}

function item_words(k,    i, s) {
    if (item_text[k]) for (i = item_text[k]; i <= item_text_end[k]; i++) s = s " " trim(line[i])
    return s
}

# The first sentence of an item's comment, as text of a search result.
function first_sentence(k,    s, i) {
    if (!item_text[k]) return ""
    s = item_words(k)
    gsub(/\/\*|\*\//, "", s)
    if (match(s, /[a-z0-9)][.:;] [A-Z]/)) s = substr(s, 1, RSTART)
    gsub(/["\\]/, "\\\\&", s)
    return trim(s)
}

function entry(name, address, text) { print "[\"" name "\", \"" address "\", \"" text "\"]," >file }

function write_search(    k, s) {
    file = out "/search.js"
    print "const entries = [" >file
    for (k = 1; k <= chapters; k++) entry(chapter_title(chapter[k]), "index.html#chapter-" k, "manual")
    for (k = 1; k <= section; k++) if (section_title[k]) entry(short_title(k), wing_page[section_wing[k]] "#" section_id(k), "section")
    for (k = 1; k <= name_count; k++)
        entry(names[k], page[names[k]] "#" names[k], first_sentence(name_item[names[k]]))
    print "];" >file
    while ((getline s <script) > 0) print s >file
    close(file)
}

function write_source(f,    i, s) {
    file = out "/" source_page(f)
    top("source", " class=\"source\"")
    print "<pre>" >file
    while ((getline s <path[f]) > 0) print "<span id=\"L" (++i) "\">" escape(s) "</span>" >file
    print "</pre>\n</body>\n</html>" >file
    close(file)
}
