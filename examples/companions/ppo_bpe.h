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

enum { PPO__OTHER, PPO__LETTER, PPO__NUMBER, PPO__SPACE, PPO__IN_WORDS, PPO__CODES = 0x110000 };

/* The general categories of Unicode 16 in this order: runs of characters, each a number of ppo__table_number(), 32 times
   its length plus the place of the category; plus 30 of Lu and Ll in turn; plus 31 of Ll and Lu. Made by
   tests/golden/make_unicode.py. */
static const char ppo__category_names[] = "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn";
static const char *const ppo__unicode_categories[] = {
    "Az$q&h$n&h$h$i$l$m$l$g%j,s%j&i%j;m$h$l$i$o$f$o;n$h$m$i$mBx$q$l'h$p$l$o$p$_$j$m$u$p$o$p$m%c$o~%j$o$e$_$k&"
    "a$l8s$m)q9r$m*pWs$|2]$|Oc${'t%z${&v${~%y$|&w~${~%y%z${~${(r${~}$|}~${~%y&v${$|$_}%z&{}$]~}$]~}$]2~$|3{$|"
    "}$]&v%yZn)r${~${$|}~&w+l$*~$_<l4^'i.j0w'x*c$^$o$^3q$Sp's$^$o}~%v$^%z$l}'r%m}$l%y$x}$x${~3]$x+mC~}$|%y%z9"
    "o'v}~$m}~${$|S]PdC{$p'z%`Vu${/d$|$Ee$xFw%v$^)bIr$l$g%v%n$n$xMn$g$`$l%^$l%^$l$`+j<o'r&{%j.d)k&i%j$n%j%n-n"
    "$l$u&hAe$^,o6|,s'f%]$`$Gg$l$_)v$u$p(x$~%^$p&|%],s%}%n$_0t$x$u$_$`?i<p%v$={-n$_1^,sBc+r$~$p&h$^%v$`%l7y&|"
    "$^+r$^%~$^'z%v1r$x:s%~%v$l$x-m(p9u$o(w$x%s(p+rIu$^9v$uAf$aU}$`$a$`$_&]*t&}$`%_$_)v,o%^%j,s$l$^1e$`%_$x*s"
    "%v%]%v7y$x)u$x$_&t&{%v$`$_&]&|%v%_%v%_$`$_+j$a'r%]$x%}%^%v,s%]%l(}$p$n$_$l$`%v%^$a$x(w'r%]%v7y$x)u$x%]$x"
    "%]$x%]%v$`$x&]%^'r%^%v%~&t$`*l&{$x$_*l,s%^%}$`$l-f%^$a$x+q$x%}$x7y$x)u$x%]$x'y%v$`$_&]'z$x%^$a$x%_$`%v$_"
    "1~%]%^%v,s$l$n*l$_(x$x$`%_$x*s%v%]%v7y$x)u$x%]$x'y%v$`$_$a$`$a&|%v%_%v%_$`*l%^$a'r%]$x%}%^%v,s$p$_(}-f$`"
    "$_$x(w&t%}$x&{&t%]$x$_$x%]&t%]&t%}&t.k'r%_$`%_&t&]$x&]$`%v$_)n$a1^,s&a)f$n$p(p$`&]$`*s$x%}$x8w$x2c%v$`$_"
    "%~&}$x%~$x&|*l%^$x%}%v$_%v%]%^%v,s*l$l){$p$_$`%_$l*s$x%}$x8w$x,o$x'y%v$`$_$a$`'{$x$`%_$x%_%^*l%_)n%]$x%]"
    "%^%v,s$x%]$a/b%^%_+q$x%}$xIu%^$_&]&|$x&]$x&]$`$_$p'r%}$a){%}%^%v,s+w$p(w$x$`%_$x4_&t9u$x+q$x$_%v)u&t$`'r"
    "&]%~$x$`$x*u)n,s%v%_$l/bPg$`%])v'r$n(w$^*t$l,s%jFt%]$x$_$x'y$x9u$x$_$x,o$`%]+r$_%v'y$x$^$x)v$x,s%v&{A~$_"
    "&l1r$p$l&l%^)f,s,u$p$`$p$`$p$`$h$i$h$i%_*s$xE]'r0h$a'z$l%^'y-n$xE^$x+b$`)f$x%n(d'j%jFtKq%_&|$a(x$a%^%_%^"
    "$_,s)b(w%_%^&{%~$_&]%])w%}&|/i$`%_%^(y$`$_$a,s&]$`%nFw$x}(p}%vKn$l$^%z(;w$x&{%v)u$x$_$x&{%vIu$x&{%vBc$x&"
    "{%v)u$x$_$x&{%v1e$xXw$x&{%v$)c%v%~+~6a&t2c-^)n$:}%v(t%v$g-0s$p$l3a$q;q$h$i&t$0u&h&`*s*l4_%~$a,h5]%^$a%j,"
    "h4_%^/b/i$x%}$x%^/bT_%^$a)v*u$`%_-n&h$^&h$n$_$`%v,s)n,u)n)b$g'f%~$u$`,s)nD_$^U]*l'y%^Ca$`$_(p$,]-f@g$x%~"
    "&}%^&]'r%_$`(y%~'r$p&t%j,s?i%v'y.dLo'r;q)n,s$e&tCr8w%^%_$`%v%jU]$a$`$a)v$x$`$a$`%_*t(y,p%v$`,s)n,s)n*`$^"
    ")b%v0h$b2dQ~&|$aOi$`$a'z$a$`'{$`%_*s$x%j,s*`-^+r,`&h%^$a?i$a&|%_%^$a%~%],sLo$`$a%^&]$`$a%~%_+j'fE]*u*t%_"
    "%^&t(d,s&t%},s?i(v%j+n}~(pKm%v%y+^+j%~$l/j$a)v&{$`(w$`%]$a%^$_(pLl$%j/f$^C^E|$&j%>a+n$Fc+n*o(t%v(s%v*p*o"
    "*p*o(t%v(s%v*p$x}$x}$x}$x}*p*o0d%v*p*q*p*q*p*q'v$x$|&w$]$o~&k%z$x$|&w$]&k&x%v$|&w$x&k*p'u&k%v%z$x$|&w$]%"
    "m$x.](m)]%j$j$k$h%h$k$h$j+^$r$s(m$q+~$j$k'f%d&h$m$h$i-z$m$l$f,|$q(m$x-c$e$^%v(}&i$h$i$^,u&i$h$i$x/h&tBr1"
    "~/j&~$`&^.l1~%n}'j}%n~%y$|%y~$p}%n$m'u)f}$p}$p}$p&w$p~&w~&{~%n$|${(e}&x$p$m%n~$p2iDd}~'^$e%n'r(e(h%k'j$m"
    "%n$m%n$m*d$m@x%k%n$m$p$m@x';w+b$h$i$h$i6l%k*d$h$i$6z$m?z;_If)c$.j8p-~7r[w$4^8]&$z$m,`$mVl+_$S`$m')^$h$i$"
    "h$i$h$i$h$i$h$i$h$i$h$i?oM^(e$h$i@u$h$i$h$i$h$i$h$i$h$i2q'0p%,y$h$i$h$i$h$i$h$i$h$i$h$i$h$i$h$i$h$i$h$i$"
    "h$i$%y$h$i$h$iAs$h$i'2iPx7g%n)cHh%vAv$x$MlPcPd}~%y$|)o&w~}$|}(t$~%y$Gb$|)f's%~}~(p'f$e%jFx$x~(p~%vWy*l$^"
    "$l1^$`8w,h)u$x)u$x)u$x)u$x)u$x)u$x)u$x)u$xAf%j$j$k$j$k&h$j$k$l$j$k+~$g%j$g$l$j$k%j$j$k$h$i$h$i$h$i$h$i(d"
    "$^,|%e'f$g$l$h/v%n&h$h$i$h$i$h$i$h$i$gCz<`$x$>j/b&B^<h2t$q&h$p$^$_$d$h$i$h$i$h$i$h$i$h$i%n$h$i$h$i$h$i$h"
    "$i$g$h%g$p+v&|%_$g'x%n&`$^$_$l%n$x$;_%v%^%m$~$_$g$>y$l%|$_(pKq$x$Bq$x%n'_-^AeGj,h$p2c@x$x,u?z*y$p1kAv,uH"
    "h1k(3x$VSi$&z)'Z_$^5T{&tWj,hHw(v%j';i$^&h2c,s%]6tOc$_$`&^$l,p$l$^>e$~%^$,],t%^)b+j9e+p%m0a%z$%e$^*p's${,"
    "j$^%m's$_&u%z6u'u~'u2^&w&v${~%v}~$x~$x+l7r%|}~$_$~~)u$`%}$`&{$`8w%_%^$a'j$`&t(}%n$n$p)nT_'f+j%_Rc2e%^+j%"
    "j,s)n4`(w&h$_$l%]$`,s=m*t%j8w-n%_.d$l>k&t%~$aOi$`%_&|%_%^&]/v$x$^,s'r%j'y$`$^+q,s'y$xIu(x%_%^%_%^,h%}$`*"
    "s$`$a%v,s%v'f2c$^(w&l$_$a$`$aRc$`$_%~%]%^'y%^$_$`$_:l%]$^%j-m$a%^%_%j$_$~$a$`-f(w%v(w%v(w,h)u$x)u$xKn$o&"
    "z+n$^%m'r$5hD_%_$`%_$`%_$l$a$`%v,s)n&0=}/b8w'rQe'rDRh$SJi)%q%v$M{Gr)r/b'v(p$_$`,o$m/i$x'y$x$_$x%]$x%]$x$"
    "Ow3q2|([w$i$h2t$&i%vU}*l$pA~.k$n&l2d*`$h$i$l)n2d$l%e%d$h$i$h$i$h$i$h$i$h$i$h$i$h$i$h$i%j$h$i'f&b&h$x'f$g"
    "$h$i$h$i$h$i&h$m$g&i$x$l$n%j'r'y$x%0c%v$u$x&h$n&h$h$i$l$m$l$g%j,s%j&i%j;m$h$l$i$o$f$o;n$h$m$i$m$h$i$l$h$"
    "i%j,o$^Mm$~@g&t(w%v(w%v(w%v%}&t%l$m$o$p%l$x$p'g%n-f&q%n%v.k$x;q$x5]$x%]$x1e%v0gCz%${(p&h'rMs&t,`Ub'_3r%c"
    "&l$x/z&t$pP`M~$`%,d>k&tQe1~$`<u'rAe'_,h5}$d*s$d(pF{'z(p?i$x$lE]'r*s$l'~KjHsHt$3o%v,s)nD{'rD|'rHw+jT_.d$l"
    "-i$x1a$x)q$x${$x-j$x1b$x)r$x$|&tT_/b(*y,h7y-f*s",
    ":l(v$xJr$x+p$+x(w%v$_$xLo$x%]&t$_%v8w$x$l*y8w%n){@g+j+wQ^5]$x%](p(]7y(}&t$l;q(p$l$'`Wy'r%c%]2i%vNq$_%~$x"
    "%^(p&|&{$x%}$x>k%v%~'r$`+w*l+~*l>k%c$l>k&aA~*s$p=m%^'r(]*`,hU}&t*`7y%v*y5](p*y4_*l'f/b){$6b$.yWrS]0`S^*l"
    "(}E]&|+j,s)n,s&{$^$_7u&t'z$g$^7v+j%k&<r@m$xJs$x%^$g%v%]2|%}Wr&|>k,u$_+j7y-n'_(d8p4_&|'fGr6{){6t8w,h$a$`$"
    "aU]1f*`'r6a,s$`%]%^$_,h%~$aMm&]&|%_%^%j$u'f$`-f$u%v:s*l,s)n%~E]'z$a*t$x,s'f$_%_$_+jD_$`%j$_,h%^$aPg&]+r%"
    "_&{'f&|$l$a$`,s$_$l$_&h$x6a.d4_$x:s&]%~%_$`$a%^)b$`%]$`$%d)u$x$_$x&{$x1e$x,o$l)nOi$`&]*t(p,s)n%^%_$x*s%v"
    "%]%v7y$x)u$x%]$x'y$x%^$_%_$`&}%v%_%v&]%v$_)n$a(p'y%_%v)v&t'z.d,o$x$_%v$_$xF{$x$_&](x$x$a%v$a$x&}$x%_$`$a"
    "$`$_$`$_%j$x%j+j%^?bU]&]*t%_%~$a$`&{(d,s%j$x$l$`%}@`Pg&](x$a$`&}%^$a%^%]$l$_+j,s%N`Oi&]&|%v&}%^$a%^9b&{%"
    "^CzPg&]*t%_$`$a%^&h$_.d,s)n/v5vKq$`$a$`%_(x$a$`$_$l)n,s)n6_>d<o%v$`$a$`%_&|$a'z'r,s%c&h$p)u&&~Lo&]+r$a%^"
    "$l$H~AaAb,s+w/b*s%v$_%v*s$x%]$x9u(y$x%_%v%^$a$`$_$a$_$a$`&h,h,s$,v*s%vGy&]&|%v%^&}$`$_$l$_$a=f$_,pHw(x$a"
    "$_&|+^$`+j$_(x%_%~Nk/j$a%^&h$_(d0`$.y*l,|&$bBc$l1^,s)n+q$xE}$a)v$x(x$a$`$_(d-f,s5c&t%j?i%v7z$x$a)v$a%^$a"
    "%^$/p)u$x%]$xF{(x&t$`$x%^$x)v$_$`+j,s)n(w$x%]$xAe'{$x%^$x%_$`$a$`$_*l,s(*r5]%^%_%j*l%^$_$a/i$xCa%_'z&t%_"
    "$`$a$`/v,s$`$:z$_1~7_+b'h3r0`$l2/{$Jz$Rv$x(d.d&0qNAx$Ek%j0`4K_2y$`(w1f-f$+Za(p,Fy$ZZl?i.l&]%~,s?Gz,9s*l@"
    "g$x,s'r%j$4m$x,s)n?i%v'z$l-fPg)v(d'j&z$l$p-f,s$x){$x6{(p5]*+l%|Hw$~&h,s&3dAaAb8}'f$I|$0u'r$`$_V}*l&|/h$'"
    "`$~$l$^$`.d%_1^$O5c+j7<gJl,o%DBf&z$x)t$x$~$x'Q]1~$_?b%}%v$_1^&{+j)AyI*`$Ny(p/i&t+q*l,o%v$p%^$l'o$*Xp&Zn,"
    "s)n*.~$2jNl%v8x,h$Wx$#h''b-fHh%v$#`%_%~&l(y+g*t%n)v?z&|$$^7r$(v%~$p%$t6a/b6a/b$<n,h:y%0|;m;n;m)r$x3~;m;n"
    "}$x${%v}%v${%v&w$x*o&x$x~$x)r$x-j;m;n${$x&w%v*o$x)q$x;n${$x&w$x'u$x}&t)q$x;n;m;n;m;n;m;n;m;n;m;n;m=j%v:o"
    "$m:p$m(t:o$m:p$m(t:o$m:p$m(t:o$m:p$m(t:o$m:p$m(t}~%vRg+=nV|'jRd+b$`0x$`%n(d1~'z$x1f50|,l$_5z)n(t&Ah)v$x3"
    "b%v)v$x%^$x'z(p$$lB|$`$TfMm&t)v)t%v,s'r$_$p(4^?i$`3zLo&|,s(p$n*Ip<o$^&|,s&Bf?i%^$_,s'r$l*Xr)u$x&{$x%]$x1"
    "e$x&1o%v+w)vJlC]C^)v$^'r,s'r%j/ZtZy$p&a$n'_$2jMs$p1k&/l&{$x<o$x%]$x$_%v$_$x,o$x&{$x$_$x$_)n$_'r$_$x$_$x$"
    "_$x%}$x%]$x$_%v$_$x$_$x$_$x$_$x$_$x%]$x$_%v&{$x)u$x&{$x&{$x$_$x,o$x3a(p%}$x'y$x3aTx%k'=~M^'r$Hv/b1v%v1v$"
    "x1v$xFl-f/o%IbXp>|0`M^'r,`*l%n1^)f%Bx'+z(g/$x'r3r&t/z&t$Zr'r$D^)n.|'r$p1~.|'rXh+j-^)nIf+j?z%v.|'r%n$%d(F"
    "r/b0x%v/z&t-^(pXh*l1v%v-~)n,`*l%;~$x$Ad,s4$f/89cA~$.Dw)n&I_%v$I+c1^%,9o1~-2oKLx+Ye;Uf$;Bq(p$//o&F-@p$u@`"
    "$Ea%*h&Z^5RX~5[({%v5[({%v",
    NULL};

/* Reads a number: digits of 57 values, from '#' on, and a last one of 34, from ']' on, which ends it. As text the
   table has a third of the size of an array. */
static int32_t ppo__table_number(const char **at) {
    int32_t n = 0;
    for (; **at < ']'; ++*at) n = n * 57 + (**at - '#');
    return n * 34 + (*(*at)++ - ']');
}

/* Goes on to the next string of a table at the end of one: they are several because C99 limits how long one may be, and
   NULL is the last. 0: this was the last. */
static int ppo__table_more(const char *const **table, const char **at) {
    if (!**at && *++*table) *at = **table;
    return **at != 0;
}

/* Two tokens or characters as one number. */
static uint64_t ppo__pair_key(int left, int right) { return (uint64_t)left << 32 | (uint64_t)right; }

/* Reads the next run of characters: how many, and the places of their categories, every second one's in category[1]. */
static int32_t ppo__next_categories(const char **at, int category[2]) {
    const int32_t number = ppo__table_number(at), place = number % 32;
    category[0] = place < 30 ? place : place - 30;
    category[1] = place < 30 ? place : 31 - place;
    return number / 32;
}

/* The kinds of all characters, plus PPO__IN_WORDS if Rust's \w has them. */
static unsigned char *ppo__make_kinds(ppo__arena *memory) {
    static const int32_t others[][2] = {
        {0x200c, 2}, {0x24b6, 52}, {0x1f130, 26}, {0x1f150, 26}, {0x1f170, 26}};
    unsigned char *kinds = PPO__ZEROS(memory, unsigned char, PPO__CODES), *at = kinds;
    int category[2];
    const char *const *table = ppo__unicode_categories, *next = *table;
    while (kinds && ppo__table_more(&table, &next)) {
        const int32_t n = ppo__next_categories(&next, category);
        const char *name = ppo__category_names + 2 * category[0];
        const int kind = *name == 'L'   ? PPO__LETTER
                         : *name == 'N' ? PPO__NUMBER
                         : *name == 'Z' ? PPO__SPACE
                                        : PPO__OTHER;
        const int in_words =
            strchr("LM", *name) || !memcmp(name, "Nd", 2) || !memcmp(name, "Nl", 2) || !memcmp(name, "Pc", 2);
        memset(at, kind | (in_words ? PPO__IN_WORDS : 0), (size_t)n);
        at += n;
    }
    if (!kinds) return NULL;
    memset(kinds + 9, PPO__SPACE, 5); /* \t to \r */
    kinds[0x85] = PPO__SPACE;
    for (int k = 0; k < 5; ++k)
        for (int32_t i = 0; i < others[k][1]; ++i) kinds[others[k][0] + i] |= PPO__IN_WORDS;
    return kinds;
}

/* The kind of the character at the start of `bytes` (> 0) bytes, and its length. A byte that is not UTF-8 is a
   character as U+FFFD. */
static int ppo__kind_at(const unsigned char *kinds, const unsigned char *at, size_t bytes, size_t *length) {
    *length = 1;
    if (*at < 0x80) return kinds[*at] & (PPO__IN_WORDS - 1);
    int n;
    int32_t code = ppo__utf8_get((const char *)at, bytes, &n);
    if (code >= 0) *length = (size_t)n;
    return kinds[code < 0 ? 0xfffd : code] & (PPO__IN_WORDS - 1);
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

/* The cut of a step. */
typedef void (*ppo__cut_fn)(ppo__encoder *encoder, int k, const char *text, size_t bytes, int is_start);

static ppo__step *ppo__add_step(ppo_tokenizer *tok, ppo__cut_fn cut) {
    ppo__step *step = &tok->steps[tok->step_count++];
    step->cut = cut;
    return step;
}

/* Adds the step that finds the added tokens first .. end - 1. */
static void ppo__add_find(ppo_tokenizer *tok, int first, int end) {
    ppo__step *step = ppo__add_step(tok, NULL);
    step->first = first;
    step->end = end;
    step->begins = PPO__ZEROS(&tok->memory, char, 256);
    for (int k = first; k < end && step->begins; ++k) step->begins[(unsigned char)*tok->added[k].pattern] = 1;
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
    trainer.kinds = ppo__make_kinds(&trainer.memory);
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

/* The first of sorted names low .. high - 1, which agree in n bytes, whose next byte is not below c. */
static int ppo__name_from(const ppo__added *names, int low, int high, size_t n, int c) {
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if ((unsigned char)names[middle].pattern[n] < c) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The next of a step's added tokens from *at on, of several the longest, and where it is; NULL: none. */
static const ppo__added *ppo__find_added(const ppo_tokenizer *tok, const ppo__step *step, const char *text,
                                         size_t bytes, size_t *at) {
    const ppo__added *found = NULL;
    for (; *at < bytes && step->first < step->end; *at += !found) {
        int low = step->first, high = step->end; /* those that agree with the text in their first n bytes */
        if (!step->begins[(unsigned char)text[*at]]) continue;
        for (size_t n = 0; low < high; ++n) {
            for (; low < high && (size_t)tok->added[low].bytes == n; ++low) found = &tok->added[low];
            if (*at + n == bytes) break;
            const int c = (unsigned char)text[*at + n];
            low = ppo__name_from(tok->added, low, high, n, c);
            high = ppo__name_from(tok->added, low, high, n, c + 1);
        }
        if (found) return found;
    }
    return NULL;
}

static int ppo__is_space(const ppo_tokenizer *tok, const char *at, size_t bytes, size_t *length) {
    return bytes && ppo__kind_at(tok->kinds, (const unsigned char *)at, bytes, length) == PPO__SPACE;
}

/* Is the character that ends (side -1) or begins (1) at a place one of words, as Rust has them? */
static int ppo__in_word(const ppo_tokenizer *tok, const char *text, size_t at, size_t bytes, int side) {
    int length;
    const size_t end = side < 0 ? at : bytes;
    if (side < 0 ? !at : at == bytes) return 0;
    if (side < 0) do
            --at;
        while (at && end - at < 4 && ((unsigned char)text[at] & 0xc0) == 0x80);
    const int32_t code = ppo__utf8_get(text + at, end - at, &length);
    return code >= 0 && tok->kinds[code] & PPO__IN_WORDS;
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
    if (step->cut) {
        step->cut(encoder, k, text, bytes, is_start);
        return;
    }
    while ((found = ppo__find_added(tok, step, text, bytes, &at)) != NULL) {
        size_t begin = at, back;
        at += (size_t)found->bytes;
        if (found->special && !(encoder->flags & PPO__FIND_SPECIALS)) continue;
        if (found->single &&
            (ppo__in_word(tok, text, begin, bytes, -1) || ppo__in_word(tok, text, at, bytes, 1)))
            continue;
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

/* The cut of a step: by GPT-2's expression. */
static void ppo__cut_words(ppo__encoder *encoder, int k, const char *text, size_t bytes, int is_start) {
    for (size_t at = 0, n; at < bytes && !encoder->memory.failed; at += n) {
        n = ppo__word_length(encoder->tok->kinds, (const unsigned char *)text + at, bytes - at);
        ppo__encode_from(encoder, k + 1, text + at, n, is_start && !at);
    }
}

/* The steps of a tokenizer that is no tokenizer.json's: special tokens are found, then words are cut. */
static ppo_status ppo__bpe_complete(ppo_tokenizer *tok) {
    tok->split = ppo__split_bytes;
    ppo__add_find(tok, 0, tok->added_count);
    if (tok->kind == PPO__BPE) {
        tok->kinds = ppo__make_kinds(&tok->memory);
        ppo__add_step(tok, ppo__cut_words);
    }
    return ppo__arena_status(&tok->memory);
}

PPO__COMPANION_IS(ppo__bpe_functions, ppo__in_bpe, {ppo__add_merge, ppo__bpe_complete, ppo__encode_from});

PPO__WARNINGS_BACK

#endif
#endif
