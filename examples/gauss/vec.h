/* SPDX-License-Identifier: BSL-1.0 */
/* Vectors of as many doubles as an instruction takes, at the level that a file is compiled for. */
#ifndef GAUSS_VEC_H
#define GAUSS_VEC_H

#if defined(__AVX512F__)
#define LANES 8 /* doubles in a vector */
#elif defined(__AVX2__)
#define LANES 4
#else
#define LANES 2
#endif

#define INLINE static inline __attribute__((always_inline))

typedef double vec __attribute__((vector_size(LANES * sizeof(double))));
typedef double vec_in_memory
    __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double)), may_alias));

INLINE vec load(const double *from)
{
    return *(const vec_in_memory *)from;
}

INLINE void store(double *to, vec value)
{
    *(vec_in_memory *)to = value;
}

INLINE vec splat(double value)
{
    return value - (vec){0};
}

#endif
