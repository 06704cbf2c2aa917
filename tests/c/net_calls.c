/* Random calls of shallow.c, in heap memory of exactly the size it may touch. Sums are taken in any
   order there, so there is no digest: a gradient is compared with differences of losses. */

#include "../../src/mpgd_lab/nets/shallow.c"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 200 };

static uint64_t state = 1;

static double number(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 33) * 0x1p-31 - 0.5;
}

static double *make(Index n) {
    double *x = malloc((size_t)n * sizeof *x);
    for (Index i = 0; i < n; i++) x[i] = number();
    return x;
}

int main(void) {
    for (Index call = 0; call < CALLS; call++) {
        Index features = 1 + call % 5, hidden = 1 + call % 17, examples = 1 + call * 7 % 400, nets = 1 + call % 3;
        Index shared = call % 2, sets = shared ? 1 : nets, size = hidden * (features + 2) + 1;
        double *x = make(nets * size), *X = make(sets * features * examples), *y = make(sets * examples);
        double *g = make(nets * size), *h = make(hidden * BLOCK), *rest = make(nets * size);
        double *before = make(nets), *after = make(nets), slope = 0.0, step = 1e-7;
        mpgd_differentiate(x, X, y, before, g, h, nets, shared, features, hidden, examples);
        for (Index i = 0; i < size; i++) slope += g[i] * g[i], x[i] += step * g[i];
        mpgd_differentiate(x, X, y, after, rest, h, nets, shared, features, hidden, examples);
        double found = (after[0] - before[0]) / step;
        if (fabs(found - slope) > 1e-4 * (1.0 + slope)) {
            printf("call %d: a slope of %g, differences give %g\n", (int)call, slope, found);
            return 1;
        }
        free(x), free(X), free(y), free(g), free(h), free(rest), free(before), free(after);
    }
    printf("%d calls\n", CALLS);
    return 0;
}
