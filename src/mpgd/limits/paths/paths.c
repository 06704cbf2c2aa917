/* Distances between paths, p-variation, alignments, and the spanning tree of points.

   Each function is one of Python beside it, line by line, in the same order of operations, so that
   it has the same bits:

       mpgd_largest_sum           variation.py     _largest_sum
       mpgd_cheapest_staircase    skorokhod.py     _cheapest_staircase
       mpgd_lower_bound           frechet.py       _lower_bound
       mpgd_is_within             frechet.py       _is_within
       mpgd_align                 warping.py       _align
       mpgd_spanning_tree         theory/tails/dimension.py     _spanning_tree

   The explanations stand there. Paths are (point, coordinate) in memory, d coordinates. Python
   brings all memory; nothing is allocated here. The bits would break if a product and a sum were
   contracted (compile with -ffp-contract=off), or under -ffast-math, which also loses infinity. */

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef int64_t Index;

#define INLINE static inline __attribute__((always_inline))

INLINE double smaller(double a, double b) { return b < a ? b : a; }
INLINE double larger(double a, double b) { return b > a ? b : a; }
INLINE Index smaller_index(Index a, Index b) { return b < a ? b : a; }
INLINE Index larger_index(Index a, Index b) { return b > a ? b : a; }

/* ---- p-variation ---------------------------------------------------------------------------------- */

INLINE double power(double base, double exponent) { return exponent == 1.0 ? base : pow(base, exponent); }

/* The largest squared distance from a point to a point of a box. */
INLINE double reach(const double *u, const double *low, const double *high, Index d) {
    double total = 0.0;
    for (Index k = 0; k < d; k++) {
        double side = larger(u[k] - low[k], high[k] - u[k]);
        total += side * side;
    }
    return total;
}

/* `low` and `high` are the corners of all dyadic blocks; V is room for n numbers, V[0] = 0. */
double mpgd_largest_sum(const double *u, const double *low, const double *high, double *V, Index *before,
                        Index n, Index size, Index d, double half, double enough) {
#define REACH(node) reach(u + j * d, low + (node) * d, high + (node) * d, d)
    Index previous = 0;
    for (Index j = 1; j < n; j++) {
        double best = V[j - 1] + power(REACH(size + j - 1), half);
        double guess = V[previous] + power(REACH(size + previous), half);
        if (guess > best) best = guess;
        else previous = j - 1;
        double needed = power(best - V[j - 1], 1.0 / half);
        for (Index end = j, level = 0; end > 0;) {
            double far = REACH((size >> level) + (end >> level) - 1);
            if (far > needed) needed = power(best - V[end - 1], 1.0 / half);
            if (far <= needed) {
                end -= (Index)1 << level;
                if ((end & (((Index)2 << level) - 1)) == 0) level++;
            } else if (level > 0) {
                level--;
            } else {
                double candidate = V[--end] + power(far, half);
                if (candidate > best) best = candidate, previous = end;
            }
        }
        V[j] = best;
        before[j] = previous;
        if (best >= enough) return best;
    }
    return V[n - 1];
#undef REACH
}

/* ---- J1 -------------------------------------------------------------------------------------------- */

INLINE double gap(const double *x, const double *y, Index d) {
    if (d == 1) return fabs(x[0] - y[0]);
    double total = 0.0;
    for (Index k = 0; k < d; k++) total += (x[k] - y[k]) * (x[k] - y[k]);
    return sqrt(total);
}

/* `cost` has m - 1 numbers, all infinite. */
INLINE double staircase(const double *x, const double *s, Index n, const double *y, const double *t, Index m,
                        Index d, const Index *first, const Index *last, double *cost) {
    double diagonal = 0.0;
    for (Index i = 0; i < n - 1; i++) {
        if (i > 0) diagonal = first[i] > first[i - 1] ? cost[first[i] - 1] : INFINITY;
        double left = INFINITY;
        for (Index j = first[i]; j <= last[i]; j++) {
            double x_jumps = larger(larger(cost[j], t[j] - s[i]), s[i] - t[j + 1]);
            double y_jumps = larger(larger(left, s[i] - t[j]), t[j] - s[i + 1]);
            double both = larger(diagonal, fabs(s[i] - t[j]));
            diagonal = cost[j];
            left = larger(gap(x + i * d, y + j * d, d), smaller(smaller(x_jumps, y_jumps), both));
            cost[j] = left;
        }
    }
    return larger(cost[m - 2], gap(x + (n - 1) * d, y + (m - 1) * d, d));
}

double mpgd_cheapest_staircase(const double *x, const double *s, Index n, const double *y, const double *t, Index m,
                               Index d, const Index *first, const Index *last, double *cost) {
    if (d == 1) return staircase(x, s, n, y, t, m, 1, first, last, cost); /* without loops over coordinates */
    return staircase(x, s, n, y, t, m, d, first, last, cost);
}

/* ---- SM1 ------------------------------------------------------------------------------------------- */

/* Where a vertex lies as seen from a segment. */
typedef struct { double along, length, off, other; } Place;

/* `vertex` is (time, space); `segment` is followed by its end. d counts time too. */
INLINE Place place_in_space(const double *vertex, const double *segment, int is_flat, Index d) {
    const double *end = segment + d;
    double ahead = vertex[0] - segment[0], step2 = 0.0, product = 0.0, gap2 = 0.0, off2 = 0.0;
    for (Index k = 1; k < d; k++) {
        double step = end[k] - segment[k], gap = vertex[k] - segment[k];
        step2 += step * step;
        product += step * gap;
        gap2 += gap * gap;
    }
    if (is_flat) return (Place){ahead, end[0] - segment[0], 0.0, sqrt(gap2)};
    double foot = step2 > 0x1p-1022 ? product / step2 : 0.0;
    for (Index k = 1; k < d; k++) {
        double off = vertex[k] - segment[k] - foot * (end[k] - segment[k]);
        off2 += off * off;
    }
    double length = sqrt(step2);
    return (Place){foot * length, length, sqrt(off2), fabs(ahead)};
}

INLINE Place place_on_line(const double *vertex, const double *segment, int is_flat) {
    double ahead = vertex[0] - segment[0], above = vertex[1] - segment[1];
    if (is_flat) return (Place){ahead, segment[2] - segment[0], 0.0, fabs(above)};
    double rise = segment[3] > segment[1] ? 1.0 : -1.0;
    return (Place){rise * above, rise * (segment[3] - segment[1]), 0.0, fabs(ahead)};
}

/* Even segments run in time, odd ones in space. */
INLINE Place place(const double *vertices, Index i, const double *segments, Index j, Index d) {
    const double *vertex = vertices + i * d, *segment = segments + j * d;
    return d == 2 ? place_on_line(vertex, segment, j % 2 == 0) : place_in_space(vertex, segment, j % 2 == 0, d);
}

INLINE double distance(Place p) {
    double beyond = larger(0.0, larger(-p.along, p.along - p.length));
    return larger(p.other, p.off == 0.0 ? beyond : sqrt(p.off * p.off + beyond * beyond));
}

/* `below` has a number for each segment of Q, all infinite but the first. */
INLINE double lower_bound(const double *P, Index n, const double *Q, Index m, Index d, const Index *first,
                          const Index *last, double *below) {
    for (Index i = 0; i < n - 1; i++) {
        double left = INFINITY;
        for (Index j = first[i]; j <= last[i]; j++) {
            double enter = smaller(left, below[j]);
            below[j] = larger(enter, distance(place(P, i + 1, Q, j, d)));
            left = larger(enter, distance(place(Q, j + 1, P, i, d)));
        }
    }
    return below[m - 2];
}

double mpgd_lower_bound(const double *P, Index n, const double *Q, Index m, Index d, const Index *first,
                        const Index *last, double *below) {
    if (d == 2) return lower_bound(P, n, Q, m, 2, first, last, below);
    return lower_bound(P, n, Q, m, d, first, last, below);
}

INLINE double lowest(Place p, double eps, double across, double opposite) {
    if (p.off > eps || p.other > eps) return INFINITY;
    double half = p.off == 0.0 ? eps : sqrt((eps - p.off) * (eps + p.off));
    double low = larger(0.0, p.along - half), high = smaller(p.length, p.along + half);
    if (across == INFINITY) low = larger(low, opposite);
    return low <= high ? low : INFINITY;
}

/* `below` as above, its first number 0. */
INLINE int is_within(const double *P, Index n, const double *Q, Index m, Index d, double eps, const Index *first,
                     const Index *last, double *below) {
    Index start = 0, stop = 0;
    int inside = 0;
    for (Index i = 0; i < n - 1; i++) {
        Index j = larger_index(start, first[i]), reached_first = m - 1, reached_last = -1;
        double left = INFINITY;
        inside = 0;
        for (; j <= last[i] && (j <= stop || left < INFINITY); j++) {
            inside = left < INFINITY || below[j] < INFINITY;
            if (!inside) continue;
            double top = lowest(place(P, i + 1, Q, j, d), eps, left, below[j]);
            left = lowest(place(Q, j + 1, P, i, d), eps, below[j], left);
            below[j] = top;
            if (top < INFINITY) reached_first = smaller_index(reached_first, j), reached_last = j;
        }
        inside = inside && i == n - 2 && j == m - 1;
        start = reached_first, stop = reached_last;
        if (start > stop) break;
    }
    return inside;
}

int mpgd_is_within(const double *P, Index n, const double *Q, Index m, Index d, double eps, const Index *first,
                   const Index *last, double *below) {
    if (d == 2) return is_within(P, n, Q, m, 2, eps, first, last, below);
    return is_within(P, n, Q, m, d, eps, first, last, below);
}

/* ---- alignments ------------------------------------------------------------------------------------ */

/* How far a step to the pair (i, j) moves time. Graphs meet at vertices; step paths have values that
   hold, and jump together at the end. */
INLINE double late(const double *s, Index n, const double *t, Index m, Index i, Index j, int move, int steps) {
    if (!steps) return fabs(s[i] - t[j]);
    if (i == n - 1 || j == m - 1) return i == n - 1 && j == m - 1 && move == 3 ? 0.0 : INFINITY;
    if (move == 3) return fabs(s[i] - t[j]);
    if (move == 1) return larger(larger(0.0, t[j] - s[i]), s[i] - t[j + 1]);
    return larger(larger(0.0, s[i] - t[j]), t[j] - s[i + 1]);
}

/* `cost` has n m numbers, all infinite but the first; `came` has n m moves. Write the alignment,
   from its end, to `rows` and `columns`, each of n + m numbers; return its length, 0 if there is
   none inside the window, and its largest time difference. */
Index mpgd_align(const double *s, const double *x, Index n, const double *t, const double *y, Index m, Index d,
                 double window, double p, int steps, double *cost, int8_t *came, Index *rows, Index *columns,
                 double *latest) {
    for (Index i = 0; i < n; i++)
        for (Index j = 0; j < m; j++)
            for (int move = 1; move < 4; move++) {
                Index a = i - (move & 1), b = j - (move >> 1);
                if (a < 0 || b < 0 || cost[a * m + b] == INFINITY) continue;
                if (late(s, n, t, m, i, j, move, steps) > window) continue;
                double total = 0.0;
                for (Index k = 0; k < d; k++) {
                    double step = x[i * d + k] - x[a * d + k] - y[j * d + k] + y[b * d + k];
                    total += step * step;
                }
                total = cost[a * m + b] + pow(sqrt(total), p);
                if (total < cost[i * m + j]) cost[i * m + j] = total, came[i * m + j] = (int8_t)move;
            }
    Index i = n - 1, j = m - 1, count = 0;
    *latest = 0.0;
    if (cost[i * m + j] == INFINITY) return 0;
    for (;; count++) {
        rows[count] = i, columns[count] = j;
        if (i == 0 && j == 0) return count + 1;
        int move = came[i * m + j];
        *latest = larger(*latest, late(s, n, t, m, i, j, move, steps));
        i -= move & 1, j -= move >> 1;
    }
}

/* ---- the minimal spanning tree ------------------------------------------------------------------------ */

/* Squared edges of the tree of n points, which are overwritten. `nearest` has n - 1 numbers, all
   infinite; `newest` has d. */
void mpgd_spanning_tree(double *x, Index n, Index d, double *nearest, double *newest, double *edges) {
    memcpy(newest, x + (n - 1) * d, (size_t)d * sizeof *x);
    for (Index step = 0, outside = n - 1; step < n - 1; step++) {
        Index j = 0;
        for (Index i = 0; i < outside; i++) {
            double square = 0.0;
            for (Index c = 0; c < d; c++) square += (x[i * d + c] - newest[c]) * (x[i * d + c] - newest[c]);
            nearest[i] = smaller(nearest[i], square);
            if (nearest[i] < nearest[j]) j = i;
        }
        outside--;
        edges[step] = nearest[j];
        memcpy(newest, x + j * d, (size_t)d * sizeof *x);
        memmove(x + j * d, x + outside * d, (size_t)d * sizeof *x);
        nearest[j] = nearest[outside];
    }
}

#ifndef MPGD_SOURCE
#define MPGD_SOURCE "" /* a digest of this file, so that Python sees a stale library */
#endif
const char mpgd_source[17] = MPGD_SOURCE;
