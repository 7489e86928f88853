#include "kernels/numbers.h"

double numbers_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    bits = (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 0x1.6a09e667f3bcdp+0) { /* sqrt(2) */
        m *= 0.5;
        exponent++;
    }
    double t = (m - 1.0) / (m + 1.0); /* |t| <= 0.1716, so t^23 / 23 ends below 2^-62 */
    double square = t * t;
    double series = 0.0;
    for (int k = 21; k >= 1; k -= 2)
        series = series * square + 1.0 / k;
    return (double)exponent * 0x1.62e42fefa39efp-1 + 2.0 * t * series;
}
