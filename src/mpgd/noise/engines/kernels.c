/* The CPU kernels: noise from counted words and from tables, and what it does to parameters.

       x <- (x - m x) + n        m, n: levels times the values of two drivers, which advance

   Everything is integer arithmetic up to the last products, so the bits are those of the reference
   in tensor.py (words, values), memoryless.py (normal numbers) and stochastic_round.py (half
   types); word.py explains the format of a word. Work is done in blocks of 512 elements, whose
   buffers stay in the first-level cache.

   Every kernel exists element by element here, and LANES elements at a time in lanes.h, which is
   compiled for AVX2 and for the vectors that every CPU of this kind has. `mpgd_select` chooses. The
   elements behind the last whole vector are done one by one, and so are blocks in which the lower
   32 bits of the index overflow.

   Invariants. The index of an element in its whole tensor, its key and its word decide its bits:
   never its block, its thread or the instruction set. A block carries nothing on to the next.
   Levels are multiplied in float64 and rounded once to the precision of the arithmetic, which is
   float64 for float64 and else float32. Each operation rounds by itself.

   What would break the bits: contraction of a product and a sum to one rounding (compile with
   -ffp-contract=off), -ffast-math, or another order of the operations above.

   Compile with -std=gnu11 -O3 -ffp-contract=off -fPIC -shared. There is no Python.h, no libm and no
   OpenMP: Python calls the functions at the end by ctypes, on as many threads as it likes. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

enum { FLOAT32, FLOAT64, BFLOAT16, FLOAT16 };
enum { ABSENT, CHAOTIC, NORMAL, SHARED, STABLE }; /* kinds of drivers; a shared one is a number */
enum { PUT, SCALE, SHIFT };                    /* y <- v; y <- y - v y; y <- y + v */
enum { SCALAR, VECTORS, WITH_AVX2 };           /* instruction sets */

enum { BLOCK = 512, LINE = 64 };               /* elements; bytes of a line of the cache */
enum { FRACTION_BITS = 18, SALT_SHIFT = 46, DRAWN_SHIFT = 12 }; /* word.py */
enum { ROW_BITS = 7, BEND_BITS = 26 };         /* maps/rows.py: 2^7 rows of 16 bytes an octave */
enum { POSITION_SHIFT = 52 - ROW_BITS - 32 };  /* of X in U as a double */
enum { FIRST_ROW = 1023 << (ROW_BITS + 4) };   /* bytes; the row of U = 1, where tables begin */
enum { NORMAL_SHIFT = 13, EXCESS = 5 };        /* maps/normal.py */
enum { LOWER_SIDE = 50 << (ROW_BITS + 4) };    /* stable/sampling.py: bytes to the second side */

#define MULTIPLIER 0xD6E8FEB86659FD93ull
#define STRIDE 0x9E3779B97F4A7C15ull
#define ONE (1u << FRACTION_BITS)
#define FRACTION (ONE - 1)
#define LONG (1u << 30)
#define FAR (LONG >> FRACTION_BITS)
#define NEGATIVE (1u << 31)
#define MAGNITUDE (NEGATIVE - 1)

#define INLINE static inline __attribute__((always_inline))

/* native.py has the same structures. */

typedef struct {
    const u64 *table;     /* of B, of the normal or of a stable law; octaves from the smallest U up */
    u32 kind;
    u32 threshold;        /* a sign is + where the upper 31 bits of the hash lie below */
    u32 product;          /* the sign's bit, where a new sign multiplies the old one, else 0 */
    u32 largest;          /* magnitude of a word */
    double c0, c1;        /* level times the values; of normal numbers, of the integer 1; the shared m */
} Driver;

typedef struct {
    void *x;
    u32 *words[4];        /* of m and of n, and of their twins */
    int64_t length;
    u64 offset;           /* index of x[0] in its whole tensor */
    u64 key;              /* of the tensor */
    u64 step;             /* steps its drivers have taken */
} Row;

typedef struct {
    const Row *rows;
    int64_t total, part;  /* elements of all rows together; elements that a thread takes at a time */
    int64_t next;         /* the first element that no thread has taken yet */
    Driver drivers[2];    /* of m and of n */
    u32 dtype, twins;
} Displacement;

typedef struct {
    const u32 *from;      /* the words now */
    u32 *words;           /* becomes those after the last step; may be `from` */
    void *out;
    int64_t length;
    u64 offset, key;      /* as in Row; the key is the driver's */
} Stream;

typedef struct {
    const Stream *streams;
    int64_t total, part, next;
    Driver driver;
    u64 step;
    int64_t steps, stride; /* elements from the values of one step to the next in `out` */
    u32 wide, adds;        /* float64; add to `out` instead of writing */
} Values;

typedef struct {
    void *out;            /* u64, or double */
    int64_t total, part, next;
    u64 offset, key;      /* of the first element; of the step */
    u32 uniform, unused;
} Bits;

enum { SLOTS = 4 };

/* A tensor to be rounded, and its states, by one hash an element. */
typedef struct {
    const float *x[SLOTS];
    u16 *out[SLOTS];      /* NULL where there is nothing any more */
    u32 salts[SLOTS];     /* 0 of the tensor itself; of a state, from its name */
    u32 dtypes[SLOTS];
    int64_t length;
    u64 offset, key;      /* of the first element; of the step */
} RoundedRow;

typedef struct {
    const RoundedRow *rows;
    int64_t total, part, next;
} Rounding;

/* ---- the hash: counter_hash.py ------------------------------------------------------------------- */

INLINE u64 hash_round(u64 h) { return (h ^ (h >> 32)) * MULTIPLIER; }

INLINE u64 mix(u64 h) {
    h = hash_round(hash_round(h));
    return h ^ (h >> 32);
}

INLINE u64 step_key(u64 key, u64 step) { return mix(key + step * STRIDE); }
INLINE u64 extend_key(u64 key, u64 part) { return mix((key + STRIDE) ^ part); }

INLINE u64 hash_element(u64 index, u64 key, u64 salt) {
    return hash_round(hash_round(((index ^ key) * MULTIPLIER) ^ salt));
}

/* ---- one element --------------------------------------------------------------------------------- */

/* The table at U in [1, 2^50). As a double, U has its octave, its row and X one after the other. */
INLINE u64 look_up(const u64 *table, u64 U) {
    double u = (double)(int64_t)U;
    u64 bits;
    memcpy(&bits, &u, 8);
    const u64 *row = table + 2 * ((bits >> (52 - ROW_BITS)) - (1023 << ROW_BITS));
    u64 X = (u32)(bits >> POSITION_SHIFT), shape = row[1];
    u64 bend = (X * ((shape >> 32) & ((1 << BEND_BITS) - 1))) >> 32;
    return row[0] - ((X * ((u32)shape - bend)) >> (shape >> 58));
}

/* The word after a visit to Z. */
static u32 visit_one(u32 old, u64 index, u64 key, const Driver *d) {
    u64 f = old & FRACTION, h = hash_element(index, key, f << SALT_SHIFT);
    u64 upper = f ? FRACTION - f : (h >> DRAWN_SHIFT) & FRACTION; /* 0: the fraction is not known */
    u64 b = look_up(d->table, upper << 32 | (u32)(h ^ (h >> 32)) | 1);
    u64 n = b >> 32, q = b >> (32 - FRACTION_BITS);
    q += (q & FRACTION) == 0;
    if (n >= FAR) q = n + (LONG - FAR);
    if (q > d->largest) q = d->largest;
    u32 sign = h >> 33 >= d->threshold ? NEGATIVE : 0;
    return ((u32)q | sign) ^ (old & d->product);
}

INLINE u32 advance_one(u32 old, u64 index, u64 key, const Driver *d) {
    u32 q = old & MAGNITUDE;
    return q < ONE ? visit_one(old, index, key, d) : old - (q > LONG ? 1 : ONE);
}

INLINE double value_one(u32 old, const Driver *d) {
    double value = (old & MAGNITUDE) < ONE ? d->c1 : d->c0;
    return old & NEGATIVE ? -value : value;
}

/* A standard normal number times 2^27. */
INLINE int32_t normal_one(u64 h, const u64 *table) {
    u64 z = look_up(table, ((h >> NORMAL_SHIFT) & ((1ull << 50) - 1)) | 1);
    int32_t q = (int32_t)((z + (1 << (EXCESS - 1))) >> EXCESS);
    return h >> 63 ? -q : q;
}

/* A stable number: a parabola with an exponent, see stable/sampling.py. The lower side comes second. */
INLINE double stable_one(u64 h, const u64 *table) {
    double u = (double)(int64_t)(((h >> NORMAL_SHIFT) & ((1ull << 50) - 1)) | 1), power;
    u64 bits;
    memcpy(&bits, &u, 8);
    u64 lower = h >> 63; /* a branch on it would be mispredicted every other time */
    const u64 *row = table + 2 * ((bits >> (52 - ROW_BITS)) - (1023 << ROW_BITS)) + lower * (LOWER_SIDE / 8);
    u64 X = (u32)(bits >> POSITION_SHIFT) >> 1, c0 = row[0], shape = row[1];
    u64 slope = (u32)(shape - (u64)(((int64_t)X * ((int64_t)shape >> 38)) >> 32));
    int64_t z = (int64_t)(c0 - ((X * slope) >> (shape >> 32 & 63)) + (1 << 15)) >> 16;
    u64 exponent = ((c0 & 255) + 1023 - 30) << 52;
    memcpy(&power, &exponent, 8);
    return (double)((z ^ -(int64_t)lower) + (int64_t)lower) * power;
}

/* Rounded to float32 first, a value has the bits that lanes of float32 give it. */
INLINE void apply_one(void *y, int how, int wide, size_t i, double value) {
    double *w = (double *)y + i;
    float *f = (float *)y + i, narrow = (float)value;
    if (wide) *w = how == PUT ? value : how == SCALE ? *w - value * *w : *w + value;
    else *f = how == PUT ? narrow : how == SCALE ? *f - narrow * *f : *f + narrow;
}

/* ---- half types: stochastic_round.py ---------------------------------------------------------- */

INLINE u32 bits_of(float x) { u32 b; memcpy(&b, &x, 4); return b; }
INLINE float float_of(u32 b) { float x; memcpy(&x, &b, 4); return x; }

INLINE float from_float16(u16 half) {
    u32 q = half & 0x7FFF, lift = q >= 0x7C00 ? 224u << 23 : 112u << 23; /* infinity and NaN go twice as far */
    u32 small = bits_of((float)(int)q * 0x1p-24f), a = q < 0x400 ? small : (q << 13) + lift;
    return float_of(a | (u32)(half & 0x8000) << 16);
}

/* A magnitude as a float16 sees it: the integer whose last `cut` bits it lacks, and the difference
   of the exponents. Below 2^-14 its last place does not move with the exponent any more. */
typedef struct { u32 base, cut, shift; } Place;

INLINE Place place_float16(u32 a) {
    u32 e = a >> 23, normal = e >= 113, cut = normal ? 13 : 126 - e, beyond = cut > 31 ? cut - 31 : 0;
    u32 small = ((a & 0x7FFFFF) | 0x800000) >> (beyond < 31 ? beyond : 31);
    return (Place){normal ? a : small, cut < 31 ? cut : 31, normal ? 112u << 10 : 0};
}

/* Half of the last place is added, less one where that place is even. */
INLINE u16 round_to_nearest(u32 bits, int is_bfloat) {
    u32 a = bits & MAGNITUDE, sign = bits >> 16 & 0x8000, is_nan = a > 0x7F800000;
    if (is_bfloat) return (u16)((is_nan ? 0x7FC0 : (a + 0x7FFF + (a >> 16 & 1)) >> 16) | sign);
    Place p = place_float16(a);
    u32 k = ((p.base + (1u << (p.cut - 1)) - 1 + (p.base >> p.cut & 1)) >> p.cut) - p.shift;
    return (u16)((is_nan ? 0x7E00 : k < 0x7C00 ? k : 0x7C00) | sign);
}

/* 31 random bits, shifted to the places that are cut off, decide whether they carry. */
INLINE u16 round_stochastically(u32 bits, u32 random, int is_bfloat) {
    u32 a = bits & MAGNITUDE;
    Place p = is_bfloat ? (Place){a, 16, 0} : place_float16(a);
    u32 k = ((p.base + (random >> (31 - p.cut))) >> p.cut) - p.shift;
    u16 nearest = round_to_nearest(bits, is_bfloat); /* infinity, NaN, and what rounds to infinity */
    return k < (is_bfloat ? 0x7F80u : 0x7C00u) ? (u16)(k | (bits >> 16 & 0x8000)) : nearest;
}

/* 31 random bits of a state, from its salt and the folded hash; without a salt, those of a parameter. */
INLINE u32 state_bits(u32 random, u32 salt) {
    u32 w = (random ^ salt) * 0x7FEB352Du;
    return salt ? ((w ^ (w >> 15)) * 0x846CA68Bu) >> 1 : random;
}

INLINE void prefetch(const void *start, size_t line) {
    __builtin_prefetch((const void *)((uintptr_t)start + LINE * line)); /* it need not exist */
}

/* ---- instruction sets --------------------------------------------------------------------------- */

/* A run of elements, at most a block. */
typedef struct {
    size_t n;
    u64 first;        /* index of the first element in its whole tensor */
    u64 key;          /* of the driver, or of the random bits, at this step */
    const char *next; /* memory that will be needed soon */
} Run;

/* Kernels for a run; the first five take whole vectors only. */
typedef struct {
    size_t lanes; /* of a vector; 0 where the first five are not there */
    void (*advance)(u32 *words, void *y, int how, int wide, Run run, const Driver *d);
    void (*displace_both)(u32 *words_m, u32 *words_n, float *y, Run of_m, Run of_n, const Driver d[2]);
    void (*normals)(void *y, int how, int wide, Run run, const Driver *d);
    void (*stables)(void *y, int how, int wide, Run run, const Driver *d);
    void (*random_bits)(u32 *out, u32 *folded, Run run);
    void (*unpack)(const u16 *x, float *out, size_t n, int is_bfloat);
    void (*pack)(const float *x, u16 *out, const u32 *random, u32 salt, size_t n, int is_bfloat);
    void (*apply_difference)(void *y, const void *value, const void *twin, int how, int wide, size_t n);
    int (*round_bfloats)(const RoundedRow *row, int slots, size_t at, Run run); /* pairs of vectors; may be NULL */
} Instructions;

#define KERNELS(SUFFIX, LANES, ROUND_BFLOATS)                                         \
    {LANES, advance##SUFFIX, displace_both##SUFFIX, normals##SUFFIX, stables##SUFFIX, \
     random_bits##SUFFIX, unpack##SUFFIX, pack##SUFFIX, apply_difference##SUFFIX, ROUND_BFLOATS}

#define LANES 4
#define NAMED(f) f##_lanes
#define LANE INLINE
#define KERNEL static
#include "lanes.h"
static const Instructions lanes = KERNELS(_lanes, 4, NULL);
static const Instructions scalar = {
    .unpack = unpack_lanes, .pack = pack_lanes, .apply_difference = apply_difference_lanes};

#ifdef __x86_64__
static u64 LANE_ORDERS[256]; /* the lanes that are set in a mask, one per byte, the first lowest */

#undef LANES
#undef NAMED
#undef LANE
#undef KERNEL
#define LANES 8
#define NAMED(f) f##_avx2
#define LANE __attribute__((target("avx2,popcnt"))) INLINE
#define KERNEL __attribute__((target("avx2,popcnt"))) static
#include "lanes.h"
static const Instructions avx2 = KERNELS(_avx2, 8, round_bfloats_avx2);
#endif

static const Instructions *cpu = &scalar;

/* ---- a run --------------------------------------------------------------------------------------- */

/* How many elements are done in vectors: none where their indices differ in the upper half. */
INLINE size_t in_lanes(Run run) {
    if (cpu->lanes == 0 || (run.first & 0xFFFFFFFF) + run.n > 0xFFFFFFFF) return 0;
    return run.n - run.n % cpu->lanes;
}

INLINE Run shortened(Run run, size_t n) {
    run.n = n;
    return run;
}

/* Let the values of words act on y, and advance the words. */
static void advance(u32 *words, void *y, int how, int wide, Run run, const Driver *d) {
    size_t done = in_lanes(run);
    if (done) cpu->advance(words, y, how, wide, shortened(run, done), d);
    for (size_t i = done; i < run.n; i++) {
        apply_one(y, how, wide, i, value_one(words[i], d));
        words[i] = advance_one(words[i], run.first + i, run.key, d);
    }
}

static void apply_normals(void *y, int how, int wide, Run run, const Driver *d) {
    size_t done = in_lanes(run);
    if (done) cpu->normals(y, how, wide, shortened(run, done), d);
    for (size_t i = done; i < run.n; i++) {
        int32_t z = normal_one(hash_element(run.first + i, run.key, 0), d->table);
        apply_one(y, how, wide, i, wide ? z * d->c0 : (float)z * (float)d->c0);
    }
}

static void apply_stables(void *y, int how, int wide, Run run, const Driver *d) {
    size_t done = in_lanes(run);
    if (done) cpu->stables(y, how, wide, shortened(run, done), d);
    for (size_t i = done; i < run.n; i++)
        apply_one(y, how, wide, i, stable_one(hash_element(run.first + i, run.key, 0), d->table) * d->c0);
}

/* 31 random bits for each element, and the two halves of its hash folded into one. */
static void draw_random_bits(u32 *out, u32 *folded, Run run) {
    size_t done = in_lanes(run);
    if (done) cpu->random_bits(out, folded, shortened(run, done));
    for (size_t i = done; i < run.n; i++) {
        u64 h = hash_element(run.first + i, run.key, 0);
        out[i] = (u32)(h >> 33), folded[i] = (u32)(h ^ (h >> 32));
    }
}

/* ---- a block of a row ---------------------------------------------------------------------------- */

enum { TWIN = 2 }; /* driver k has driver k + TWIN as its twin */

typedef struct {
    const Row *row;
    const u64 *keys;  /* of its drivers, at this step */
    size_t at, n;     /* the first element of the block, and how many there are */
    const char *next; /* x of the next block */
} Block;

INLINE Run run_of(const Block *b, int number) {
    return (Run){b->n, b->row->offset + b->at, b->keys[number], b->next};
}

/* Let one driver of a block act on y. */
static void act(void *y, int how, int wide, const Block *b, int number, const Driver *d) {
    Run run = run_of(b, number);
    if (d->kind == CHAOTIC) advance(b->row->words[number] + b->at, y, how, wide, run, d);
    else if (d->kind == NORMAL) apply_normals(y, how, wide, run, d);
    else if (d->kind == STABLE) apply_stables(y, how, wide, run, d);
    else for (size_t i = 0; i < b->n; i++) apply_one(y, how, wide, i, d->c0); /* shared */
}

/* The same, less its twin; the difference is taken first, in the precision of y. */
static void act_with_twin(void *y, int how, int wide, const Block *b, int number, const Driver *d) {
    double value[BLOCK], twin[BLOCK];
    act(value, PUT, wide, b, number, d);
    act(twin, PUT, wide, b, number + TWIN, d);
    cpu->apply_difference(y, value, twin, how, wide, b->n);
}

/* y <- (y - m y) + n */
static void displace(void *y, int wide, const Block *b, const Displacement *job) {
    const Driver *d = job->drivers;
    Run of_m = run_of(b, 0), of_n = run_of(b, 1);
    if (d[0].kind == CHAOTIC && d[1].kind == CHAOTIC && !wide && !job->twins && in_lanes(of_m) == b->n) {
        u32 *const *words = b->row->words;
        cpu->displace_both(words[0] + b->at, words[1] + b->at, y, of_m, of_n, d);
        return;
    }
    for (int k = 0; k < 2; k++) {
        int how = k == 0 ? SCALE : SHIFT;
        if (d[k].kind == ABSENT) continue;
        if (job->twins && d[k].kind != SHARED) act_with_twin(y, how, wide, b, k, d + k);
        else act(y, how, wide, b, k, d + k);
    }
}

/* Half types are computed in float32 and rounded once. */
static void displace_halves(u16 *x, const Block *b, const Displacement *job) {
    int is_bfloat = job->dtype == BFLOAT16;
    float y[BLOCK];
    cpu->unpack(x, y, b->n, is_bfloat);
    displace(y, 0, b, job);
    cpu->pack(y, x, NULL, 0, b->n, is_bfloat);
}

static void displace_block(Block *b, const Displacement *job) {
    size_t size = job->dtype == FLOAT64 ? 8 : job->dtype == FLOAT32 ? 4 : 2;
    char *x = (char *)b->row->x + b->at * size;
    b->next = x + BLOCK * size;
    if (size == 2) displace_halves((u16 *)x, b, job);
    else displace(x, size == 8, b, job);
}

/* ---- what Python calls --------------------------------------------------------------------------- */

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Take the next part of a job; false when none is left. Every thread calls the same function with
   the same job, and takes parts until all have been taken. */
INLINE int take_part(int64_t *next, int64_t part, int64_t total, int64_t *first, int64_t *last) {
    *first = __atomic_fetch_add(next, part, __ATOMIC_RELAXED);
    *last = smaller(*first + part, total);
    return *first < total;
}

/* Displace all rows and advance their words. A part is a range of the elements of all rows, as if
   these stood one after the other: with rows of 700 and 500 elements, the part from 512 to 1,024 is
   the last 188 elements of the first row and the first 324 of the second. */
void mpgd_displace(Displacement *job) {
    int64_t first, last;
    while (take_part(&job->next, job->part, job->total, &first, &last)) {
        const Row *row = job->rows;
        for (int64_t before = 0; before < last; before += row++->length) {
            int64_t at = larger(first - before, 0), end = smaller(last - before, row->length);
            if (at >= end) continue;
            u64 keys[2 * TWIN] = {0};
            for (u64 number = 0; number < (job->twins ? 2 * TWIN : TWIN); number++)
                keys[number] = step_key(extend_key(row->key, number), row->step);
            for (; at < end; at += BLOCK)
                displace_block(&(Block){row, keys, (size_t)at, (size_t)smaller(end - at, BLOCK), NULL}, job);
        }
    }
}

/* Write or add the values of a block of a stream at `steps` steps, and advance its words. */
static void stream_block(const Stream *s, int64_t at, size_t n, const Values *job) {
    int how = job->adds ? SHIFT : PUT, wide = (int)job->wide;
    u32 *words = s->words + (s->words ? at : 0);
    if (s->from != s->words) memcpy(words, s->from + at, 4 * n);
    for (int64_t k = 0; k < job->steps; k++) {
        char *out = (char *)s->out + (k * job->stride + at) * (wide ? 8 : 4);
        Run run = {n, s->offset + (u64)at, step_key(s->key, job->step + (u64)k), out + BLOCK * (wide ? 8 : 4)};
        if (job->driver.kind == NORMAL) apply_normals(out, how, wide, run, &job->driver);
        else if (job->driver.kind == STABLE) apply_stables(out, how, wide, run, &job->driver);
        else advance(words, out, how, wide, run, &job->driver);
    }
}

void mpgd_values(Values *job) {
    int64_t first, last;
    while (take_part(&job->next, job->part, job->total, &first, &last)) {
        const Stream *s = job->streams;
        for (int64_t before = 0; before < last; before += s++->length) {
            int64_t at = larger(first - before, 0), end = smaller(last - before, s->length);
            for (; at < end; at += BLOCK) stream_block(s, at, (size_t)smaller(end - at, BLOCK), job);
        }
    }
}

/* How many elements of a block were rounded in one pass: none if a state is no bfloat16. */
static size_t round_bfloats(const RoundedRow *row, size_t at, Run run) {
    int slots = 0;
    for (; slots < SLOTS && row->out[slots]; slots++)
        if (row->dtypes[slots] != BFLOAT16) return 0;
    size_t done = in_lanes(run);
    done -= cpu->round_bfloats ? done % (2 * cpu->lanes) : done;
    return done && cpu->round_bfloats(row, slots, at, shortened(run, done)) ? 0 : done;
}

/* Write a block of a tensor and of its states as halves, rounded stochastically. */
static void round_block(const RoundedRow *row, size_t at, size_t n) {
    u32 random[BLOCK], folded[BLOCK];
    Run run = {n, row->offset + at, row->key, NULL};
    size_t done = round_bfloats(row, at, run);
    if (done == n) return;
    run.n -= done, run.first += done, at += done;
    draw_random_bits(random, folded, run);
    for (int k = 0; k < SLOTS && row->out[k]; k++) {
        u32 salt = row->salts[k];
        cpu->pack(row->x[k] + at, row->out[k] + at, salt ? folded : random, salt, run.n, row->dtypes[k] == BFLOAT16);
    }
}

void mpgd_round(Rounding *job) {
    int64_t first, last;
    while (take_part(&job->next, job->part, job->total, &first, &last)) {
        const RoundedRow *row = job->rows;
        for (int64_t before = 0; before < last; before += row++->length) {
            int64_t at = larger(first - before, 0), end = smaller(last - before, row->length);
            for (; at < end; at += BLOCK) round_block(row, (size_t)at, (size_t)smaller(end - at, BLOCK));
        }
    }
}

/* Write the hashes of elements, or numbers in (0, 1) made of their upper 52 bits. */
void mpgd_bits(Bits *job) {
    int64_t at, last;
    while (take_part(&job->next, job->part, job->total, &at, &last))
        for (; at < last; at++) {
            u64 h = hash_element(job->offset + (u64)at, job->key, 0);
            if (job->uniform) ((double *)job->out)[at] = ((double)(int64_t)(h >> 12) + 0.5) * 0x1p-52;
            else ((u64 *)job->out)[at] = h;
        }
}

/* Take words that are in Z through one visit each, at steps of their own: so an orbit goes from visit
   to visit without the steps between, which only count down. */
void mpgd_visit(u32 *words, const u64 *steps, int64_t n, u64 key, const Driver *d) {
    for (int64_t i = 0; i < n; i++) words[i] = visit_one(words[i], (u64)i, step_key(key, steps[i]), d);
}

/* Use an instruction set from now on; return it, or -1 where this CPU does not have it. */
int mpgd_select(int wanted) {
#ifdef __x86_64__
    for (int mask = 0; mask < 256; mask++) {
        LANE_ORDERS[mask] = 0;
        for (int lane = 7; lane >= 0; lane--)
            if (mask >> lane & 1) LANE_ORDERS[mask] = LANE_ORDERS[mask] << 8 | (u64)lane;
    }
    if (wanted == WITH_AVX2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt")) {
        cpu = &avx2;
        return wanted;
    }
#endif
    if (wanted != SCALAR && wanted != VECTORS) return -1;
    cpu = wanted == SCALAR ? &scalar : &lanes;
    return wanted;
}

#ifndef MPGD_SOURCE
#define MPGD_SOURCE "" /* a digest of kernels.c and lanes.h, so that Python sees a stale library */
#endif
const char mpgd_source[17] = MPGD_SOURCE;
