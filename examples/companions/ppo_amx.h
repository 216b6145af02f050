/* ppo_amx.h - the tiles of AMX for the layers of ppo.h, on Intel processors with AMX-BF16 and Linux

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_amx.h"               after ppo.h, in the file that has PPO_IMPLEMENTATION

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_amx.h".

ONE CALL

       if (ppo_use_kernels("amx")) fprintf(stderr, "%s\n", ppo_last_error());     the best others are used

   Products of layers from 32 rows on are 1.2 to 1.8 times as fast as with AVX-512, to the accuracy of floats; of
   a few rows, as of a small policy that acts, they are slower. So the set is used by name alone: it suits training,
   most of all of packed parameters. It takes 240 KB more of each thread's stack. Needs 64-bit Linux with glibc and gcc 11
   or clang 12; elsewhere this file is empty, and the call fails.

   License: that of ppo.h. */
#ifndef PPO_AMX_H
#define PPO_AMX_H
#ifndef PPO_H
#error "include ppo.h before ppo_amx.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_amx.h belongs to version 0.3 of ppo.h"
#endif
#endif

/* --------------------------------------------------------------------------------------------------------
   Implementation
   -------------------------------------------------------------------------------------------------------- */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__AMX_IMPLEMENTED)
#define PPO__AMX_IMPLEMENTED
#if defined(PPO__HAS_AVX512) && defined(__GLIBC__) && defined(__LP64__) && \
    (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)

#include <cpuid.h>

PPO__WARNINGS_OFF
#ifndef __clang__ /* as where ppo.h has the AVX-512 intrinsics */
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

/* The set is avx512, but the tiles of AMX, which multiply BF16, compute the products of layers. A float
   is split into three parts, x = high + middle + low, each the BF16 nearest to what is left: 24 bits are 3
   times 8. Six of the nine products of parts are added, as floats, the largest last; the others are together
   below 2^-23 |a b|. A BF16 operand has only a high part, and the bits are those of the same number as a
   float. A tile of a has 16 rows of 32 numbers. A tile of b has 32 rows of 16: rows j and j + 16 are stored in
   pairs. Missing rows and columns are 0. Each element of c is the same sequence of sums, whatever else is
   computed with it.

   Errors: within (24 + inner / 5) 2^-24 (|init| + sum |a b|), and inner (1 + max |a| + max |b|) 2^-123 more,
   since tiles take numbers, parts and sums below 2^-126 as 0. A number that is not finite, or not below
   2^128 - 2^119, makes each element that it enters not finite. */

#define PPO__TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")))
#define PPO__TILE_LOAD(t, p, step)                                                         \
    __asm__ volatile("tileloadd {(%0,%1,1), %%tmm" #t "|%%tmm" #t ", [%0+%1*1]}" ::"r"(p), \
                     "r"((ptrdiff_t)(step))                                                \
                     : "memory")
#define PPO__TILE_STORE(t, p, step)                                                         \
    __asm__ volatile("tilestored {%%tmm" #t ", (%0,%1,1)|[%0+%1*1], %%tmm" #t "}" ::"r"(p), \
                     "r"((ptrdiff_t)(step))                                                 \
                     : "memory")
#define PPO__TILE_ZERO(t)      __asm__ volatile("tilezero %%tmm" #t ::)
#define PPO__TILE_ADD(c, a, b) /* c += a b */                                                              \
    __asm__ volatile("tdpbf16ps {%%tmm" #b ", %%tmm" #a ", %%tmm" #c "|%%tmm" #c ", %%tmm" #a ", %%tmm" #b \
                     "}" ::)

/* c is computed in blocks of up to 32 x 32, from strips: 32 rows of a or 32 columns of b, DEEP numbers of each,
   as [DEEP / 32][3 parts][2 tiles]. Of b there are strips for WIDE columns, of a one; the strips are used for
   HIGH rows of c. A STRIP is not a multiple of 4096 bytes, or strips would evict each other. All of this is on
   the stack: 240 KB. */
enum {
    PPO__AMX_DEEP = 128,
    PPO__AMX_WIDE = 256,
    PPO__AMX_HIGH = 512,
    PPO__AMX_TILE = 512, /* numbers */
    PPO__AMX_PARTS = 6 * PPO__AMX_TILE,
    PPO__AMX_STRIP = PPO__AMX_DEEP / 32 * PPO__AMX_PARTS + 32
};

/* n of 16 floats, or of BF16 as floats; the others are 0 */
PPO__INLINE __m512 ppo__amx_load(const int bf16, const char *x, int n) {
    const __mmask16 lanes = (__mmask16)(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
    if (!bf16) return _mm512_maskz_loadu_ps(lanes, x);
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* The parts of x and y, in the lower and the upper halves of 32 bits. */
PPO__INLINE void ppo__amx_split(const int bf16, __m512 x, __m512 y, uint16_t *out) {
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32(-0x10000);
    const int last = bf16 ? 0 : 2;
    PPO__UNROLL for (int part = 0; part <= last; part++, out += 2 * PPO__AMX_TILE) {
        __m512i u = _mm512_castps_si512(x), v = _mm512_castps_si512(y);
        if (part < last) {
            u = _mm512_and_si512(_mm512_add_epi32(u, half), upper);
            v = _mm512_and_si512(_mm512_add_epi32(v, half), upper);
            x = x - _mm512_castsi512_ps(u);
            y = y - _mm512_castsi512_ps(v);
        }
        _mm512_store_si512(out,
                           _mm512_ternarylogic_epi32(_mm512_srli_epi32(u, 16), v, upper, 0xf8)); /* | and & */
    }
}

/* A strip of n rows of a; and strips of n columns of b. ld is in bytes. */
PPO__INLINE void ppo__amx_rows(const int bf16, const char *a, ptrdiff_t ld, int n, int deep, uint16_t *out) {
    const int size = bf16 ? 2 : 4;
    for (int i = 0; i < n; i++, a += ld, out += 32)
        for (int k = 0; k < deep; k += 32)
            ppo__amx_split(bf16, ppo__amx_load(bf16, a + k * size, deep - k),
                           ppo__amx_load(bf16, a + (k + 16) * size, deep - k - 16),
                           out + k / 32 * PPO__AMX_PARTS);
}

PPO__INLINE void ppo__amx_columns(const int bf16, const char *b, ptrdiff_t ld, int n, int deep,
                                  uint16_t *out) {
    const int size = bf16 ? 2 : 4;
    for (int k = 0; k < deep; k += 32, out += PPO__AMX_PARTS)
        for (int i = 0; i < 16; ++i)
            for (int j = 0; j < n; j += 16) {
                const char *x = b + (k + i) * ld + j * size;
                const __m512 first = ppo__amx_load(bf16, x, k + i < deep ? n - j : 0);
                const __m512 second = ppo__amx_load(bf16, x + 16 * ld, k + i + 16 < deep ? n - j : 0);
                ppo__amx_split(bf16, first, second, out + j / 32 * PPO__AMX_STRIP + (j % 32 + i) * 32);
            }
}

PPO__NOINLINE PPO__FN void ppo__amx_pack(int is_b, int bf16, const char *x, ptrdiff_t ld, int n, int deep,
                                         uint16_t *out) {
    if (is_b && bf16) ppo__amx_columns(1, x, ld, n, deep, out);
    else if (is_b) ppo__amx_columns(0, x, ld, n, deep, out);
    else if (bf16) ppo__amx_rows(1, x, ld, n, deep, out);
    else ppo__amx_rows(0, x, ld, n, deep, out);
}

/* Tiles 0 to 3 are of c, 4 and 5 of a, 6 and 7 of b. */
static void ppo__amx_configure(int high, int wide) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16]; /* of a row */
        uint8_t rows[16];
    } tiles;
    memset(&tiles, 0, sizeof tiles);
    tiles.palette = 1;
    for (int t = 0; t < 8; ++t) {
        const int lower = t == 2 || t == 3 || t == 5, right = t == 1 || t == 3 || t == 7;
        const int rows = lower ? high - 16 : high, cols = right ? wide - 16 : wide;
        tiles.rows[t] = (uint8_t)(t > 5 || rows > 16 || rows < 1 ? 16 : rows);
        tiles.bytes[t] = (uint16_t)(t == 4 || t == 5 || cols > 16 || cols < 1 ? 64 : 4 * cols);
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(tiles));
}

/* A block of c; and `next`, whose cache lines from .. to - 1 are prefetched, 2^shift of them in a row. */
typedef struct {
    int high, wide, deep, packed;
    const uint16_t *a, *b;
    const float *init;
    float *c;
    ptrdiff_t ld_init, ldc; /* bytes */
    const char *next;
    ptrdiff_t ld_next;
    int from, to, shift;
} ppo__amx_block;

static void ppo__amx_multiply(const ppo__amx_block *shared) {
    static const unsigned char parts[6][2] = {{2, 0}, {1, 0}, {1, 1},
                                              {0, 1}, {0, 2}, {0, 0}}; /* of a and b */
    ppo__amx_block x = *shared;
    const int lower = x.high > 16, right = x.wide > 16;
    const char *init = (const char *)x.init, *c = (const char *)x.c;
    if (init) {
        PPO__TILE_LOAD(0, init, x.ld_init);
        if (right) PPO__TILE_LOAD(1, init + 64, x.ld_init);
        if (lower) PPO__TILE_LOAD(2, init + 16 * x.ld_init, x.ld_init);
        if (lower && right) PPO__TILE_LOAD(3, init + 16 * x.ld_init + 64, x.ld_init);
    } else {
        PPO__TILE_ZERO(0);
        PPO__TILE_ZERO(1);
        PPO__TILE_ZERO(2);
        PPO__TILE_ZERO(3);
    }
    for (int k = 0; k < x.deep; k += 32, x.a += PPO__AMX_PARTS, x.b += PPO__AMX_PARTS)
        for (int s = 0, part_a = 3, part_b = 3; s < 6; ++s) {
            if ((parts[s][0] && x.packed & PPO__PACKED_A) || (parts[s][1] && x.packed & PPO__PACKED_B))
                continue;
            for (int i = 0; i < 3 && x.from < x.to; i++, x.from++)
                __builtin_prefetch(x.next + (x.from >> x.shift) * x.ld_next +
                                   (x.from & ((1 << x.shift) - 1)) * 64);
            if (part_a != parts[s][0]) {
                const uint16_t *a = x.a + (part_a = parts[s][0]) * 2 * PPO__AMX_TILE;
                PPO__TILE_LOAD(4, a, 64);
                if (lower) PPO__TILE_LOAD(5, a + PPO__AMX_TILE, 64);
            }
            if (part_b != parts[s][1]) {
                const uint16_t *b = x.b + (part_b = parts[s][1]) * 2 * PPO__AMX_TILE;
                PPO__TILE_LOAD(6, b, 64);
                if (right) PPO__TILE_LOAD(7, b + PPO__AMX_TILE, 64);
            }
            PPO__TILE_ADD(0, 4, 6);
            if (right) PPO__TILE_ADD(1, 4, 7);
            if (lower) PPO__TILE_ADD(2, 5, 6);
            if (lower && right) PPO__TILE_ADD(3, 5, 7);
        }
    PPO__TILE_STORE(0, c, x.ldc);
    if (right) PPO__TILE_STORE(1, c + 64, x.ldc);
    if (lower) PPO__TILE_STORE(2, c + 16 * x.ldc, x.ldc);
    if (lower && right) PPO__TILE_STORE(3, c + 16 * x.ldc + 64, x.ldc);
}

/* rows <= HIGH, cols <= WIDE, deep <= DEEP. A single block of rows uses each strip of b at once, while it is
   in the first cache. The arrays take 240 KB of the stack: this set is for glibc, whose threads have 8 MB unless
   `ulimit -s` says otherwise. */
static void ppo__amx_panel(int packed, int rows, int cols, int deep, const char *a, int a_row, int a_col,
                           const char *b, int ldb, const float *init, int ld_init, float *c, int ldc) {
    uint16_t strip[PPO__AMX_STRIP] __attribute__((aligned(64)));
    uint16_t strips[PPO__AMX_WIDE / 32 * PPO__AMX_STRIP] __attribute__((aligned(64)));
    float columns[32 * PPO__AMX_DEEP];
    const int a_bf16 = packed & PPO__PACKED_A, b_bf16 = packed & PPO__PACKED_B, by_rows = a_col == 1;
    const int together = rows > 32 ? PPO__AMX_WIDE : 32, count = (cols + 31) / 32;
    const ptrdiff_t size = b_bf16 ? 2 : 4, ld = (a_bf16 ? 2 : 4) * (ptrdiff_t)(by_rows ? a_row : a_col);
    int high = 0, wide = 0; /* as configured */
    for (ptrdiff_t i = 0; i < rows; i += 32) {
        const char *next = a + 32 * (by_rows ? ld : 4);
        ppo__amx_block x;
        x.high = ppo__min_int((int)(rows - i), 32);
        x.deep = deep, x.packed = packed, x.a = strip;
        x.ld_init = 4 * (ptrdiff_t)ld_init, x.ldc = 4 * (ptrdiff_t)ldc;
        x.next = next, x.ld_next = ld, x.shift = by_rows ? 3 - (a_bf16 != 0) : 1;
        if (!by_rows)
            ppo__avx512_transpose(deep, x.high, (const float *)(const void *)a, a_col, columns,
                                  PPO__AMX_DEEP);
        ppo__amx_pack(0, a_bf16, by_rows ? a : (const char *)columns, by_rows ? ld : 4 * PPO__AMX_DEEP,
                      x.high, deep, strip);
        for (int j = 0, ahead = 0; j < cols; j += 32, ahead = x.to) {
            uint16_t *there = strips + (together > 32 ? j / 32 * PPO__AMX_STRIP : 0);
            x.wide = ppo__min_int(cols - j, 32);
            if (i == 0 && j % together == 0)
                ppo__amx_pack(1, b_bf16, b + j * size, size * ldb, ppo__min_int(cols - j, together), deep,
                              there);
            if (x.high != high || x.wide != wide) ppo__amx_configure(high = x.high, wide = x.wide);
            x.b = there, x.c = c + i * ldc + j, x.init = init ? init + i * ld_init + j : NULL;
            x.from = ahead, x.to = i + 32 < rows ? ahead + (by_rows ? 32 << x.shift : 2 * deep) / count : 0;
            ppo__amx_multiply(&x);
        }
        a = next;
    }
}

static void ppo__amx_product(int packed, int rows, int cols, int inner, const void *a, int a_row, int a_col,
                             const void *b, int ldb, const float *init, int ld_init, float *c, int ldc) {
    const ptrdiff_t a_size = packed & PPO__PACKED_A ? 2 : 4, b_size = packed & PPO__PACKED_B ? 2 : 4;
    for (ptrdiff_t i = 0; i < rows; i += PPO__AMX_HIGH)
        for (ptrdiff_t j = 0; j < cols; j += PPO__AMX_WIDE)
            for (ptrdiff_t k = 0; k < inner; k += PPO__AMX_DEEP) {
                float *cij = c + i * ldc + j;
                const float *before = k ? cij : init ? init + i * ld_init + j : NULL;
                ppo__amx_panel(packed, ppo__min_int((int)(rows - i), PPO__AMX_HIGH),
                               ppo__min_int((int)(cols - j), PPO__AMX_WIDE),
                               ppo__min_int((int)(inner - k), PPO__AMX_DEEP),
                               (const char *)a + a_size * (i * a_row + k * a_col), a_row, a_col,
                               (const char *)b + b_size * (k * ldb + j), ldb, before, k ? ldc : ld_init, cij,
                               ldc);
            }
    __asm__ volatile("tilerelease" ::);
}

/* Whether the processor has AMX, and the operating system lets this process use it (a request, which Linux
   grants or not). */
static int ppo__amx_usable(void) {
    unsigned a, b, c, d;
    long denied;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl"))
        return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1))
        return 0; /* BF16, TILE */
    /* arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA) */
    __asm__ volatile("syscall" : "=a"(denied) : "0"(158L), "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
    return !denied;
}

#undef PPO__TARGET
PPO__KERNEL_TABLE(ppo__amx_kernels, ppo__avx512_, "amx", ppo__amx_product);

static const ppo__kernels *ppo__amx_find(const char *name) {
    return strcmp(name, "amx") == 0 && ppo__amx_usable() ? &ppo__amx_kernels : NULL;
}
PPO__COMPANION_IS(ppo__more_kernels, ppo__more, {ppo__amx_find});

PPO__WARNINGS_BACK

#endif
#endif
