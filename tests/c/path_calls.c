/* Random calls of the functions of paths.c, in heap memory of exactly the size they may touch.

   The last line is a digest of the results. `python -m tools.check_kernels` compiles this file with
   sanitizers, and for another CPU. */

#include "../../src/mpgd/limits/paths/paths.c"

#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 2000 };

static uint64_t state = 1;

static uint64_t draw_bits(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static Index below(Index n) { return (Index)(draw_bits() % (uint64_t)n); }
static double number(void) { return (double)draw_bits() * 0x1p-31 - 0.5; }

/* Values in steps of 1/8 now and then, so that there are ties. */
static double *make_path(Index n, Index d) {
    double *x = malloc((size_t)(n * d) * sizeof *x);
    int is_coarse = below(3) == 0;
    for (Index i = 0; i < n * d; i++) {
        double step = number(), before = i < d ? 0.0 : x[i - d];
        x[i] = before + (is_coarse ? floor(step * 8) / 8 : step);
    }
    return x;
}

static double *filled(Index n, double value) {
    double *x = malloc((size_t)n * sizeof *x);
    for (Index i = 0; i < n; i++) x[i] = value;
    return x;
}

static double *make_times(Index n) {
    double *t = filled(n, 0.0);
    for (Index i = 0; i < n; i++) t[i] = (double)i / (double)(n - 1);
    return t;
}

static uint64_t add(uint64_t h, double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return (h ^ bits) * 0x9E3779B97F4A7C15u;
}

static uint64_t call_variation(Index n, Index d) {
    Index size = 1, *before = calloc((size_t)n, sizeof *before);
    double *u = make_path(n, d), *V = filled(n, 0.0);
    while (size < n) size *= 2;
    double *low = filled(2 * size * d, 0.0), *high = filled(2 * size * d, 0.0);
    for (Index i = 0; i < size * d; i++) low[size * d + i] = high[size * d + i] = u[i < n * d ? i : (n - 1) * d + i % d];
    for (Index node = size - 1; node > 0; node--)
        for (Index k = 0; k < d; k++) {
            low[node * d + k] = smaller(low[2 * node * d + k], low[(2 * node + 1) * d + k]);
            high[node * d + k] = larger(high[2 * node * d + k], high[(2 * node + 1) * d + k]);
        }
    uint64_t h = add(0, mpgd_largest_sum(u, low, high, V, before, n, size, d, 1.0, 0x1p900));
    for (Index i = 0; i < n; i++) h = add(h, (double)before[i]);
    free(u), free(V), free(low), free(high), free(before);
    return h;
}

static uint64_t call_distances(Index n, Index m, Index d) {
    double *x = make_path(n, d), *y = make_path(m, d), *s = make_times(n), *t = make_times(m);
    Index *first = calloc((size_t)n - 1, sizeof *first), *last = malloc((size_t)(n - 1) * sizeof *last);
    for (Index i = 0; i < n - 1; i++) last[i] = m - 2;
    double *cost = filled(m - 1, INFINITY);
    uint64_t h = add(0, mpgd_cheapest_staircase(x, s, n, y, t, m, d, first, last, cost));
    free(cost);

    double *all = filled(n * m, INFINITY), late;
    int8_t *came = calloc((size_t)(n * m), 1);
    Index *rows = malloc((size_t)(n + m) * sizeof *rows), *columns = malloc((size_t)(n + m) * sizeof *columns);
    all[0] = 0.0;
    int steps = (int)below(2);
    Index count = mpgd_align(s, x, n, t, y, m, d, 0.3, 2.0, steps, all, came, rows, columns, &late);
    h = add(add(h, late), (double)count);
    for (Index i = 0; i < count; i++) h = add(add(h, (double)rows[i]), (double)columns[i]);
    free(all), free(came), free(rows), free(columns);
    free(x), free(y), free(s), free(t), free(first), free(last);
    return h;
}

/* A graph of n segments, even ones in time, odd ones in space. */
static double *make_graph(Index n, Index d) {
    double *P = filled((n + 1) * d, 0.0);
    for (Index i = 1; i <= n; i++)
        for (Index k = 0; k < d; k++) {
            int moves = (i % 2 == 1) == (k == 0);
            P[i * d + k] = P[(i - 1) * d + k] + (moves ? (k ? number() : 1.0 / (double)n) : 0.0);
        }
    return P;
}

static uint64_t call_graphs(Index n, Index m, Index d) {
    double *P = make_graph(n, d), *Q = make_graph(m, d), *below_ = filled(m, INFINITY);
    Index *first = calloc((size_t)n, sizeof *first), *last = malloc((size_t)n * sizeof *last);
    for (Index i = 0; i < n; i++) last[i] = m - 1;
    below_[0] = 0.0;
    uint64_t h = add(0, mpgd_lower_bound(P, n + 1, Q, m + 1, d, first, last, below_));
    for (double eps = 0.125; eps < 4; eps *= 2) {
        for (Index j = 0; j < m; j++) below_[j] = j ? INFINITY : 0.0;
        h = add(h, mpgd_is_within(P, n + 1, Q, m + 1, d, eps, first, last, below_));
    }
    free(P), free(Q), free(below_), free(first), free(last);
    return h;
}

static uint64_t call_tree(Index n, Index d) {
    double *x = make_path(n, d), *nearest = filled(n - 1, INFINITY), *newest = filled(d, 0.0), *edges = filled(n - 1, 0.0);
    uint64_t h = 0;
    mpgd_spanning_tree(x, n, d, nearest, newest, edges);
    for (Index i = 0; i < n - 1; i++) h = add(h, edges[i]);
    free(x), free(nearest), free(newest), free(edges);
    return h;
}

int main(void) {
    uint64_t whole = 0;
    for (int call = 0; call < CALLS; call++) {
        Index n = 2 + below(40), m = 2 + below(40), d = 1 + below(4);
        whole = add(whole, (double)(call_variation(n, d) >> 11));
        whole = add(whole, (double)(call_distances(n, m, d) >> 11));
        whole = add(whole, (double)(call_graphs(n, m, d + 1) >> 11));
        whole = add(whole, (double)(call_tree(n, d) >> 11));
    }
    printf("%d calls %016llx\n", CALLS, (unsigned long long)whole);
    return 0;
}
