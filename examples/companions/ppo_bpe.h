/* ppo_bpe.h - byte-pair encoding for the tokenizers of ppo.h

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_bpe.h"               // after ppo.h; other files may include it for its declarations

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_bpe.h". ppo_hub.h includes it.

   A language model learns from characters or bytes, too, but a text has fewer tokens if those that often stand side
   by side are joined:

       ppo_tokenizer_train(text, bytes, 512, specials, n, &tok);
       ppo_tokens_add_text(&data, tok, -1, "2+2=", "4", eos);              // and all else as with other tokenizers
       ppo_tokenizer_save(tok, "tokenizer.safetensors");

   Without this header ppo.h does not read such a file.

HOW IT WORKS

   Training counts pairs of adjacent tokens in the words of a text, and joins the most frequent one, again and again.
   Encoding goes through a list of steps, piece by piece (ppo__encode_from()): added tokens are found, the rest is cut
   into words, and in each word pairs are joined in the order in which they were learned. ppo_hub.h makes longer
   lists, which also rewrite the text.

   License: that of ppo.h. */
#ifndef PPO_BPE_H
#define PPO_BPE_H
#ifndef PPO_H
#error "include ppo.h before ppo_bpe.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_bpe.h belongs to version 0.3 of ppo.h"
#endif

#ifndef PPO_NO_LANGUAGE
#ifdef __cplusplus
extern "C" {
#endif

/* Byte-level byte-pair encoding (Sennrich et al. 2016, in the form of GPT-2). Tokens 0 .. 255 are the bytes
   in GPT-2's order: 33-126, 161-172, 174-255, then the others. Each further token joins the pair of adjacent
   tokens that is most frequent in the text; of equally frequent pairs, that of the smallest tokens. The
   special tokens come last. `vocab` counts all of them: 256 + special_count up to 65,536. The result
   may be smaller: a pair must occur twice to be joined, and no token exceeds PPO_MAX_TOKEN_BYTES. Apart
   from that limit the merges are those of Hugging Face's BpeTrainer with a min_frequency of 2.
   Pairs are joined within words. These are what GPT-2's expression matches,

       's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

   with the classes of Unicode 16. The text may hold any bytes, at most 512 MiB. specials: as for
   ppo_tokenizer_characters(). */
PPO_DEF ppo_status ppo_tokenizer_train(const char *text, size_t bytes, int vocab, const char *const *specials,
                                       int special_count, ppo_tokenizer **tokenizer);

#ifdef __cplusplus
}
#endif
#endif /* PPO_NO_LANGUAGE */
#endif /* PPO_BPE_H */
/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__BPE_IMPLEMENTED)
#define PPO__BPE_IMPLEMENTED
#ifndef PPO_NO_LANGUAGE

PPO__WARNINGS_OFF

/* -- a map, a queue. An arena remembers what failed: ppo__arena_status() -- */

typedef struct ppo__bucket {
    uint64_t key;
    int value; /* plus 1; 0: the bucket is empty */
} ppo__bucket;

/* The bucket of a key, or the empty one where it belongs. The factor (Knuth 1973, 6.4) spreads the keys. */
static ppo__bucket *ppo__map_bucket(const ppo__map *map, uint64_t key) {
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 32);
    for (;; ++at) {
        ppo__bucket *bucket = &map->buckets[at & (map->room - 1)];
        if (!bucket->value || bucket->key == key) return bucket;
    }
}

/* The value, or -1. */
static int ppo__map_find(const ppo__map *map, uint64_t key) {
    return map->room ? ppo__map_bucket(map, key)->value - 1 : -1;
}

static void ppo__map_put(ppo__map *map, ppo__arena *memory, uint64_t key, int value) {
    if (2 * map->count >= map->room) {
        ppo__map grown = {NULL, map->room ? 2 * map->room : 64, map->count};
        grown.buckets = PPO__ZEROS(memory, ppo__bucket, grown.room);
        if (!grown.buckets) return;
        for (size_t i = 0; i < map->room; ++i)
            if (map->buckets[i].value) *ppo__map_bucket(&grown, map->buckets[i].key) = map->buckets[i];
        *map = grown;
    }
    ppo__bucket *bucket = ppo__map_bucket(map, key);
    map->count += !bucket->value;
    bucket->key = key;
    bucket->value = value + 1;
}

/* A queue that returns the smallest number first: a binary heap. */
static void ppo__queue_push(ppo__arena *memory, uint64_t **queue, uint64_t number) {
    if (PPO__PUSH(*queue, number)) memory->failed = PPO_ERROR_MEMORY;
    if (memory->failed) return;
    uint64_t *heap = *queue;
    size_t at = stbds_arrlenu(heap) - 1;
    for (; at && heap[(at - 1) / 2] > number; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = number;
}

static uint64_t ppo__queue_pop(uint64_t *heap) {
    size_t n = --stbds_header(heap)->length, at = 0;
    uint64_t first = heap[0], last = heap[n];
    for (size_t child = 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= last) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

/* -- kinds of characters, and the words that GPT-2's expression matches -- */

enum { PPO__OTHER, PPO__LETTER, PPO__NUMBER, PPO__SPACE, PPO__MARK, PPO__CODES = 0x110000 };

/* The categories L, N and M and the property White_Space of Unicode 16: runs of characters, each a number of
   ppo__table_number(), 5 times its length plus the kind. Made by tests/golden/make_unicode.py. */
static const char ppo__unicode_kinds[] =
    "$hy%se%d$o$^&z{&z$me&ye$hc$^ibcldcbnb&kb'qb$-jq$x%_w$^cbc%n3qwbhgrbc{cbmbcb%~b/eb7mb$b;lb(rgc{)_$c)vbfbk"
    "bkbf$c']qr'f$vv)i&d$oqhf1qbc$bg$]hkbuh$omgc%icf'l'`g0a$vc%_$o'{$lhqcgfg&fuc$lcpcz%s&upq$sv&pb|$c$l)d&sb'"
    "~*~pc%wc$b$nkg$ob%jpb$dghg&fb$_bclrgfc$bgkgpc$cfqhbmkg$ohg}gcbfgpb|qhg&fb$_bhbhbhgfbzqkgplf$^rbc$^$okmf$"
    "rpb$ibmb&fb$_bhbwgfc$gbpbpgc%dhkg$o$hc$]bpb$dghg&fb$_bhbwgfc$bgkgp$^pqhbmkg$obc}$mfcb|lmbrlhbcbhlhlml$xq"
    "zlpbugc{f%_$~$|z$dbmb&kb%jgfc$bbpbu$^kbmgcghkg$o$c$`bcpb$dbmb&kb$nbwgfc$bbpbu$^k{hbhkg$obhf$wu$ibmb)_kc$"
    "bbpbucvmf$`mkg%zb|bpb%tl&pb$ibcg$_lfq$]bfb$g{$ogk$|*`fh$bv$_$gb$o(vhbcbwb&pbcb$nfh$lcgwbcb$bb$ogr'uc&jk{"
    "&]bfbfbfqk$db(hq&_bkw$vb(k$hf+j)i&_c$o{|urpcph$bmu$}${cf$oug(rbcvcg)ibT]brg$_bcbrg)_brg'{brg$_bcbrg%eb+k"
    "brg,{gp$h&]l%j%i/tg|l$Edg%oe&zv._ln$d$^%tu$h%yp$r%tk$w$}bmbk$w*t'ylcqcfg$o{$o%npbf$o{0a$^wk(^fcv-h$m'qb$"
    "{q${$m$o'lgw$r)nq&z{$t(l&kzq*y$qb'jgf$o{$o$|c$c't*dz)}%r$dl$o%n$l$wp'l%^h$o)n%c$w(h&_$c$olm$o(hg$sv)igm%"
    "ipb&drf|fhpcv?f,oK|g|g(rg|g$dbcbcbcb'qg*yb$_bclmb$_lrg|q$}vmb$_l$u'fjve)|e%idcg}vc$o{$}*n'~%ncqcg$nbclw{"
    "cbcbcbrb$sgrvwqcb*phx$Tw+{.m&g$Fs'm%WmDu{rph$hdg(rbcvcg+f$^c%df&k$h$_b$_b$_b$_b$_b$_b$_b$_b'y)|c$.eeqhd&"
    "t$j$]bwgnhq/tgkgmb0fbrv)ib0zls$m'v*_%j'u$o'k$eb%f'u$o(v%fR_4#l,k$#,k,z)xgJql%j$oh%})}ub$qb'qk-h$ok(l$ig2"
    "cg,{ghbcb$d&`%jfmfrf&kzqfl}$m*t$wk*j%w$m$o{%w|lcbhf$o'b$gg&k%^$w'glu)}%c%_c$o{wf$n$owb)_%c$hmf$dkg$o{&kl"
    "cp*jfcphkwkcfc&omg$szgmk$m|g|g|$h$_b$_b)ib%`{3}$gbkg$o{?Q~$w&kq*e8P}Xzg2r(q$_$wwvcf$nb$}bwbcbhbhb2|'zXk%"
    "s,lg*~({$xq%m%i%m,kwb6{%x$o$^&z{&z$r0al|g|g|gm(b$xb&zb%ybhb%eg%`(]5a$w)t$w+l%ni3rf6a'gl*e%df'^q'vs$h%~d$"
    "ddv(rzv'lg(hq$dbx)c:fg$o{(hq(hq(|$c*t$w$sb%eb$_bhb$sb%eb$_bhl*t$wPw$h&f$m$d&o|b)db$i-b|gcb)nbhlcg&kg$e&k"
    "g$`'q$c$j*_%ybhvx&f}q&z-g+fqih%kg)ycpbkvurbmb'ggpqf$j&j'gib'gn'u$db'bkqx%i*~$m&fg$e%yv$e%t&j$`.w-w+`*o$|"
    "*o$^}(hu$c$o{$o'blzb&kC_'rb)dbklh%im+`u'g$oc$c&f$vs&~%tu)c&a$`%}&k$hp*y%h$r'mfhkc$hu)s$v$^f$|&u$^$o{p(h%"
    "cb$oqckc$c(cfgc$hp*`%crqubk$ocbcq&]$r%tb&u${{fhf,a$_bcbrb%eb$n$^)}${v$o{ub$dghg&fb$_bhbwbkc$bgkgpgc{fvwk"
    "g$blz$r$nbcgcb(rbc$lbfgfbubzcfc$|k'f*y%wrv$oqfm'k*`&_hbc$c$o;k)}$bg$l&jrk(]*`%rlc$r$o(q)i%^c$^$o{&]'a']g"
    "%hq$yq$_>d)n%h1z,l%z$w$dgcg$dbhb&p$]bkgucfck$w$o-g$dg(w$bg$bcbcf&~c$q(|$bcu$cf$cc$v)x%mlc%s-w@f'{%d$o{$i"
    "b(m$gb$gc%d'hv'lg&ib%c-v$_bhb(r$]lfbkb$bcf$c$o{|bhb'vzbkbzc$^$oPq%yu$hkcf$}b(^$blz$|$of/nc%d&b)h%8r2]3j%"
    "n?z)Ps1g%d%Nt%if|%h$m-4ov$?w4H^'l%w$o'>]$=u$^'qb$o{.sb$o{'lgz$r*`$b$hr$w$ob$`b&av%y$)o)sl$o@a,l&l2l._qfc"
    "+d$^u$},khbcf$rk%_2Rj$c&.`)^$n:%~rb$_bhbMy%dc'fmgc%_r$c$$f(Yk2wv$}l$i$^$nlk-Of$o$6c){g&n$9uzl$]$c$gg$b'k"
    "u8wp5`&]$w&]2{&v6z/ob-mbhgcghgrb$xbcb$_b,qbrg$db$_b'bbrbwbcl$_bU^g&ub&ub'qb&ub'qb&ub'qb&ub'qb&ub$dg*k$5g"
    "+dq*m$cf%_f&ezb%h%Si'q{|Bh$bb%rg$bbkbzv,b'zf3m)sl$b$_g$oqcRd'lf%n)nu$o$/a'bu$oBm'lkc$o$1h$_brbhb%eb@]g$j"
    "$b)^-^$bcq$o%%h+vbnbs.c)tb%f?orb']bhbcgcb$nbrbcbc{cqcbcbcbmbhbcgcbcbcbcbcbhbcgrb$_brbrbcb$nb%ovmbwb%o$?g"
    "$~*-z$o%Hm$X/j'u-K|{Ctg1Tj%_63]%d$En)7s$9v&Um/Miv-QnC/[eFk";

/* Reads a number: digits of 57 values, from '#' on, and a last one of 34, from ']' on, which ends it. As text the
   table has a third of the size of an array. */
static int32_t ppo__table_number(const char **at) {
    int32_t n = 0;
    for (; **at < ']'; ++*at) n = n * 57 + (**at - '#');
    return n * 34 + (*(*at)++ - ']');
}

/* Two tokens or characters as one number. */
static uint64_t ppo__pair_key(int left, int right) { return (uint64_t)left << 32 | (uint64_t)right; }

/* The kinds of all characters. Marks get the kind `mark`. */
static unsigned char *ppo__make_kinds(ppo__arena *memory, int mark) {
    unsigned char *kinds = PPO__ZEROS(memory, unsigned char, PPO__CODES), *at = kinds;
    for (const char *table = ppo__unicode_kinds; kinds && *table;) {
        int32_t run = ppo__table_number(&table), kind = run % 5;
        memset(at, kind == PPO__MARK ? mark : kind, (size_t)(run / 5));
        at += run / 5;
    }
    return kinds;
}

/* The kind of the character at the start of `bytes` (> 0) bytes, and its length. A byte that is not UTF-8 is a
   character as U+FFFD. */
static int ppo__kind_at(const unsigned char *kinds, const unsigned char *at, size_t bytes, size_t *length) {
    *length = 1;
    if (*at < 0x80) return kinds[*at];
    int n;
    int32_t code = ppo__utf8_get((const char *)at, bytes, &n);
    if (code >= 0) *length = (size_t)n;
    return kinds[code < 0 ? 0xfffd : code];
}

/* The length of 's, 't, 'm, 'd, 're, 've or 'll at the start of the text; 0: none. */
static size_t ppo__ending_length(const unsigned char *at, size_t bytes) {
    static const char endings[7][3] = {"s", "t", "m", "d", "re", "ve", "ll"};
    for (int k = 0; *at == '\'' && k < 7; ++k) {
        const size_t n = strlen(endings[k]);
        if (n < bytes && memcmp(at + 1, endings[k], n) == 0) return n + 1;
    }
    return 0;
}

/* The length of the word at the start of `bytes` (> 0) bytes: a run of letters, numbers, spaces or others. A
   single space before another run belongs to it. */
static size_t ppo__word_length(const unsigned char *kinds, const unsigned char *at, size_t bytes) {
    size_t n = ppo__ending_length(at, bytes), length, last = 0;
    if (n) return n;
    int kind = ppo__kind_at(kinds, at, bytes, &length);
    const int next = *at == ' ' && bytes > 1 ? ppo__kind_at(kinds, at + 1, bytes - 1, &length) : PPO__SPACE;
    if (next != PPO__SPACE) {
        kind = next;
        n = 1;
    }
    for (; n < bytes && ppo__kind_at(kinds, at + n, bytes - n, &length) == kind; n += length) last = n;
    return kind == PPO__SPACE && n < bytes && last ? last : n; /* the last space is left to what follows */
}

/* -- merges, and the steps of an encoding -- */

/* Merge k becomes token 256 + k. */
static ppo_status ppo__add_merge(ppo_tokenizer *tok, int k) {
    int32_t left = tok->units[2 * k], right = tok->units[2 * k + 1], token = 256 + k;
    if (left < 0 || left >= token || right < 0 || right >= token)
        return ppo__refuse("merge %d joins tokens %ld and %ld, not two of 0 .. %ld", k, (long)left,
                           (long)right, (long)token - 1);
    int length = ppo__token_length(tok, left) + ppo__token_length(tok, right);
    if (length > PPO_MAX_TOKEN_BYTES)
        return ppo__refuse("merge %d makes a token of %d bytes, more than %d", k, length,
                           PPO_MAX_TOKEN_BYTES);
    if (ppo__map_find(&tok->by_unit, ppo__pair_key(left, right)) >= 0)
        return ppo__refuse("merge %d is there twice: tokens %ld and %ld", k, (long)left, (long)right);
    tok->start[token + 1] = tok->start[token] + length;
    tok->joined[k] = token;
    ppo__map_put(&tok->by_unit, &tok->memory, ppo__pair_key(left, right), k);
    return PPO_OK;
}

static int ppo__by_pattern(const void *a, const void *b) {
    const ppo__added *x = (const ppo__added *)a, *y = (const ppo__added *)b;
    int less = memcmp(x->pattern, y->pattern, (size_t)(x->bytes < y->bytes ? x->bytes : y->bytes));
    return less ? less : x->bytes - y->bytes;
}

static ppo__step *ppo__add_step(ppo_tokenizer *tok,
                                size_t (*cut)(const ppo_tokenizer *tok, const char *text, size_t bytes)) {
    ppo__step *step = &tok->steps[tok->step_count++];
    step->cut = cut;
    return step;
}

/* The cut of a step: by GPT-2's expression. */
static size_t ppo__cut_words(const ppo_tokenizer *tok, const char *text, size_t bytes) {
    return ppo__word_length(tok->kinds, (const unsigned char *)text, bytes);
}

/* Adds the step that finds the added tokens first .. end - 1. */
static void ppo__add_find(ppo_tokenizer *tok, int first, int end) {
    ppo__step *step = ppo__add_step(tok, NULL);
    step->first = first;
    step->end = end;
    if (end > first) qsort(tok->added + first, (size_t)(end - first), sizeof *tok->added, ppo__by_pattern);
}

/* A word while it is encoded: a linked list of symbols, at first its bytes or characters. */
typedef struct ppo__symbol {
    int token;          /* -1: joined to a previous one */
    int previous, next; /* -1 and the number of symbols: none */
} ppo__symbol;

static int ppo__split_bytes(ppo__encoder *encoder, const char *text, size_t bytes) {
    for (int i = 0; i < (int)bytes; ++i) {
        const ppo__symbol symbol = {encoder->tok->of_byte[(unsigned char)text[i]], i - 1, i + 1};
        encoder->symbols[i] = symbol;
    }
    return (int)bytes;
}

/* The steps of a tokenizer that is no tokenizer.json's: special tokens are found, then words are cut. */
static ppo_status ppo__bpe_complete(ppo_tokenizer *tok) {
    tok->split = ppo__split_bytes;
    ppo__add_find(tok, 0, tok->added_count);
    if (tok->kind != PPO__BPE) return PPO_OK;
    tok->kinds = ppo__make_kinds(&tok->memory, PPO__OTHER);
    ppo__add_step(tok, ppo__cut_words);
    return ppo__arena_status(&tok->memory);
}

/* -- training BPE: the distinct words of the text are counted once, and the pairs in them; then a merge
   changes only the words that contain its pair, and the counts of adjacent pairs -- */

enum { PPO__MIN_FREQUENCY = 2, PPO__MAX_TRAINED = 65536 }; /* tokens, so that they have 16 bits */

typedef struct ppo__word {
    const unsigned char *text;
    uint16_t *symbols; /* [length]: its tokens at present */
    int bytes, length; /* of text and symbols */
    int count;         /* in the text */
} ppo__word;

typedef struct ppo__pair {
    int left, right, count;
    int found; /* the head of the list of words in which it was seen, or -1 */
} ppo__pair;

typedef struct ppo__found {
    int word, next;
} ppo__found;

typedef struct ppo__bpe_trainer {
    ppo__arena memory; /* of all but the four stb_ds arrays */
    unsigned char *kinds;
    ppo__map by_hash, by_pair;
    ppo__word *words;
    ppo__pair *pairs;   /* never removed */
    ppo__found *founds; /* in lists, by pair */
    uint64_t *queue;    /* the most frequent pair first; of equals, that of the smallest tokens */
    int32_t *merges;    /* [][2] */
    int merged;
    int *length; /* of each token, in bytes */
} ppo__bpe_trainer;

static void ppo__count_word(ppo__bpe_trainer *trainer, const unsigned char *text, int bytes) {
    uint64_t slot = ppo__fnv1a(PPO__FNV1A, text, bytes);
    ppo__word word = {text, NULL, bytes, bytes, 1};
    int w;
    for (; (w = ppo__map_find(&trainer->by_hash, slot)) >= 0; ++slot)
        if (trainer->words[w].bytes == bytes && !memcmp(trainer->words[w].text, text, bytes)) break;
    if (w >= 0) ++trainer->words[w].count;
    else if (PPO__PUSH(trainer->words, word)) trainer->memory.failed = PPO_ERROR_MEMORY;
    else ppo__map_put(&trainer->by_hash, &trainer->memory, slot, (int)stbds_arrlenu(trainer->words) - 1);
}

/* A pair of tokens as one number; smaller tokens give a smaller one. */
static uint32_t ppo__short_key(int left, int right) { return (uint32_t)left << 16 | (uint32_t)right; }

/* A pair became more frequent, or less (times < 0), in word w. Words are changed one by one, so if w is in
   the pair's list already, it is the first. */
static void ppo__count_pair(ppo__bpe_trainer *trainer, int w, int left, int right, int times) {
    int at = ppo__map_find(&trainer->by_pair, ppo__short_key(left, right));
    if (at < 0) {
        if (trainer->length[left] + trainer->length[right] > PPO_MAX_TOKEN_BYTES) return;
        ppo__pair added = {left, right, 0, -1};
        at = (int)stbds_arrlenu(trainer->pairs);
        if (PPO__PUSH(trainer->pairs, added)) trainer->memory.failed = PPO_ERROR_MEMORY;
        ppo__map_put(&trainer->by_pair, &trainer->memory, ppo__short_key(left, right), at);
    }
    if (trainer->memory.failed) return;
    ppo__pair *pair = &trainer->pairs[at];
    pair->count += times;
    if (times < 0 || (pair->found >= 0 && trainer->founds[pair->found].word == w)) return;
    ppo__found found = {w, pair->found};
    pair->found = (int)stbds_arrlenu(trainer->founds);
    if (PPO__PUSH(trainer->founds, found)) trainer->memory.failed = PPO_ERROR_MEMORY;
}

/* Counts the words of the text, and the pairs of bytes in them. */
static void ppo__count_text(ppo__bpe_trainer *trainer, const unsigned char *text, size_t bytes) {
    int of_byte[256];
    size_t total = 0;
    for (size_t n; bytes && !trainer->memory.failed; text += n, bytes -= n) {
        n = ppo__word_length(trainer->kinds, text, bytes);
        ppo__count_word(trainer, text, (int)n);
    }
    int words = (int)stbds_arrlenu(trainer->words);
    for (int w = 0; w < words; ++w) total += (size_t)trainer->words[w].bytes;
    uint16_t *symbols = PPO__ARRAY(&trainer->memory, uint16_t, total);
    ppo__order_bytes(of_byte);
    for (int w = 0; w < words && !trainer->memory.failed; ++w) {
        ppo__word *word = &trainer->words[w];
        word->symbols = symbols;
        symbols += word->bytes;
        for (int i = 0; i < word->bytes; ++i) word->symbols[i] = (uint16_t)of_byte[word->text[i]];
        for (int i = 1; i < word->bytes; ++i)
            ppo__count_pair(trainer, w, word->symbols[i - 1], word->symbols[i], word->count);
    }
}

static void ppo__queue_pair(ppo__bpe_trainer *trainer, const ppo__pair *pair) {
    uint64_t rarity = UINT32_MAX - (uint32_t)pair->count, key = ppo__short_key(pair->left, pair->right);
    if (pair->count >= PPO__MIN_FREQUENCY)
        ppo__queue_push(&trainer->memory, &trainer->queue, rarity << 32 | key);
}

/* Replaces the pair by the token in word w. */
static void ppo__merge_in_word(ppo__bpe_trainer *trainer, int w, int left, int right, int token) {
    ppo__word *word = &trainer->words[w];
    uint16_t *symbols = word->symbols;
    int n = 0;
    for (int i = 0; i < word->length; ++n) {
        if (symbols[i] != left || i + 1 == word->length || symbols[i + 1] != right) {
            symbols[n] = symbols[i++];
            continue;
        }
        i += 2;
        if (n) {
            ppo__count_pair(trainer, w, symbols[n - 1], left, -word->count);
            ppo__count_pair(trainer, w, symbols[n - 1], token, word->count);
        }
        if (i < word->length) {
            ppo__count_pair(trainer, w, right, symbols[i], -word->count);
            ppo__count_pair(trainer, w, token, symbols[i], word->count);
        }
        symbols[n] = (uint16_t)token;
    }
    word->length = n;
}

/* Learns up to `most` merges. A pair whose count fell since it was queued is queued again. No count rises:
   the pairs that a merge creates contain the new token, so they are new, and the last of the list. */
static void ppo__learn_merges(ppo__bpe_trainer *trainer, int most) {
    for (size_t next = 0; trainer->merged < most;) {
        for (; next < stbds_arrlenu(trainer->pairs); ++next) ppo__queue_pair(trainer, &trainer->pairs[next]);
        if (trainer->memory.failed || !stbds_arrlenu(trainer->queue)) return;
        uint64_t first = ppo__queue_pop(trainer->queue);
        ppo__pair pair = trainer->pairs[ppo__map_find(&trainer->by_pair, (uint32_t)first)];
        if (pair.count != (int)(UINT32_MAX - (uint32_t)(first >> 32))) {
            ppo__queue_pair(trainer, &pair);
            continue;
        }
        int k = trainer->merged++, token = 256 + k;
        trainer->merges[2 * k] = pair.left;
        trainer->merges[2 * k + 1] = pair.right;
        trainer->length[token] = trainer->length[pair.left] + trainer->length[pair.right];
        for (int f = pair.found; f >= 0; f = trainer->founds[f].next)
            ppo__merge_in_word(trainer, trainer->founds[f].word, pair.left, pair.right, token);
    }
}

PPO_DEF ppo_status ppo_tokenizer_train(const char *text, size_t bytes, int vocab, const char *const *specials,
                                       int special_count, ppo_tokenizer **tokenizer) {
    const size_t most = (size_t)512 << 20;
    if (tokenizer) *tokenizer = NULL;
    if (!PPO__GIVEN("ppo_tokenizer_train", tokenizer)) return PPO_ERROR_ARGUMENT;
    if (bytes && !PPO__GIVEN("ppo_tokenizer_train", text)) return PPO_ERROR_ARGUMENT;
    if (bytes > most)
        return ppo__refuse("ppo_tokenizer_train: a text of %.0f bytes, more than %.0f", (double)bytes,
                           (double)most);
    if (ppo__check_specials(specials, special_count)) return PPO_ERROR_ARGUMENT;
    if (vocab < 256 + special_count || vocab > PPO__MAX_TRAINED)
        return ppo__refuse("ppo_tokenizer_train: a vocabulary of %d, not of %d to %d", vocab,
                           256 + special_count, PPO__MAX_TRAINED);
    ppo__bpe_trainer trainer;
    memset(&trainer, 0, sizeof trainer);
    int merges = vocab - 256 - special_count;
    trainer.merges = PPO__ARRAY(&trainer.memory, int32_t, 2 * (size_t)merges);
    trainer.length = PPO__ARRAY(&trainer.memory, int, 256 + (size_t)merges);
    trainer.kinds = ppo__make_kinds(&trainer.memory, PPO__OTHER);
    for (int t = 0; t < 256 && trainer.length; ++t) trainer.length[t] = 1;
    if (!trainer.memory.failed) ppo__count_text(&trainer, (const unsigned char *)text, bytes);
    if (!trainer.memory.failed) ppo__learn_merges(&trainer, merges);
    ppo_status status = ppo__arena_status(&trainer.memory);
    merges = trainer.merged; /* which may be fewer */
    if (!status)
        status = ppo__tokenizer_make(PPO__BPE, trainer.merges, merges, specials, special_count, tokenizer);
    ppo__arena_free(&trainer.memory);
    ppo__array_free(trainer.words);
    ppo__array_free(trainer.pairs);
    ppo__array_free(trainer.founds);
    ppo__array_free(trainer.queue);
    return status;
}

/* -- encoding -- */

/* Queues the merge of this symbol and the next, if there is one. */
static void ppo__consider(ppo__encoder *encoder, int at, int count) {
    if (at < 0 || encoder->symbols[at].next == count) return;
    const ppo__symbol *symbol = &encoder->symbols[at];
    uint64_t key = ppo__pair_key(symbol->token, encoder->symbols[symbol->next].token);
    int merge = ppo__map_find(&encoder->tok->by_unit, key);
    if (merge < 0) return;
    ppo__queue_push(&encoder->memory, &encoder->queue, (uint64_t)merge << 32 | (uint32_t)at);
}

/* Applies the merges to one word, in the order in which they were learned. */
static void ppo__encode_word(ppo__encoder *encoder, const char *text, size_t bytes) {
    const ppo_tokenizer *tok = encoder->tok;
    if (bytes > encoder->room) {
        encoder->room = 2 * bytes;
        encoder->symbols = PPO__ARRAY(&encoder->memory, ppo__symbol, encoder->room);
        if (!encoder->symbols) return;
    }
    ppo__symbol *symbols = encoder->symbols;
    int count = tok->split(encoder, text, bytes);
    for (int i = 0; i < count; ++i) ppo__consider(encoder, i, count);
    while (stbds_arrlenu(encoder->queue) && !encoder->memory.failed) {
        uint64_t first = ppo__queue_pop(encoder->queue);
        int at = (int)(uint32_t)first, merge = (int)(first >> 32), next = symbols[at].next;
        const int32_t *pair = tok->units + 2 * merge;
        if (symbols[at].token != pair[0] || next == count || symbols[next].token != pair[1])
            continue; /* one of them was joined to another since */
        symbols[at].token = tok->joined[merge];
        symbols[at].next = symbols[next].next;
        symbols[next].token = -1;
        if (symbols[at].next < count) symbols[symbols[at].next].previous = at;
        ppo__consider(encoder, symbols[at].previous, count);
        ppo__consider(encoder, at, count);
    }
    for (int i = 0; i < count; i = symbols[i].next) ppo__emit(encoder, symbols[i].token);
}

/* The next of a step's added tokens from *at on, of several the longest, and where it is; NULL: none. */
static const ppo__added *ppo__find_added(const ppo_tokenizer *tok, const ppo__step *step, const char *text,
                                         size_t bytes, size_t *at) {
    const ppo__added *found = NULL;
    for (; *at < bytes && step->first < step->end; *at += !found) {
        int low = step->first, high = step->end; /* those that agree with the text in their first n bytes */
        for (size_t n = 0; low < high; ++n) {
            for (; low < high && (size_t)tok->added[low].bytes == n; ++low) found = &tok->added[low];
            if (*at + n == bytes) break;
            unsigned char c = (unsigned char)text[*at + n];
            while (low < high && (unsigned char)tok->added[low].pattern[n] < c) ++low;
            while (low < high && (unsigned char)tok->added[high - 1].pattern[n] > c) --high;
        }
        if (found) return found;
    }
    return NULL;
}

static int ppo__is_space(const ppo_tokenizer *tok, const char *at, size_t bytes, size_t *length) {
    return bytes && ppo__kind_at(tok->kinds, (const unsigned char *)at, bytes, length) == PPO__SPACE;
}

/* Encodes a piece of the text from step k on. */
static void ppo__encode_from(ppo__encoder *encoder, int k, const char *text, size_t bytes, int is_start) {
    const ppo_tokenizer *tok = encoder->tok;
    const ppo__step *step = &tok->steps[k];
    const ppo__added *found;
    if (!bytes || encoder->memory.failed) return;
    if (k == tok->step_count) {
        if (tok->kind == PPO__CHARACTERS) ppo__encode_piece(encoder, text, bytes);
        else ppo__encode_word(encoder, text, bytes);
        return;
    }
    size_t at = 0, done = 0, n;
    if (step->rewrite) text = step->rewrite(encoder, k, text, &bytes, is_start);
    for (; step->cut && at < bytes && !encoder->memory.failed; at += n) {
        n = step->cut(tok, text + at, bytes - at);
        ppo__encode_from(encoder, k + 1, text + at, n, is_start && !at);
    }
    if (step->cut) return;
    while ((found = ppo__find_added(tok, step, text, bytes, &at)) != NULL) {
        size_t begin = at, back;
        at += (size_t)found->bytes;
        if (found->special && !(encoder->flags & PPO__FIND_SPECIALS)) continue;
        for (back = begin; found->left && back > done;) {
            do --back;
            while (back > done && ((unsigned char)text[back] & 0xc0) == 0x80);
            if (!ppo__is_space(tok, text + back, begin - back, &n)) break;
            begin = back;
        }
        if (begin > done) ppo__encode_from(encoder, k + 1, text + done, begin - done, is_start && !done);
        ppo__emit(encoder, found->token);
        for (done = at; found->right && ppo__is_space(tok, text + done, bytes - done, &n);) done += n;
    }
    if (bytes > done) ppo__encode_from(encoder, k + 1, text + done, bytes - done, is_start && !done);
}

PPO__COMPANION_IS(ppo__bpe_functions, ppo__in_bpe, {ppo__add_merge, ppo__bpe_complete, ppo__encode_from});

PPO__WARNINGS_BACK

#endif
#endif
