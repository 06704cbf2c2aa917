/* Random calls of the CPU kernels, in heap memory of exactly the size they may touch.

   Every call is made with each instruction set, cut into parts at another place, and must give the
   same bytes. The last line is a digest of all of them, to be compared with that of another CPU.
   `python -m tools.check_kernels` compiles this file with sanitizers, and for another CPU. */

#include "../../src/mpgd/noise/engines/kernels.c"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 50 << ROW_BITS, CALLS = 3000, SETS = 3 };

static u64 state;

static u64 draw_bits(void) { return state = mix(state + STRIDE); }
static u64 below(u64 n) { return (draw_bits() >> 20) % n; }
static u64 shifted(u64 by) { return draw_bits() >> by; } /* an argument is drawn first */

/* A table of parabolas that lead to short, long and longest phases alike. */
static u64 *make_table(void) {
    u64 *table = malloc(ROWS * 16);
    for (size_t row = 0; row < ROWS; row++) {
        u64 shift = 31 + below(31), bend = below(1 << BEND_BITS), slope = draw_bits() >> 33;
        table[2 * row] = (1ull << 33) + shifted(2 + below(28));
        table[2 * row + 1] = shift << 58 | bend << 32 | slope | 1ull << 31;
    }
    return table;
}

/* Two sides of parabolas with exponents, which bend either way and fall by at most 2^46. */
static u64 *make_stable_table(void) {
    u64 *table = malloc(2 * ROWS * 16);
    for (size_t row = 0; row < 2 * ROWS; row++) {
        u64 shift = 18 + below(40), bend = draw_bits() << 38, slope = (1ull << 31) + shifted(34);
        table[2 * row] = ((u64)((int64_t)draw_bits() >> 18) & ~255ull) | below(40);
        table[2 * row + 1] = bend | shift << 32 | slope;
    }
    return table;
}

static Driver make_driver(const u64 *returns, const u64 *stable) {
    u32 kind = (u32)below(5), product = below(2) ? NEGATIVE : 0;
    u32 largest = below(3) ? MAGNITUDE : below(2) ? 3u << FRACTION_BITS : LONG + 1000;
    double level = kind == NORMAL ? 1e-9 : 0.01;
    const u64 *table = kind == STABLE ? stable : returns;
    return (Driver){table, kind, (u32)(draw_bits() >> 33), product, largest, level, -3 * level};
}

static u32 make_word(void) {
    static const u32 special[] = {0, 1, FRACTION, ONE, ONE + 1, LONG - ONE, LONG - 1, LONG, LONG + 1, MAGNITUDE};
    u32 sign = below(2) ? NEGATIVE : 0;
    u32 usual = (u32)shifted(33 + below(14));
    return (below(7) ? usual : special[below(10)]) | sign;
}

static void *make_numbers(size_t n, u32 dtype) {
    size_t size = dtype == FLOAT64 ? 8 : dtype == FLOAT32 ? 4 : 2;
    char *x = malloc(n * size + !n);
    for (size_t i = 0; i < n; i++) {
        double number = (double)(int64_t)draw_bits() * 0x1p-62;
        u16 half = (u16)(draw_bits() >> 40);
        if (dtype == BFLOAT16 && (half & 0x7F80) == 0x7F80) half ^= 0x4000; /* no NaN: its bits are free */
        if (dtype == FLOAT16 && (half & 0x7C00) == 0x7C00) half ^= 0x4000;
        if (dtype == FLOAT64) memcpy(x + i * size, &number, size);
        else if (dtype == FLOAT32) memcpy(x + i * size, &(float){(float)number}, size);
        else memcpy(x + i * size, &half, size);
    }
    return x;
}

static u32 *make_words(size_t n) {
    u32 *words = malloc(n * 4 + !n);
    for (size_t i = 0; i < n; i++) words[i] = make_word();
    return words;
}

static u64 digest(u64 h, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) h = hash_round(h ^ ((const unsigned char *)bytes)[i]);
    return h;
}

/* One call of everything; the same `seed` gives the same call but for the parts. */
static u64 call(u64 seed, const u64 *table, const u64 *stable, int set) {
    state = seed;
    size_t n = seed < 1100 ? (size_t)seed : (size_t)below(3000), size;
    u32 dtype = (u32)below(4), *words[4];
    u64 offset = below(3) ? below(1ull << 40) : (1ull << 32) - below(2000), h = 0;
    size = dtype == FLOAT64 ? 8 : dtype == FLOAT32 ? 4 : 2;
    char *x = make_numbers(n, dtype);
    for (int k = 0; k < 4; k++) words[k] = make_words(n);
    size_t cut = (size_t)below(n + 1); /* two rows, as two tensors of one group */
    Row rows[2] = {{x, {words[0], words[1], words[2], words[3]}, (int64_t)cut, offset, 99, seed},
                   {x + cut * size, {words[0] + cut, words[1] + cut, words[2] + cut, words[3] + cut},
                    (int64_t)(n - cut), offset + cut, 77, seed + 1}};
    Displacement job = {.rows = rows, .total = (int64_t)n, .dtype = dtype, .twins = (u32)below(2)};
    job.drivers[0] = make_driver(table, stable), job.drivers[1] = make_driver(table, stable);
    job.part = 1 + (int64_t)below(700) * (set + 1);
    mpgd_displace(&job);
    h = digest(h, x, n * size);
    for (int k = 0; k < 4; k++) h = digest(h, words[k], n * 4);

    state = seed + 1;
    size_t steps = (size_t)below(4);
    u32 adds = (u32)below(2), wide = (u32)below(2), *next = malloc(n * 4 + !n);
    double *out = calloc(n * (adds ? 1 : steps) * 8 + !n, 1);
    Driver d = make_driver(table, stable);
    if (d.kind != STABLE) d.kind = below(3) ? CHAOTIC : NORMAL;
    Stream stream = {words[0], below(2) ? next : words[0], out, (int64_t)n, offset, seed};
    Values values = {.streams = &stream, .total = (int64_t)n, .driver = d, .steps = (int64_t)steps};
    values.stride = adds ? 0 : (int64_t)n, values.adds = adds, values.wide = wide;
    values.part = 1 + (int64_t)below(700) * (set + 1);
    mpgd_values(&values);
    h = digest(h, out, n * (adds ? 1 : steps) * (wide ? 8 : 4));
    h = digest(h, stream.words, n * 4);

    float *y = make_numbers(n, FLOAT32);
    u16 *halves = malloc(n * 2 + !n), *moment = malloc(n * 2 + !n);
    u32 kind = below(2) ? BFLOAT16 : FLOAT16, other = below(2) ? BFLOAT16 : FLOAT16;
    RoundedRow rounded[2] = {
        {.x = {y, y}, .out = {halves, moment}, .salts = {0, 77}, .dtypes = {kind, other}, .length = (int64_t)(n / 3)},
        {.x = {y + n / 3}, .out = {halves + n / 3}, .dtypes = {kind}, .length = (int64_t)(n - n / 3)}};
    for (int k = 0; k < 2; k++) rounded[k].offset = offset, rounded[k].key = seed + (u64)k;
    Rounding rounding = {.rows = rounded, .total = (int64_t)n, .part = 600};
    mpgd_round(&rounding);
    h = digest(digest(h, halves, n * 2), moment, n / 3 * 2);
    for (int k = 0; k < 4; k++) free(words[k]);
    free(x), free(next), free(out), free(y), free(halves), free(moment);
    return h;
}

int main(void) {
    u64 whole = 0;
    state = 1;
    u64 *table = make_table(), *stable = make_stable_table();
    for (u64 seed = 0; seed < CALLS; seed++) {
        u64 found[SETS];
        for (int set = 0; set < SETS; set++) {
            int there = mpgd_select(set) == set;
            found[set] = there ? call(seed, table, stable, set) : found[0];
            if (found[set] == found[0]) continue;
            printf("call %llu: instruction set %d differs from the scalar one\n", (unsigned long long)seed, set);
            return 1;
        }
        whole = hash_round(whole ^ found[0]);
    }
    free(table), free(stable);
    printf("%d calls %016llx\n", CALLS, (unsigned long long)whole);
    return 0;
}
