/* SPDX-License-Identifier: BSL-1.0 */
/* A plugin with regions; plugin_host.c opens it. */
int plugin_sum(int members);

int plugin_sum(int members)
{
    int sum = 0, tasks = 0;

#pragma omp parallel num_threads(members) reduction(+ : sum)
    {
#pragma omp for schedule(dynamic) nowait
        for (int i = 0; i < 100; i++)
            sum += i;
#pragma omp single
        {
#pragma omp task shared(tasks)
#pragma omp atomic
            tasks++;
        }
    }
    return sum + tasks;
}
