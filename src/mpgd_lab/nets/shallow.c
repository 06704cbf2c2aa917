/* The gradient of small nets: one hidden ReLU layer, one output, mean square error.

       h = relu(W X + b),   r = V h + c - y,   d = r where h > 0,       loss = mean of r^2
       dV = 2/n r h^T,   dc = 2/n sum r,   dW = 2/n V^T * d X^T,   db = 2/n V^T * sum d

   One net after the other goes through the data in blocks of 128 examples, whose hidden layer stays
   in the first-level cache. So what a net becomes does not depend on its neighbours in any bit.

   Sums may be taken in any order and products fused: that is what lets them fill vector registers.
   Their last bits therefore depend on the CPU. Compile with -O3 -ffp-contract=fast
   -fassociative-math -fno-signed-zeros -fno-trapping-math. */

#include <stdint.h>
#include <string.h>

typedef int64_t Index;

enum { BLOCK = 128 };

#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__gnu_linux__)
#define CLONES __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define CLONES
#endif

INLINE double product(const double *restrict a, const double *restrict b, Index n) {
    double total = 0.0;
    for (Index e = 0; e < n; e++) total += a[e] * b[e];
    return total;
}

/* A net's numbers, or its gradient: W (hidden, feature), b, V, c. */
typedef struct { double *W, *b, *V, *c; } Net;

INLINE Net net_at(double *x, Index features, Index hidden) {
    return (Net){x, x + hidden * features, x + hidden * (features + 1), x + hidden * (features + 2)};
}

/* Fill h = relu(W X + b) and r = V h + c - y of n examples; X has a column every `stride`. */
INLINE void residuals(Net net, const double *X, Index stride, const double *y, double *h, double *restrict r, Index n,
                      Index features, Index hidden) {
    for (Index e = 0; e < n; e++) r[e] = *net.c - y[e];
    for (Index j = 0; j < hidden; j++) {
        double *restrict row = h + j * BLOCK;
        for (Index e = 0; e < n; e++) row[e] = net.b[j];
        for (Index f = 0; f < features; f++) {
            const double *restrict column = X + f * stride;
            double w = net.W[j * features + f];
            for (Index e = 0; e < n; e++) row[e] += w * column[e];
        }
        for (Index e = 0; e < n; e++) {
            row[e] = row[e] > 0.0 ? row[e] : 0.0;
            r[e] += net.V[j] * row[e];
        }
    }
}

/* Add r h^T, sum r, d X^T and sum d, with d = r where h > 0; h is overwritten by d. */
INLINE void add_derivatives(Net g, const double *X, Index stride, double *h, const double *restrict r, Index n,
                            Index features, Index hidden) {
    double sum = 0.0;
    for (Index e = 0; e < n; e++) sum += r[e];
    *g.c += sum;
    for (Index j = 0; j < hidden; j++) {
        double *restrict d = h + j * BLOCK, total = 0.0;
        g.V[j] += product(r, d, n);
        for (Index e = 0; e < n; e++) {
            d[e] = d[e] > 0.0 ? r[e] : 0.0;
            total += d[e];
        }
        g.b[j] += total;
        for (Index f = 0; f < features; f++) g.W[j * features + f] += product(d, X + f * stride, n);
    }
}

/* Fill losses and gradients of `nets` nets (net, element) on columns (net or 1, feature, example);
   `h` is room for hidden times BLOCK numbers. */
CLONES void mpgd_differentiate(double *x, const double *columns, const double *targets, double *losses,
                               double *gradient, double *h, Index nets, Index shared, Index features,
                               Index hidden, Index examples) {
    Index size = hidden * (features + 2) + 1;
    double r[BLOCK];
    memset(gradient, 0, (size_t)(nets * size) * sizeof *gradient);
    for (Index k = 0; k < nets; k++) {
        Index own = shared ? 0 : k;
        const double *X = columns + own * features * examples, *y = targets + own * examples;
        Net net = net_at(x + k * size, features, hidden), g = net_at(gradient + k * size, features, hidden);
        double loss = 0.0, factor = 2.0 / (double)examples;
        for (Index first = 0; first < examples; first += BLOCK) {
            Index n = examples - first < BLOCK ? examples - first : BLOCK;
            residuals(net, X + first, examples, y + first, h, r, n, features, hidden);
            loss += product(r, r, n);
            add_derivatives(g, X + first, examples, h, r, n, features, hidden);
        }
        losses[k] = loss / (double)examples;
        for (Index i = 0; i < size; i++) g.W[i] *= factor;
        for (Index j = 0; j < hidden; j++) {
            for (Index f = 0; f < features; f++) g.W[j * features + f] *= net.V[j];
            g.b[j] *= net.V[j];
        }
    }
}

#ifndef MPGD_SOURCE
#define MPGD_SOURCE "" /* a digest of this file, so that Python sees a stale library */
#endif
const char mpgd_source[17] = MPGD_SOURCE;
