/* SPDX-License-Identifier: BSL-1.0 */
/* C++: objects in regions, loops and tasks, exceptions there, and many captured variables. */
#include <omp.h>

#include <complex>
#include <cstdio>
#include <string>

#pragma omp declare reduction(append : std::string : omp_out += omp_in)

namespace {

struct counted {
    static int live;
    int value;

    explicit counted(int is = 0) : value(is)
    {
        count(1);
    }
    counted(const counted &other) : value(other.value)
    {
        count(1);
    }
    counted &operator=(const counted &other) = default;
    ~counted()
    {
        count(-1);
    }
    static void count(int more)
    {
#pragma omp atomic
        live += more;
    }
};

int counted::live;

extern counted own;
#pragma omp threadprivate(own)
counted own(7);

int wrong;

void expect(bool is)
{
    if (!is) {
#pragma omp atomic
        wrong++;
    }
}

void tasks(counted first)
{
    for (int i = 0; i < 100; i++) {
#pragma omp task firstprivate(first)
        {
            first.value += i;
            expect(first.value == 5 + i);
        }
#pragma omp task untied firstprivate(first)
        {
#pragma omp task
            first.value++; // its own copy
#pragma omp taskyield
            first.value += i;
#pragma omp taskwait
            expect(first.value == 5 + i);
        }
#pragma omp task if (i % 2) firstprivate(first)
        expect(first.value == 5);
    }
}

int objects()
{
    int sum = 0;
    counted first(5), last, latest;

#pragma omp parallel num_threads(4) firstprivate(first) reduction(+ : sum)
    {
        own.value += omp_get_thread_num();
        expect(own.value == 7 + omp_get_thread_num());
#pragma omp single
        tasks(first);
#pragma omp for lastprivate(last) schedule(dynamic)
        for (int i = 0; i < 37; i++) {
            last.value = i;
            sum += i;
        }
#pragma omp masked
#pragma omp taskloop lastprivate(latest) firstprivate(first) grainsize(3)
        for (int i = 0; i < 50; i++)
            latest.value = i + first.value;
    }
    return sum + last.value + latest.value;
}

// As many arguments of a region's function.
#define TEN(what, name)                                                                            \
    what(name##0) what(name##1) what(name##2) what(name##3) what(name##4) what(name##5)            \
        what(name##6) what(name##7) what(name##8) what(name##9)
// clang-format off
#define HUNDRED(what)                                                                              \
    TEN(what, a) TEN(what, b) TEN(what, c) TEN(what, d) TEN(what, e) TEN(what, f) TEN(what, g)     \
        TEN(what, h) TEN(what, i) TEN(what, j)
// clang-format on
#define DECLARE(name) int name = ++count;
#define ADD(name) sum += name;

int captured()
{
    int count = 0, sum = 0;
    double half = .5;
    char letter = 'x';

    HUNDRED(DECLARE)
#pragma omp parallel num_threads(3) firstprivate(half, letter) reduction(+ : sum)
    sum += static_cast<int>(half * 2) + letter;
#pragma omp parallel num_threads(3) reduction(+ : sum)
    {TEN(ADD, a) TEN(ADD, b)}
#pragma omp parallel num_threads(3) reduction(+ : sum)
    {
        HUNDRED(ADD)
    }
    return sum;
}

int thrown()
{
    int caught = 0;

#pragma omp parallel num_threads(4)
    try {
        throw omp_get_thread_num();
    } catch (int number) {
#pragma omp atomic
        caught += number;
    }
    return caught;
}

} // namespace

int main()
{
    std::complex<double> sum;
    std::string text;
    int result = objects();

#pragma omp parallel for num_threads(4) reduction(append : text)
    for (int i = 0; i < 10; i++)
        text += "a";
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < 1000; i++) {
#pragma omp critical
        sum += std::complex<double>(1, i);
    }
    std::printf("objects: %d %d %d %s %g %g\n", result, captured(), thrown(), text.c_str(),
                sum.real(), sum.imag());
    std::printf("%d wrong, %s\n", wrong, counted::live < 8 ? "none kept" : "kept");
    return 0;
}
