/* formula.h - strings that grow, and formulas as MathML, for course.c.

   put_math() reads a formula as the comments of this repository write one: letters, numbers, signs, indices in
   brackets (A[t + k]), powers (l^2), `sum over t of`, `E under old [ .. ]`, fractions by / and juxtaposition as
   a product. A word that is not in `words` makes it a text that is no formula. running_length() finds a formula
   that stands in a sentence. */
#ifndef FORMULA_H
#define FORMULA_H

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- strings, which are kept until the end ---- */

typedef struct text {
    char *s;
    size_t n, room;
} text;

static void *grown(void *p, size_t bytes) {
    p = realloc(p, bytes);
    if (p) return p;
    fprintf(stderr, "out of memory\n");
    exit(1);
}

static void put_n(text *t, const char *s, size_t n) {
    if (t->n + n + 1 > t->room) t->s = grown(t->s, t->room = 2 * (t->n + n + 1));
    memcpy(t->s + t->n, s, n);
    t->s[t->n += n] = 0;
}

static void put(text *t, const char *s) { put_n(t, s, strlen(s)); }

static void putf(text *t, const char *format, ...) {
    char s[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(s, sizeof s, format, args);
    va_end(args);
    put(t, s);
}

static char *copied(const char *s, size_t n) {
    text t = {0};
    put_n(&t, s, n);
    return t.s;
}

static char *trimmed(const char *s, size_t n) {
    while (n && isspace((unsigned char)*s)) s++, n--;
    while (n && isspace((unsigned char)s[n - 1])) n--;
    return copied(s, n);
}

static void put_escaped(text *t, const char *s, size_t n) {
    for (; n--; s++)
        if (*s == '<') put(t, "&lt;");
        else if (*s == '>') put(t, "&gt;");
        else if (*s == '&') put(t, "&amp;");
        else if (*s == '"') put(t, "&quot;");
        else put_n(t, s, 1);
}

/* A file's text; NULL if there is none. */
static char *file_text(const char *path) {
    FILE *file = fopen(path, "rb");
    text t = {0};
    char part[4096];
    if (!file) return NULL;
    put(&t, "");
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) put_n(&t, part, n);
    fclose(file);
    return t.s;
}

static char *needed_text(const char *path) {
    char *s = file_text(path);
    if (s) return s;
    fprintf(stderr, "%s cannot be read\n", path);
    exit(1);
}

/* The lines of a text, without their ends; the last one is NULL. */
static char **lines_of(const char *s) {
    char **lines = NULL;
    size_t n = 0;
    for (; *s; s += *s == '\n') {
        size_t length = strcspn(s, "\n");
        lines = grown(lines, (n + 2) * sizeof *lines);
        lines[n++] = copied(s, length);
        s += length;
    }
    if (!n) lines = grown(NULL, sizeof *lines);
    lines[n] = NULL;
    return lines;
}

/* ---- formulas: a parser that writes MathML ---- */

/* Multi-letter words of formulas, and what they become; other words make a text no formula. */
static const struct {
    const char *word, *math;
} words[] = {{"alpha", "<mi>α</mi>"},
             {"beta", "<mi>β</mi>"},
             {"gamma", "<mi>γ</mi>"},
             {"delta", "<mi>δ</mi>"},
             {"epsilon", "<mi>ε</mi>"},
             {"lambda", "<mi>λ</mi>"},
             {"mu", "<mi>μ</mi>"},
             {"pi", "<mi>π</mi>"},
             {"sigma", "<mi>σ</mi>"},
             {"tau", "<mi>τ</mi>"},
             {"theta", "<mi>θ</mi>"},
             {"da", "<mrow><mi>d</mi><mi>a</mi></mrow>"},
             {"du", "<mrow><mi>d</mi><mi>u</mi></mrow>"},
             {"grad", "<mo rspace=\"0\">∇</mo>"},
             {"sum", "<mo>∑</mo>"},
             {"product", "<mo>∏</mo>"},
             {"for", "<mtext>&nbsp;for&nbsp;</mtext>"},
             {"if", "<mtext>&nbsp;if&nbsp;</mtext>"},
             {"log", NULL}, /* the functions come first */
             {"exp", NULL},
             {"ln", NULL},
             {"tanh", NULL},
             {"min", NULL},
             {"max", NULL},
             {"clip", NULL},
             {"mean", NULL},
             {"sigmoid", NULL},
             {"variance", NULL},
             {"KL", NULL},
             {"old", NULL},
             {"new", NULL},
             {"ref", NULL},
             {"target", NULL},
             {"reward", NULL},
             {"score", NULL},
             {"logit", NULL},
             {"action", NULL},
             {"estimate", NULL},
             {"truth", NULL},
             {"bias", NULL},
             {"loss", NULL},
             {"chosen", NULL},
             {"rejected", NULL},
             {"prompt", NULL}};

enum { WORDS = sizeof words / sizeof *words };

static int word_index(const char *s, size_t n) { /* WORDS: none */
    int k = 0;
    while (k < WORDS && (strlen(words[k].word) != n || memcmp(words[k].word, s, n) != 0)) k++;
    return k;
}

static struct {
    const char *s, *end;
    int fails, bars; /* bars: how many |...| are open */
    int in_line;     /* 1: a fraction is written a / b, as high as the text */
} in;

static void put_expression(text *t, const char *closing);
static void put_factor(text *t);

static void skip_spaces(void) {
    while (in.s < in.end && *in.s == ' ') in.s++;
}

static int take(const char *s) {
    size_t n = strlen(s);
    if ((size_t)(in.end - in.s) < n || memcmp(in.s, s, n) != 0) return 0;
    if (isalpha((unsigned char)s[n - 1]) && in.s + n < in.end && isalnum((unsigned char)in.s[n])) return 0;
    in.s += n;
    return 1;
}

/* Brackets are as high as the text, unless a fraction, a root or a range below a sum is in them. */
static void put_group(text *t, const char *open, const char *close) {
    text group = {0};
    put(&group, "");
    put_expression(&group, close);
    if (!take(close)) in.fails = 1;
    int is_high = strstr(group.s, "<mfrac") || strstr(group.s, "<msqrt") || strstr(group.s, "<munder");
    const char *how = is_high ? "" : " stretchy=\"false\"";
    putf(t, "<mrow><mo%s>%s</mo>", how, open), put(t, group.s), putf(t, "<mo%s>%s</mo></mrow>", how, close);
}

/* A sum's range, or what an expectation is taken under: what there is before `last`. */
static void put_under(text *t, const char *tag, const char *base, const char *last) {
    putf(t, "<%s>%s<mrow>", tag, base);
    skip_spaces();
    for (; in.s < in.end && !in.fails; skip_spaces()) {
        if (last[0] == '[' ? *in.s == '[' : take(last)) break;
        put_factor(t);
    }
    putf(t, "</mrow></%s>", tag);
}

static void put_word(text *t) {
    const char *from = in.s, *math = NULL;
    while (in.s < in.end && isalnum((unsigned char)*in.s)) in.s++;
    size_t n = (size_t)(in.s - from), letters = 0;
    while (letters < n && isalpha((unsigned char)from[letters])) letters++;
    int k = word_index(from, n), known = k < WORDS;
    text base = {0};
    if (known && (math = words[k].math) != NULL) put(&base, math);
    else if (known || letters == n) putf(&base, "<mi>%.*s</mi>", (int)n, from);
    else
        putf(&base, "<msub><mi>%.*s</mi><mn>%.*s</mn></msub>", (int)letters, from, (int)(n - letters),
             from + letters);
    if (!known && letters != 1) in.fails = 1;
    if (in.s < in.end && *in.s == '_') { /* pi_old, c_1 */
        const char *sub = ++in.s;
        while (in.s < in.end && isalnum((unsigned char)*in.s)) in.s++;
        text with = {0};
        putf(&with, "<msub>%s<mi>%.*s</mi></msub>", base.s, (int)(in.s - sub), sub);
        base = with;
    }
    if (math && strncmp(math, "<mo>", 4) == 0) { /* a sum or a product */
        skip_spaces();
        if (take("over")) put_under(t, "munder", base.s, "of");
        else put(t, base.s), take("of");
    } else if (n == 1 && from[0] == 'E') {
        skip_spaces();
        if (take("under")) put_under(t, "msub", base.s, "[");
        else put(t, base.s);
        if (take("[")) put_group(t, "[", "]");
    } else if (in.s < in.end && *in.s == '[') { /* A[t] */
        in.s++;
        putf(t, "<msub>%s<mrow>", base.s);
        put_expression(t, "]");
        if (!take("]")) in.fails = 1;
        put(t, "</mrow></msub>");
    } else put(t, base.s);
    if (in.s < in.end && *in.s == '(') {
        in.s++;
        put_group(t, "(", ")");
    } else if (known && !math && k <= word_index("max", 3)) put(t, "<mspace width=\"0.17em\"/>");
}

static void put_base(text *t) {
    skip_spaces();
    if (in.s == in.end) in.fails = 1;
    else if (isdigit((unsigned char)*in.s)) {
        const char *from = in.s;
        while (in.s < in.end && (isdigit((unsigned char)*in.s) ||
                                 (*in.s == '.' && in.s + 1 < in.end && isdigit((unsigned char)in.s[1]))))
            in.s++;
        putf(t, "<mn>%.*s</mn>", (int)(in.s - from), from);
    } else if (take("sqrt(")) {
        put(t, "<msqrt>");
        put_expression(t, ")");
        if (!take(")")) in.fails = 1;
        put(t, "</msqrt>");
    } else if (isalpha((unsigned char)*in.s)) put_word(t);
    else if (take("(")) put_group(t, "(", ")");
    else if (take("[")) put_group(t, "[", "]");
    else if (take("|")) {
        in.bars++;
        put_group(t, "|", "|");
        in.bars--;
    } else if (take("..")) put(t, "<mo>…</mo>"), take(".");
    else in.fails = 1;
}

static void put_factor(text *t) {
    text base = {0};
    put_base(&base);
    if (in.fails) return;
    for (; take("'");) { /* s', and (..)' */
        text with = {0};
        put(&with, "<msup><mrow>"), put(&with, base.s), put(&with, "</mrow><mo>′</mo></msup>");
        base = with;
    }
    if (take("^")) {
        put(t, "<msup><mrow>"), put(t, base.s), put(t, "</mrow><mrow>");
        if (take("-")) put(t, "<mo>−</mo>");
        int bars = in.bars;
        in.bars = 0;
        if (take("(")) {
            put_expression(t, ")");
            if (!take(")")) in.fails = 1;
        } else put_base(t);
        in.bars = bars;
        put(t, "</mrow></msup>");
    } else put(t, base.s);
}

static int at_factor(void) {
    skip_spaces();
    return in.s < in.end && (isalnum((unsigned char)*in.s) || strchr("([", *in.s) ||
                             (*in.s == '|' && !in.bars && in.s[1] != '|' && in.s[1] != ' ') ||
                             (in.s[0] == '.' && in.s + 1 < in.end && in.s[1] == '.'));
}

/* 2 x 3 */
static int at_times(void) {
    return in.s[-1] == ' ' && isdigit((unsigned char)in.s[-2]) && in.s + 2 < in.end && in.s[0] == 'x' &&
           in.s[1] == ' ' && isdigit((unsigned char)in.s[2]);
}

/* Factors side by side; what stands before a / is its numerator. d x below a / is one thing. */
static void put_product(text *t) {
    text p = {0};
    put_factor(&p);
    for (; !in.fails;) {
        skip_spaces();
        if (in.in_line && take("/")) {
            put(&p, "<mo>/</mo>");
            put_factor(&p);
        } else if (take("/")) {
            text q = {0};
            skip_spaces();
            int is_d = in.s + 1 < in.end && in.s[0] == 'd' && in.s[1] == ' ';
            putf(&q, "<mfrac><mrow>");
            put(&q, p.s), put(&q, "</mrow><mrow>");
            const char *from = in.s;
            text plain = {0};
            if (take("(")) put_expression(&plain, ")"); /* a bar needs no parentheses */
            if (plain.s && take(")") && !(in.s < in.end && *in.s == '^')) put(&q, plain.s);
            else in.s = from, put_factor(&q);
            if (is_d && !in.fails) put_factor(&q);
            put(&q, "</mrow></mfrac>");
            p = q;
        } else if (at_times()) {
            in.s++, put(&p, "<mo>×</mo>");
            put_factor(&p);
        } else if (at_factor()) {
            put(&p, "<mo>&#x2062;</mo>");
            put_factor(&p);
        } else break;
    }
    if (p.s) put(t, p.s);
}

static void put_expression(text *t, const char *closing) {
    static const struct {
        const char *sign, *math;
    } signs[] = {{"+-", "±"}, {"->", "→"}, {"<=", "≤"},   {">=", "≥"},   {"!=", "≠"},
                 {"||", "‖"}, {"=", "="},  {"<", "&lt;"}, {">", "&gt;"}, {"+", "+"},
                 {"-", "−"},  {",", ","},  {"|", "|"},    {"~", "~"},    {":", ":"}};
    for (int first = 1, operand = 1; !in.fails; first = 0) { /* operand: one must follow, so a | begins |x| */
        skip_spaces();
        size_t n = strlen(closing), k = 0;
        if (n && (size_t)(in.end - in.s) >= n && memcmp(in.s, closing, n) == 0 && !first) return;
        if (in.s == in.end) return;
        if (operand && *in.s == '|' && at_factor()) k = sizeof signs / sizeof *signs;
        for (; k < sizeof signs / sizeof *signs; k++)
            if (!(closing[0] == '|' && signs[k].sign[0] == '|') && take(signs[k].sign)) break;
        operand = k < sizeof signs / sizeof *signs;
        if (operand) putf(t, "<mo>%s</mo>", signs[k].math);
        else put_product(t);
    }
}

enum { IN_LINE, SMALL, DISPLAYED };

/* Whether [s, s + n) is a formula; if so it is written. */
static int put_math(text *t, const char *s, size_t n, int how) {
    text m = {0};
    char *dot = n > 1 && strchr(".,", s[n - 1]) && s[n - 2] != '.' ? copied(s + n - 1, 1) : NULL;
    in.s = s, in.end = s + n - (dot != NULL), in.fails = in.bars = 0, in.in_line = how == IN_LINE;
    put_expression(&m, "");
    if (in.fails || in.s != in.end || !m.s) return 0;
    putf(t, "<math%s><mrow>", how == DISPLAYED ? " displaystyle=\"true\"" : "");
    put(t, m.s);
    putf(t, "%s%s%s</mrow></math>", dot ? "<mo>" : "", dot ? dot : "", dot ? "</mo>" : "");
    return 1;
}

static int has_sign(const char *s) { return strpbrk(s, "=<>^/|[(+") != NULL; }

/* ---- formulas within sentences ---- */

static const char *after_spaces(const char *s, const char *end) {
    while (s < end && isspace((unsigned char)*s)) s++;
    return s;
}

/* The end of a word or number of a formula, or s: it is one of the sentence. `last`: the word before, or "". A
   word that sentences use, too (`reward`), must have a sign, a bracket or the formula's end after it. */
static const char *running_word(const char *s, const char *end, int depth, char last[16]) {
    const char *e = s;
    if (isdigit((unsigned char)*s)) {
        while (e < end &&
               (isdigit((unsigned char)*e) || (*e == '.' && e + 1 < end && isdigit((unsigned char)e[1]))))
            e++;
        return e < end && (isalpha((unsigned char)*e) || *e == '_') ? s : e; /* 1e-3, 3D */
    }
    while (e < end && isalnum((unsigned char)*e)) e++;
    size_t n = (size_t)(e - s);
    int k = word_index(s, n), is_sum = !strcmp(last, "sum") || !strcmp(last, "product");
    snprintf(last, 16, "%.*s", (int)n, s);
    if (n == 2 && !memcmp(s, "of", 2)) return is_sum ? e : s;
    if (n == 4 && !memcmp(s, "sqrt", 4)) return e;
    if (k == WORDS && n != 1 && (n != 2 || !isdigit((unsigned char)s[1]))) return s;
    if (k < WORDS && (!strcmp(words[k].word, "for") || !strcmp(words[k].word, "if"))) return s;
    if (e < end && *e == '_') { /* pi_old, V_t, but not x_dot */
        const char *sub = e + 1;
        for (e++; e < end && (*e == '_' || isalnum((unsigned char)*e)); e++) {
        }
        if (e - sub != 1 && word_index(sub, (size_t)(e - sub)) == WORDS) return s;
    }
    if (k == WORDS) return e;
    if (words[k].math || n < 4 || depth || (e < end && strchr("([", *e))) return e;
    const char *next = after_spaces(e, end);
    return next == end || strchr("=<>+-/^|)].,;:", *next) ? e : s;
}

/* What makes [s, end) more than words: a sign between spaces, a power, or an argument or index of a name. */
static int has_strong_sign(const char *s, const char *end) {
    for (const char *c = s; c < end; c++) {
        if (strchr("=^<>|_", *c) || (c + 1 < end && c[0] == '+' && c[1] == '-')) return 1;
        if (strchr("+-/", *c) && c > s && c + 1 < end && isspace((unsigned char)c[-1]) &&
            isspace((unsigned char)c[1]))
            return 1;
        if (strchr("([", *c) && c > s && isalpha((unsigned char)c[-1])) return 1;
    }
    return 0;
}

/* a, A or I, which may be a word of the sentence, followed by a word. */
static int is_article(const char *s, const char *end) {
    return strchr("aAI", *s) && s + 1 < end && isspace((unsigned char)s[1]) &&
           isalnum((unsigned char)*after_spaces(s + 1, end));
}

/* A Greek letter by its name. */
static int is_greek(const char *s, size_t n) {
    int k = word_index(s, n);
    return k < WORDS && words[k].math && !strncmp(words[k].math, "<mi>", 4);
}

/* A word that wants something after it: log, sum. */
static int is_open_word(const char *word) {
    static const char *const open[] = {"grad", "log",  "ln",  "exp", "sum", "product",
                                       "of",   "clip", "min", "max", "sqrt"};
    for (size_t k = 0; k < sizeof open / sizeof *open; k++)
        if (!strcmp(word, open[k])) return 1;
    return 0;
}

/* Whether a formula may end before s: not within a word or before what belongs to it. */
static int may_end(const char *s, const char *end) {
    const char *next = after_spaces(s, end);
    return next == end || (!(s < end && strchr("([_'", *s)) && !strchr("+-/^=|<>", *next));
}

/* The length of the formula that begins at s, the start of a word in the sentence [s, end); 0: there is none. */
static size_t running_length(const char *s, const char *end) {
    const char *ends[64], *e = s;
    int count = 0, depth = 0;
    char last[16] = "";
    if (is_article(s, end)) return 0;
    while (e < end && count < 64) {
        const char *next = e + 1;
        if (isalnum((unsigned char)*e)) {
            if ((next = running_word(e, end, depth, last)) == e) break;
        } else if (strchr("([", *e)) {
            const char *in_it = e + 1 + strspn(e + 1, "0123456789.");
            int apart = e > s + 1 && isspace((unsigned char)e[-1]); /* 8 (see below), R (2018) */
            if (!depth && apart && (isdigit((unsigned char)e[-2]) || (in_it > e + 1 && *in_it == ')'))) break;
            depth++;
        } else if (strchr(")]", *e)) {
            if (--depth < 0) break;
        } else if (*e == ',' ? !depth
                             : !strchr(" \n=<>+-/^|~'.", *e) || (*e == '.' && (next == end || *next != '.')))
            break;
        if (!isalnum((unsigned char)*e)) last[0] = isspace((unsigned char)*e) ? last[0] : 0;
        int is_end = strchr(")]'|", *e) != NULL || (isalnum((unsigned char)*e) && !is_open_word(last) &&
                                                    !(next == e + 1 && is_article(e, end)));
        if (!depth && is_end && may_end(next, end)) ends[count++] = next;
        e = next;
    }
    while (count--) {
        char *part = copied(s, (size_t)(ends[count] - s));
        text ignored = {0};
        for (char *c = part; *c; c++)
            if (*c == '\n') *c = ' ';
        if (has_strong_sign(s, ends[count]) && put_math(&ignored, part, strlen(part), IN_LINE))
            return strlen(part);
    }
    return 0;
}

#endif
