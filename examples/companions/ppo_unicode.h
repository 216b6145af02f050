/* ppo_unicode.h - expressions and normal forms of Unicode, for the tokenizers of ppo_hub.h

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_unicode.h"           // after ppo.h; other files may include it for its declarations

       ppo_expression *words = NULL;
       ppo_expression_create(" ?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+", &words);
       ppo_expression_cut(words, text, strlen(text), print_piece, NULL); // a ppo_piece_fn of yours
       ppo_expression_free(words);

   Copy this file and ppo_bpe.h, which it includes, beside ppo.h. In the folder examples/, where they are in companions/,
   programs include it from there: #include "companions/ppo_unicode.h". ppo_hub.h includes it.

WHAT AN EXPRESSION MAY HAVE

   The syntax is that of Oniguruma, which Hugging Face's tokenizers use, and a match is the one that its backtracking would
   find: of several alternatives the first one that leads to a match, and as many repetitions as do.

       ab  a|b  (ab)  (?:ab)  (?<name>ab)      groups, which capture nothing here
       a?  a*  a+  a{2}  a{2,}  a{,3}  a{2,3}  and a?? a*? a+? a{2,3}? (as few as possible)
       a?+  a*+  a++                           possessive, of one character or class
       .  [abc]  [^a-z]  [a[bc]]  [a-z&&[^x]]  classes; . is all but a line feed
       \p{Lu}  \P{Lu}  \p{^Lu}                 general categories L, Lu, ..., Letter, ..., scripts (\p{Han}), Any
       \s  \S  \d  \D  \w  \W  \h  \H          spaces, digits, characters of words, hexadecimal digits
       \n \r \t \v \f \a \e \x41 \x{1F600} \u0041, and \ before all but letters and digits
       ^  $  \A  \z  \Z  \b  \B                ends of lines, of the text, of words
       (?=ab)  (?!ab)                          what follows; at most 3 of more than one character
       (?<=a)  (?<!a)                          what precedes: one character or class
       (?i)  (?i:ab)                           ignoring case: of ASCII's letters (and of what is equal to them: the
                                               long s and the sign of Kelvin)
       (?m)  (?m:.)                            . is a line feed, too
       (?#...)                                 a comment

   What is not listed is refused by name: references back, conditions, atomic groups, posix classes, other properties.

HOW IT WORKS

   An expression becomes a program of a machine that follows all alternatives at once, in the order in which backtracking
   would try them, and the program a table of the states that the machine can be in: so each character is one look into
   a table. The characters are first put into classes that the expression does not tell apart. A lookahead of one character
   is decided by the next step; a longer one is found for all places of a text in one pass from its end.
   Time and memory grow with the length of the text, whatever the expression: a search that would read the same characters
   again and again remembers where no match can come any more (Reps 1998, "Maximal-munch tokenization in linear time").

   License: that of ppo.h. */
#ifndef PPO_UNICODE_H
#define PPO_UNICODE_H
#ifndef PPO_H
#error "include ppo.h before ppo_unicode.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_unicode.h belongs to version 0.3 of ppo.h"
#endif

#include "ppo_bpe.h"

#ifndef PPO_NO_LANGUAGE
#ifdef __cplusplus
extern "C" {
#endif

/* Compiles an expression, which ends with a 0 and is UTF-8. Errors: what is not supported, with its place; an
   expression whose table would be too large (of 4,096 states, or 255 classes of characters). Several threads
   may use one. */
typedef struct ppo_expression ppo_expression;
PPO_DEF ppo_status ppo_expression_create(const char *pattern, ppo_expression **expression);
PPO_DEF void ppo_expression_free(ppo_expression *expression); /* NULL: nothing */

/* Called with bytes begin .. end - 1 of the text, which match (matches 1) or lie between two matches (0). */
typedef void (*ppo_piece_fn)(void *user, size_t begin, size_t end, int matches);

/* Finds the matches in a text, from left to right, each after the end of the one before, and calls piece for
   each of them and for what lies between. A match may be empty. text: any bytes, NULL if bytes is 0; those
   that are not UTF-8 are each a character as U+FFFD. */
PPO_DEF ppo_status ppo_expression_cut(const ppo_expression *expression, const char *text, size_t bytes,
                                      ppo_piece_fn piece, void *user);

#ifdef __cplusplus
}
#endif
#endif /* PPO_NO_LANGUAGE */
#endif /* PPO_UNICODE_H */
/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__UNICODE_IMPLEMENTED)
#define PPO__UNICODE_IMPLEMENTED
#ifndef PPO_NO_LANGUAGE

PPO__WARNINGS_OFF

/* -- sets of characters -- */

/* Characters at[0] .. at[1] - 1 are in the set, at[1] .. at[2] - 1 are not, and so on. */
typedef struct ppo__set {
    int32_t *at;
    int count;
} ppo__set;

/* The characters that are in neither of two sets, only in b, only in a, in both: the sum of some of these. */
enum { PPO__IN_NEITHER = 1, PPO__IN_B = 2, PPO__IN_A = 4, PPO__IN_BOTH = 8 };
enum { PPO__UNION = PPO__IN_A | PPO__IN_B | PPO__IN_BOTH };

static ppo__set ppo__set_join(ppo__arena *memory, ppo__set a, ppo__set b, int which) {
    ppo__set set = {PPO__ARRAY(memory, int32_t, (size_t)a.count + (size_t)b.count + 1), 0};
    int i = 0, j = 0;
    for (int32_t code = 0, next; set.at && code < PPO__CODES; code = next) {
        while (i < a.count && a.at[i] <= code) ++i;
        while (j < b.count && b.at[j] <= code) ++j;
        if ((which >> (i % 2 * 2 + j % 2) & 1) != set.count % 2) set.at[set.count++] = code;
        next = i < a.count ? a.at[i] : PPO__CODES;
        if (j < b.count && b.at[j] < next) next = b.at[j];
    }
    return set;
}

static ppo__set ppo__set_not(ppo__arena *memory, ppo__set set) {
    const ppo__set none = {NULL, 0};
    return ppo__set_join(memory, set, none, PPO__IN_NEITHER);
}

static ppo__set ppo__set_range(ppo__arena *memory, int32_t first, int32_t last) {
    ppo__set set = {PPO__ARRAY(memory, int32_t, 2), 2};
    if (!set.at) return set.count = 0, set;
    set.at[0] = first;
    set.at[1] = last + 1;
    return set;
}

static ppo__set ppo__set_add(ppo__arena *memory, ppo__set set, int32_t first, int32_t last) {
    return ppo__set_join(memory, set, ppo__set_range(memory, first, last), PPO__UNION);
}

/* The characters of the general categories whose bits are set, in the order of ppo__category_names. */
static ppo__set ppo__set_categories(ppo__arena *memory, uint32_t bits) {
    enum { PPO__MOST_CHANGES = 8192 };
    ppo__set set = {PPO__ARRAY(memory, int32_t, PPO__MOST_CHANGES), 0};
    const char *const *table = ppo__unicode_categories, *at = *table;
    int category[2];
    for (int32_t code = 0; set.at && ppo__table_more(&table, &at);)
        for (int32_t n = ppo__next_categories(&at, category), k = 0; k < n; ++k, ++code) {
            if ((int)(bits >> category[k & 1] & 1) != set.count % 2) set.at[set.count++] = code;
            if (category[0] != category[1]) continue;
            code += n;
            break;
        }
    return set;
}

/* The bits of a category: "Lu", or "L" for all that begin so. */
static uint32_t ppo__category_bits(const char *name, size_t n) {
    uint32_t bits = 0;
    for (int k = 0; k < 30 && n && n <= 2; ++k)
        if (!strncmp(ppo__category_names + 2 * k, name, n)) bits |= (uint32_t)1 << k;
    return bits;
}

/* Scripts: for each run the distance to the end of the one before, and the length. */
static const struct {
    const char *name, *runs;
} ppo__unicode_scripts[] = {
    {"arabic", "Pcb^c^k^`^}^ghw^&c^$]%i$k*_|^_b%d^zC#m&jm-t_%i_$qd^}m&gb^&~%$z|$~`$ra@=_a^x^_^^_^^g^a^^^^c^a^"
               "^^^^^`^_^^_"
               "^^^^^^^^^^_^^_a^d^a^a^^^g^nb`^b^n$o_"},
    {"armenian", "J`$a_$m_`C;pb"},
    {"bengali", "$1oa^e___s^d^^`a_f___ae^a_^b_v"},
    {"bopomofo", "8}_)(`$f&g}"},
    {"cherokee", "%Dw%o_c7#g%i"},
    {"cyrillic", "Aa&|_'~&'oh'u^%e^%,n}2Uk%y.Ce_@Ss$y~^"},
    {"devanagari", "$-w%jal_w8&]}2&ig"},
    {"ethiopic", "%8o%b^a_d^^^a_$d^a_~^a_d^^^a_l^$t^a_$~_}`w&;]tfd^d^d^d^d^d^d^d3Acc_c_cfd^dLRnd^a^_^l"},
    {"georgian", "%.c$a^^b^_$f^a$A_$f_`%+i$a^^b^"},
    {"greek", "<{a^`_a^^a^^^^`^^^q^$zkm&5ib$mbab%m^,ks_c_$a_c_e^^^^^^^|_$p^l^k_c^p_`^f+t^51{^.6k%hn^>@|%_"},
    {"gujarati", "$9``^f^`^s^d^_^b_g^`^`_^la_idd"},
    {"gurmukhi", "$5h`^ca__s^d^_^_^__^^ba__``^da^^dn"},
    {"han", ")+aw^%ri)g$j^^^vfka?i&9{${-Rk.Na-w_&a2=c_i_6$s9%m}%+cc)o_%Zmk&Sxl5g$2o2}Og%Bfb%,g"},
    {"hangul", "%1]*o&[e_*p%w&h|$||2K`z5|(Nqita$l(0m|`c_c_c_`"},
    {"hebrew", "L|$rexacC8{w^b^^^_^_^g"},
    {"hiragana", ")8h%oc`UGr+lo^z`+A~^"},
    {"kannada", "$Haj^`^t^g^b_f^`^ad_c_^a_g^`"},
    {"katakana", ");b%s_`*_m)a$j^%q=Ykg^$h:3qa^d^_^^+l`$m^ka"},
    {"khmer", "&(}%w_gcg1g}"},
    {"lao", "$Wd_^^^b^u^^^t_b^^^d^g_a"},
    {"latin", "$|wcw$j^l^bt^|^0d$bb&<p$ac$lbabj^%_$|*o-z^j^mj'b_c^x^n$d$;r}3.i&]`$~__^^^erk;]$f^f^a-@edA{wcw$"
              "'hc^$e^f?;"
              "z|cc"},
    {"malayalam", "$K{j^`^$n^`^cam_w"},
    {"mongolian", "&,u__^^qc%rd$fD@fj"},
    {"myanmar", "%)m'u70{|%z}14oq"},
    {"oriya", "$<z`^e___s^d^_^b_f___`d`a_^b_o"},
    {"sinhala", "$Ot`^o`u^f^^_d`^ac^^^ecg_`E6_q"},
    {"syriac", "Wuk^$w_`+]h"},
    {"tamil", "$@s_^c``^a`_^^^_`_```iab``^a_^c^krG;j$mj^"},
    {"telugu", "$Dij^`^t^m_f^`^ad_^`_^_a_gdf"},
    {"thaana", "[m$m"},
    {"thai", "$Sl$uby"},
    {"tibetan", "$Z}%a^$_a$b^$_^l^da_"},
};

/* A class of Oniguruma, by the letter behind the backslash: s, d, w, h; or v. */
static ppo__set ppo__set_class(ppo__arena *memory, char letter) {
    static const struct {
        char letter;
        const char *categories;
        int32_t more[7][2]; /* characters */
    } classes[] = {{'s', "ZsZlZp", {{9, 13}, {0x85, 0x85}}},
                   {'d', "Nd", {{0, -1}}},
                   {'h', "", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
                   {'w',
                    "LuLlLtLmLoMnMcMeNdNlPc", /* and what is alphabetic beside them */
                    {{0x24b6, 0x24e9}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}}},
                   {'v', /* the same outside of classes, with a few numbers of Latin-1 */
                    "LuLlLtLmLoMnMcMeNdNlPc",
                    {{0xb2, 0xb3},
                     {0xb9, 0xb9},
                     {0xbc, 0xbe},
                     {0x24b6, 0x24e9},
                     {0x1f130, 0x1f149},
                     {0x1f150, 0x1f169},
                     {0x1f170, 0x1f189}}}};
    int c = 0;
    while (classes[c].letter != letter) ++c;
    uint32_t bits = 0;
    for (const char *name = classes[c].categories; *name; name += 2) bits |= ppo__category_bits(name, 2);
    ppo__set set = ppo__set_categories(memory, bits);
    for (int k = 0; k < 7 && classes[c].more[k][1] > 0; ++k)
        set = ppo__set_add(memory, set, classes[c].more[k][0], classes[c].more[k][1]);
    return set;
}

/* The set that a property names, in n bytes: spaces, hyphens, underscores and case make no difference. 0:
   unknown. */
static int ppo__set_property(ppo__arena *memory, const char *text, size_t n, int in_class, ppo__set *set) {
    static const char *const longer[][2] = {{"letter", "L"},      {"mark", "M"},   {"number", "N"},
                                            {"punctuation", "P"}, {"symbol", "S"}, {"separator", "Z"},
                                            {"other", "C"},       {"space", "s"},  {"digit", "d"},
                                            {"word", "w"},        {"xdigit", "h"}};
    char name[24] = "";
    for (size_t k = 0, length = 0; k < n && length + 1 < sizeof name; ++k)
        if (!strchr(" -_", text[k]))
            name[length++] = text[k] >= 'A' && text[k] <= 'Z' ? (char)(text[k] + 'a' - 'A') : text[k];
    for (size_t k = 0; k < sizeof longer / sizeof *longer; ++k)
        if (!strcmp(name, longer[k][0])) strcpy(name, longer[k][1]);
    if (strlen(name) == 1 && strchr("sdwh", *name) && n > 1)
        return *set = ppo__set_class(memory, *name == 'w' && !in_class ? 'v' : *name), 1;
    if (!strcmp(name, "any")) return *set = ppo__set_range(memory, 0, PPO__CODES - 1), 1;
    for (size_t k = 0; k < sizeof ppo__unicode_scripts / sizeof *ppo__unicode_scripts; ++k) {
        if (strcmp(name, ppo__unicode_scripts[k].name) != 0) continue;
        const char *at = ppo__unicode_scripts[k].runs;
        set->at = PPO__ARRAY(memory, int32_t, strlen(at));
        set->count = 0;
        for (int32_t code = 0; *at && set->at; set->at[set->count++] = code) code += ppo__table_number(&at);
        return 1;
    }
    if (strlen(name) > 2) return 0;
    if (*name >= 'a' && *name <= 'z') *name = (char)(*name + 'A' - 'a');
    *set = ppo__set_categories(memory, ppo__category_bits(name, strlen(name)));
    return ppo__category_bits(name, strlen(name)) != 0;
}

/* -- reading an expression: into nodes -- */

enum {
    PPO__THEN,   /* one after another; parts: first .. last */
    PPO__EITHER, /* the first of several that matches; parts: first .. last */
    PPO__CHARS,  /* a character of a set */
    PPO__REPEAT, /* `first` from `least` to `most` times, -1: any number; lazy: as few as possible */
    PPO__NEXT,   /* a character of a set comes next, or the text ends here and `edge` is 1; */
    PPO__LAST,   /* came last */
    PPO__LOOK    /* `first` follows; edge 1: it does not */
};
typedef struct ppo__node {
    int kind, first, last; /* last: or the number of a set */
    int next, previous;    /* in the node that it is a part of, 0: none */
    int least, most, lazy, edge;
} ppo__node;

enum {
    PPO__MAX_NODES = 8192,
    PPO__MAX_SETS = 256,
    PPO__MAX_GROUPS = 64,
    PPO__MAX_LOOKS = 3,
    PPO__PROBLEM = 120
};

/* A group that is open: its alternatives, and the last of them. */
typedef struct ppo__open_group {
    int kind; /* ':', '=' and '!' (behind: '<' and '>'), or 'i': options up to the end of the group around it */
    int either, then, ignore_case, dot_all;
    int32_t letter; /* the character before, if case is ignored */
} ppo__open_group;

typedef struct ppo__pattern {
    ppo__arena *memory; /* of what is needed until the tables are made */
    const char *text, *at;
    ppo__node *nodes; /* from 1 */
    ppo__set *sets;
    int node_count, set_count, look_count;
    int look[PPO__MAX_LOOKS]; /* nodes */
    ppo__open_group groups[PPO__MAX_GROUPS], *group;
    char *problem; /* [PPO__PROBLEM] */
} ppo__pattern;

/* What a message quotes must not reach a terminal as control characters. */
static void ppo__make_plain(char *text) {
    for (; *text; ++text) *text = (unsigned char)*text < ' ' || *text == 127 ? '?' : *text;
}

static PPO__PRINTF(2, 3) void ppo__pattern_fail(ppo__pattern *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (!*p->problem) vsnprintf(p->problem, PPO__PROBLEM, format, args);
    va_end(args);
    ppo__make_plain(p->problem);
}

static int ppo__new_node(ppo__pattern *p, int kind, int first) {
    if (p->node_count == PPO__MAX_NODES)
        ppo__pattern_fail(p, "it has more than %d parts", PPO__MAX_NODES - 1);
    else ++p->node_count;
    ppo__node *node = &p->nodes[p->node_count - 1];
    memset(node, 0, sizeof *node);
    node->kind = kind;
    node->first = first;
    return p->node_count - 1;
}

static int ppo__new_chars(ppo__pattern *p, int kind, ppo__set set, int edge) {
    const int n = ppo__new_node(p, kind, 0);
    int s = 0;
    while (s < p->set_count &&
           (p->sets[s].count != set.count ||
            (set.count && memcmp(p->sets[s].at, set.at, (size_t)set.count * sizeof *set.at))))
        ++s;
    if (s == PPO__MAX_SETS)
        ppo__pattern_fail(p, "it has more than %d characters and classes", PPO__MAX_SETS), --s;
    else if (s == p->set_count) p->sets[p->set_count++] = set;
    p->nodes[n].last = s;
    p->nodes[n].edge = edge;
    return n;
}

/* Makes a node the last part of another. */
static void ppo__add_part(ppo__pattern *p, int whole, int part) {
    ppo__node *to = &p->nodes[whole];
    p->nodes[part].previous = to->last;
    p->nodes[part].next = 0;
    if (to->first) p->nodes[to->last].next = part;
    else to->first = part;
    to->last = part;
}

/* A set, and the other case of ASCII's letters in it, if case is ignored. */
static ppo__set ppo__both_cases(ppo__pattern *p, ppo__set set) {
    static const int32_t others[][3] = {{'k', 'K', 0x212a}, {'s', 'S', 0x17f}};
    for (int32_t a = 'a'; p->group->ignore_case && a <= 'z'; ++a) {
        int32_t same[3] = {a, a + 'A' - 'a', a};
        int found = 0;
        for (int k = 0; k < 2; ++k)
            if (others[k][0] == a) same[2] = others[k][2];
        for (int k = 0; k < 3; ++k)
            for (int i = 0; i < set.count; i += 2)
                found |= same[k] >= set.at[i] && (i + 1 == set.count || same[k] < set.at[i + 1]);
        for (int k = 0; k < 3 && found; ++k) set = ppo__set_add(p->memory, set, same[k], same[k]);
    }
    return set;
}

static int32_t ppo__pattern_code(ppo__pattern *p) {
    int length = 1;
    const int32_t code = ppo__utf8_get(p->at, 4, &length); /* the text ends with a 0 */
    p->at += length;
    return code;
}

/* Up to `most` digits of a base, as a number; -1: there is none, or it is no character. */
static int32_t ppo__pattern_number(ppo__pattern *p, int base, int most) {
    int32_t n = 0;
    int digits = 0;
    for (; digits < most; ++digits, ++p->at) {
        const char *all = "0123456789abcdef0123456789ABCDEF", *found = *p->at ? strchr(all, *p->at) : NULL;
        if (!found || (found - all) % 16 >= base || n > PPO__CODES) break;
        n = n * base + (int32_t)((found - all) % 16);
    }
    return digits && n < PPO__CODES ? n : -1;
}

/* Reads what follows a backslash. 1: a set; 0: one character. */
static int ppo__pattern_escape(ppo__pattern *p, ppo__set *set, int32_t *code, int in_class) {
    static const char plain[] = "n\nr\rt\tv\vf\fa\ae\033";
    const char *at = p->at++;
    const char letter = *at, lowered = (char)(letter | ('a' - 'A'));
    *code = 0;
    if (letter && strchr("sSdDwWhH", letter)) {
        *set = ppo__set_class(p->memory, lowered == 'w' && !in_class ? 'v' : lowered);
        if (lowered != letter) *set = ppo__set_not(p->memory, *set);
        return 1;
    }
    if (lowered == 'p' && at[1] == '{') {
        const int negative = (at[2] == '^') != (letter == 'P');
        const char *name = at + 2 + (at[2] == '^');
        const size_t n = strcspn(name, "}");
        if (!name[n] || !ppo__set_property(p->memory, name, n, in_class, set))
            ppo__pattern_fail(p, "the property \\%c{%.*s}", letter, (int)(n < 40 ? n : 40), at + 2);
        else if (p->group->ignore_case) ppo__pattern_fail(p, "a property where case is ignored");
        else if (negative) *set = ppo__set_not(p->memory, *set);
        p->at = name + n + (name[n] == '}');
        return 1;
    }
    for (int k = 0; plain[k] && letter; k += 2)
        if (plain[k] == letter) return *code = plain[k + 1], 0;
    if (letter == 'x' || letter == 'u') {
        const int braces = letter == 'x' && *p->at == '{';
        p->at += braces;
        *code = ppo__pattern_number(p, 16, braces ? 8 : letter == 'x' ? 2 : 4);
        const int good =
            *code >= 0 && (!braces || *p->at == '}') && (letter == 'u' || braces || *code < 0x80);
        if (!good) ppo__pattern_fail(p, "the escape \\%c%.8s", letter, at + 1);
        else p->at += braces;
        return 0;
    }
    if (!letter) --p->at;
    if ((lowered >= 'a' && lowered <= 'z') || (letter >= '0' && letter <= '9') || !letter)
        ppo__pattern_fail(p, letter ? "the escape \\%c" : "a backslash at the end%c", letter ? letter : ' ');
    else {
        --p->at;
        *code = ppo__pattern_code(p);
    }
    return 0;
}

/* Reads a class, whose [ is read. depth: of classes in classes. */
static ppo__set ppo__pattern_class(ppo__pattern *p, int depth) {
    const int negative = *p->at == '^';
    ppo__set all = {NULL, 0}, now = {NULL, 0};
    int several = 0; /* 1: an && was read, and all is what comes before it */
    p->at += negative;
    if (depth > 16) ppo__pattern_fail(p, "more than 16 classes, one in another");
    for (const char *begin = p->at; !*p->problem && (*p->at != ']' || p->at == begin);) {
        ppo__set set = {NULL, 0};
        int32_t code = 0, last;
        int is_set = 0;
        if (!*p->at) ppo__pattern_fail(p, "a [ without a ]");
        else if (p->at[0] == '[' && p->at[1] == ':' && strstr(p->at, ":]"))
            ppo__pattern_fail(p, "the class %.10s", p->at);
        else if (p->at[0] == '[') {
            ++p->at;
            set = ppo__pattern_class(p, depth + 1);
            is_set = 1;
        } else if (p->at[0] == '&' && p->at[1] == '&') {
            p->at += 2;
            if (!now.count || *p->at == ']') ppo__pattern_fail(p, "an && with nothing on one side");
            all = several ? ppo__set_join(p->memory, all, now, PPO__IN_BOTH) : now;
            several = 1;
            now.count = 0;
            continue;
        } else if (*p->at == '\\') {
            ++p->at;
            is_set = ppo__pattern_escape(p, &set, &code, 1);
        } else code = ppo__pattern_code(p);
        const int to = p->at[0] == '-' && p->at[1] != ']' && p->at[1];
        if (is_set && to) ppo__pattern_fail(p, "a range of classes");
        if (!is_set) {
            last = code;
            if (to && *++p->at == '\\') {
                ++p->at;
                if (ppo__pattern_escape(p, &set, &last, 1)) ppo__pattern_fail(p, "a range of classes");
            } else if (to && *p->at == '[') ppo__pattern_fail(p, "a range of classes");
            else if (to) last = ppo__pattern_code(p);
            if (last < code) ppo__pattern_fail(p, "a range whose end comes before its start");
            if (p->group->ignore_case && last > 0x7f)
                ppo__pattern_fail(p, "other letters than ASCII's where case is ignored");
            if (!*p->problem) set = ppo__both_cases(p, ppo__set_range(p->memory, code, last));
        }
        now = ppo__set_join(p->memory, now, set, PPO__UNION);
    }
    if (*p->at) ++p->at;
    if (several) now = ppo__set_join(p->memory, all, now, PPO__IN_BOTH);
    return negative ? ppo__set_not(p->memory, now) : now;
}

/* Opens a group whose ( is read, or sets options. */
static void ppo__pattern_open(ppo__pattern *p) {
    ppo__open_group next = *p->group;
    next.kind = ':';
    if (*p->at == '?' && strchr(":=!", p->at[1]) && p->at[1]) {
        next.kind = p->at[1];
        p->at += 2;
    } else if (*p->at == '?' && p->at[1] == '<' && (p->at[2] == '=' || p->at[2] == '!')) {
        next.kind = p->at[2] == '=' ? '<' : '>';
        p->at += 3;
    } else if (*p->at == '?' && p->at[1] == '<' && strchr(p->at, '>')) p->at = strchr(p->at, '>') + 1;
    else if (*p->at == '?' && p->at[1] == '#') {
        p->at += strcspn(p->at, ")");
        if (*p->at) ++p->at;
        else ppo__pattern_fail(p, "a comment without an end");
        return;
    } else if (*p->at == '?') {
        int on = 1;
        for (++p->at; *p->at == 'i' || *p->at == 'm' || *p->at == '-'; ++p->at)
            if (*p->at == '-') on = 0;
            else *(*p->at == 'i' ? &next.ignore_case : &next.dot_all) = on;
        if (*p->at == ')') next.kind = 'i';
        else if (*p->at != ':') ppo__pattern_fail(p, "the group (?%.2s", p->at);
        if (*p->at) ++p->at;
    }
    if (p->group == p->groups + PPO__MAX_GROUPS - 1)
        ppo__pattern_fail(p, "more than %d groups, one in another", PPO__MAX_GROUPS);
    if (*p->problem) return;
    next.either = ppo__new_node(p, PPO__EITHER, 0);
    next.then = ppo__new_node(p, PPO__THEN, 0);
    *++p->group = next;
}

/* One node for a finished list: the part of a list of one, a set for alternatives that are sets. */
static int ppo__simple(ppo__pattern *p, int list) {
    const ppo__node *node = &p->nodes[list];
    int sets = node->kind == PPO__EITHER && node->first;
    for (int k = node->first; k; k = p->nodes[k].next) sets &= p->nodes[k].kind == PPO__CHARS;
    if (node->first && node->first == node->last) return node->first;
    if (!sets) return list;
    ppo__set all = {NULL, 0};
    for (int k = node->first; k; k = p->nodes[k].next)
        all = ppo__set_join(p->memory, all, p->sets[p->nodes[k].last], PPO__UNION);
    return ppo__new_chars(p, PPO__CHARS, all, 0);
}

/* Ends the innermost group; the node that it becomes. */
static int ppo__pattern_close(ppo__pattern *p) {
    const ppo__open_group *group = p->group;
    ppo__add_part(p, group->either, ppo__simple(p, group->then));
    int n = ppo__simple(p, group->either), negative = group->kind == '!' || group->kind == '>';
    p->group[-1].letter = group->letter;
    --p->group;
    if (strchr(":i", group->kind)) return n;
    const int behind = group->kind == '<' || group->kind == '>';
    if (p->nodes[n].kind == PPO__CHARS) {
        const ppo__set set = p->sets[p->nodes[n].last];
        return ppo__new_chars(p, behind ? PPO__LAST : PPO__NEXT,
                              negative ? ppo__set_not(p->memory, set) : set, negative);
    }
    if (behind) ppo__pattern_fail(p, "a look behind at more than one character");
    if (p->look_count == PPO__MAX_LOOKS)
        ppo__pattern_fail(p, "more than %d long looks ahead", PPO__MAX_LOOKS);
    if (*p->problem) return n;
    n = ppo__new_node(p, PPO__LOOK, n);
    p->nodes[n].edge = negative;
    p->nodes[n].least = p->look_count;
    return p->look[p->look_count++] = n;
}

/* A node of two parts, of this kind. */
static int ppo__two_parts(ppo__pattern *p, int kind, int first, int second) {
    const int n = ppo__new_node(p, kind, 0);
    ppo__add_part(p, n, first);
    ppo__add_part(p, n, second);
    return n;
}

/* Ends of lines, of the text, of words. */
static int ppo__pattern_anchor(ppo__pattern *p, char letter) {
    ppo__arena *memory = p->memory;
    const ppo__set none = {NULL, 0}, any = ppo__set_not(memory, none),
                   line = ppo__set_range(memory, '\n', '\n');
    if (letter == 'A') return ppo__new_chars(p, PPO__LAST, none, 1);
    if (letter == 'z') return ppo__new_chars(p, PPO__NEXT, none, 1);
    if (letter == '^') /* not after the line feed that ends the text */
        return ppo__two_parts(p, PPO__EITHER, ppo__new_chars(p, PPO__LAST, none, 1),
                              ppo__two_parts(p, PPO__THEN, ppo__new_chars(p, PPO__LAST, line, 0),
                                             ppo__new_chars(p, PPO__NEXT, any, 0)));
    if (letter == '$') return ppo__new_chars(p, PPO__NEXT, line, 1);
    if (letter == 'Z') { /* before a line feed at the end, too */
        const int end = ppo__new_chars(p, PPO__NEXT, none, 1), feed = ppo__new_chars(p, PPO__CHARS, line, 0);
        if (p->look_count == PPO__MAX_LOOKS)
            return ppo__pattern_fail(p, "more than %d long looks ahead", PPO__MAX_LOOKS), end;
        const int look = ppo__new_node(
            p, PPO__LOOK, ppo__two_parts(p, PPO__THEN, feed, ppo__new_chars(p, PPO__NEXT, none, 1)));
        p->nodes[look].least = p->look_count;
        p->look[p->look_count++] = look;
        return ppo__two_parts(p, PPO__EITHER, end, look);
    }
    const ppo__set in = ppo__set_class(memory, 'v'), out = ppo__set_not(memory, in);
    const int same = letter == 'B';
    return ppo__two_parts(p, PPO__EITHER,
                          ppo__two_parts(p, PPO__THEN, ppo__new_chars(p, PPO__LAST, in, 0),
                                         ppo__new_chars(p, PPO__NEXT, same ? in : out, !same)),
                          ppo__two_parts(p, PPO__THEN, ppo__new_chars(p, PPO__LAST, out, 1),
                                         ppo__new_chars(p, PPO__NEXT, same ? out : in, same)));
}

/* Reads {2,3} if it is there: 1, or else 0, and then it is text. */
static int ppo__pattern_braces(ppo__pattern *p, int *least, int *most) {
    const char *begin = p->at++;
    const int first = (int)ppo__pattern_number(p, 10, 6), comma = *p->at == ',';
    p->at += comma;
    const int second = comma ? (int)ppo__pattern_number(p, 10, 6) : first;
    if (*p->at != '}' || (first < 0 && second < 0)) return p->at = begin, 0;
    ++p->at;
    *least = first < 0 ? 0 : first;
    *most = second;
    if (second >= 0 && second < *least)
        ppo__pattern_fail(p, "a repetition from %d to %d times", *least, second);
    return 1;
}

/* Reads the quantifiers behind a node; the node with them. */
static int ppo__pattern_repeat(ppo__pattern *p, int n) {
    for (; *p->at && strchr("?*+{", *p->at) && !*p->problem;) {
        const char *begin = p->at;
        int least = *p->at == '+', most = *p->at == '?' ? 1 : -1;
        if (*p->at == '{') {
            if (!ppo__pattern_braces(p, &least, &most)) return n;
        } else ++p->at;
        if (p->nodes[n].kind > PPO__REPEAT) ppo__pattern_fail(p, "a quantifier of a place");
        const int part = n, lazy = *p->at == '?' && !(*begin == '{' && least == most),
                  once = *p->at == '+' && *begin != '{';
        n = ppo__new_node(p, PPO__REPEAT, part);
        p->nodes[n].least = least;
        p->nodes[n].most = most;
        p->nodes[n].lazy = lazy;
        p->at += lazy || once;
        if (!once) continue;
        if (p->nodes[part].kind != PPO__CHARS) ppo__pattern_fail(p, "a possessive quantifier of a group");
        else {
            const int end =
                ppo__new_chars(p, PPO__NEXT, ppo__set_not(p->memory, p->sets[p->nodes[part].last]), 1);
            n = *begin == '?' ? ppo__two_parts(p, PPO__EITHER, part, end)
                              : ppo__two_parts(p, PPO__THEN, n, end);
        }
    }
    return n;
}

/* Reads a character, class or escape; its node. */
static int ppo__pattern_atom(ppo__pattern *p) {
    static const char *const folds[] = {"ff", "fi", "fl", "ss",
                                        "st"}; /* equal to one character where case is ignored */
    ppo__set set = {NULL, 0};
    int32_t code = 0;
    int is_set = 0, least, most;
    const int32_t before = p->group->letter;
    p->group->letter = 0;
    if (*p->at == '[') {
        ++p->at;
        return ppo__new_chars(p, PPO__CHARS, ppo__pattern_class(p, 0), 0);
    }
    if (*p->at == '^' || *p->at == '$') return ppo__pattern_anchor(p, *p->at++);
    if (*p->at == '.') {
        ++p->at;
        set = p->group->dot_all ? set : ppo__set_range(p->memory, '\n', '\n');
        return ppo__new_chars(p, PPO__CHARS, ppo__set_not(p->memory, set), 0);
    }
    if (*p->at == '\\' && p->at[1] && strchr("AzZbB", p->at[1])) {
        p->at += 2;
        return ppo__pattern_anchor(p, p->at[-1]);
    }
    if (*p->at == '\\') {
        ++p->at;
        is_set = ppo__pattern_escape(p, &set, &code, 0);
    } else if (strchr("?*+", *p->at) || (*p->at == '{' && ppo__pattern_braces(p, &least, &most)))
        ppo__pattern_fail(p, "a quantifier of nothing");
    else code = ppo__pattern_code(p);
    if (!is_set) set = ppo__set_range(p->memory, code, code);
    if (is_set || !p->group->ignore_case) return ppo__new_chars(p, PPO__CHARS, set, 0);
    if (code > 0x7f && code != 0x17f && code != 0x212a)
        ppo__pattern_fail(p, "other letters than ASCII's where case is ignored");
    if (code >= 'A' && code <= 'Z') code += 'a' - 'A';
    p->group->letter = code == 0x17f ? 's' : code;
    for (size_t k = 0; k < sizeof folds / sizeof *folds; ++k)
        if (folds[k][0] == before && folds[k][1] == p->group->letter)
            ppo__pattern_fail(p, "\"%s\", which is also one character, where case is ignored", folds[k]);
    return ppo__new_chars(p, PPO__CHARS, ppo__both_cases(p, set), 0);
}

/* Reads the expression; the node that is all of it. */
static int ppo__pattern_read(ppo__pattern *p) {
    memset(p->groups, 0, sizeof *p->groups);
    p->group = p->groups;
    p->group->either = ppo__new_node(p, PPO__EITHER, 0);
    p->group->then = ppo__new_node(p, PPO__THEN, 0);
    p->group->kind = ':';
    while (!*p->problem && !p->memory->failed) {
        int n = 0;
        if (*p->at == '(') {
            ++p->at;
            ppo__pattern_open(p);
            continue;
        }
        while ((!*p->at || *p->at == ')') && p->group->kind == 'i') {
            n = ppo__pattern_close(p);
            ppo__add_part(p, p->group->then, n);
        }
        if (!*p->at) break;
        if (*p->at == '|') {
            ++p->at;
            ppo__add_part(p, p->group->either, ppo__simple(p, p->group->then));
            p->group->then = ppo__new_node(p, PPO__THEN, 0);
            p->group->letter = 0;
            continue;
        }
        if (*p->at == ')' && p->group == p->groups) ppo__pattern_fail(p, "a ) without a (");
        else if (*p->at == ')') {
            ++p->at;
            n = ppo__pattern_close(p);
        } else n = ppo__pattern_atom(p);
        if (!*p->problem) ppo__add_part(p, p->group->then, ppo__pattern_repeat(p, n));
    }
    if (!p->memory->failed && !*p->problem && p->group != p->groups) ppo__pattern_fail(p, "a ( without a )");
    if (*p->problem || p->memory->failed) return 0;
    ppo__add_part(p, p->group->either, ppo__simple(p, p->group->then));
    return ppo__simple(p, p->group->either);
}

/* -- from nodes to a program -- */

enum { PPO__DO_CHAR, PPO__DO_BRANCH, PPO__DO_JUMP, PPO__DO_NEXT, PPO__DO_LAST, PPO__DO_LOOK, PPO__DO_MATCH };
typedef struct ppo__instruction {
    int what;
    int to, other; /* a set, or instructions, of which `to` is tried first; the number of a look */
    int edge;
} ppo__instruction;

enum { PPO__MAX_PROGRAM = 8192 };

typedef struct ppo__program {
    ppo__pattern *pattern;
    ppo__instruction *code;
    int count;
    int backward; /* 1: what it matches is read from its end */
    int is_look, uses_last;
} ppo__program;

static int ppo__put_code(ppo__program *program, int what, int to) {
    const int at = program->count < PPO__MAX_PROGRAM ? program->count++ : 0;
    const ppo__instruction code = {what, to, 0, 0};
    if (!at && program->count == PPO__MAX_PROGRAM)
        ppo__pattern_fail(program->pattern, "it has more than %d steps", PPO__MAX_PROGRAM);
    program->code[at] = code;
    return at;
}

/* Sets the two ways that a branch goes: into what is repeated, and on. */
static void ppo__branch(ppo__program *program, int at, int in, int on, int lazy) {
    program->code[at].to = lazy ? on : in;
    program->code[at].other = lazy ? in : on;
}

/* May a node match without a character? */
static int ppo__may_be_empty(const ppo__pattern *p, int n) {
    const ppo__node *node = &p->nodes[n];
    const int any = node->kind == PPO__EITHER;
    if (node->kind == PPO__REPEAT) return !node->least || ppo__may_be_empty(p, node->first);
    if (node->kind != PPO__THEN && !any) return node->kind != PPO__CHARS;
    for (int k = node->first; k; k = p->nodes[k].next)
        if (ppo__may_be_empty(p, k) == any) return any;
    return !any;
}

static void ppo__compile_node(ppo__program *program, int n) {
    ppo__pattern *p = program->pattern;
    const ppo__node *node = &p->nodes[n];
    int last = -1, k;
    if (*p->problem) return;
    switch (node->kind) {
    case PPO__THEN:
        for (k = program->backward ? node->last : node->first; k;
             k = program->backward ? p->nodes[k].previous : p->nodes[k].next)
            ppo__compile_node(program, k);
        return;
    case PPO__EITHER:
        for (k = node->first; k; k = p->nodes[k].next) { /* jumps to the end are a list until that is known */
            const int branch = p->nodes[k].next ? ppo__put_code(program, PPO__DO_BRANCH, 0) : 0;
            ppo__compile_node(program, k);
            if (!p->nodes[k].next) break;
            last = ppo__put_code(program, PPO__DO_JUMP, last);
            ppo__branch(program, branch, branch + 1, program->count, 0);
        }
        for (; last >= 0 && !*p->problem; last = k) {
            k = program->code[last].to;
            program->code[last].to = program->count;
        }
        return;
    case PPO__REPEAT:
        if (node->most != 0 && node->most != 1 &&
            ppo__may_be_empty(p, node->first)) /* where engines differ */
            ppo__pattern_fail(p, "a repetition of what may be empty");
        for (k = 0; k < node->least && !*p->problem; ++k) ppo__compile_node(program, node->first);
        for (; k < node->most && !*p->problem; ++k) {
            last = ppo__put_code(program, PPO__DO_BRANCH, last);
            ppo__compile_node(program, node->first);
        }
        for (; last >= 0 && !*p->problem; last = k) {
            k = program->code[last].to;
            ppo__branch(program, last, last + 1, program->count, node->lazy);
        }
        if (node->most >= 0) return;
        last = ppo__put_code(program, PPO__DO_BRANCH, 0);
        ppo__compile_node(program, node->first);
        k = ppo__put_code(program, PPO__DO_BRANCH, 0);
        ppo__branch(program, last, last + 1, program->count, node->lazy);
        ppo__branch(program, k, last + 1, program->count, node->lazy);
        return;
    case PPO__LOOK:
        if (program->is_look) ppo__pattern_fail(p, "a long look ahead in another");
        k = ppo__put_code(program, PPO__DO_LOOK, node->least);
        break;
    case PPO__CHARS:
        k = ppo__put_code(program, PPO__DO_CHAR, node->last);
        break;
    default:
        last = (node->kind == PPO__LAST) != program->backward;
        program->uses_last |= last;
        k = ppo__put_code(program, last ? PPO__DO_LAST : PPO__DO_NEXT, node->last);
    }
    program->code[k].edge = node->edge;
}

/* The program of a node; of a long look ahead, read from the end: after any characters, and it does not stop
   at the first match. */
static void ppo__compile(ppo__program *program, ppo__pattern *pattern, int node, int is_look) {
    const ppo__set none = {NULL, 0};
    memset(program, 0, sizeof *program);
    program->pattern = pattern;
    program->is_look = program->backward = is_look;
    program->code = PPO__ARRAY(pattern->memory, ppo__instruction, PPO__MAX_PROGRAM);
    if (!program->code) return;
    if (is_look) {
        const int any = ppo__new_node(pattern, PPO__REPEAT, 0);
        const int chars = ppo__new_chars(pattern, PPO__CHARS, ppo__set_not(pattern->memory, none), 0);
        pattern->nodes[any].first = chars;
        pattern->nodes[any].most = -1;
        ppo__compile_node(program, any);
    }
    ppo__compile_node(program, node);
    ppo__put_code(program, PPO__DO_MATCH, 0);
}

/* -- classes of characters -- */

enum { PPO__MAX_CLASSES = 255, PPO__CODES_IN_BLOCK = 256 };

/* From a program to the transitions between its states, which are numbers; 0: the machine stops. */
typedef struct ppo__table {
    int states,
        width; /* width: of symbols, which are (class, or their number: the text ends) << looks | looks */
    const uint16_t
        *next; /* [states][width] the next state, plus PPO__MATCHED if a match ends before this symbol */
    const uint16_t *start; /* [classes + 1] by what comes before */
} ppo__table;

enum { PPO__MATCHED = 0x8000, PPO__MAX_STATES = 4096 };

struct ppo_expression {
    ppo__arena memory; /* unless it is in another one */
    const char *text;
    int classes, looks, may_be_empty;
    ppo__table table, look[PPO__MAX_LOOKS];
    unsigned char of_byte[256]; /* the classes of the characters below 128; or what bytes stand for */
    int of_bytes;               /* 1: of texts of which each byte is a character, one of GPT-2's */
    uint16_t block[PPO__CODES / (int)PPO__CODES_IN_BLOCK]; /* where the classes of 256 characters are */
    const unsigned char (*of_block)[PPO__CODES_IN_BLOCK];
    const uint16_t *ascii; /* [states][128] table.next by the character; NULL: not only that decides */
};

static int ppo__by_code(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The classes: characters that the same sets have. *has: [sets][256] whether a class is in a set. */
static void ppo__find_classes(ppo__pattern *p, ppo_expression *e, ppo__arena *memory, unsigned char **has) {
    size_t changes = 1, n = 0;
    int next[PPO__MAX_CLASSES + 1][2];
    for (int s = 0; s < p->set_count; ++s) changes += (size_t)p->sets[s].count;
    int32_t *from = PPO__ARRAY(p->memory, int32_t, changes + 1); /* runs of one class */
    int *of_run = PPO__ZEROS(p->memory, int, changes);
    unsigned char *flat = PPO__ARRAY(p->memory, unsigned char, PPO__CODES);
    *has = PPO__ZEROS(p->memory, unsigned char, (size_t)PPO__MAX_SETS * 256);
    if (!from || !of_run || !flat || !*has) return;
    from[0] = 0;
    changes = 1;
    for (int s = 0; s < p->set_count; changes += (size_t)p->sets[s++].count)
        if (p->sets[s].count) memcpy(from + changes, p->sets[s].at, (size_t)p->sets[s].count * sizeof *from);
    qsort(from, changes, sizeof *from, ppo__by_code);
    for (size_t k = 0; k < changes; ++k)
        if (from[k] < PPO__CODES && (!k || from[k] != from[k - 1])) from[n++] = from[k];
    from[n] = PPO__CODES;
    e->classes = 1;
    for (int s = 0, count; s < p->set_count; ++s, e->classes = count) { /* each set divides classes */
        memset(next, -1, sizeof next);
        count = 0;
        for (size_t k = 0, i = 0; k < n; ++k) {
            while (i < (size_t)p->sets[s].count && p->sets[s].at[i] <= from[k]) ++i;
            int *to = &next[of_run[k]][i % 2];
            if (*to < 0) *to = count++;
            of_run[k] = *to;
            if (count <= PPO__MAX_CLASSES) continue;
            ppo__pattern_fail(p, "it has more than %d classes of characters", PPO__MAX_CLASSES);
            return;
        }
    }
    for (size_t k = 0; k < n; ++k) memset(flat + from[k], of_run[k], (size_t)(from[k + 1] - from[k]));
    for (int s = 0; s < p->set_count; ++s)
        for (size_t k = 0, i = 0; k < n; ++k) {
            while (i < (size_t)p->sets[s].count && p->sets[s].at[i] <= from[k]) ++i;
            (*has)[s * 256 + of_run[k]] = i % 2;
        }
    ppo__map blocks = {NULL, 0, 0};
    unsigned char(*kept)[PPO__CODES_IN_BLOCK] =
        (unsigned char(*)[PPO__CODES_IN_BLOCK])flat; /* which may be written over */
    int count = 0;
    for (int b = 0; b < PPO__CODES / (int)PPO__CODES_IN_BLOCK; ++b) {
        const unsigned char *block = flat + (size_t)b * PPO__CODES_IN_BLOCK;
        uint64_t slot = ppo__fnv1a(PPO__FNV1A, block, PPO__CODES_IN_BLOCK);
        int same;
        while ((same = ppo__map_find(&blocks, slot)) >= 0 && memcmp(kept[same], block, PPO__CODES_IN_BLOCK))
            ++slot;
        if (same < 0) {
            memmove(kept[count], block, PPO__CODES_IN_BLOCK);
            ppo__map_put(&blocks, p->memory, slot, same = count++);
        }
        e->block[b] = (uint16_t)same;
    }
    unsigned char *blocks_of = PPO__ARRAY(memory, unsigned char, (size_t)count *PPO__CODES_IN_BLOCK);
    if (blocks_of) memcpy(blocks_of, flat, (size_t)count * PPO__CODES_IN_BLOCK);
    e->of_block = (const unsigned char(*)[PPO__CODES_IN_BLOCK])blocks_of;
}

static int ppo__class_of(const ppo_expression *e, int32_t code) {
    return e->of_block[e->block[code / PPO__CODES_IN_BLOCK]][code % PPO__CODES_IN_BLOCK];
}

/* The class of the character at the start of `bytes` (> 0) bytes, and its length. */
static int ppo__class_at(const ppo_expression *e, const char *text, size_t bytes, size_t *length) {
    int n;
    *length = 1;
    if ((unsigned char)*text < 0x80 || e->of_bytes) return e->of_byte[(unsigned char)*text];
    const int32_t code = ppo__utf8_get(text, bytes, &n);
    if (code >= 0) *length = (size_t)n;
    return ppo__class_of(e, code < 0 ? 0xfffd : code);
}

/* -- from a program to its table: a state is where the machine continues after a character, in the order of preference, and
   the class of that character if the program asks for it -- */

typedef struct ppo__state {
    int last, count;
    const int *at; /* [count] instructions */
    uint16_t *next;
} ppo__state;

typedef struct ppo__machine {
    const ppo__program *program;
    const unsigned char *has; /* [sets][256] */
    int *seen, time;          /* when an instruction was reached: at most once at a place */
    int *list, count;         /* of the next state */
    int *stack;
    ppo__state *states; /* [PPO__MAX_STATES] */
    int state_count;
    ppo__map by_list;
    long work;
} ppo__machine;

/* Follows the program from one instruction, between characters of classes `last` and `next` (`end`: none);
   lists where it continues after the next one. 1: it matches here. */
static int ppo__machine_follow(ppo__machine *m, int from, int last, int next, int looks, int end) {
    int depth = 0, matched = 0;
    m->stack[depth++] = from;
    while (depth && !(matched && !m->program->is_look)) {
        const int at = m->stack[--depth];
        const ppo__instruction *code = &m->program->code[at];
        int goes_on;
        if (m->seen[at] == m->time) continue;
        m->seen[at] = m->time;
        ++m->work;
        switch (code->what) {
        case PPO__DO_CHAR:
            if (next != end && m->has[code->to * 256 + next]) m->list[m->count++] = at + 1;
            continue;
        case PPO__DO_BRANCH:
            m->stack[depth++] = code->other;
            m->stack[depth++] = code->to;
            continue;
        case PPO__DO_JUMP:
            m->stack[depth++] = code->to;
            continue;
        case PPO__DO_NEXT:
            goes_on = next == end ? code->edge : m->has[code->to * 256 + next];
            break;
        case PPO__DO_LAST:
            goes_on = last == end ? code->edge : m->has[code->to * 256 + last];
            break;
        case PPO__DO_LOOK:
            goes_on = (looks >> code->to & 1) != code->edge;
            break;
        default:
            matched = 1;
            continue;
        }
        if (goes_on) m->stack[depth++] = at + 1;
    }
    return matched;
}

/* The number of the state of the list, which may be new. */
static int ppo__state_of(ppo__machine *m, int last) {
    ppo__pattern *p = m->program->pattern;
    const int listed = m->count;
    m->count = 0;
    ++m->time;
    for (int k = 0, to; k < listed; ++k) {
        for (to = m->list[k]; m->program->code[to].what == PPO__DO_JUMP;) to = m->program->code[to].to;
        if (m->seen[to] != m->time) m->list[m->count++] = to;
        m->seen[to] = m->time;
    }
    if (!m->count) return 0;
    if (!m->program->uses_last) last = 0;
    const size_t bytes = (size_t)m->count * sizeof *m->list;
    uint64_t slot = ppo__fnv1a(ppo__fnv1a(PPO__FNV1A, &last, sizeof last), m->list, bytes);
    for (int s; (s = ppo__map_find(&m->by_list, slot)) >= 0; ++slot)
        if (m->states[s].last == last && m->states[s].count == m->count &&
            !memcmp(m->states[s].at, m->list, bytes))
            return s;
    int *at = PPO__ARRAY(p->memory, int, m->count);
    if (m->state_count == PPO__MAX_STATES)
        ppo__pattern_fail(p, "its table has more than %d states", PPO__MAX_STATES);
    if (!at || *p->problem) return 0;
    memcpy(at, m->list, bytes);
    const ppo__state state = {last, m->count, at, NULL};
    m->states[m->state_count] = state;
    ppo__map_put(&m->by_list, p->memory, slot, m->state_count);
    return m->state_count++;
}

/* Makes the table of a program, in memory. */
static void ppo__make_table(ppo__program *program, const unsigned char *has, int classes, int looks,
                            ppo__arena *memory, ppo__table *table) {
    enum { PPO__MOST_WORK = 5000000 };
    ppo__pattern *p = program->pattern;
    ppo__machine m;
    memset(&m, 0, sizeof m);
    m.program = program;
    m.has = has;
    m.seen = PPO__ZEROS(p->memory, int, program->count);
    m.list = PPO__ARRAY(p->memory, int, program->count);
    m.stack = PPO__ARRAY(p->memory, int, 2 * (size_t)program->count + 2);
    m.states = PPO__ZEROS(p->memory, ppo__state, PPO__MAX_STATES);
    m.state_count = 1;
    uint16_t *start = PPO__ARRAY(memory, uint16_t, (size_t)classes + 1);
    table->start = start;
    table->width = (classes + 1) << looks;
    if (!m.seen || !m.list || !m.stack || !m.states || !start) return;
    for (int last = 0; last <= classes; ++last) {
        m.list[0] = 0;
        m.count = 1;
        start[last] = (uint16_t)ppo__state_of(&m, last);
    }
    for (int s = 1; s < m.state_count && !*p->problem; ++s) {
        uint16_t *next = PPO__ARRAY(p->memory, uint16_t, table->width);
        if (!next) return;
        for (int symbol = 0; symbol < table->width; ++symbol) {
            const ppo__state state = m.states[s];
            int matched = 0;
            ++m.time;
            m.count = 0;
            for (int k = 0; k < state.count && !(matched && !program->is_look); ++k)
                matched |= ppo__machine_follow(&m, state.at[k], state.last, symbol >> looks,
                                               symbol & ((1 << looks) - 1), classes);
            next[symbol] = (uint16_t)(ppo__state_of(&m, symbol >> looks) | (matched ? PPO__MATCHED : 0));
        }
        m.states[s].next = next;
        if (m.work > PPO__MOST_WORK) ppo__pattern_fail(p, "its table is too large");
    }
    if (*p->problem || p->memory->failed) return;
    uint16_t *all = PPO__ZEROS(memory, uint16_t, (size_t)m.state_count * (size_t)table->width);
    for (int s = 1; s < m.state_count && all; ++s)
        memcpy(all + (size_t)s * (size_t)table->width, m.states[s].next, (size_t)table->width * sizeof *all);
    table->next = all;
    table->states = m.state_count;
}

/* Makes an expression in memory; NULL if that fails, or there is a problem. of_bytes: see ppo_expression. */
static ppo_expression *ppo__expression_make(ppo__arena *memory, const char *text, int of_bytes,
                                            char problem[PPO__PROBLEM]) {
    const ppo__set none = {NULL, 0};
    ppo__arena temporary = {NULL, NULL, PPO_OK};
    ppo__program program;
    int uses_last = 0;
    unsigned char *has = NULL;
    ppo_expression *e = PPO__ZEROS(memory, ppo_expression, 1);
    ppo__pattern *p = PPO__ZEROS(&temporary, ppo__pattern, 1);
    char *copy = PPO__ARRAY(memory, char, strlen(text) + 1);
    *problem = 0;
    if (p) {
        p->memory = &temporary;
        p->text = p->at = text;
        p->problem = problem;
        p->nodes = PPO__ARRAY(&temporary, ppo__node, PPO__MAX_NODES);
        p->sets = PPO__ARRAY(&temporary, ppo__set, PPO__MAX_SETS);
        p->node_count = 1;
    }
    if (copy && e) e->text = strcpy(copy, text);
    if (!ppo__is_utf8(text)) strcpy(problem, "it is not UTF-8");
    if (p && e && p->nodes && p->sets && !*problem) {
        const int root = ppo__pattern_read(p);
        if (p->look_count)
            ppo__new_chars(p, PPO__CHARS, ppo__set_not(&temporary, none), 0); /* for ppo__compile() */
        if (!*problem && !temporary.failed) ppo__find_classes(p, e, memory, &has);
        e->looks = p->look_count;
        e->may_be_empty = !*problem && !temporary.failed && ppo__may_be_empty(p, root);
        for (int k = -1; k < p->look_count && !*problem && !temporary.failed; ++k) {
            ppo__compile(&program, p, k < 0 ? root : p->nodes[p->look[k]].first, k >= 0);
            if (k < 0) uses_last = program.uses_last;
            if (*problem || temporary.failed) break;
            ppo__make_table(&program, has, e->classes, k < 0 ? e->looks : 0, memory,
                            k < 0 ? &e->table : &e->look[k]);
        }
    }
    if (e && e->of_block && e->table.next && !*problem) {
        int order[256];
        ppo__order_bytes(order);
        e->of_bytes = of_bytes;
        for (int b = 0; b < 256; ++b)
            e->of_byte[b] = (unsigned char)ppo__class_of(e, !of_bytes || order[b] < 188 ? b : order[b] + 68);
        uint16_t *ascii =
            e->looks || uses_last ? NULL : PPO__ARRAY(memory, uint16_t, (size_t)e->table.states * 128);
        for (int k = 0; k < e->table.states * 128 && ascii; ++k)
            ascii[k] = e->table.next[k / 128 * e->table.width + e->of_byte[k % 128]];
        e->ascii = ascii;
    }
    if (temporary.failed && !memory->failed) memory->failed = temporary.failed;
    ppo__arena_free(&temporary);
    return memory->failed || *problem ? NULL : e;
}

/* -- matches in a text -- */

/* A search in a text, from left to right. */
typedef struct ppo__scan {
    const ppo_expression *e;
    const char *text;
    size_t bytes;
    ppo__arena *memory;
    int last; /* the class of the character before the place of the search */
    const unsigned char
        *ahead; /* [bytes + 1] the long looks ahead that hold at a place, in bits; NULL: there are none */
    /* Where many characters were read in vain, pairs of a state and a place from which no match ends are
       remembered: for the first place in each block of 1 << shift bytes, a bit for each state; NULL: not yet.
       */
    unsigned char *hopeless;
    int shift;
    int64_t patience; /* how many bytes may still be read in vain before that begins */
} ppo__scan;

/* Finds where long looks ahead hold. room: 2 * bytes + 2. */
static void ppo__scan_ahead(ppo__scan *scan, unsigned char *room) {
    const ppo_expression *e = scan->e;
    unsigned char *holds = room, *class_at = room + scan->bytes + 1; /* 255: no character begins here */
    memset(holds, 0, scan->bytes + 1);
    memset(class_at, 255, scan->bytes + 1);
    for (size_t at = 0, length; at < scan->bytes; at += length)
        class_at[at] = (unsigned char)ppo__class_at(e, scan->text + at, scan->bytes - at, &length);
    for (int k = 0; k < e->looks; ++k) {
        const ppo__table *table = &e->look[k];
        int state = table->start[e->classes];
        for (size_t at = scan->bytes;;) {
            size_t before = at ? at - 1 : 0;
            while (before && class_at[before] == 255) --before;
            const int entry = table->next[state * table->width + (at ? class_at[before] : e->classes)];
            if (entry & PPO__MATCHED) holds[at] |= (unsigned char)(1 << k);
            if (!at) break;
            state = entry & ~PPO__MATCHED;
            at = before;
        }
    }
    scan->ahead = holds;
}

/* The bit of a state and the block of a place. */
static size_t ppo__scan_bit(const ppo__scan *scan, int state, size_t at) {
    return (at >> scan->shift) * (size_t)scan->e->table.states + (size_t)state;
}

/* Goes on from a state at a place up to where the machine stops. *end: of the last match on the way, if there
   is one, and then scan->last is the class before it. mark: nothing matches, which is remembered. */
static int ppo__scan_run(ppo__scan *scan, int state, size_t at, size_t *end, int mark) {
    const ppo_expression *e = scan->e;
    const uint16_t *next = e->table.next, *quick = scan->hopeless ? NULL : e->ascii;
    const char *text = scan->text;
    const size_t bytes = scan->bytes, first = at;
    const int width = e->table.width;
    int last = scan->last, found = 0, resume = state, entry;
    size_t length = 1, from = at; /* where the last match left the machine */
    do {
        if (quick && at < bytes && (unsigned char)text[at] < 0x80) {
            entry = quick[state << 7 | text[at]];
            length = 1;
        } else {
            const int now = at < bytes ? ppo__class_at(e, text + at, bytes - at, &length) : e->classes;
            entry = next[state * width + (scan->ahead ? now << e->looks | scan->ahead[at] : now)];
            if (entry & PPO__MATCHED) scan->last = last;
            last = now;
        }
        state = entry & ~PPO__MATCHED;
        if (entry & PPO__MATCHED) {
            found = 1;
            *end = at;
            resume = state;
            from = at + length;
        }
        at += length;
        if (scan->hopeless && state && at >> scan->shift != (at - length) >> scan->shift) {
            const size_t bit = ppo__scan_bit(scan, state, at);
            if (scan->hopeless[bit / 8] >> bit % 8 & 1) break;
            if (mark) scan->hopeless[bit / 8] |= (unsigned char)(1 << bit % 8);
        }
    } while (state);
    if (mark) return 0;
    scan->patience -= (int64_t)(at - (found ? *end : first));
    if (scan->patience >= 0 || !resume || at - from < 64) return found;
    if (!scan->hopeless) {
        scan->shift = 4;
        while ((double)(bytes >> scan->shift) * e->table.states > 5e8) ++scan->shift;
        scan->hopeless = PPO__ZEROS(scan->memory, unsigned char, ppo__scan_bit(scan, 0, bytes + 1) / 8 + 513);
    }
    const int kept = scan->last;
    if (scan->hopeless) ppo__scan_run(scan, resume, from, end, 1);
    return scan->last = kept, found;
}

/* Calls piece for each match and for what lies between. As in Oniguruma's bindings for Rust, an empty match
   that follows another one at once does not count. */
static void ppo__scan_pieces(ppo__scan *scan, ppo_piece_fn piece, void *user) {
    const ppo_expression *e = scan->e;
    size_t at = 0, done = 0, end = 0, length;
    int follows = 0; /* 1: a match ended here */
    scan->last = e->classes;
    scan->patience = 4096 + 4 * (int64_t)scan->bytes;
    for (;;) {
        const int last = scan->last;
        if (ppo__scan_run(scan, e->table.start[last], at, &end, 0) && !(follows && end == at)) {
            if (at > done) piece(user, done, at, 0);
            piece(user, at, end, 1);
            at = done = end;
            follows = 1;
            continue;
        }
        if (at == scan->bytes) break;
        scan->last = ppo__class_at(e, scan->text + at, scan->bytes - at, &length);
        at += length;
        follows = 0;
    }
    if (scan->bytes > done) piece(user, done, scan->bytes, 0);
}

/* How many bytes of a text a message shows: at most 60, and whole characters. */
static int ppo__shown(const char *text) {
    int n = 0;
    while (n < 60 && text[n]) ++n;
    while (n && ((unsigned char)text[n] & 0xc0) == 0x80) --n;
    return n;
}

PPO_DEF ppo_status ppo_expression_create(const char *pattern, ppo_expression **expression) {
    char problem[PPO__PROBLEM], shown[64];
    ppo__arena memory = {NULL, NULL, PPO_OK};
    if (expression) *expression = NULL;
    if (!PPO__GIVEN("ppo_expression_create", pattern, expression)) return PPO_ERROR_ARGUMENT;
    ppo_expression *e = ppo__expression_make(&memory, pattern, 0, problem);
    if (e) {
        e->memory = memory; /* which it lies in */
        return *expression = e, PPO_OK;
    }
    ppo_status status = ppo__arena_status(&memory);
    ppo__arena_free(&memory);
    if (status) return status;
    snprintf(shown, sizeof shown, "%.*s", ppo__shown(pattern), pattern);
    ppo__make_plain(shown);
    return ppo__refuse("ppo_expression_create: not supported in \"%s\": %s", shown, problem);
}

PPO_DEF void ppo_expression_free(ppo_expression *expression) {
    if (!expression) return;
    ppo__arena memory = expression->memory;
    ppo__arena_free(&memory);
}

PPO_DEF ppo_status ppo_expression_cut(const ppo_expression *expression, const char *text, size_t bytes,
                                      ppo_piece_fn piece, void *user) {
    if (!PPO__GIVEN("ppo_expression_cut", expression, piece)) return PPO_ERROR_ARGUMENT;
    if (bytes && !PPO__GIVEN("ppo_expression_cut", text)) return PPO_ERROR_ARGUMENT;
    ppo__arena memory = {NULL, NULL, PPO_OK};
    ppo__scan scan = {expression, text, bytes, &memory, 0, NULL, NULL, 0, 0};
    if (expression->looks) {
        unsigned char *room = PPO__ARRAY(&memory, unsigned char, 2 * bytes + 2);
        if (room) ppo__scan_ahead(&scan, room);
    }
    if (!memory.failed) ppo__scan_pieces(&scan, piece, user);
    ppo_status status = ppo__arena_status(&memory);
    ppo__arena_free(&memory);
    return status;
}

/* -- normal forms (Unicode Standard Annex 15), small letters, accents -- */

/* The characters that NFC composes or decomposes, in ascending order, of the Unicode that Hugging Face's
   tokenizers know (about 9). Each is two or three numbers of ppo__table_number(), where fold(d) is 2 d, or
   -2 d - 1 if d < 0:

       2 fold(d)      d: from the first part of the last character to its own (kind 2: to what it becomes);
                      plus 1 if a step follows, else the step is that of the last character
       step           3 times the distance to the last character, plus the kind. 0: two parts, which become
                      it again; 1: two parts; 2: a single other character
       fold(d)        of kinds 0 and 1; d: from the second part of the last character to its own */
static const char *const ppo__unicode_parts[] = {
    "*t3}Pc^`_]_]_]g]afc$uf`%f]_]_]iml]_]_]ircfb`b]_]_]_]gvfl^`_]_]imj~f^^`_]_]_]g]afc$uf`%f]_]_]iml]_]_]ircf"
    "b`b]_]_]_]gvfl^`_]_]imj^ck)p`d&w]&ua&w]&u%]&w]&m%f&w]&u_&w]&ug&w]&ug&w]&q]&w]&rfl&x`]&ua&w]&u_&w]&u$}&w]"
    "&u$r&w]&mp&w]&ue&w]&u_&w]&u${&w]&q%b&w]&rf_&x`]&u_&w]&ua&w]&u%]&w]&u$|bif&x`]&q%c&w]&rc%d&x`]&u%e&w]&u$p"
    "&w]&nlr&x`]&u%e&w]&u$p&w]&ril&x`]&ua&w]&ug&w]&jfp&x`]&u%e&w]&u$p&w]&qr&w]&u_&w]&u%c&w]&u$p&w]&q$q&w]&u$p"
    "&w]&rfn&x`]&u_&w]&ua&w]&ue&w]&u_&w]&u$u&w]&m%d&w]&m]&w]&uiaj&w]&ui&w]&ug&w](^&]{&x`]&^$e]&x`])`%pz&x`]%w"
    "]&w]&]]&w]&]]&w]/al&w]&ub&w]&us&w]&ut&w])pce&x`]H{]a]Lm]&w]5tfm&x`]&e]&w]&e$s&w]Oq%`a])_m<w]$*{]'`ir&x`]"
    "%|f^&x`]-e_&w]&q]&w]$q]&w]8my&w]&ua&w]&e`&w]&ua&w]&e`&w]&ua&w]&]`&w]&ua&w]&i`&w]&ua&w]&i`&w]&ua&w]&}$e&w"
    "]&q]&w](bf$n&x`]'prf&x`]&e${&w]0g%^&w]&y]&w]6mc&w]Wqba]Ze]&w]$Dj:xbb%be$7`ab-p'g$5^}$1nr]$At`]1rbn`]e]e]"
    "vc]u]n`]&{](v%gk$l`]$kjm]e]e]%a]%`%gk$l`]sju]m]$`l]^`k*|&{l^`mdcj$nik%jljd`^$gi$f~]&x%y]h%^h^`mdcj'bik&f"
    "ljd`^$gi(x%aob`].b)on&x`]'l$e]&x`]&ua&w]&bf`&x`]6dfab`]9{]&w]&q]&w]&rfd&x`]&ue&w]&]]&w]7^f]b`]9_]&w]'{d&"
    "w]&ue&w]&uc&w]&eb&w]&ff]&x`][^=dTq^`_&{]&y_'a^3j0q]%hc]%^$n]$0jWwNw~u]jf]&n&d]ba]a]q]q]a]$_]m]4|,o*s^`$m"
    "'l$l$pba]$pd]2l*l*ovg]&~&a]ba]q]$xg]Dl7s3q^f$j^`$m'l$l$pba]0d'z,a)b'w$lb`]_$m2`-}*m1f-q*mzr]^`_^c$bn`$a1"
    "r.d)cb`]_$m4h/o)w^cgj`fg$eMnBo>w$d|]rm]q]q]&b$c`(x|&|^da*taubd]*vy]&|$r&e$d|]rm]q]q]&b$c`4p,r*a(Mp'4s%W_"
    "fc]e]e]e]ni]'z&r]fc]ff]b`]jc]12f$'z)7h&x`]&q$v&w]&u$s&w]&uy&w].{%x&w]6ai&w]&u$s&w]&uy&w]&up&w]&ui&w]7m%r"
    "a]__a];c%q&w]&uc&w]X_%la][w_&w]&qb&w]&qc&w]&u$s&w]&u$p&w]&u$y&w]&uk&w]&qa&w]/]%v&w]6e]&w]&u%]&w]&uy&w]&q"
    "x&w]2Mc$xa]2Q]%s&w]&ud&w]&q%p&w]&ui&w]&u$s&w]&q$r&w]&u$s&w]&uy&w]&ud&w]/a%p&w]&uk&w]-ela]__a]@u]&w]&ui&w"
    "]&m]&w]&u$s&w]2Pu$xa]2To%s&w]&q%l&w]&u$s&w]>c$ra]q]a]25o]a]2Ue]&w]&u$s&w]&uy&w]&ud&w]&qn&w]&uu&w]&ub&w]?"
    "q%pa]aka]Cof&w]&u${&w]&q%^&w]&u_&w]&uk&w]&u^&w]&u$s&w]&q$r&w]&u_&w]&q^&w]&qf&w]&u$}&w]&uy&w]%_]$k%jiae]A"
    "zcbHjl$s&x`]&u$n&w].kl&w]&u^&w]&uo&w]&uh&w]2Kw^a]2H_^a]_^a]_oa]_ha]2G{ca]3%g$u&w]&u$n&w]&uh&w].{`&w]&u^&"
    "w]&uo&w]&uh&w]2Ms^a]3'sk&w]&u$o&w]&]]&w]&u$n&w].{l&w]&u^&w]&uo&w]&uh&w]2Ny^a]2:s^a]_^a]_oa]_ha]_${a]J]]&"
    "w]&u$n&w]G}la]_^a]_oa]_ha]_${a]Kg%^&w]&u%_&w]&u$n&w]&uh&w]$J~r}^`_1;m$ba]__a]_&ya]1?g%v]_1@c$ba]__a]_&ya"
    "]1<]%v]_1<{$ba]__a]1@vf$_^`_1Aq$ba]__a]1=tf$_^`_1>o$ba]__a]_&ya]1Bi%v]_1Ce$ba]__a]_&ya]1?g%v]_1@c$ba]__a"
    "]_&ya]1D]%v]_1D{$ba]__a]_&ya]1@m%v]_1Ai$ba]__a]1Edf$_^`_1F_$ba]__a]1Atf$_^`_1Bo$ba]__a]_&ya]1Fjc%t1Gi$b]"
    "_]&y1C``%v]_1C}$ba]__a]_&ya]1Gw%v]_1Hs$ba]__a]_&ya]1Gw&z$C`bn`]bbf`]bbf`]bbv`]&lbv`]bbn`]bb18tf'_b`]a]a]"
    "a]a]a]a]a]a]a]a]a]a]a]a]%]]a]a]a]a]a]a]a]a]a]a]a]a]a]a]a](w]a]a]a]a]a]a]a]a]a]a]a]a]a]a]a]1Hm&t]`1Hs&y1H"
    "q]o]rcb1P|`c1Tq&t]`]d+lb^`'_)^e$Arfb32p`c1Hi]$]]$`cb1R``c1V]'^(vbf`]bb^`'_1U]'^]_]&y1P}&n]`%]dzb$~f&{%^`"
    "](u&n]`]dtb2#dc]^`_]&y1V}&n]`ud'nb$b`$a]_m%uu]'k&n]`]d&~bl`$c$Cm$b$^b$Hs33nf'_1Gd`]q]pcb1Ur`c1Zm'^$Ipb$d"
    "`]jb^`'_$?~b3Azhbb1Zz<|$Ojk1jb2Pr,xvf`]f$t]*`%v]n`]c](x't]rl]jf]%z%a]fc]%v%j]zf]e]jc]4[f%^]5%fc]%h~]4[~`"
    "]e]5%m]a]$pf]b`]jf]b`]jr]b`]zf]b`]jf]b`]&d&`]v`]a]e](n'h]b`]%i]a]&xr]b`]a]a];Zl(ibb'4t&%z]%Tp%+y.[ifc]e]"
    "e]e]e]e]e]e]e]e]e]jf]fc]e]zr]^`_jc^^`_jc^^`_jc^^`_jc^^`_)d%^^-f{]$t$e]fc]e]e]e]e]e]e]e]e]e]e]jf]fc]e]zr]"
    "^`_jc^^`_jc^^`_jc^^`_jc^^`_)d%^^+rf]b`]a]a]$hi]SMf$91{6Ldb8%w$&k2Rk40k&#sK#i]H+]@SsBSu$[_'Dk-P{'Qi&BqOqH"
    "k'#q78]$Gg$Zu$D}+H_)Yy'?yJSy%F_/<o&Mo-Em/H_E0u,Ri.C_$Va79s3:k&5_8Rw'9]&6m%Xw2NaE?_$,]Eu,=_&.m&R]%Bw'Qa&-"
    "g-a'#a'U}%0s$6q6Oe?q%-i&1o+%u)&w-9_=9w&1_2@e%-]*<{&8}-Bk(9kCQ{$Tq*0i$[wGi*=kB_/LcFH_;,_;H}$y84a$Wk&2u,Os"
    "(O}8?m&Py4;kC)c*0]%.o-3]$#o5+k7$c8Oy+:g,4g31]&Ts/?u8S}%;u3-u*$]&8a36u6#_5Cw(%e3Sy3@u,9c7<}$<e.g/#e-Oi%Wq"
    "';q&JmD.{Jc%Mi%Uy&Fe(9{'Se2&u%?u%.w)mK1{-Hk%>g5Zw<Sq$Gs0c$8i(Cg$*u$K{%Oe%.k$4u*Oc(9u(Wo$H}E<q3m$)g1Qq/Ia"
    "$#k:-mFg$Ta'5}+My'Go65e'2k%EmY}$1w-6{8o(W_7e,>]%@g,s;mI6]92_/Jo%H_?<m,Jw$0a(Ss,o'Xs%5y')y%7a*Oo)'i*YwA*e"
    "<-_FMe.&y1a%PwKy%TkJo$Fm%<{1;iH>o+Sq>FyH+e)Rk+Um4Ck<,cV{&Eo)%m5?]G){$#c':_()oH_Ku%0s&Nu[](&y'Xc%a'Kq%JcF"
    "M]1@s1&m2Jm$=w,-o+Pw&#w$.u@'i&2y-Fw&Nc-]No(-u$*w1*oC#{>L]<Ue(})Ia%.w0Mk4Ei,4]&9a8:q&Hw*9w)Mc9Co*,w%8o$8j"
    "h*<ve-T~h4Dzb$Wc$3s']y'}2Ly1%{$De&6ve%Do%Obh:db",
    "'.hk$pb(c%9})Oo&(aHAiGy/]Ou&c/y$/c/i.oZo/e$Zm$c%-};}'m.w$Og4g7q$$y%E}6cB_$/c9e$%c%6o7i$g_}uy(sa7}*sHo$,i"
    "%m)qF{4g$#k3m][e%?e2wMu)qSe)e$:u2g&@yDk*_@=u'=W}',+y><lh$Udb,]$#iXg)}Im)]$9k+k+]+q$4i-m4_${Bw:g$Xiy3}+]F"
    "c0{+c2w(i4c*wR_-i)iAqDs6cm)}%-q*sQ]Se$y-e@sJo&3k%T}1i1mIm4o)e=qe7a%]%}-a$aQq$#_B{9]=i5]Iy:k$Mk5m$TqXs+a$"
    "{E})u(e)ig$}+},oO}$+{G}Eu=]%*c/a0o2s'e$k(s$?o%9u&G>qs))i'I:y%7}&{'W'e(C_4Zi'<9e+y9Pf)^.5|%~dc$^$]q^a_%2H"
    "a^]_%2K]r]_]ea]a]a]a]a]a]fd]ba]a]a]a]fd]e]ba]fd]ba]fd]ba]a]a]a]%kbki$c]$_]%=Wr+<_$0Akfc]$d$h]3n.p)kb`]$("
    "vRsBm^`$mNpCj7{^`p^cwA^9e1eb`]$M*r$47kTDuba]yo]_]_]_]_-r*uvba]aoa]__a]MZ^%%Espb$_'$Oo'$-u,c$o+i1a&s,c%w1"
    "V]'5$_'%Tay${%e'%-q'48c2+w'm'%0o'%/g$o$?q$@q$_(6;u(64a$s29q2@e$g(cq2@{2Jie&c%q$ga%]({}$_%}$ce]]'&O{&P?c2"
    "*w%m''0c''.uu%m4{.}${&w)y,{&_*{${&{]%m%a}$wK]B}Ca:e'a%6e&G{Dy'm%}2e6s_1m')Ky')Coq$w%i}*o'*2q*w'**_(o$k,e"
    "3u5Mc$s6%s)i]'*Xu'*I]%m$w$k'+1}'+0my$Mk$J_67a6>m$s,s(}',;_',%q',%{'+Ywg%].{a6Wi6Zq(_%m(c7(e'A<k'A9g7-qii"
    "%i(8Tw(8Nq'-Xc]&T;s5;c]72a'J5w;Vo'NRo$_77k7=])]$c']3]7M{&m7Su'/#}'.V{2cmec(k%i'e$q$g(o%im&_$g*w,{'a1q'/P"
    "s'/Ry*q/u&c.k'/Zc'/Ry-{&e8We94{%m&s'k9/c9Hs&k'15m'1'kCq7o9Qs9Zc:#a'c.[_i.5_.u0O_C*}5Fkmu*c$e'23g'IBq:F]0"
    "u;a)]'2#g'1[c0]?y;$e;)u.k+i9i'2%o'1Xm;Kg;Sq'2T]'2M};Sc;Vw(g&ca'3B_2Ds2Qo'3=o'49o'4,c$s.}7q'u)u)g'u$w$o'3"
    "Ym'4)}@o*k=#s=.sk'4-w'4E}N{'4*u(s'4%}0o&ag=Jm=P_)]s)i&MKs&M9u'4Ne'4C}'51q'4Z_$o&c'6*q'6${%m'6E{=e'6Ea%]>"
    "Xg>[k>Y}]?4_%m%m%i+a?7w?Bk'7Vo'7Sk'8%g'7Xi&Z0{&YW]'9/u%u3m'V*o$k@$a'9<s_'q&_'9?ca](_@(k@0a@.o,k'WSi'::c*"
    "g*o@Ay'XNq':Xk';-a(_';+k-y@ZsA+u$cq'<-sFc]'<>_A'g'[(_'<CeiA<u'[<w'<<wAMsAPgo&k'=Ym'=MwASgB&a)}*{B.{($Um&"
    "s($Tu(%,}'>9}'>E{'>Bs.{$g'?-]+q'?*y'?:o'?8q'$Qc'DRkC,_,oC/cC6c77o'T8a$s>B_$_'$)ai*-sJLwCRws%a<5]<7ke$c'y"
    "'A$o'A$q)q+e+u3c5a'}0cAo1]e${'A%]Gi4q()>wDJue'a'D9g'D0_'AP_(*Fim(*UqE](+=iE3m$k$ge*o&y2w(a4w,m*{&cEKcEU}"
    "&wEUsF'{i'D$q'CO{yF/qF2}O@e(8;u8s(/3y$_FSk,_5m:{'E1a'E&}%q-q-y'E[a$(Z]&?Sa$u)a&@/m&?Mq.w'HCc&c'GVi-}&w'H"
    "4m'H3eDo5ua-wOy&g'I1a'H>_K*uK/}'I,w(80aKE}A+sA7]'J;o<_(:9w}KVo'K?u(;3a(;Cs'KK_]&o'L0m'KSsL%qL.]1y&c*_L4w"
    "(>>_'MDuFo9eM7{&sM@w'O5u(@Ra(@XsBc2k'OBuN#iN*uqy$cy'i'Q)a",
    NULL};
/* Runs of characters of the same combining class, if it is not 0: the distance from the end of the last
   run, the length, the class. */
static const char ppo__unicode_classes[] =
    "9qr)w]^)y]a)m]^)y]^)i]b)m]_(}]a)m]_(}]h)m]b^]a)m]`)w_^)w_^*_]^)w]`)m]`)w]_)m^`)w]a)m]^)w]^)y]_)m]^)w]^)z"
    "]_){]^)z]_){]^)z]j)w+`b)w*x^)m]a)w]^)m]`)w]^)o]^)m]c)w]c)m]_)w]^)m]_)w]^)o]^)u]^)w]^g]^h]^i]^j]^k]^l]^m]"
    "^n]^o]_p]^q]^r]^s^^t^^u]^v^^)w]^)m^^o%ae)w]^{]^|]^}$k^x]^y]^z]^{]^|]^}]^~]^$]]_)w]_)m]b)w]^)m]_)w]^)mm^$"
    "^%~d)w_a)w]^)m]^)w__)w^^)m]_)w]^)m$^^$_{^)w]^)m]_)w]^)m]_)w]`)m]^)w]_)m]^)w]^)m]`)w]^)m]^)w]^)m]^)w]^)m]"
    "^)w]^)m]_)w'ud)w]^)m]^)w$]a)w^f)w^`)w^b)w$f`)m&ok)w^^)m]_)w]^)m]_)w]^)m]`)w]`)m]^x]^y]^z]`)w]^)m]_)w]_)m"
    "]b)w$w^dm^f`^)w]^)m]_)w&^^dm^f&e^dm^f&e^dm^f&e^dm^f&v^f&v^fd^%m]^%t%~^dm^f&v^f&s^f&d_&^]^fja&b&c_&mka&q%"
    "e_)mx^)m^^)m^^)i$r^&x]^&y^^&{ba&y_^&y^_)w]^f^_)w$y^)m&g^d^_f%k^)m8b`)w>{^f|^f'r^fg^)w(~^)u'd^)o]^)w]^)m)"
    "l^)w]^)m%`^fqe)w_^)m$kb)w]c)m]_)w]^)m&m^dl^f$a^)w]^)m]d)w$q_f$u^dh_f$~^d'm`)w^^^]b)m]_)w]a)m]^)w^d^a^)mc"
    "^)w`_)w(y_)w]^)m]d)w]^)m]_)w]^){]^)g]^)m]^(}]$`)wb^)w]^)z]^)m]^)w]^)m8c_)w]_^]a)w]`^]_)wa^)w`_^]^)w]^)m]"
    "^)w]_^]a)m]^)w$Dg`)w'b^f%y})w3g^)k]^)u]^)y]^)o]_)q&`_e2Cc^)wag)w}_)w%i_)w+a^f(p^fxo)w$t`)m$`^f%x^di^f*^^"
    ")w^_)w]^)m__)wb_)w^^)w$o^f*e^f-=e^w9rd)w]d)m]_)w?r^)m)s^)m'jb)wTm^)m^^)w$c^)w]^^]^)ma^f'z^)w]^)mKl^f$s^f"
    "$t^f]^d%^`)w$k_f$y^d%e^ff^d&a^f]^d(e^d]^f%j^dm^fud)w`b)w)^^f`^d&r^f]^d*j^f]^d&u^f&m^f]^d&j^fId^f-9mb^$vd"
    ")w-M|^^%Mk_)i]`^`^)s]b)iee)m_b)w]_)m{a)w'i`)w$Qjd)w^n)w_d)w^_)w^b)w$+`d)m&dc)w]^d";
/* Runs of characters that only the compatible forms take apart: 2 times the distance from the end of the last
   run, plus 1 if it has several characters; their number then, and in bits which parts rise by 1 from each to
   the next; the number of parts; fold(d) of each, d: from the part before it, also of another run. */
static const char *const ppo__unicode_compatible[] = {
    ",k^${k_]Nw_^J|e_&xNob_^^Ml]_$^Ni]^.]a_YhPq]^Op]^&s_`&r+>]+=x]`b+>]+=|]`_+={+=x)w_$e_]_$y_s_$v)g]_'j'km_A"
    "kEt&a^g']`%v$gKq]`Lz&cIu]`J~$gIu]_Lj`]_a$w]_a`]_$rd]_e$s]_ed%a_%d$g]_$f&c]_$f$g._^$^]^A]]^@z]^m]^Ao]^a]^"
    "i]^At]^a$z___(dNs]_NrN{]_NzPs]_PrNm]_NlN}a^,z]^@p]^k]^g]^By+w_G~Rio_RhNi'k^-k]^i]^$`a^$}]^h$m^h^_^^k_^%j"
    "]^$uc^$^:i_=m$u0}_,u'o]_%p%q]_'{'z]_%l%m%%i_%'c$p*m_,a$p%i_j$^]_$_p%u^)e)e`,y&x{_`&]&z{9u^7m&/m^'9^]^*y]"
    "^*v`_^^a]^6k^e^^6d_^m]^>m]^>j]^a^_^^a]^c]^q^_^^@a]^*&]]^*C^^_^^a]^@m^_^^a]^@j_^e]^a]^0_]^/|]^?o^_^^*&}]^"
    "*Cj^_^^e]^*Cq]^*%v]^@t]^*C}^`^^)Ld^_^^$c]^Ur]^o^_^^c^_^^Sw]^{^_^^gw^*]%]^?z]^@`]^@g]^7~]^8k]^@n]^@u]^a]^"
    "e^`^^c]^*+u]^*(p]^%x]^*,]]^*)^]^%t]^^^a^^a]^i^_^^q]^/r^_^^0_]^*$c^_^^*$^]^B`^`^^Bk]^4k/y_UfFq4__JjOk__Oj"
    "Ok]_OjRc&q_RbOmdf]^Oli^+;}g_+;|Qgu^Pl]_]]]`]]]m^xc_+=}]]`]]]__c]]`]]]e_+>^]__^Nqm_Lv]]_]$v]_]$wwa+<a]]]k"
    "^+=|}^}]^&ibc^^&`]^n]^+Yo]^+Xl^_^^$d]^'a^g^^&r]^f]^+Yo]^+Xl^_^^$d_^&i]^e]^q]^o]^?g]^@d^a^^c]^g^_^^cs_$|$"
    "}(a`$^%|&_]``%|']]^%x]_)k)j_`${&^&w]`t&^'a]^3s__0b)d]^$}^`]^$x]^${]^.e^_]^0^]^c]^${_^$v]_]$}b`^^$x^_]^aa"
    "__h]`kzk]_mj_^wc^]d_^^$j_^%_^_^^$z_^m]^%]^a^^$;]]^$;h_`%^f$i]^Vg]^v]^$z]^w]^+%ke^+W~^_^^${^_^^gi`&f+>]+="
    "r]`h+>]+=n]al+>]+=~^^_^`_+>]+=z^a^``+>]+=v]`d+>]+=t]`^+=w+=t]`f+>]+=p]`f+={+=p]`b+=w+=p]`^+=s+=p]_j+>]]^"
    "+<p]_]]]`]]]]_]w]^]]_]v]`wv]]awv]]]_]{]^]]_]z]`{z]]^c^_^^n]^q]^$s]_]]]`]]]]_]w]^]]_]v]`wv]]awv]]]_]{]^]]"
    "_]z]`{z]]^c^_^^n]^qo`&p+>_+=z,o_+Zo]]`]]]__c]]`]]]C|f^^+Zx^g__]^]_a`^f_`lol^gaa^o^j]a^q`j^f^_mb^g_`c^`]`"
    "e``^w_`h&i&f^w^^$k^w^^${]^%z$7ea+Zu]]])_`+Z`]c]_]]]`]]]Ak^%s]^$b1c^.Vg4y^3?]'{^0Jiu^8C`]^%i]^y]^o]^$o]^%"
    "q]^k]^$c]^$o]^H}]^%e]^i]^$i]^$c]^$e]^&a]^$e]^s]^,a]^(o]^$s]^g]^$w]^o]^$q]^w]^$m]^&_]^$_]^$q]^Om]^'e]^>_]"
    "^$i]^m]^s]^$_]^'m]^?_]^%y]^*_]^$i]^$a]^$g]^&c]^c]^8g]^q]^u]^w]^)y]^m]^g]^){]^q]^w]^m]^&q]^$]]^$_]^'u]^Ec"
    "]^%u]^$e]^No]^g]^'{]^}]^w]^$e]^%g]^g]^2u]^$k]^${]^$%w]^&{]^$i]^&k]^$k]^o]^k]^&_]^g]^${]^$)m]^=g]^u]^g]^e"
    "]^m]^$_]^a]^'w]^/u]^g]^6}]^q]^%}]^k]^o]^m]^(i]^k]^0k]^k]^%{]^$]]^%w]^0}]^k]^$]]^6e]^*k]^i]^-u]^(a]^%u]^9"
    "e]^*y]^Dw]^$q]^&i]^&]]^']]^s]^i]^$}]^'m]^q]^7i]^k]^o]^o]^}]^{]^e]^'s]^e]^i]^$#u]^$w]^>q]^u]^$i]^3s]^w]^'"
    "c]^%u]^Di]^{]^{]^%_]^%c]^.u]^u]^&}]^1q]^$y]^/g]^$e]^g]^/}]^-y]^*i]^i]^g]^Y}]^o]^,c]^,_]^c]^%w]^)c]^w]^e]"
    "^k]^(w]^%]]^i]^y]^,y]^&]]^e]^-w]^c]^$a]^1y]^%y]^k]^'a]^q]^c]^q]^$w]^:e]^:o]^q]^%e]^$g]^m]^q]^e]^%i]^e]^$"
    "]]^g]^w]^$q]^{]^m]^&m]^{]^e%m^M*z&a^/I]_^,3y^_^^c(t___8Y~/P}a_~a(q_%k$e%|_^^+9p]^-]]^,z^_^^-]^`^^,|^c^^-"
    "c]^+x^`^^$b]^$q^g^^$j^r^^(c]^^^_^^'l^_^^-o]^g]^a]^g]^e]^a]^.`]^.i]^a^_^^.j]^c^_^^a]^g]^a^b^^a]^k]^e]^q]^"
    "k]^g^_^^,u^`^^,^^_^^%s]^e^_^^o]^c]^q]^cc^2Ya]^+e]^*t]^%5y]^%5v]^%_]^$~]^-6q]^-1~]^&v]^$j]^%Y]]^@t]^%0j(s"
    "`7Nb'<s'<p^__`^'<w'<t^`_`^'<}'<z]`^'=c'=`^__`^'=g'=d^b_`^'=m'=j]a^'<s(u'Bf^__a^'<w(q'Bf^`_a^'<}(k'Bf]a^'"
    "=c(c'Bf^__a^'=g(_'Bf^b_a^'=m'{'Bf]a^'=i(w'C^]d^'=g(o(l(e'a'Fr]c^'=g(o(`(k'C^_`^7Ce7Cb]`^7Km7Kj]`^7Cw7Ct]"
    "`^9Vq9Vn]`^7K}7Kz]`^8=y8=v]`^7Ck7Ch]`^8=u8=r]`^7Hu7Hr]`^8Yi8Yf]`^>-c>-`]`^@Ho@Hl]`^?B_?A~]`^>/_>.~]`^I>m"
    "I>j]`^9Zq9Zn]`^=U_=T~]`^>>e>>b]`^>-e>-b]`^B[kB[h]`^9,i9,f]`^A.mA.j]`^H)iH)f]`^C$eC$b]`^8Q_8P~]`^7Pq7Pn]`"
    "^92{92x]`^;)];(|]`^B7}B7z]`^7Ri7Rf]`^H+qH+n]`^8Zm8Zj]`^C%cC%`]`^7Sg7Sd]`^E3]E2|]`^E3oE3l]^9?e]^%;c]^$T_]"
    "^(Qwm`CB|ez^f__$`^^c__ab]^'<c^_^^a^`^^c]^e^_^^a^b^^c]_x(u^_^_(p(q^`^_(j(k]_(b(c^_^_(^(_^b^_'z'{]b'z'{(_-"
    "v)c]a(l(w(x)c]_)b(y_^3#a]^+e]^*t]^%5y]^%-r]^M{]^Vj]^Vg]^P~]^$3s]^(/y]^%>i]^$)l]^$5~]^.2k]^2?z]^&Vm]^Ec]^"
    "3~]^'Qc]^,R^]^+%a]^)V{]^((`]^-/b]^-6k]^$/t]^*6`]^1@s]^3Kj]^Ee]^)Lo]^.9e]^62p]^Ia]^)Qi]^*M|]^%_]^$~]^'-w]"
    "^%Fx]^-x]^%.{]^%z]^*1}]^-Ap]^35e]^2-`]^$A_^a__:>zc^g__`d]_gf^f^__>,s^`_`>,r^>,u]_>+f$y]``wr]_`z]`pm|]^/O"
    "i]^a]^a]^a^_^^a]^c]^a]^a]^a]^a]^a]^a]^a]^a]^a]^a]^c]^a]^a^c^^a]^m]^c]^c]^c^b^^c]^i]^a^c^^a^a^^k_b'n%s&`("
    "w&^]a%d'g$f&^]b_'w$p&rm]`](g~]b'b%g%i&~$f]`s's%|]`$pc'i]c'j$]p'o&^%v]a{'}'v'w]`'x'g&j]`z'y$r]`&`j'a]a&t&"
    "s%dg]a$t&{b$_]a'v$^'}i]a'd$^(g$d]a%z$b$_$^]a$c$b%}%{]a'r&gg$_]c'r$b'y%p%d(y]_'r&w]c&v&w&r$f'un]c%~&wt$q&"
    "^%_]b&r&wa%pg]a$l$f'un]c%z$f'un$j%o]c&~&o%x$~s'g]a&r&s{%v]`$r'k&|]`h&g$|]a$h'g$|&x]a$q~s&o]b&b&s%|&m$r]b"
    "%j&]o&~$f]`%]&g%|]`h&g%n]an%d(y&|]`w%r$w]`$]%v'y",
    "]_%^%o]_%je]`]rg]`k%n${]cs&`(w&x&g%n]ak&`(w&f]bs&b(y|^]c$l&fm$i{%_]a$l&f$e&o]`$l&f$m]`$y&h'y]c$f&^'e%dg%"
    "v]a&o%|(e&^]cw&n%mt|']]`$f$cq]b$p%j}&q~]`$`&r%_]a$q&r%{k]`i$a%f]a$c&r(e&j]b$y&r(w'^$v]a&u&t(y&p]b$s&xq's"
    "%n]a$a&z'y%^]_$a$k]b$j&x(e%n%v]`&{$}~]`|$}n]a$d&js&s]`z&j'c]`v$pu]`{w&n]b%w$e&n%yu]a$b%x&si]_$bs]crs$p&b"
    "(y~]`p&b$^]b'e&b$^%w%o]a$^$q&^%_]aj$k&^%v]`'k$k~]`f&~'w]an%fg%_]_^^]aa$l&f(w]b~$]%f&n'y]__t]cuk%n$h$j(g]"
    "`d%pg^g^_/Rv@Ls^g_`@Lp^@Ls^b_`@Ln`@Ls]`@Ih$j$]]_cb]_$z$c]`w^$]]_b$l]_$ov]__o^_a`no&l]_$iu]_;TgYk]_$'}'Hl"
    "]_$/i'Qq]_$:f$No]a$.v%:`'/f.*q]_BWb%v]_%s%r]_WkWj]_%q%p]_%m%l]_qn]_sr]_gf]`$}`s]a^l`s]_e%l]_%i%h]_WaW`]_"
    "WaUb]_ih]_ed]_$x%}]`z%^%}]`%rf%}]`%~_%}]`%dt%}]_T_Tz]__^]_lm]_^_]_hk]__^]_TyTx]_]]]_pq]_`a]`]]&l]`%{q&l]"
    "_&m&l]`&ia&l]`&m]&j]`%yq&j]_&k&j]`&ga&j]`&k+Uy+Ul]ah+Uy+Ul&x]_$w$]]`q$p$]]`$bc$]]`$no$]]`$]~c]by~c+Vi+Ul"
    "]c^~c+Vi+Ul&x]_&sc]_fg]_TmTl]_hi]_b$n]_$k$j]_VcVb]_$i$h]_$e$d]_no]_$o$l]_$i$h]_VaV`]_$g$f]_$c$b]_pq]_$cS"
    "y]_UpUq]aTj%~&u&t]_$c%w^___x]]a$z+Xg+U|d]`%`%q&x]_&c$~]_g%}]_~j]_$lm]_$mg]_%^]]_]a]_$wo^___l_]`^cl]_gu]_"
    "rr]`sdc]`_ab]_$rl]a%i&z&u&t]`%]]b]_ca]_$}^]_$x%_]_$xs]`t+Wc+Ux]`%p+Xk+Ux^f^_&n=To^g_`=Tn^=Tq^g_`=Tl`=Tq^"
    "__`=Tjb=Tq]`=QhhsA2{^$$e]^a/i^N(s*}^NX^]^%sU}^NQc]^$'c]^ODz]^OFm8%__P+z]]_]c]_bi]`h]c]`b]i^_]_k_u_$5ga]_"
    "`z]_{n]_$al]_`jm^){]^$^^_^^c^`^^m]^w]^a]^$@n%c_$?]u^_]^+w^a]^q^a]^c^a]^a^a]^h^a]^g^a]^h^a]^%o^a]^a^a]^$~"
    "^a]^^^a]^c^a]^_^_]^i^_]^^^_]^a^_]^h^_]^}^_]^j^a]^$k^a]^i^a]^e^a]^`^_]^o^a]^_^_]_$o*p^a]^)k^a]^b^_]^$c^_]"
    "_]*j$~a]^(e^_]^$o^_]^^^_]^a]_^'z^_]^(a^_]^h^_]^e^a]^k^_]^*|^_]`_q%r^_]`%_q*q^_]`+bqt^_]`aq)w^_]`*hq)u^_]"
    "`*fq)y^`]`*jq*g^`]`*zqr^a]^*u^_a`*rq%h]`$wqz^_a`gqr^`__$|e]_d$u^___$t$}^`__$xa]_`$q^___$p$y]_$v_]_^$o^__"
    "_$n$w]_$t_]_^$m]_$j^]__$k^___$h`]_a$i^`__$^j]_k$_]_|l]_m}^`__zp]_q{]_xp^_^_qy]_tv]_wu]_rx]_ys^`__d$d]_$e"
    "e^___dm]_j$d]_$ec^___bk]_h$r^`__$s$h^___$i_^___^i^`__f$j]_$k_^___^g^`__d$l]_$m]^___]e^`__b$n]_$o^^____c]"
    "_`$p]_$q`^___aa^`___$v]_$wf^___g^^_^_$l&w]_%f%g^b_`$I^$F}g]`$Gd$Ge$y^_a`%dq%^^_a`$mqz^_a`gqr^___$|o^___n"
    "$u^___$t$}^___$xk^___j$q^___$p$y^___$vi^___h$o^___$n$w^___lm^___jk]_h$r^___$s_^___^i]_f_^___^g]_d$v]_$w]"
    "^____$d^___$e^^____c]_]%g^___%d$l^___$mf^___g^^`a`_q%h]`$wqz]`gqv^`__$xe]_d$u]_$t$y^`__$ta]_`$q]_$p$u]_$"
    "r$o]_$l_]_^$m]_$j^]__$k]_$h`]_a$i^`__$^j]_k$_^___|l]_m}^`__zp]_q{]_xp]_sw]_tv]_wu]_rx]_ys^`__d$d]_$ee]_b"
    "$d]_$ec^`__`$h^___$i_^`__]$j]_$k_]_^c^`__`$l]_$m]^`___$n]_$o^]___]_]$p]_$q`]_a%k^`__%d$v]_$wf]_gb]`cqz]`"
    "gqv]_$x$u]_$t$y]_$t$q]_$p$u]_$r$o]_$n$s]_$b$_]_$^$c]_$`$]]_~$a^___d_]_]_]__^]___]_cf]_gb^`_`jyc^___$n$_^"
    "___|}^___z{^___$f$g^___$d$e^___$r$s^___$t$u^___$p$q^___$b$c^___$`$a^`__$dl]_m$]]_~b]_a`^_^_ed^___i$_^___"
    "|}^___z{^___$f$g^___$d$e^___$r$s^___$t$u^___$p$q^___$b$c^___$`$a^`__$dl]_m$]]_~b]_a`^_^_ed^`__cl]_m$]^_^"
    "_$^$c]_|y^`__$^j^`__ml^_^_sy^_]_$v%a$_`$|a$m^_]`$pc^^__``c$k^`a`$p$q$l^_]`]$m$j]`]$kg]`$t$ke]`$fh^]`kj_]"
    "`ij$u^_]`$f$_$j]`i$_$l^_]`k$_]^_]`|l]]`m}]^_]`~j$k]`~l$w^_]`$f$]$h^_]`i$]]]`zn$s^_]`$`l$i^_]`xy$j]`qy]]`"
    "xyg]`~v$m^_]`tu]]`tue]`zs]]`rsg]`|se^_]`l$`$i]`bc$j]`$ec]]`^$h$k]`^$h$u]`h$h$s^_]`f$j]^_]`$k$f$i^_]`^_$j"
    "]`$k$j^]`$m$j$k]`]$j$u]`f$l_]`$k$l$m]`]$h`]`$m$h$ia`]$la]`$m`$l]`$q`]]`_$l$k]`_$l$s^_]`b$n$m]`_$n$u]`b^g"
    "]`d^e^_]`_f]]`$ti$s]`$za$w]`$za$u]`$xe$s]`$ze$q]`$x$qg]`$z$qe]`$t$mg]`$v_$s]`$t$me]`$ff$q]`$bl$u]`$fj$u]"
    "`$bn$u]`h$j$w]`h_g]`]$t$u]`]$v$w]`]fg]`f]g]`lcg]`d$l$u]`lc$j]`$i$h$k]`tug]`jag]`d$n_]`$k$h$s]`h$j$m]``a]"
    "]`^$j$m]`_$n_]`^_$u]`$t^$w]`f$l$w]`neg]`$~g$u]`ja]]`tv$m]`|}]]`$^f$s]`d$n$w%i`$d{+i]`+la+i]a-^$u]c]a$z$s"
    "$po]a$c$j$k$f]ai{ru]a$ba$ed]arsib]a_$d$]_]`|{g]o$b{g$Fv$Dw$u]c$Fr$Eysib$Fr$Fu$d$]_]e$l$k$Fl$E_$k$t$uc]a$"
    "f,a,t$u$a^$Ev^_^^/Gg^_^^/Fl]^$l]^$w^_^^/Gk]`/Hj]]$g_]]]^+;i]^^^_]^+8j^_^^&d]^'{]^a^_^^/Cs^_^^d^_^^h^_^^`"
    "^a^^ea^/Eb]^a^a]_&pNq^`]^Jz]^%~]^/Gg]^/Gb_^w]^^]^g]^$v]^+<a^_^^+;t]^'{]^a^_^^/Cs]^/H|]^c^_^^e]^c]^{]^a]^"
    "^_^$y^_^^&f]^$se_$z$F{]_rs]_$Fz$F}__$F|$G]__$F~$G_]_xy]_$G^$Ga]_z{]_$G`$Gc]_|}]_$Gb$Ge]_~$]]_$Gd$Gg]_$^$"
    "_]^%z^_]_i%q^_]_%p%s^_]_tu^_]_%r%u^a]_rq^_]^%r^a]^_^_]^_^a]^_^a]^_^a]^_^a]^_^a]^_^_]^_^_]^_^_]^_^_]^_^a]"
    "^_^a]^_^a]^_^a]^_^a]^_^a]^_^a]^_^a]^_^a]^k^a]^_",
    "^a]^_^a]^_^a]^_^a]^_^a]^_^_]^_^_]^_^a]^_^_]`h$t%q^_]`z$t%s^_]`|$t%u^_]_~$tf%w^^$Dt^_^^-Xg]^$Ku^_^^q]^r]^"
    "1u]^n]^'v]^a]^a]^a]^a]^&k]^a]^a]^%`]^&i]^(f]^a]^a]^a^_^^a]^c]^a]^a]^a]^a]^a]^a]^a]^a]^a]^a]^c]^a]^a^c^^a"
    "]^m]^c]^c]^c^b^^c]^i]^a^c^^a]^k]^e^_^^(f]^+1b^_^^(r]^-]]^,z^_^^-]^`^^,|^c^^-c]^+x^`^^$b]^$q^g^^$jdc^^(cb"
    "c^^ibc^^ib`^^id_^^'<d]^q]_+dNo]^Fr]^^]^+=a_^$+m^a^^Vz]^$'c]^%o[$nw^^,Wf^w^^${^w^^$z^d^^${`o^^m^w^^%h^w^^"
    "${]^$z`_^^aa^eb_^^cba^^e`e^^g^a^^y_^g`d^^a`h^^m^w^^%v^w^^${^_^^$z`a^^cbe^^i`d^^o`w^^y^_^^$z`a^^c`b^^g_^i"
    "dd^^e`w^^y^w^^$z^w^^${^w^^$z^w^^${^w^^$z^w^^${^w^^$z^w^^${^w^^$z^w^^${^w^^$z^w^^${]^/e]^2kbn^^7i]^k^d^^s"
    "]^+$s^v^^+#x]^+#o]^+#f]^c]^a]^u]^f]^^^n^^%v]^k^d^^s]^+$s^v^^+#x]^+#o]^+#f]^c]^a]^u]^f]^^^n^^%v]^k^d^^s]^"
    "+$s^v^^+#x]^+#o]^+#f]^c]^a]^u]^f]^^^n^^%v]^k^d^^s]^+$s^v^^+#x]^+#o]^+#f]^c]^a]^u]^f]^^^n^^%v]^k^d^^s]^+$"
    "s^v^^+#x]^+#o]^+#f]^c]^a]^u]^f]^^^_^^$sbg^^Zf^g^^]^g^^]^g^^]^g^^](Qh_^^$Cy]^g]^c_^$m]^$f]^f]^q]^$a^a^^j]"
    "^|]^i]^m]^t]^w]^~]^c^_^^p]^e]^a]^i]^a]^a]^&_]^'m]^$l]^%|_^'b]^e_^$qa^$n_^$u^a^^j]^|]^i]^m]^t]^w_^x^_^^p]"
    "^e_^m_^ei^xe^__^$u_^h_^a]^$`]^i_^d]^w_^xa^h_^m_^e_^*o_^'j_^'b]^e_^$qa^$n]^q]^$a]^j`_^^a]^$^]^i]^m]^t]^w_"
    "^x^_^^p]^e_^m]^a]^a]^&__^&]`_^^*b]^g]^c^_^^$k]^$d]^f]^q]^$a``^^h]^~]^i]^m]^t]^w]^~]^c^_^^p]^e]^a]^i]^a]^"
    "ag^$^]^e]^c_^$m]^$f]^f]^q]^$a``^^h]^~]^i]^m]^t]^w]^~]^c^_^^p]^e]^a]^i]^a]^aEa_$D|`^g^_adhw_`d$m$j]`/Hq/F"
    "`/Fc]^/G`]^{]_z_]_$ac`w^^$l]_ky]_no]_bz]_{]]`b]i]__$b$p___qp%a__i)o_/Lu%x]_)a]]^aw^0(u]^$Rt]^$[p]_,1j%r]"
    "^*W]]^%O}]^/Us]^/Tv]^%Oj]^).s]^%Vu]^&%r]^((p]^&?m]^&Jv]^(5e]^(,v]^.9u]^%+n]^)/m]^0Hz]^$0~]^*(k]^&4b]^.g]"
    "^(Gd]^o]^4?u]^04x]^'+v]^$@}]^&[_]^..s]^.9d]^)*_]^1s]^-+|]^)[q]^$Zj]^^]^&Mi]^,-h]^Tc]^2Mie`<J^1Bs1Bp]`^*W"
    "a*W^]`^+%y+%v]`^.>k.>h]`^4'm4'j]`^02s02p]`^5Jq5Jn]`^,-y,-v]`^1'_1&~k^/Bk]^&'n",
    NULL};
/* Runs of capitals: 2 times the distance from the end of the last run, plus their step minus 1; their number;
   fold(d), d: to the small letter. */
static const char ppo__unicode_lower[] =
    "&yw${(}t${_d${$~u_b`_`e_`t_]^*`^`_a^/i^__]^/a]^___/_]^_a^'s]^.{]^.}]^__^/_]^/c_^/k]^/g]^_c^/k]^/o_^/q^`_"
    "]^/y]^__^/ya^__^/y]^___/w^__]^/{]^_c^_k^a]^__^a]^__^a^f_`f__^a^__]^(t]^&f^q_]^*r`f_i^.+]]^__^,p]^.*ya^__"
    "^.l]^'_]^'c^b_3~__a^_m^)yi^%e_`%c_^&w__&u_n${_f${%_^mni_e^&na^__^j]^_a`*r]m'u]}${%zn_nx_]^{^d_`$k__$a%y%"
    "Z}$a*?g_^*?gg^*?gMm%iK)a]cm%2a^_i$f&(|a`&(|5z%d_m^*S|`$k_melmclqelmelmcltalkel$kelmelmelm_l]_'h]^nsa(^]^"
    "ns_l]_(zu_l]_)p]^js_*n]_*j]^n4m^*Nbc^+H`]^+@~i^$s%sm}$a^_Saw$o$Ve$k%y%y^__^.'|]^&Xh]^.&~b`_]^.*`]^.(f]^."
    "*f]^.*d_^_a^_m_.,b^$m_l__c^_C%tt_$`k_*|d_b|_p__]^G=h^b_c^__^NG^b__bg_]^NHt]^NIh]^NI`]^NHn]^NHt_^NEv]^NGb"
    "]^NE|]^Yq^e_]^%x]^NHr]^G@j^__]^NJv^e_]^NWp$k^_:$sw${$1y$c%i+]$_%i,ch%g_l%g_d%g__%g$Ra$n&w,es${%Z_}${9Do}"
    "${&wv$qC4i$]%]";
/* Runs of marks that StripAccents keeps, and of others that it removes: the distance from the end of the last
   run, the length. */
static const char ppo__unicode_accents[] =
    "$&b^'nf$eg+w^*jc%n^(a^$r^(i^i^$u_%]^,c^p^$(g^*h^7dm3`_`^*mb51n^)c^00]a$|b,h_%ha%_h$la){^__%f^&y_&y^a_&h^"
    "*h^&sf^^_^^a^b^^k_&r^?rl*dc^__a^^^_'bd_d`^yg$cd^ae^fh$im6nc`^^_^d^^$}b^_^b-daf_^^$kd`bt^%Nh^cl(Wco$Th^$j"
    "f%u^h_/Bu$i_t%3a^'ud.^^$xa1}a*m_";

/* What normalizers do, in bits: */
enum {
    PPO__TAKE_APART = 1,
    PPO__PUT_TOGETHER = 2,
    PPO__COMPATIBLE = 4,
    PPO__LOWER = 8,
    PPO__NO_ACCENTS = 16
};

/* What they need of characters. A pair of characters is a number, under which the map has the one that they
   make; and with a character, PPO__PARTS has the index of its parts, PPO__CLASS its combining class, if not
   0, PPO__FIRST the index of its compatible parts, and PPO__SMALL its small letter. */
typedef struct ppo__forms {
    int has; /* PPO__TAKE_APART, ... */
    ppo__map facts;
    int32_t (*parts)[2];
    int32_t *compatible; /* the number of parts, and these */
    ppo__set accents;
} ppo__forms;

enum { PPO__HANGUL = 0xac00, PPO__JAMO_L = 0x1100, PPO__JAMO_V = 0x1161, PPO__JAMO_T = 0x11a7 };
enum { PPO__PARTS = PPO__CODES, PPO__CLASS, PPO__FIRST, PPO__SMALL };
enum { PPO__MAX_PARTS = 20 }; /* of a character */

static int32_t ppo__signed(int32_t n) { return n % 2 ? -(n + 1) / 2 : n / 2; }

static void ppo__make_parts(ppo__forms *forms, ppo__arena *memory) {
    enum { PPO__MOST = 2200 };
    int n = 0;
    int32_t code = 0, step = 0, last[3] = {0, 0, 0}; /* first parts, single ones, second parts */
    forms->parts = (int32_t(*)[2])ppo__arena_zeros(memory, PPO__MOST, sizeof *forms->parts);
    const char *const *table = ppo__unicode_parts, *at = *table;
    for (; forms->parts && ppo__table_more(&table, &at); ++n) {
        int32_t number = ppo__table_number(&at), *parts = forms->parts[n];
        if (number % 2) step = ppo__table_number(&at);
        code += step / 3;
        parts[0] = last[step % 3 == 2] += ppo__signed(number / 2);
        if (step % 3 < 2) parts[1] = last[2] += ppo__signed(ppo__table_number(&at));
        ppo__map_put(&forms->facts, memory, ppo__pair_key(code, PPO__PARTS), n);
        if (step % 3 == 0) ppo__map_put(&forms->facts, memory, ppo__pair_key(parts[0], parts[1]), code);
    }
    code = 0;
    for (at = ppo__unicode_classes; *at;) {
        code += ppo__table_number(&at);
        int32_t end = code + ppo__table_number(&at), k = ppo__table_number(&at);
        for (; code < end; ++code) ppo__map_put(&forms->facts, memory, ppo__pair_key(code, PPO__CLASS), k);
    }
}

static void ppo__make_compatible(ppo__forms *forms, ppo__arena *memory) {
    enum { PPO__MOST = 16384 };
    int32_t code = 0, part = 0, n = 0;
    forms->compatible = PPO__ARRAY(memory, int32_t, PPO__MOST);
    const char *const *table = ppo__unicode_compatible, *at = *table;
    while (forms->compatible && ppo__table_more(&table, &at)) {
        const int32_t step = ppo__table_number(&at), several = step % 2;
        const int32_t length = several ? ppo__table_number(&at) : 1,
                      rises = several ? ppo__table_number(&at) : 0;
        const int32_t count = ppo__table_number(&at), first = n;
        code += step / 2;
        forms->compatible[n++] = count;
        for (int32_t k = 0; k < count; ++k)
            forms->compatible[n++] = part += ppo__signed(ppo__table_number(&at));
        for (int32_t i = 0; i < length; ++i, ++code) {
            ppo__map_put(&forms->facts, memory, ppo__pair_key(code, PPO__FIRST), i ? n : first);
            for (int32_t k = 0; k <= count && i; ++k)
                forms->compatible[n++] = forms->compatible[first + k] + (k && rises >> (k - 1) & 1 ? i : 0);
        }
    }
}

static void ppo__make_lower(ppo__forms *forms, ppo__arena *memory) {
    int32_t code = 0;
    for (const char *at = ppo__unicode_lower; *at;) {
        const int32_t number = ppo__table_number(&at), length = ppo__table_number(&at);
        const int32_t away = ppo__signed(ppo__table_number(&at));
        code += number / 2;
        for (int32_t k = 0; k < length; ++k, code += 1 + number % 2)
            ppo__map_put(&forms->facts, memory, ppo__pair_key(code, PPO__SMALL), code + away);
    }
}

static void ppo__make_accents(ppo__forms *forms, ppo__arena *memory) {
    const char *at = ppo__unicode_accents;
    ppo__set others = {PPO__ARRAY(memory, int32_t, strlen(at)), 0};
    for (int32_t code = 0; *at && others.at; others.at[others.count++] = code) code += ppo__table_number(&at);
    forms->accents = ppo__set_join(memory, ppo__set_categories(memory, ppo__category_bits("M", 1)), others,
                                   PPO__IN_A | PPO__IN_B);
}

/* Makes what these bits need, if it is not there. */
static void ppo__make_forms(ppo__forms *forms, ppo__arena *memory, int bits) {
    const int missing = bits & ~forms->has;
    if (missing & PPO__TAKE_APART) ppo__make_parts(forms, memory);
    if (missing & PPO__COMPATIBLE) ppo__make_compatible(forms, memory);
    if (missing & PPO__LOWER) ppo__make_lower(forms, memory);
    if (missing & PPO__NO_ACCENTS) ppo__make_accents(forms, memory);
    forms->has |= bits;
}

/* Writes what a character is made of, and returns how many others that are. */
static int ppo__take_apart(const ppo__forms *forms, int bits, int32_t code, int32_t out[PPO__MAX_PARTS]) {
    int32_t hangul = code - PPO__HANGUL;
    int n = 0,
        index = bits & PPO__COMPATIBLE ? ppo__map_find(&forms->facts, ppo__pair_key(code, PPO__FIRST)) : -1;
    if (index >= 0) {
        for (n = 0; n < forms->compatible[index]; ++n) out[n] = forms->compatible[index + 1 + n];
        return n;
    }
    index = ppo__map_find(&forms->facts, ppo__pair_key(code, PPO__PARTS));
    if (hangul >= 0 && hangul < 11172) {
        out[0] = PPO__JAMO_L + hangul / 588;
        out[1] = PPO__JAMO_V + hangul / 28 % 21;
        out[2] = PPO__JAMO_T + hangul % 28;
        return hangul % 28 ? 3 : 2;
    }
    if (index < 0) return *out = code, 1;
    n = ppo__take_apart(forms, bits, forms->parts[index][0], out);
    if (forms->parts[index][1]) out[n++] = forms->parts[index][1];
    return n;
}

/* The character that two make, or -1. */
static int32_t ppo__put_together(const ppo__forms *forms, int32_t first, int32_t second) {
    int l = first - PPO__JAMO_L, v = second - PPO__JAMO_V, t = second - PPO__JAMO_T,
        hangul = first - PPO__HANGUL;
    if (l >= 0 && l < 19 && v >= 0 && v < 21) return PPO__HANGUL + (l * 21 + v) * 28;
    if (hangul >= 0 && hangul < 11172 && hangul % 28 == 0 && t > 0 && t < 28) return first + t;
    return ppo__map_find(&forms->facts, ppo__pair_key(first, second));
}

/* The character at the start of `bytes` (> 0) bytes, and its length; above PPO__CODES: a byte that is not
   UTF-8. */
static int32_t ppo__code_at(const char *text, size_t bytes, int *length) {
    const int32_t code = ppo__utf8_get(text, bytes, length);
    if (code >= 0) return code;
    *length = 1;
    return PPO__CODES + (unsigned char)*text;
}

static size_t ppo__put_char(int32_t code, char *out) {
    if (code < PPO__CODES) return (size_t)ppo__utf8_put(code, out);
    *out = (char)(code - PPO__CODES);
    return 1;
}

/* Takes the characters of a text apart: a class, a place and a character as a number each; codes NULL: only
   counts. */
static size_t ppo__count_parts(const ppo__forms *forms, int bits, const char *text, size_t bytes,
                               uint64_t *codes) {
    size_t count = 0;
    int32_t parts[PPO__MAX_PARTS];
    int length;
    for (size_t at = 0; at < bytes; at += (size_t)length) {
        const int n = ppo__take_apart(forms, bits, ppo__code_at(text + at, bytes - at, &length), parts);
        for (int k = 0; k < n && codes; ++k) {
            const int rank = ppo__map_find(&forms->facts, ppo__pair_key(parts[k], PPO__CLASS));
            codes[count + (size_t)k] = (uint64_t)(rank < 0 ? 0 : rank) << 56 |
                                       (uint64_t)(count + (size_t)k) << 24 | (uint64_t)parts[k];
        }
        count += (size_t)n;
    }
    return count;
}

/* Writes a normal form, of `count` characters that were taken apart, to out, which has room for 4 bytes each,
   and returns its length. */
static size_t ppo__write_form(const ppo__forms *forms, int bits, uint64_t *codes, size_t count, char *out) {
    size_t kept = 0, starter = 0, written = 0, marks = 0;
    int last = INT_MAX; /* the class before, of those that are kept; -1: that of the starter */
    for (size_t i = 0; i <= count; ++i) { /* runs of marks by their classes; equal ones keep their order */
        if (i < count && codes[i] >> 56 && ++marks) continue;
        if (marks > 1) qsort(codes + i - marks, marks, sizeof *codes, ppo__by_number);
        marks = 0;
    }
    for (size_t i = 0; i < count; ++i) {
        int rank = (int)(codes[i] >> 56);
        int32_t code = codes[i] & 0xffffff;
        const int may_join = last < rank && bits & PPO__PUT_TOGETHER;
        int32_t joined = may_join ? ppo__put_together(forms, (int32_t)codes[starter], code) : -1;
        if (joined >= 0) codes[starter] = (uint64_t)joined;
        if (joined >= 0) continue;
        if (!rank) {
            starter = kept;
            last = -1;
        } else if (last != INT_MAX) last = rank;
        codes[kept++] = (uint64_t)code;
    }
    for (size_t i = 0; i < kept; ++i) written += ppo__put_char((int32_t)codes[i], out + written);
    return written;
}

/* Writes a text in small letters, or without accents, to out, which has room for twice its bytes; its length.
   */
static size_t ppo__write_plain(const ppo__forms *forms, int bits, const char *text, size_t bytes, char *out) {
    size_t written = 0;
    int length;
    for (size_t at = 0; at < bytes; at += (size_t)length) {
        int32_t code = ppo__code_at(text + at, bytes - at, &length);
        if (bits & PPO__LOWER) {
            const int lowered = ppo__map_find(&forms->facts, ppo__pair_key(code, PPO__SMALL));
            written += ppo__put_char(code == 0x130 ? 'i' : lowered < 0 ? code : lowered, out + written);
            if (code != 0x130) continue;
            code = 0x307;
        } else {
            int low = 0, high = forms->accents.count; /* how many changes come up to here */
            while (low < high) {
                const int middle = (low + high) / 2;
                if (forms->accents.at[middle] <= code) low = middle + 1;
                else high = middle;
            }
            if (low % 2) continue;
        }
        written += ppo__put_char(code, out + written);
    }
    return written;
}

PPO__WARNINGS_BACK

#endif
#endif
