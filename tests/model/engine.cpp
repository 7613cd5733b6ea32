/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Relacy's simulation of threads, for each number of threads, and its searches. To Relacy a
 * scenario of any model is a `world`, so this file is compiled once for all models.
 */
#include "checker.hpp"

template <int Threads, int Later>
struct execution : rl::test_suite<execution<Threads, Later>, Threads> {
    static rl::thread_id_t const dynamic_thread_count = Later;

    void before()
    {
        memset(&um_kernel_now, 0, sizeof(um_kernel_now));
        um_kernel_now.spurious_left = UM_SPURIOUS_MOST;
        um_model_newest = false;
        um_model_changed = NULL;
        here = um_scenario_now->make();
    }

    void thread(unsigned index)
    {
        here->thread((int)index);
    }

    void after()
    {
        here->after();
        delete here;
    }

    world *here;
};

outcome search(const scenario &what, rl::scheduler_type_e type)
{
    static std::ostream nowhere(NULL);
    rl::ostringstream report;
    rl::test_params params;
    bool passed;

    params.search_type = type;
    params.context_bound = what.bound;
    params.iteration_count = what.random;
    params.output_stream = &report;
    params.progress_stream = &nowhere;
    um_scenario_now = &what;
    if (what.threads == 5)
        passed = rl::simulate<execution<5, 0>>(params);
    else if (what.threads == 4)
        passed = rl::simulate<execution<4, 0>>(params);
    else if (what.threads == 3 && what.later_threads == 1)
        passed = rl::simulate<execution<3, 1>>(params);
    else if (what.threads == 3)
        passed = rl::simulate<execution<3, 0>>(params);
    else if (what.later_threads == 2)
        passed = rl::simulate<execution<1, 2>>(params);
    else if (what.later_threads == 1)
        passed = rl::simulate<execution<1, 1>>(params);
    else
        passed = rl::simulate<execution<2, 0>>(params);
    return outcome{passed, params.stop_iteration, report.str()};
}
