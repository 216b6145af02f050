/* course.c - writes the lessons as pages, build/course/index.html: `make course`.

       build/course-pages FOLDER [teacher] [check]      in the top folder, after `make docs`

   A page of a lesson is made of the comment at the top of its program, its entry in examples/lessons/README.md,
   its question in examples/lessons/course/expect.md, what it printed (build/lessons/NAME.txt), its drawings
   (examples/lessons/drawings/), and the program, with links into the manual. With `teacher` it has the answers
   of examples/lessons/teacher/README.md, too. Below the program stands examples/lessons/course/NAME.md, where
   there is one, which explains its lines. The other pages are the rest of that folder, the map of the course, and
   the exercises.

   Formulas become MathML (formula.h). A number in bold is printed by a lesson to which the same paragraph or
   row has a link; hours of a timetable are the sum of its lessons' minutes. Where that is not so the program
   says it, and with `check` returns 1. */
#include <dirent.h>

#include "formula.h"

enum { MOST = 100 };

/* ---- what there is ---- */

typedef struct lesson {
    char *name, *number;                                         /* 06b_surrogate, 6b */
    char *title, *minutes, *idea, *read, *see, *try_, *exercise; /* of README.md; NULL: none */
    char *answer, *after, *expect, *output, *source;
    int part;
} lesson;

static lesson lessons[MOST];
static int lesson_count, exercise_count, parts, teacher, wrong;
static char *part_names[MOST], *exercises[MOST]; /* of exercises: folder names */
static const char *folder;
static char **manual; /* "name", "address", .. */

/* The page, in the folder of pages, of a file of the repository. */
static char *page_of(const char *path) {
    text t = {0};
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *dot = strrchr(name, '.');
    size_t stem = dot ? (size_t)(dot - name) : strlen(name);
    if (strcmp(path, "examples/lessons/README.md") == 0) put(&t, "index.html");
    else if (strcmp(path, "examples/exercises/README.md") == 0) put(&t, "exercises.html");
    else if (strcmp(path, "ppo.h") == 0) put(&t, "../docs/index.html");
    else if (strncmp(path, "examples/exercises/", 19) == 0 && isdigit((unsigned char)path[19]) &&
             strstr(path, "/README.md"))
        putf(&t, "exercise_%.2s.html", path + 19);
    else if (strncmp(path, "examples/lessons/", 17) == 0 && dot &&
             (strcmp(dot, ".c") == 0 || strcmp(dot, ".h") == 0))
        putf(&t, "%.*s.html", (int)stem, name);
    else if (strncmp(path, "examples/lessons/course/", 24) == 0 && dot && strcmp(dot, ".md") == 0)
        putf(&t, "%.*s.html", (int)stem, name);
    else putf(&t, "../../%s", path);
    return t.s;
}

/* A link's target, seen from `from`, a folder of the repository, as the address of a page. */
static char *address_of(const char *from, const char *target) {
    text path = {0};
    const char *hash = strchr(target, '#');
    if (strstr(target, "://") || target[0] == '#') return copied(target, strlen(target));
    size_t n = hash ? (size_t)(hash - target) : strlen(target), depth = strlen(from);
    for (; n >= 3 && strncmp(target, "../", 3) == 0; target += 3, n -= 3)
        for (; depth && from[--depth] != '/';) {
        }
    put_n(&path, from, depth);
    if (depth) put(&path, "/");
    put_n(&path, target, n);
    text t = {0};
    put(&t, page_of(path.s));
    if (hash) put(&t, hash);
    return t.s;
}

static const char *manual_address(const char *name, size_t n) {
    for (char **m = manual; m && *m; m += 2)
        if (strlen(*m) == n && memcmp(*m, name, n) == 0) return m[1];
    return NULL;
}

static lesson *lesson_by_number(const char *s, size_t n) {
    for (int k = 0; k < lesson_count; k++)
        if (strlen(lessons[k].number) == n && memcmp(lessons[k].number, s, n) == 0) return &lessons[k];
    return NULL;
}

/* ---- text: the small part of Markdown that the sources use ---- */

/* from: the folder that links are relative to. math: 1: displayed lines may be formulas, 2: `code`, too. */
typedef struct style {
    const char *from;
    int math, indent; /* indent: what a displayed line begins with, at least */
    int running;      /* 1: formulas within sentences become MathML, and names of Greek letters */
} style;

/* Public names as links into the manual, in escaped text. */
static void put_linked(text *t, const char *s, size_t n) {
    for (const char *end = s + n; s < end;) {
        size_t k = 0;
        while (s + k < end && (isalnum((unsigned char)s[k]) || s[k] == '_')) k++;
        const char *address = k > 4 ? manual_address(s, k) : NULL;
        if (address) putf(t, "<a href=\"../docs/%s\">", address);
        put_escaped(t, s, k ? k : 1);
        if (address) put(t, "</a>");
        s += k ? k : 1;
    }
}

/* The end of what begins at s with `mark`: the next `mark`, or NULL. */
static const char *closing_of(const char *s, const char *end, const char *mark) {
    for (size_t n = strlen(mark); s + n <= end; s++)
        if (memcmp(s, mark, n) == 0) return s;
    return NULL;
}

/* In running text a formula stands between two spaces and two spaces, or the end of the line. */
static size_t part_length(const char *s, const char *end) {
    const char *gap = closing_of(s, end, "  "), *line = closing_of(s, end, "\n");
    if (line && (!gap || line < gap)) gap = line;
    return (size_t)((gap ? gap : end) - s);
}
static int put_part(text *t, const char *s, const char *end) {
    char *part = trimmed(s, part_length(s, end));
    if (!has_sign(part)) return 0;
    put(t, " ");
    return put_math(t, part, strlen(part), SMALL);
}

/* A formula that begins here, at the start of a word, or the name of a Greek letter: its length; 0: none. */
static size_t put_running(text *t, const char *s, const char *from, const char *end) {
    size_t n = 0, k;
    if ((s > from && (isalnum((unsigned char)s[-1]) || strchr("_-./", s[-1]))) ||
        !(isalnum((unsigned char)*s) || *s == '(' ||
          (*s == '-' && s + 1 < end && isalnum((unsigned char)s[1]))))
        return 0;
    while (s + n < end && (isalnum((unsigned char)s[n]) || s[n] == '_')) n++;
    const char *before = s;
    while (before > from && isspace((unsigned char)before[-1])) before--;
    const char *word = before;
    while (word > from && isalpha((unsigned char)word[-1])) word--;
    char *last = copied(word, (size_t)(before - word));
    int after_log = !strcmp(last, "log") || !strcmp(last, "ln") || !strcmp(last, "grad");
    int goes_on = after_log || (before > from && strchr("=+-/^|<>", before[-1]));
    k = goes_on ? 0 : running_length(s, end);
    if (!k && !is_greek(s, n)) return 0;
    char *part = copied(s, k ? k : n);
    for (char *c = part; *c; c++)
        if (*c == '\n') *c = ' ';
    put_math(t, part, strlen(part), IN_LINE);
    return strlen(part);
}

static void put_inline(text *t, const char *s, size_t n, style how) {
    const char *from = s;
    size_t k;
    for (const char *end = s + n, *e, *f; s < end;) {
        if (*s == '`' && (e = closing_of(s + 1, end, "`")) != NULL) {
            if (how.math < 2 || !put_math(t, s + 1, (size_t)(e - s - 1), SMALL)) {
                put(t, "<code>");
                put_linked(t, s + 1, (size_t)(e - s - 1));
                put(t, "</code>");
            }
            s = e + 1;
        } else if (s + 1 < end && s[0] == '*' && s[1] == '*' && s + 2 < end &&
                   !isspace((unsigned char)s[2]) && (e = closing_of(s + 2, end, "**")) != NULL) {
            put(t, "<strong>");
            put_inline(t, s + 2, (size_t)(e - s - 2), how);
            put(t, "</strong>");
            s = e + 2;
        } else if (*s == '[' && (e = closing_of(s, end, "](")) != NULL &&
                   (f = closing_of(e, end, ")")) != NULL && !memchr(s + 1, '[', (size_t)(e - s - 1))) {
            putf(t, "<a href=\"%s\">", address_of(how.from, copied(e + 2, (size_t)(f - e - 2))));
            put_inline(t, s + 1, (size_t)(e - s - 1), how);
            put(t, "</a>");
            s = f + 1;
        } else if (how.math && s + 2 < end && s[0] == ' ' && s[1] == ' ' && put_part(t, s + 2, end)) {
            s += 2 + part_length(s + 2, end);
        } else if (how.running && (k = put_running(t, s, from, end)) > 0) {
            s += k;
        } else {
            k = 0;
            while (s + k < end && (isalnum((unsigned char)s[k]) || s[k] == '_')) k++;
            put_linked(t, s, k ? k : 1);
            s += k ? k : 1;
        }
    }
}

static size_t indent_of(const char *s) { return strspn(s, " "); }

/* The first gap of two spaces or more within a line: where it ends, or NULL. */
static const char *column_of(const char *s) {
    const char *gap = strstr(s + indent_of(s), "  ");
    return gap && gap[indent_of(gap)] ? gap + indent_of(gap) : NULL;
}

/* A displayed line as a formula, and what follows it as text. */
static int put_formula(text *t, const char *s, style how) {
    text m = {0};
    for (int first = 1; s; first = 0) {
        const char *next = column_of(s);
        char *part = next ? trimmed(s, (size_t)(next - s)) : trimmed(s, strlen(s));
        if (first && !has_sign(part)) return 0;
        if (!put_math(&m, part, strlen(part), DISPLAYED)) {
            if (first) return 0;
            put(&m, "<span>"), put_inline(&m, part, strlen(part), how), put(&m, "</span>");
        }
        s = next;
    }
    put(t, "<p class=\"formula\">"), put(t, m.s), put(t, "</p>\n");
    return 1;
}

static void put_math_or_text(text *t, const char *s, style how) {
    if (!has_sign(s) || !put_math(t, s, strlen(s), SMALL)) put_inline(t, s, strlen(s), how);
}

/* Lines of a term, a gap, and its meaning, which may go on below. */
static int put_terms(text *t, char **lines, int n, style how) {
    const size_t first = indent_of(lines[0]);
    for (int i = 0; i < n; i++) {
        const char *column = column_of(lines[i]);
        if (isdigit((unsigned char)lines[i][first]) && lines[i][first + 1] == '.') return 0;
        if (indent_of(lines[i]) == first ? !column : indent_of(lines[i]) < first + 3) return 0;
    }
    put(t, "<dl>\n");
    for (int i = 0; i < n;) {
        const char *column = column_of(lines[i]);
        char *term = trimmed(lines[i], (size_t)(column - lines[i]));
        text meaning = {0};
        put(&meaning, column);
        while (++i < n && indent_of(lines[i]) > first)
            put(&meaning, " "), put(&meaning, lines[i] + indent_of(lines[i]));
        put(t, "<dt>"), put_math_or_text(t, term, how), put(t, "</dt><dd>");
        put_math_or_text(t, meaning.s, how), put(t, "</dd>\n");
    }
    put(t, "</dl>\n");
    return 1;
}

/* Numbered items, of which a line may hold two, in columns; others may go on below. */
static int put_numbered(text *t, char **lines, int n, style how) {
    char *items[20] = {0};
    int count = 0;
    for (int i = 0; i < n; i++) {
        for (const char *s = lines[i] + indent_of(lines[i]), *next; s; s = next) {
            next = column_of(s);
            char *part = next ? trimmed(s, (size_t)(next - s)) : trimmed(s, strlen(s));
            const int number = atoi(part);
            const size_t digits = strspn(part, "0123456789");
            if (number > 0 && number < 20 && strncmp(part + digits, ". ", 2) == 0) {
                items[number] = part + digits + 2;
                count = number > count ? number : count;
            } else if (count && s == lines[i] + indent_of(lines[i])) {
                text more = {0};
                putf(&more, "%s %s", items[count], part);
                items[count] = more.s;
            } else return 0;
        }
    }
    put(t, "<ol>\n");
    for (int k = 1; k <= count; k++)
        if (items[k]) put(t, "<li>"), put_inline(t, items[k], strlen(items[k]), how), put(t, "</li>\n");
    put(t, "</ol>\n");
    return count > 0;
}

static void put_pre(text *t, char **lines, int n) {
    size_t least = 99;
    for (int i = 0; i < n; i++)
        if (lines[i][0] && indent_of(lines[i]) < least) least = indent_of(lines[i]);
    put(t, "<pre>");
    for (int i = 0; i < n; i++) {
        if (lines[i][0]) put_linked(t, lines[i] + least, strlen(lines[i] + least));
        if (i + 1 < n) put(t, "\n");
    }
    put(t, "</pre>\n");
}

static void put_displayed(text *t, char **lines, int n, style how) {
    int done = 0;
    text formulas = {0};
    if (how.math) {
        for (; done < n && put_formula(&formulas, lines[done], how); done++) {
        }
        if (done == n && (n == 1 || how.indent == 4 || !column_of(lines[0]))) {
            put(t, formulas.s);
            return;
        }
        if (put_terms(t, lines, n, how) || put_numbered(t, lines, n, how)) return;
        if (done == n) {
            put(t, formulas.s);
            return;
        }
    }
    put_pre(t, lines, n);
}

/* A row of a table; `names`: the first row, whose cells a narrow screen shows beside those of the others. */
static void put_row(text *t, const char *s, const char *names, style how) {
    const char *tag = names ? "td" : "th";
    put(t, "<tr>");
    for (s++; *s;) {
        text escaped = {0}; /* \| is a | of the cell */
        put(&escaped, "");
        size_t n = 0;
        for (; s[n] && s[n] != '|'; n++) put_n(&escaped, s + (n += s[n] == '\\' && s[n + 1] == '|'), 1);
        if (!s[n]) break;
        char *cell = trimmed(escaped.s, escaped.n);
        putf(t, "<%s", tag);
        if (names && (names = strchr(names, '|')) != NULL) {
            char *name = trimmed(names + 1, strcspn(names + 1, "|"));
            put(t, " data-name=\""), put_escaped(t, name, strlen(name)), put(t, "\"");
            names++;
        }
        put(t, ">"), put_inline(t, cell, strlen(cell), how), putf(t, "</%s>", tag);
        s += n + 1;
    }
    put(t, "</tr>\n");
}

static char *drawing(const char *name);

/* A row that ends with hours is of the lessons to which it has links: they must take as long. */
static void check_hours(const char *row, const char *where) {
    size_t n = strlen(row);
    const char *cell = n > 8 ? row + n - 8 : row; /* "| 1:30 |" */
    int hours, rest, minutes = 0;
    if (sscanf(cell, "| %d:%2d |", &hours, &rest) != 2) return;
    for (int k = 0; k < lesson_count; k++) {
        text link = {0};
        putf(&link, "../%s.c)", lessons[k].name);
        if (strstr(row, link.s)) minutes += atoi(lessons[k].minutes);
    }
    if (minutes == 60 * hours + rest) return;
    fprintf(stderr, "%s: these lessons take %d:%02d: %s\n", where, minutes / 60, minutes % 60, row);
    wrong = 1;
}

/* A bold number must be printed by a lesson to which the block has a link. */
static void check_numbers(const char *s, const char *where) {
    for (const char *b = strstr(s, "**"), *e; b && (e = strstr(b + 2, "**")) != NULL;
         b = strstr(e + 2, "**")) {
        char *number = copied(b + 2, (size_t)(e - b - 2));
        size_t n = strspn(number, "-+0123456789.,");
        int found = 0, missing = 0, links = 0;
        if (!n || n != strlen(number) || !strpbrk(number, "0123456789")) continue;
        for (int k = 0; k < lesson_count && !found; k++) {
            text link = {0};
            putf(&link, "%s.c)", lessons[k].name);
            if (!strstr(s, link.s)) continue;
            links++;
            if (!lessons[k].output) missing = 1;
            for (const char *o = lessons[k].output; o && !found && (o = strstr(o, number)) != NULL; o++)
                found = !(o > lessons[k].output && (isdigit((unsigned char)o[-1]) || o[-1] == '.' ||
                                                    (o[-1] == '-' && number[0] != '-'))) &&
                        !isdigit((unsigned char)o[n]) && !(o[n] == '.' && isdigit((unsigned char)o[n + 1]));
        }
        if (found || missing) continue;
        fprintf(stderr, "%s: no lesson that is named there%s prints %s\n", where, links ? "" : " (none is)",
                number);
        wrong = 1;
    }
}

static int is_item(const char *s) {
    const char *t = s + indent_of(s);
    size_t n = strspn(t, "0123456789");
    return indent_of(s) < 4 && (strncmp(t, "- ", 2) == 0 || (n && strncmp(t + n, ". ", 2) == 0));
}

static void put_heading(text *t, const char *s, style how) {
    size_t level = strspn(s, "#"), dash = 1;
    text id = {0};
    put(&id, "");
    s += level + indent_of(s + level);
    for (const char *c = s; *c; c++)
        if (isalnum((unsigned char)*c)) putf(&id, "%c", tolower((unsigned char)*c)), dash = 0;
        else if (!dash) put(&id, "-"), dash = 1;
    putf(t, "<h%d id=\"%s\">", (int)level, id.s), put_inline(t, s, strlen(s), how),
        putf(t, "</h%d>\n", (int)level);
}

static void put_markdown(text *t, char **lines, style how, const char *where) {
    for (int i = 0, n; lines[i]; i += n) {
        const char *s = lines[i];
        text block = {0};
        n = 1;
        if (!s[indent_of(s)] || strncmp(s, "<!--", 4) == 0) continue;
        if (*s == '#') put_heading(t, s, how);
        else if (strncmp(s, "```", 3) == 0) {
            while (lines[i + n] && strncmp(lines[i + n], "```", 3) != 0) n++;
            put_pre(t, lines + i + 1, n - 1);
            n += lines[i + n] != NULL;
        } else if (strncmp(s, "![", 2) == 0) {
            const char *path = strstr(s, "drawings/");
            if (path) put(t, drawing(copied(path + 9, strcspn(path + 9, ")"))));
        } else if (*s == '|') {
            put(t, "<div class=\"wide\"><table><thead>"), put_row(t, s, NULL, how),
                put(t, "</thead><tbody>\n");
            for (n = 2; lines[i + n] && lines[i + n][0] == '|'; n++)
                check_numbers(lines[i + n], where), check_hours(lines[i + n], where),
                    put_row(t, lines[i + n], s, how);
            put(t, "</tbody></table></div>\n");
        } else if (is_item(s) && indent_of(s) < (size_t)how.indent) {
            const char *tag = s[indent_of(s)] == '-' ? "ul" : "ol";
            putf(t, "<%s>\n", tag);
            for (n = 0; lines[i + n] && is_item(lines[i + n]);) {
                text item = {0};
                const char *first = strchr(lines[i + n] + indent_of(lines[i + n]), ' ') + 1;
                for (put(&item, first), n++; lines[i + n] && lines[i + n][0] == ' '; n++)
                    put(&item, " "), put(&item, lines[i + n] + indent_of(lines[i + n]));
                check_numbers(item.s, where);
                put(t, "<li>"), put_inline(t, item.s, strlen(item.s), how), put(t, "</li>\n");
                if (lines[i + n] && !lines[i + n][0] && lines[i + n + 1] && is_item(lines[i + n + 1])) n++;
            }
            putf(t, "</%s>\n", tag);
        } else if (indent_of(s) >= (size_t)how.indent) {
            while (lines[i + n] && (indent_of(lines[i + n]) >= (size_t)how.indent ||
                                    (!lines[i + n][0] && how.indent == 4 && lines[i + n + 1] &&
                                     indent_of(lines[i + n + 1]) >= 4)))
                n++;
            put_displayed(t, lines + i, n, how);
        } else {
            for (n = 0; lines[i + n] && lines[i + n][indent_of(lines[i + n])] &&
                        indent_of(lines[i + n]) < (size_t)how.indent && (n == 0 || !is_item(lines[i + n])) &&
                        lines[i + n][0] != '|';
                 n++)
                put(&block, n ? "\n" : ""), put(&block, lines[i + n] + indent_of(lines[i + n]));
            check_numbers(block.s, where);
            put(t, "<p>"), put_inline(t, block.s, strlen(block.s), how), put(t, "</p>\n");
        }
    }
}

/* ---- pages ---- */

/* A committed drawing, for a page that may hold several: its frame gets a name of its own. */
static char *drawing(const char *name) {
    static int drawings;
    text path = {0}, t = {0};
    putf(&path, "examples/lessons/drawings/%s", name);
    const char *s = file_text(path.s);
    putf(&t, "<figure>");
    if (!s) putf(&t, "<p>There is no drawing %s yet.</p>", name);
    drawings++;
    for (const char *f; s && (f = strstr(s, "frame\"")) != NULL; s = f + 5) {
        /* clipPath id="frame" */
        put_n(&t, s, (size_t)(f - s)), putf(&t, "frame%d", drawings);
        const char *g = strstr(f, "#frame)");
        if (!g) continue;
        put_n(&t, f + 5, (size_t)(g - f - 5)), putf(&t, "#frame%d", drawings);
        f = g + 1;
    }
    if (s) put(&t, s);
    put(&t, "</figure>\n");
    return t.s;
}

static void save_page(const char *name, const char *title, const char *body_class, const char *body) {
    static const char *const pages[][2] = {{"index.html", "The course"},
                                           {"mathematics.html", "Mathematics"},
                                           {"timetable.html", "Timetables"},
                                           {"settings.html", "Settings"},
                                           {"exercises.html", "Exercises"},
                                           {"questions.html", "Questions"},
                                           {"card.html", "PPO on one page"},
                                           {"../docs/index.html", "Manual"},
                                           {NULL, NULL}};
    text t = {0}, path = {0};
    put(&t, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
            "content=\"width=device-width, initial-scale=1\">\n<title>");
    put_escaped(&t, title, strlen(title));
    putf(&t,
         "</title>\n<link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"docs.css\">\n<link "
         "rel=\"stylesheet\" "
         "href=\"course.css\">\n</head>\n<body class=\"%s\">\n<a class=\"skip\" href=\"#main\">To the "
         "text</a>\n<nav "
         "aria-label=\"Contents\">\n<ul class=\"pages\">\n",
         body_class);
    for (int k = 0; pages[k][0]; k++)
        putf(&t, "<li><a href=\"%s\"%s>%s</a></li>\n", pages[k][0],
             strcmp(pages[k][0], name) ? "" : " aria-current=\"page\"", pages[k][1]);
    put(&t, "</ul>\n<div class=\"lessons\">");
    for (int k = 0; k < lesson_count; k++) {
        const lesson *l = &lessons[k];
        text page = {0};
        putf(&page, "%s.html", l->name);
        if (!k || l->part != l[-1].part)
            putf(&t, "%s<p>%s</p>\n<ul>\n", k ? "</ul>\n" : "", part_names[l->part]);
        putf(&t, "<li><a href=\"%s\"%s>%s. ", page.s, strcmp(page.s, name) ? "" : " aria-current=\"page\"",
             l->number);
        put_escaped(&t, l->title, strlen(l->title)), put(&t, "</a></li>\n");
    }
    put(&t, "</ul>\n</div>\n</nav>\n<main id=\"main\">\n"), put(&t, body),
        put(&t, "</main>\n</body>\n</html>\n");
    putf(&path, "%s/%s", folder, name);
    FILE *file = fopen(path.s, "wb");
    if (!file || fwrite(t.s, 1, t.n, file) != t.n || fclose(file) != 0) {
        fprintf(stderr, "%s cannot be written\n", path.s);
        exit(1);
    }
}

/* The program from `from` on, one span a line; comments are soft, public names lead into the manual. */
static void put_program(text *t, const char *source, const char *from) {
    int comment = 0, line = 0;
    for (const char *s = source; s < from; s++) line += *s == '\n';
    putf(t, "<pre class=\"program\" style=\"counter-reset: line %d\">", line);
    for (const char *s = from; *s; s += *s == '\n') {
        const char *end = s + strcspn(s, "\n");
        put(t, "<span>");
        if (comment) put(t, "<i>");
        while (s < end) {
            const char *mark = closing_of(s, end, comment ? "*/" : "/*"),
                       *stop = mark ? mark + 2 * comment : end;
            if (comment) put_escaped(t, s, (size_t)(stop - s));
            else put_linked(t, s, (size_t)(stop - s));
            s = stop;
            if (!mark) break;
            put(t, comment ? "</i>" : "<i>/*");
            s += comment ? 0 : 2;
            comment = !comment;
        }
        if (comment) put(t, "</i>");
        put(t, "</span>\n");
    }
    put(t, "</pre>\n");
}

static void put_output(text *t, const lesson *l) {
    if (!l->output) {
        putf(t,
             "<p>There is no output yet: <code>make lessons</code> runs all lessons, <code>make "
             "build/lessons/%s &amp;&amp; "
             "build/lessons/%s 1 avx2 | tee build/lessons/%s.txt</code> this one, without avx2 where the "
             "processor has none. Then <code>make course</code> again.</p>\n",
             l->name, l->name, l->name);
        return;
    }
    put(t, "<pre class=\"output\">");
    char **lines = lines_of(l->output);
    int empty = 1; /* none at the start, and one at a time */
    for (; *lines; lines++) {
        if (strncmp(*lines, "  drawn:", 8) == 0 || (!(*lines)[0] && empty)) continue;
        empty = !(*lines)[0];
        int claim = strncmp(*lines, "  holds: ", 9) == 0 || strncmp(*lines, "  FAILS: ", 9) == 0;
        if (claim) put(t, "<b>");
        put_escaped(t, *lines, strlen(*lines));
        put(t, claim ? "</b>\n" : "\n");
    }
    put(t, "</pre>\n");
}

/* Each "build/lessons/NAME.svg" of the program. */
static void put_drawings(text *t, const lesson *l) {
    for (const char *s = l->source; (s = strstr(s, "\"build/lessons/")) != NULL; s++) {
        size_t n = strcspn(s + 15, "\"");
        if (n > 4 && memcmp(s + 15 + n - 4, ".svg", 4) == 0) put(t, drawing(copied(s + 15, n)));
    }
}

static void put_field(text *t, const char *name, const char *s) {
    const style how = {"examples/lessons", 0, 4, 1};
    if (s) putf(t, "<p><strong>%s</strong> ", name), put_inline(t, s, strlen(s), how), put(t, "</p>\n");
}

static void put_lesson_link(text *t, const lesson *l, const char *before) {
    putf(t, "<a href=\"%s.html\">%s%s. ", l->name, before, l->number);
    put_escaped(t, l->title, strlen(l->title)), put(t, "</a>");
}

/* "6, 6b" as links. */
static void put_numbers(text *t, const char *s) {
    while (*s) {
        size_t n = strspn(s, "0123456789bcd");
        const lesson *l = lesson_by_number(s, n);
        if (l) putf(t, "<a href=\"%s.html\">%s</a>", l->name, l->number);
        else n = n ? n : 1, put_escaped(t, s, n);
        s += n;
    }
}

static void write_lesson(const lesson *l) {
    const style how = {"examples/lessons", 1, 2, 1}, plain = {"examples/lessons", 0, 4, 1};
    text t = {0}, title = {0};
    const char *end = strstr(l->source, "*/"), *top = strchr(l->source, '\n');
    char **lines = lines_of(copied(top, (size_t)(end - top)));
    for (int i = 0; lines[i]; i++) /* without the indentation of the comment */
        if (indent_of(lines[i]) >= 3) lines[i] += 3;
    putf(&title, "%s. %s", l->number, l->title);
    put(&t, "<h1>"), put_escaped(&t, title.s, title.n), put(&t, "</h1>\n");
    if (strlen(l->idea) > strlen(l->title) + 1) { /* more than the title and a full stop */
        put(&t, "<p class=\"idea\">");
        put_inline(&t, l->idea, strlen(l->idea), plain);
        put(&t, "</p>\n");
    }
    putf(&t, "<p class=\"facts\">%s minutes", l->minutes);
    if (l->after) put(&t, " · after lesson "), put_numbers(&t, l->after);
    put(&t, "</p>\n");
    put_field(&t, "Read", l->read);
    put_markdown(&t, lines, how, l->name);
    if (l->expect) {
        put(&t, "<section class=\"expect\">\n<h2 id=\"expect\">What do you expect?</h2>\n<p>");
        put_inline(&t, l->expect, strlen(l->expect), (style){"examples/lessons/course", 0, 4, 1});
        put(&t, "</p>\n<textarea rows=\"2\" aria-label=\"What you expect\" placeholder=\"Write it down "
                "before you look.\">"
                "</textarea>\n</section>\n");
    }
    put(&t, "<details>\n<summary id=\"numbers\">What the program measures</summary>\n");
    put_field(&t, "See", l->see);
    put_output(&t, l);
    put_drawings(&t, l);
    put(&t, "</details>\n");
    if (l->try_) {
        put(&t, "<h2 id=\"try\">Try</h2>\n<p>"), put_inline(&t, l->try_, strlen(l->try_), plain),
            put(&t, "</p>\n");
        if (teacher && l->answer) {
            put(&t, "<details>\n<summary>Answer</summary>\n<p>");
            put_inline(&t, l->answer, strlen(l->answer), (style){"examples/lessons/teacher", 0, 4, 1});
            put(&t, "</p>\n</details>\n");
        }
    }
    put_field(&t, "Exercise", l->exercise);
    putf(&t,
         "<h2 id=\"program\">The program</h2>\n<p><code>make build/lessons/%s &amp;&amp; "
         "build/lessons/%s</code></p>\n",
         l->name, l->name);
    put_program(&t, l->source, end + 3);
    text notes = {0};
    putf(&notes, "examples/lessons/course/%s.md", l->name);
    const char *lines_of_program = file_text(notes.s);
    if (lines_of_program)
        put_markdown(&t, lines_of(lines_of_program), (style){"examples/lessons/course", 0, 4, 1}, notes.s);
    put(&t, "<p class=\"turn\">");
    if (l > lessons) put_lesson_link(&t, l - 1, "← ");
    put(&t, "<span></span>");
    if (l + 1 < lessons + lesson_count) put_lesson_link(&t, l + 1, "");
    put(&t, "</p>\n");
    text name = {0};
    putf(&name, "%s.html", l->name);
    save_page(name.s, title.s, "lesson", t.s);
}

/* A card for each lesson, by part; then the rest of the page, and the table of ideas of README.md. */
static void write_index(char **readme) {
    text t = {0};
    char **lines = lines_of(needed_text("examples/lessons/course/index.md"));
    int minutes = 0, k = 0;
    for (k = 0; k < lesson_count; k++) minutes += atoi(lessons[k].minutes);
    put_markdown(&t, lines, (style){"examples/lessons/course", 2, 4, 0}, "index.md");
    putf(&t,
         "<h2 id=\"map\">The map</h2>\n<p>%d lessons, %d hours and %d minutes. What a lesson builds on "
         "stands below its name.</p>\n",
         lesson_count, minutes / 60, minutes % 60);
    for (k = 0; k < lesson_count; k++) {
        const lesson *l = &lessons[k];
        if (!k || l->part != l[-1].part)
            putf(&t, "%s<h3>%s</h3>\n<ul class=\"map\">\n", k ? "</ul>\n" : "", part_names[l->part]);
        put(&t, "<li>"), put_lesson_link(&t, l, "");
        putf(&t, "<small>%s min", l->minutes);
        if (l->after) put(&t, " · after "), put_numbers(&t, l->after);
        put(&t, "</small></li>\n");
    }
    put(&t, "</ul>\n<h2 id=\"ideas\">Where each idea is shown</h2>\n");
    for (; *readme && strncmp(*readme, "| idea |", 8) != 0; readme++) {
    }
    text table = {0};
    for (; *readme && (*readme)[0] == '|'; readme++) {
        const char *cell = strrchr(copied(*readme, strlen(*readme) - 1), '|'); /* numbers as links */
        put_n(&table, *readme, strlen(*readme) - strlen(cell) - 1);
        for (const char *s = cell; *s;) {
            size_t n = *s == '[' ? strcspn(s, ")") + 1 : isdigit((unsigned char)*s) ? strspn(s, "0123456789bc") : 1;
            const lesson *l = s == cell || s[-1] == ' ' ? lesson_by_number(s, n) : NULL;
            if (l) putf(&table, "[%s](%s.c)", l->number, l->name);
            else put_n(&table, s, n);
            s += n;
        }
        put(&table, "|\n");
    }
    put_markdown(&t, lines_of(table.s), (style){"examples/lessons", 0, 4, 0}, "README.md");
    save_page("index.html", "A course in PPO", "index", t.s);
}

static void write_markdown(const char *path, const char *body_class, int math) {
    text t = {0}, from = {0};
    put_n(&from, path, (size_t)(strrchr(path, '/') - path));
    char **lines = lines_of(needed_text(path));
    put_markdown(&t, lines, (style){from.s, math, 4, 0}, path);
    if (!strcmp(body_class, "exercise")) {
        const char *name = strrchr(from.s, '/') + 1;
        putf(&t,
             "<h2 id=\"grade\">Hand it in</h2>\n<p>The file with the hole is in <code>%s/</code>. <code>make "
             "grade "
             "EX=%.2s</code> grades it, <code>make hint EX=%.2s</code> prints the next of three hints, "
             "<code>make case "
             "EX=%.2s</code> a case with what is right. <a href=\"exercises.html\">All exercises</a></p>\n",
             from.s, name, name, name);
    }
    save_page(page_of(path), lines[0] + strspn(lines[0], "# "), body_class, t.s);
}

/* A lesson that no week has is forgotten. */
static void check_timetable(const char *path) {
    const char *s = needed_text(path);
    for (int k = 0; k < lesson_count; k++) {
        text link = {0};
        putf(&link, "(../%s.c)", lessons[k].name);
        if (strstr(s, link.s)) continue;
        fprintf(stderr, "%s: lesson %s is in no week\n", path, lessons[k].number);
        wrong = 1;
    }
}

static void write_header(const char *path) {
    text t = {0};
    const char *name = strrchr(path, '/') + 1;
    putf(&t, "<h1>%s</h1>\n", name);
    const char *source = needed_text(path);
    put_program(&t, source, source);
    save_page(page_of(path), name, "lesson", t.s);
}

/* ---- reading ---- */

/* The part of an entry after ` Read: ` or another name, up to the next one. */
static char *field_of(const char *entry, const char *name) {
    static const char *const names[] = {" Read: ", " See: ", " Try: ", " Exercise: ", " Exercises: "};
    const char *s = strstr(entry, name), *end = entry + strlen(entry);
    if (!s) return NULL;
    s += strlen(name);
    for (int k = 0; k < 5; k++) {
        const char *next = strstr(s, names[k]);
        if (next && next < end) end = next;
    }
    char *field = trimmed(s, (size_t)(end - s));
    field[0] = (char)toupper((unsigned char)field[0]);
    return field;
}

/* The paragraph that begins in a line, as one line. */
static char *paragraph(char **lines) {
    text t = {0};
    for (; *lines && (*lines)[0]; lines++) put(&t, t.n ? " " : ""), put(&t, *lines);
    return t.s;
}

static void read_lessons(char **readme) {
    for (; *readme; readme++) {
        const char *s = *readme;
        if (strncmp(s, "## ", 3) == 0 && isdigit((unsigned char)s[3]))
            part_names[parts++] = copied(s + 3, strlen(s + 3));
        if (strncmp(s, "**[", 3) != 0 || !isdigit((unsigned char)s[3]) || lesson_count == MOST) continue;
        lesson *l = &lessons[lesson_count++];
        text path = {0}, output = {0};
        char *entry = paragraph(readme);
        l->part = parts - 1;
        l->name = copied(s + 3, strcspn(s + 3, ".]"));
        l->number = copied(l->name + (l->name[0] == '0'), strcspn(l->name + (l->name[0] == '0'), "_"));
        const char *open = strstr(entry, "** (") + 4;
        l->minutes = copied(open, strspn(open, "0123456789"));
        l->idea = field_of(open, ") ");
        l->read = field_of(entry, " Read: "), l->see = field_of(entry, " See: "),
        l->try_ = field_of(entry, " Try: ");
        l->exercise = field_of(entry, " Exercise: ");
        if (!l->exercise) l->exercise = field_of(entry, " Exercises: ");
        putf(&path, "examples/lessons/%s.c", l->name), putf(&output, "build/lessons/%s.txt", l->name);
        l->source = needed_text(path.s), l->output = file_text(output.s);
        const char *title = strstr(l->source, " - ") + 3; /* up to the colon, which says more */
        l->title = trimmed(title, strcspn(title, ".:\n"));
        l->title[0] = (char)toupper((unsigned char)l->title[0]);
    }
}

/* "**7** (after 6b) Question" and "**7, clip.** Answer". */
static void read_paragraphs(const char *path, int answers) {
    for (char **lines = lines_of(needed_text(path)); *lines; lines++) {
        if (strncmp(*lines, "**", 2) != 0 || !isdigit((unsigned char)(*lines)[2])) continue;
        lesson *l = lesson_by_number(*lines + 2, strcspn(*lines + 2, ",*"));
        char *s = paragraph(lines), *text_of = strstr(s + 2, "**") + 3;
        if (!l) continue;
        if (answers) l->answer = text_of;
        else if (strncmp(text_of, "(after ", 7) == 0) {
            l->after = copied(text_of + 7, strcspn(text_of + 7, ")"));
            l->expect = strchr(text_of, ')') + 2;
        } else l->expect = text_of;
    }
    for (int k = 0; k < lesson_count; k++)
        if (!(answers ? lessons[k].answer : lessons[k].expect))
            fprintf(stderr, "%s: nothing for lesson %s\n", path, lessons[k].number), wrong = 1;
}

/* Lines ["name", "address", "sentence"], which `make docs` wrote. */
static void read_manual(void) {
    text path = {0};
    putf(&path, "%s/../docs/search.js", folder);
    char **lines = lines_of(needed_text(path.s));
    size_t n = 0;
    for (; *lines; lines++) {
        if (strncmp(*lines, "[\"", 2) != 0) continue;
        const char *name = *lines + 2, *end = strchr(name, '"');
        if (!end || strncmp(end, "\", \"", 4) != 0) continue;
        manual = grown(manual, (n + 3) * sizeof *manual);
        manual[n++] = copied(name, (size_t)(end - name));
        manual[n++] = copied(end + 4, strcspn(end + 4, "\""));
        manual[n] = NULL;
    }
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Names in a folder that end as asked, or folders that begin with a digit. */
static int list(const char *path, const char *end, char *names[MOST]) {
    DIR *dir = opendir(path);
    int n = 0;
    for (struct dirent *d; dir && n < MOST && (d = readdir(dir)) != NULL;) {
        size_t length = strlen(d->d_name), k = strlen(end);
        if (end[0] ? length > k && strcmp(d->d_name + length - k, end) == 0
                   : isdigit((unsigned char)d->d_name[0]))
            names[n++] = copied(d->d_name, length);
    }
    if (dir) closedir(dir);
    qsort(names, (size_t)n, sizeof *names, by_name);
    return n;
}

int main(int argc, char **argv) {
    static const char *const pages[] = {"mathematics", "timetable", "settings", "questions"};
    char *headers[MOST], **readme = lines_of(needed_text("examples/lessons/README.md"));
    int check = 0;
    folder = argc > 1 ? argv[1] : "build/course";
    for (int k = 2; k < argc; k++) {
        if (strcmp(argv[k], "teacher") == 0) teacher = 1;
        if (strcmp(argv[k], "check") == 0) check = 1;
    }
    read_manual();
    read_lessons(readme);
    read_paragraphs("examples/lessons/course/expect.md", 0);
    read_paragraphs("examples/lessons/teacher/README.md", 1);
    for (int k = 0; k < lesson_count; k++) write_lesson(&lessons[k]);
    for (int k = 0; k < 4; k++) {
        text path = {0};
        putf(&path, "examples/lessons/course/%s.md", pages[k]);
        write_markdown(path.s, pages[k], strcmp(pages[k], "settings") ? 2 : 0);
    }
    check_timetable("examples/lessons/course/timetable.md");
    write_markdown("examples/lessons/course/card.md", "card", 2);
    write_markdown("examples/exercises/README.md", "exercises", 0);
    exercise_count = list("examples/exercises", "", exercises);
    for (int k = 0; k < exercise_count; k++) {
        text path = {0};
        putf(&path, "examples/exercises/%s/README.md", exercises[k]);
        write_markdown(path.s, "exercise", 0);
    }
    for (int k = 0, n = list("examples/lessons", ".h", headers); k < n; k++) {
        text path = {0};
        putf(&path, "examples/lessons/%s", headers[k]);
        write_header(path.s);
    }
    write_index(readme);
    return check && wrong;
}
