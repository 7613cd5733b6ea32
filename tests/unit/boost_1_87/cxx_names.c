/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A library that has Boost.Context's two functions by their C++ names only, as Boost 1.87 and later
 * do. What links with it alone does not find the C names.
 */
struct transfer {
    void *from;
    void *data;
};

void *make_fcontext(void *stack, unsigned long bytes, void (*entry)(struct transfer));
struct transfer jump_fcontext(void *to, void *data);

void *cxx_make(void *stack, unsigned long bytes, void (*entry)(struct transfer)) __asm__(
    "_ZN5boost7context6detail13make_fcontextEPvmPFvNS1_10transfer_tEE");
struct transfer cxx_jump(void *to,
                         void *data) __asm__("_ZN5boost7context6detail13jump_fcontextEPvS2_");

void *cxx_make(void *stack, unsigned long bytes, void (*entry)(struct transfer))
{
    return make_fcontext(stack, bytes, entry);
}

struct transfer cxx_jump(void *to, void *data)
{
    return jump_fcontext(to, data);
}
