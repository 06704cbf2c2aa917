/* Several elements at a time, in the lanes of a vector. kernels.c includes this file once for each
   instruction set, with these macros:

       LANES      32-bit lanes of a vector: 8 for AVX2, 4 for SSE2, NEON and others
       NAMED(f)   the name of f for this instruction set
       LANE       attributes of functions that are inlined into the kernels below
       KERNEL     attributes of those kernels

   Vectors are the compiler's own (GCC and clang), so +, *, ^ and >> act on every lane. A few
   instructions have no operator; they stand first.

   A visit to Z costs far more than a step of a laminar phase, and at gamma = 0.6 a quarter of the
   words are in Z. So a block is gone through three times while it lies in the first-level cache.
   An example of eight words, as n.f (steps to go, fraction), with the laminar value a and the
   value b in Z; P is the place of a word in its block:

       lane             0     1     2     3     4     5     6     7
       words           5.3   0.7   0.2   9.1   1.4   0.9   3.3   7.7
     count_down
       values           a     b     b     a     a     b     a     a
       words           4.3   ...   ...   8.1   0.4   ...   2.3   6.7     all lose 1
       packed          0.7   0.2   0.9                                   those that were in Z,
         P              1     2     5                                    with P in place of n = 0
     draw              (eight packed words at a time, from all of the block)
       inputs           U     U'    U''                                  1 - f and the dither
       rows             r     r'    r''                                  where the table has them
       signs            +     -     -                                    from the same hash
     finish
       words           4.3  +2.4  -0.9   8.1   0.4  -6.2   2.3   6.7     B(U), back in its place

   `draw` and `finish` are two loops because a visit is a long chain of dependent instructions: of
   the halves, twice as many fit into the CPU's window. Row numbers go through memory, which is the
   quickest way from a vector register to an address.

   64-bit numbers. A vector holds 32-bit halves of LANES numbers; whole numbers fill two vectors, a
   `Whole`. Shuffles of AVX2 stay within 128 bits, so with eight lanes whole numbers stand in the
   order 0 1 4 5, 2 3 6 7. Taking halves of them restores the order at no cost.

   What would break the bits: indices of a block that differ in their upper 32 bits, because `hash`
   takes that half from the first (`in_lanes` of kernels.c sees to it); a signed shift to the right;
   a product of numbers above 2^32 in `even_products`, which loses the rest. */

#define V NAMED(V)         /* u32 lanes */
#define I NAMED(I)         /* the same, signed */
#define W NAMED(W)         /* u64 lanes, half as many */
#define F NAMED(F)         /* float */
#define D NAMED(D)         /* double, half as many */
#define Whole NAMED(Whole)
#define Visits NAMED(Visits)
#define Met NAMED(Met)

typedef u32 V __attribute__((vector_size(4 * LANES)));
typedef int32_t I __attribute__((vector_size(4 * LANES)));
typedef u64 W __attribute__((vector_size(4 * LANES)));
typedef float F __attribute__((vector_size(4 * LANES)));
typedef double D __attribute__((vector_size(4 * LANES)));
typedef struct { W a, b; } Whole; /* LANES 64-bit numbers */

/* ---- instructions without an operator ----------------------------------------------------------- */

#ifdef __clang__
#define SHUFFLE(a, b, ...) ((V)__builtin_shufflevector((V)(a), (V)(b), __VA_ARGS__))
#else
#define SHUFFLE(a, b, ...) ((V)__builtin_shuffle((V)(a), (V)(b), (V){__VA_ARGS__}))
#endif

#define SELECT(a, b, mask) ((a) ^ (((a) ^ (b)) & (V)(mask))) /* b where the mask is set */

#if LANES == 8
#define COUNTED 0, 1, 2, 3, 4, 5, 6, 7
#define EVEN_THEN_ODD(a, b) SHUFFLE(a, b, 0, 9, 2, 11, 4, 13, 6, 15) /* even lanes of a, odd ones of b */
#define LOW_HALVES(a, b) SHUFFLE(a, b, 0, 2, 8, 10, 4, 6, 12, 14)
#define UPPER_HALVES(a, b) SHUFFLE(a, b, 1, 3, 9, 11, 5, 7, 13, 15)
#define FIRST_PAIRS(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define SECOND_PAIRS(a, b) SHUFFLE(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define FIRST_WORDS(a, b) SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13) /* of rows of two 64-bit words */
#define SECOND_WORDS(a, b) SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define FIRST_TWICE(a) SHUFFLE(a, a, 0, 0, 1, 1, 2, 2, 3, 3)
#define SECOND_TWICE(a) SHUFFLE(a, a, 4, 4, 5, 5, 6, 6, 7, 7)
#else
#define COUNTED 0, 1, 2, 3
#define EVEN_THEN_ODD(a, b) SHUFFLE(a, b, 0, 5, 2, 7)
#define LOW_HALVES(a, b) SHUFFLE(a, b, 0, 2, 4, 6)
#define UPPER_HALVES(a, b) SHUFFLE(a, b, 1, 3, 5, 7)
#define FIRST_PAIRS(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define SECOND_PAIRS(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#define FIRST_WORDS(a, b) SHUFFLE(a, b, 0, 1, 4, 5)
#define SECOND_WORDS(a, b) SHUFFLE(a, b, 2, 3, 6, 7)
#define FIRST_TWICE(a) SHUFFLE(a, a, 0, 0, 1, 1)
#define SECOND_TWICE(a) SHUFFLE(a, a, 2, 2, 3, 3)
#endif

LANE V NAMED(load)(const void *p) { V x; memcpy(&x, p, sizeof x); return x; }
LANE void NAMED(store)(void *p, V x) { memcpy(p, &x, sizeof x); }
LANE V NAMED(all)(u32 x) { return (V){0} + x; }
LANE W NAMED(all_wide)(u64 x) { return (W){0} + x; }

/* 64-bit products of the even lanes. */
LANE W NAMED(even_products)(V a, V b) {
#if LANES == 8
    return (W)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (W)_mm_mul_epu32((__m128i)a, (__m128i)b);
#elif defined(__ARM_NEON)
    return (W)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#else
    return ((W)a & 0xFFFFFFFF) * ((W)b & 0xFFFFFFFF);
#endif
}

/* The same of signed numbers, the first of which is not negative. */
LANE W NAMED(even_signed_products)(V a, V b) {
#if LANES == 8
    return (W)_mm256_mul_epi32((__m256i)a, (__m256i)b);
#else
    return NAMED(even_products)(a, b) - ((W)(a & (V)((I)b >> 31)) << 32);
#endif
}

/* b where the sign bit is set, else a. */
LANE V NAMED(by_sign)(V a, V b, V sign) {
#if LANES == 8
    return (V)_mm256_blendv_ps((__m256)a, (__m256)b, (__m256)sign);
#else
    return SELECT(a, b, (I)sign >> 31);
#endif
}

LANE V NAMED(smaller)(V a, V b) {
#if LANES == 8
    return (V)_mm256_min_epu32((__m256i)a, (__m256i)b);
#else
    return SELECT(a, b, b < a);
#endif
}

/* Whole numbers in the order of 32-bit lanes, as floats and as doubles. */
LANE F NAMED(narrow)(D a, D b) {
#if LANES == 8
    __m256 joined = _mm256_set_m128(_mm256_cvtpd_ps((__m256d)b), _mm256_cvtpd_ps((__m256d)a));
    return (F)_mm256_permute4x64_pd(_mm256_castps_pd(joined), 0xD8);
#else
    return (F){(float)a[0], (float)a[1], (float)b[0], (float)b[1]};
#endif
}

LANE void NAMED(put_in_order)(D *a, D *b) {
#if LANES == 8
    D first = (D)SHUFFLE(*a, *b, 0, 1, 2, 3, 8, 9, 10, 11);
    *b = (D)SHUFFLE(*a, *b, 4, 5, 6, 7, 12, 13, 14, 15), *a = first;
#else
    (void)a, (void)b;
#endif
}

LANE int NAMED(any)(V mask) {
#if LANES == 8
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
    W both = (W)mask;
    return (both[0] | both[1]) != 0;
#endif
}

/* Append the lanes with the sign bit set to `packed`; return the new count. Lanes that are not
   chosen are written behind it and mean nothing. */
LANE size_t NAMED(append)(V x, V sign, u32 *packed, size_t count) {
#if LANES == 8
    u32 mask = (u32)_mm256_movemask_ps((__m256)sign);
    __m256i order = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(LANE_ORDERS + mask)));
    NAMED(store)(packed + count, (V)_mm256_permutevar8x32_epi32((__m256i)x, order));
    return count + (size_t)__builtin_popcount(mask);
#else
    for (int lane = 0; lane < LANES; lane++) {
        packed[count] = x[lane];
        count += sign[lane] >> 31;
    }
    return count;
#endif
}

/* Rows of a table: vector k holds row k, and with eight lanes row k + 4 behind it. `rows` has
   their offsets in bytes; the rows of a table begin at the offset FIRST_ROW. */
LANE V NAMED(load_row)(const u64 *table, const u32 *rows, int k) {
    const char *one = (const char *)table + ((size_t)rows[k] - FIRST_ROW);
#if LANES == 8
    const char *other = (const char *)table + ((size_t)rows[k + 4] - FIRST_ROW);
    __m128i upper = _mm_loadu_si128((const void *)other);
    return (V)_mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)one)), upper, 1);
#else
    return NAMED(load)(one);
#endif
}

/* ---- the hash and the table --------------------------------------------------------------------- */

/* The hash of the indices first + place, as low and upper halves; the salt belongs to the upper. */
LANE void NAMED(hash)(V place, Run run, V salt, V *low, V *upper) {
    V m = NAMED(all)((u32)MULTIPLIER), upper_m = NAMED(all)((u32)(MULTIPLIER >> 32));
    V lo = (place + (u32)run.first) ^ (u32)run.key, hi = NAMED(all)((u32)((run.first ^ run.key) >> 32));
    for (int round = 0; round < 3; round++) {
        W even = NAMED(even_products)(lo, m), odd = NAMED(even_products)((V)((W)lo >> 32), m);
        hi = hi * m + lo * upper_m + EVEN_THEN_ODD(even >> 32, odd);
        lo = EVEN_THEN_ODD(even, odd << 32);
        if (round == 0) hi ^= salt;
        if (round < 2) lo ^= hi;
    }
    *low = lo, *upper = hi;
}

/* What is known of LANES inputs before their rows come. Kept in one record each: buffers 4096 bytes
   apart would make loads wait for stores to other addresses with the same last 12 bits. */
typedef struct { W inputs[2]; u32 rows[LANES], places[LANES], signs[LANES]; } Visits;

/* U, 50 bits, as a double: 2^52 + U has U for its low bits, and the subtraction is exact. */
LANE void NAMED(note_inputs)(Visits *r, V low, V upper) {
    V raised = upper | ((1023u + 52) << 20);
    W a = (W)((D)FIRST_PAIRS(low, raised) - 0x1p52), b = (W)((D)SECOND_PAIRS(low, raised) - 0x1p52);
    r->inputs[0] = a, r->inputs[1] = b;
    NAMED(store)(r->rows, (UPPER_HALVES(a, b) >> (20 - ROW_BITS - 4)) & ~15u);
}

LANE W NAMED(parabola)(W c0, W shape, W input) {
    W X = input >> POSITION_SHIFT, t2 = (shape >> 32) & ((1 << BEND_BITS) - 1);
    W slope = shape - (NAMED(even_products)((V)X, (V)t2) >> 32);
    return c0 - (NAMED(even_products)((V)X, (V)slope) >> (shape >> 58));
}

LANE Whole NAMED(look_up)(const u64 *table, const Visits *r) {
    V r0 = NAMED(load_row)(table, r->rows, 0), r1 = NAMED(load_row)(table, r->rows, 1);
    V r2 = NAMED(load_row)(table, r->rows, 2), r3 = NAMED(load_row)(table, r->rows, 3);
    return (Whole){NAMED(parabola)((W)FIRST_WORDS(r0, r1), (W)SECOND_WORDS(r0, r1), r->inputs[0]),
                   NAMED(parabola)((W)FIRST_WORDS(r2, r3), (W)SECOND_WORDS(r2, r3), r->inputs[1])};
}

/* ---- a visit ------------------------------------------------------------------------------------ */

/* What the visits of a block met. Two cases are rare: a fraction of 0 before or after a visit, and a
   long phase after it. They are left out at first (`all_cases` = 0), and a block that met one does
   its visits again; the packed words are still there. */
typedef struct { V least_fraction, longest; } Met;

/* Hash LANES packed words: note their places, inputs, rows and new signs. */
LANE void NAMED(draw)(Visits *r, const u32 *packed, Run run, const Driver *d, int all_cases, Met *met) {
    V old = NAMED(load)(packed), f = old & FRACTION, place = (old >> FRACTION_BITS) & (BLOCK - 1);
    V low, upper, above = f ^ FRACTION;
    NAMED(hash)(place, run, f << (SALT_SHIFT - 32), &low, &upper);
    if (all_cases) above = SELECT(above, (low >> DRAWN_SHIFT) & FRACTION, f == 0); /* 0: not known */
    met->least_fraction = NAMED(smaller)(met->least_fraction, f);
    NAMED(note_inputs)(r, (low ^ upper) | 1, above);
    NAMED(store)(r->places, place);
    /* Negative where the upper 31 bits of the hash are at least the threshold. */
    NAMED(store)(r->signs, ((d->threshold - 1 - (upper >> 1)) & NEGATIVE) ^ (old & d->product));
}

/* Write LANES words after their visit to their places. */
LANE void NAMED(finish)(u32 *words, const Visits *r, const Driver *d, int all_cases, Met *met) {
    Whole b = NAMED(look_up)(d->table, r);
    V n = UPPER_HALVES(b.a, b.b), q = LOW_HALVES(b.a >> (32 - FRACTION_BITS), b.b >> (32 - FRACTION_BITS));
    met->least_fraction = NAMED(smaller)(met->least_fraction, q << (32 - FRACTION_BITS));
    met->longest = SELECT(met->longest, n, (I)met->longest < (I)n);
    if (all_cases) {
        q -= (V)((q & FRACTION) == 0); /* a mask is -1 */
        q = SELECT(q, n + (LONG - FAR), (I)n >= (int32_t)FAR);
        q = NAMED(smaller)(q, NAMED(all)(d->largest));
    }
    u32 new[LANES];
    NAMED(store)(new, q | NAMED(load)(r->signs));
    for (int lane = 0; lane < LANES; lane++) words[r->places[lane]] = new[lane];
}

/* Memory of the next block is fetched meanwhile, because visits need none: its words in the first
   loop, half as much at `next` in the second. */
LANE Met NAMED(visit_all)(u32 *words, const u32 *packed, size_t vectors, Run run, const Driver *d,
                          int all_cases) {
    Visits room[BLOCK / LANES];
    Met met = {NAMED(all)(~0u), NAMED(all)(0)};
    size_t lines = (BLOCK * 4 / LINE + vectors - 1) / vectors;
    for (size_t k = 0; k < vectors; k++) {
        NAMED(draw)(room + k, packed + LANES * k, run, d, all_cases, &met);
        for (size_t line = 0; line < lines; line++) prefetch(words + BLOCK, k * lines + line);
    }
    for (size_t k = 0; k < vectors; k++) {
        NAMED(finish)(words, room + k, d, all_cases, &met);
        for (size_t line = 0; line < lines; line += 2) prefetch(run.next, (k * lines + line) / 2);
    }
    return met;
}

LANE void NAMED(visit)(u32 *words, u32 *packed, size_t count, Run run, const Driver *d) {
    size_t vectors = (count + LANES - 1) / LANES;
    if (count == 0) return;
    NAMED(store)(packed + count, NAMED(all)(packed[count - 1])); /* takes its visit again, to the same end */
    if (d->largest >= LONG) {
        Met met = NAMED(visit_all)(words, packed, vectors, run, d, 0);
        V rare = (V)(met.least_fraction == 0) | (V)((I)met.longest >= (int32_t)FAR);
        if (!NAMED(any)(rare)) return;
    }
    NAMED(visit_all)(words, packed, vectors, run, d, 1);
}

/* ---- a block of words ----------------------------------------------------------------------------- */

/* Count LANES words down, pack those in Z, and return their old state. In Z q < ONE, so that
   subtracting ONE borrows from the sign bit; bit 30 of q - 1 tells long phases. */
LANE V NAMED(count_down)(u32 *words, V place, u32 *packed, size_t *count, V *in_Z) {
    V old = NAMED(load)(words), less = old - ONE, by_one = old - 1;
    *in_Z = old ^ less;
    NAMED(store)(words, NAMED(by_sign)(less, by_one, by_one + by_one));
    *count = NAMED(append)(old | place, *in_Z, packed, *count);
    return old;
}

/* c1 in Z, else c0, with the sign of the word. */
LANE F NAMED(value)(V old, V in_Z, const Driver *d) {
    V c0 = (V)((F){0} + (float)d->c0), c1 = (V)((F){0} + (float)d->c1);
    return (F)(NAMED(by_sign)(c0, c1, in_Z) ^ (old & NEGATIVE));
}

LANE D NAMED(wide_value)(W old, W in_Z, const Driver *d) {
    W c0 = (W)((D){0} + d->c0), c1 = (W)((D){0} + d->c1);
    return (D)((c0 ^ ((c0 ^ c1) & in_Z)) ^ (old & (1ull << 63)));
}

LANE void NAMED(apply)(float *y, F value, int how) {
    F old = (F)NAMED(load)(y);
    NAMED(store)(y, (V)(how == PUT ? value : how == SCALE ? old - value * old : old + value));
}

LANE void NAMED(apply_wide)(double *y, D value, int how) {
    D old = (D)NAMED(load)(y);
    NAMED(store)(y, (V)(how == PUT ? value : how == SCALE ? old - value * old : old + value));
}

/* `how` and `wide` are constants in every call, so that their branches vanish. */
LANE void NAMED(advance_as)(int how, int wide, u32 *words, void *y, Run run, const Driver *driver) {
    Driver own = *driver, *d = &own; /* a copy: stores to y cannot change it */
    u32 packed[BLOCK + LANES];
    size_t count = 0;
    V place = (V){COUNTED} << FRACTION_BITS;
    for (size_t i = 0; i < run.n; i += LANES, place += (u32)LANES << FRACTION_BITS) {
        V in_Z, old = NAMED(count_down)(words + i, place, packed, &count, &in_Z);
        if (wide) {
            double *at = (double *)y + i;
            V mask = (V)((I)in_Z >> 31);
            D first = NAMED(wide_value)((W)FIRST_TWICE(old), (W)FIRST_TWICE(mask), d);
            D second = NAMED(wide_value)((W)SECOND_TWICE(old), (W)SECOND_TWICE(mask), d);
            NAMED(apply_wide)(at, first, how);
            NAMED(apply_wide)(at + LANES / 2, second, how);
        } else {
            NAMED(apply)((float *)y + i, NAMED(value)(old, in_Z, d), how);
        }
    }
    NAMED(visit)(words, packed, count, run, d);
}

/* Do as `advance` of kernels.c, for whole vectors of words. */
KERNEL void NAMED(advance)(u32 *words, void *y, int how, int wide, Run run, const Driver *d) {
    if (wide && how == PUT) NAMED(advance_as)(PUT, 1, words, y, run, d);
    else if (wide && how == SCALE) NAMED(advance_as)(SCALE, 1, words, y, run, d);
    else if (wide) NAMED(advance_as)(SHIFT, 1, words, y, run, d);
    else if (how == PUT) NAMED(advance_as)(PUT, 0, words, y, run, d);
    else if (how == SCALE) NAMED(advance_as)(SCALE, 0, words, y, run, d);
    else NAMED(advance_as)(SHIFT, 0, words, y, run, d);
}

/* The common case in one pass: y <- (y - m y) + n in float32, both terms chaotic, without twins. */
KERNEL void NAMED(displace_both)(u32 *words_m, u32 *words_n, float *y, Run of_m, Run of_n,
                                 const Driver drivers[2]) {
    Driver driver_m = drivers[0], driver_n = drivers[1]; /* copies: stores to y cannot change them */
    u32 packed_m[BLOCK + LANES], packed_n[BLOCK + LANES];
    size_t count_m = 0, count_n = 0;
    V place = (V){COUNTED} << FRACTION_BITS;
    for (size_t i = 0; i < of_m.n; i += LANES, place += (u32)LANES << FRACTION_BITS) {
        V in_Z, old = NAMED(count_down)(words_m + i, place, packed_m, &count_m, &in_Z);
        F m = NAMED(value)(old, in_Z, &driver_m), x = (F)NAMED(load)(y + i);
        old = NAMED(count_down)(words_n + i, place, packed_n, &count_n, &in_Z);
        NAMED(store)(y + i, (V)((x - m * x) + NAMED(value)(old, in_Z, &driver_n)));
    }
    of_n.next += BLOCK * sizeof *y / 2; /* each fetches half of the next y */
    NAMED(visit)(words_m, packed_m, count_m, of_m, &driver_m);
    NAMED(visit)(words_n, packed_n, count_n, of_n, &driver_n);
}

/* ---- numbers without memory ------------------------------------------------------------------------ */

/* The uppermost bit of a hash is the sign, the 50 below it are U. */
KERNEL void NAMED(normals)(void *y, int how, int wide, Run run, const Driver *d) {
    Visits room[BLOCK / LANES];
    for (size_t i = 0; i < run.n; i += LANES) {
        V low, upper;
        NAMED(hash)((V){COUNTED} + (u32)i, run, (V){0}, &low, &upper);
        V joined = upper << (32 - NORMAL_SHIFT) | low >> NORMAL_SHIFT;
        NAMED(note_inputs)(room + i / LANES, joined | 1, (upper >> NORMAL_SHIFT) & FRACTION);
        NAMED(store)(room[i / LANES].signs, (V)((I)upper >> 31));
    }
    for (size_t i = 0; i < run.n; i += LANES) {
        const Visits *r = room + i / LANES;
        Whole z = NAMED(look_up)(d->table, r);
        W half = NAMED(all_wide)(1 << (EXCESS - 1));
        V q = LOW_HALVES((z.a + half) >> EXCESS, (z.b + half) >> EXCESS), sign = NAMED(load)(r->signs);
        I number = (I)((q ^ sign) - sign);
        if (wide) {
            for (size_t k = 0; k < LANES; k++) apply_one(y, how, 1, i + k, number[k] * d->c0);
        } else {
            NAMED(apply)((float *)y + i, __builtin_convertvector(number, F) * (float)d->c0, how);
        }
    }
}

/* A parabola with an exponent, times the level; see `stable_one` of kernels.c. The integer z is made
   a double by the bits of 2^52 + 2^31 + z. Both terms of the difference have the sign of the
   input, so that z = 0 gives +0 on either side. */
LANE D NAMED(stable_value)(W c0, W shape, W input, double level) {
    W X = (input >> (POSITION_SHIFT + 1)) & MAGNITUDE, bend = (W)((I)shape >> 6) >> 32;
    W slope = shape - (NAMED(even_signed_products)((V)X, (V)bend) >> 32);
    W z = c0 - (NAMED(even_products)((V)X, (V)slope) >> ((shape >> 32) & 63));
    W sign = input & (1ull << 63), raised = (z + ((1ull << 47) + (1 << 15))) >> 16;
    D number = (D)(raised | (sign | (1023ull + 52) << 52)) - (D)(sign ^ (W)((D){0} + (0x1p52 + 0x1p31)));
    return number * (D)(((c0 & 255) + (1023 - 30)) << 52) * level;
}

/* The uppermost bit of a hash is the side, kept as the sign of its input. */
LANE void NAMED(stables_as)(int how, int wide, void *y, Run run, const Driver *d) {
    Visits room[BLOCK / LANES];
    const u64 *table = d->table;
    double level = d->c0;
    for (size_t i = 0; i < run.n; i += LANES) {
        V low, upper;
        Visits *r = room + i / LANES;
        NAMED(hash)((V){COUNTED} + (u32)i, run, (V){0}, &low, &upper);
        V joined = upper << (32 - NORMAL_SHIFT) | low >> NORMAL_SHIFT, side = upper & NEGATIVE, none = {0};
        NAMED(note_inputs)(r, joined | 1, (upper >> NORMAL_SHIFT) & FRACTION);
        NAMED(store)(r->rows, NAMED(load)(r->rows) + ((V)((I)side >> 31) & LOWER_SIDE));
        r->inputs[0] |= (W)FIRST_PAIRS(none, side), r->inputs[1] |= (W)SECOND_PAIRS(none, side);
    }
    for (size_t i = 0; i < run.n; i += LANES) {
        const Visits *r = room + i / LANES;
        V r0 = NAMED(load_row)(table, r->rows, 0), r1 = NAMED(load_row)(table, r->rows, 1);
        V r2 = NAMED(load_row)(table, r->rows, 2), r3 = NAMED(load_row)(table, r->rows, 3);
        D a = NAMED(stable_value)((W)FIRST_WORDS(r0, r1), (W)SECOND_WORDS(r0, r1), r->inputs[0], level);
        D b = NAMED(stable_value)((W)FIRST_WORDS(r2, r3), (W)SECOND_WORDS(r2, r3), r->inputs[1], level);
        if (wide) {
            NAMED(put_in_order)(&a, &b);
            NAMED(apply_wide)((double *)y + i, a, how);
            NAMED(apply_wide)((double *)y + i + LANES / 2, b, how);
        } else {
            NAMED(apply)((float *)y + i, NAMED(narrow)(a, b), how);
        }
    }
}

KERNEL void NAMED(stables)(void *y, int how, int wide, Run run, const Driver *d) {
    if (wide) NAMED(stables_as)(how, 1, y, run, d);
    else NAMED(stables_as)(how, 0, y, run, d);
}

KERNEL void NAMED(random_bits)(u32 *out, u32 *folded, Run run) {
    for (size_t i = 0; i < run.n; i += LANES) {
        V low, upper;
        NAMED(hash)((V){COUNTED} + (u32)i, run, (V){0}, &low, &upper);
        NAMED(store)(out + i, upper >> 1);
        NAMED(store)(folded + i, low ^ upper);
    }
}

#if LANES == 8
LANE V NAMED(larger)(V a, V b) { return (V)_mm256_max_epu32((__m256i)a, (__m256i)b); }

/* The upper halves of 16 numbers. */
LANE void NAMED(store_upper)(u16 *out, V a, V b) {
    __m256i packed = _mm256_packus_epi32((__m256i)(a >> 16), (__m256i)(b >> 16)); /* 0 2 1 3 in pairs of lanes */
    NAMED(store)(out, (V)_mm256_permute4x64_epi64(packed, 0xD8));
}

/* The upper 16 of the random bits of a slot are added; see `state_bits` of kernels.c. */
LANE V NAMED(carry)(const float *x, V upper, V folded, u32 salt) {
    V w = (folded ^ salt) * 0x7FEB352Du;
    return NAMED(load)(x) + ((salt ? (w ^ (w >> 15)) * 0x846CA68Bu : upper) >> 16);
}

/* Round a tensor and its states to bfloat16 in one pass, 16 elements at a time: the hashes stay in
   registers. Return whether infinity, NaN or what rounds to infinity was met: the run is then done again. */
KERNEL int NAMED(round_bfloats)(const RoundedRow *given, int slots, size_t at, Run run) {
    RoundedRow row = *given; /* a copy: stores to `out` cannot change it */
    V largest = {0};
    for (size_t i = 0; i < run.n; i += 2 * LANES) {
        V place = (V){COUNTED} + (u32)i, low[2], upper[2];
        for (u32 k = 0; k < 2; k++) NAMED(hash)(place + k * LANES, run, (V){0}, low + k, upper + k);
        for (int k = 0; k < slots; k++) {
            const float *x = row.x[k] + at + i;
            V a = NAMED(carry)(x, upper[0], low[0] ^ upper[0], row.salts[k]);
            V b = NAMED(carry)(x + LANES, upper[1], low[1] ^ upper[1], row.salts[k]);
            largest = NAMED(larger)(largest, NAMED(larger)(a & MAGNITUDE, b & MAGNITUDE));
            NAMED(store_upper)(row.out[k] + at + i, a, b);
        }
    }
    return NAMED(any)((V)((I)largest >= 0x7F800000));
}
#endif

/* ---- loops that the compiler turns into vectors ------------------------------------------------------ */

KERNEL void NAMED(unpack)(const u16 *restrict x, float *restrict out, size_t n, int is_bfloat) {
    if (is_bfloat)
        for (size_t i = 0; i < n; i++) out[i] = float_of((u32)x[i] << 16);
    else
        for (size_t i = 0; i < n; i++) out[i] = from_float16(x[i]);
}

/* Infinity, NaN and what rounds to infinity are rare: a block that has one is done again. */
LANE void NAMED(pack_bfloats)(const float *restrict x, u16 *restrict out, const u32 *restrict random, u32 salt,
                              size_t n) {
    u32 rare = 0;
    for (size_t i = 0; i < n; i++) {
        u32 carried = bits_of(x[i]) + (state_bits(random[i], salt) >> 15);
        rare |= (u32)((carried & MAGNITUDE) >= 0x7F800000);
        out[i] = (u16)(carried >> 16);
    }
    for (size_t i = 0; rare && i < n; i++)
        out[i] = round_stochastically(bits_of(x[i]), state_bits(random[i], salt), 1);
}

/* Without random bits, round to nearest. */
KERNEL void NAMED(pack)(const float *restrict x, u16 *restrict out, const u32 *restrict random, u32 salt,
                        size_t n, int is_bfloat) {
    if (random && is_bfloat && salt) NAMED(pack_bfloats)(x, out, random, salt, n);
    else if (random && is_bfloat) NAMED(pack_bfloats)(x, out, random, 0, n);
    else if (random)
        for (size_t i = 0; i < n; i++)
            out[i] = round_stochastically(bits_of(x[i]), state_bits(random[i], salt), 0);
    else if (is_bfloat)
        for (size_t i = 0; i < n; i++) out[i] = round_to_nearest(bits_of(x[i]), 1);
    else
        for (size_t i = 0; i < n; i++) out[i] = round_to_nearest(bits_of(x[i]), 0);
}

#define APPLY_DIFFERENCE(T)                                                              \
    do {                                                                                 \
        T *restrict x = y;                                                               \
        const T *restrict a = value, *restrict b = twin;                                 \
        if (how == SCALE) for (size_t i = 0; i < n; i++) x[i] = x[i] - (a[i] - b[i]) * x[i]; \
        else for (size_t i = 0; i < n; i++) x[i] = x[i] + (a[i] - b[i]);                 \
    } while (0)

KERNEL void NAMED(apply_difference)(void *y, const void *value, const void *twin, int how, int wide, size_t n) {
    if (wide) APPLY_DIFFERENCE(double);
    else APPLY_DIFFERENCE(float);
}

#undef APPLY_DIFFERENCE
#undef V
#undef I
#undef W
#undef F
#undef D
#undef Whole
#undef Visits
#undef Met
#undef SHUFFLE
#undef SELECT
#undef COUNTED
#undef EVEN_THEN_ODD
#undef LOW_HALVES
#undef UPPER_HALVES
#undef FIRST_PAIRS
#undef SECOND_PAIRS
#undef FIRST_WORDS
#undef SECOND_WORDS
#undef FIRST_TWICE
#undef SECOND_TWICE
