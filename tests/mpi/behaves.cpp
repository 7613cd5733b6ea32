/* SPDX-License-Identifier: BSL-1.0 */
/* As behaves.c, in C++: streams, exceptions, constructors, destructors of thread-locals. */
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <map>
#include <mutex>
#include <sched.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unistd.h>

static int mistake;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what) && mistake == 0) {                                                             \
            mistake = __LINE__;                                                                    \
            std::cerr << __FILE__ << ":" << __LINE__ << ": " << #what << std::endl;                \
        }                                                                                          \
    } while (0)

static int alive, ended;

struct Counted {
    std::string text{"constructed"};
    Counted()
    {
        alive++;
    }
    ~Counted()
    {
        alive--;
        ended++;
    }
};

struct Last { /* its constructor ends first, so its destructor runs last */
    bool wanted = false;
    ~Last()
    {
        if (wanted && (alive != 0 || ended < 3))
            _exit(98);
    }
};

static Last last;
static Counted global;
static thread_local Counted local;
static std::map<std::string, int> table{{"one", 1}, {"two", 2}};

struct Shape {
    virtual ~Shape() = default;
    virtual int sides() const
    {
        return 0;
    }
};
struct Square : Shape {
    int sides() const override
    {
        return 4;
    }
};

static void others()
{
    sched_yield();
}

static void nested(int seed)
{
    Counted counted;

    try {
        others();
        throw std::runtime_error(std::to_string(seed));
    } catch (const std::runtime_error &error) {
        others(); /* while it is handled */
        CHECK(std::to_string(seed) == error.what());
        try {
            throw seed + 1;
        } catch (int number) {
            others();
            CHECK(number == seed + 1);
        }
        CHECK(std::uncaught_exceptions() == 0 && std::current_exception());
        others();
        throw;
    }
}

static void check_exceptions(int seed)
{
    int caught = 0;

    for (int i = 0; i < 3; i++)
        try {
            nested(seed + i);
        } catch (const std::exception &error) {
            others();
            caught += std::to_string(seed + i) == error.what();
        }
    CHECK(caught == 3);
    CHECK(!std::current_exception());
}

static void check_streams(int seed)
{
    CHECK((std::cout.flags() & std::ios::hex) == 0 && std::cout.width() == 0);
    std::cout.setf(std::ios::hex, std::ios::basefield);
    std::cout.precision(seed);
    std::cout.fill('*');
    others();
    CHECK((std::cout.flags() & std::ios::hex) != 0 && std::cout.precision() == seed);
    CHECK(std::cin.tie() == &std::cout && std::cout.good());
    std::cout << "" << std::flush;
    std::ostringstream text;
    text << seed << " " << 1.5;
    CHECK(text.str() == std::to_string(seed) + " 1.5");
}

static void check_objects(int seed)
{
    std::once_flag once;
    int calls = 0;
    Shape *shape = new Square;

    CHECK(alive == 1 && global.text == "constructed");
    CHECK(local.text == "constructed" && alive == 2);
    CHECK(table.size() == 2 && table["two"] == 2);
    table[std::to_string(seed)] = seed;
    others();
    CHECK(table.size() == 3 && table[std::to_string(seed)] == seed);
    CHECK(dynamic_cast<Square *>(shape) && shape->sides() == 4);
    delete shape;
    std::call_once(once, [&] { calls++; });
    std::call_once(once, [&] { calls++; });
    CHECK(calls == 1);
    local.text = std::to_string(seed);
    others();
    CHECK(local.text == std::to_string(seed));
}

static int private_parts(int seed)
{
    last.wanted = true;
    check_objects(seed);
    check_streams(seed % 10 + 1);
    check_exceptions(seed);
    return mistake & 127;
}

static void handler()
{
    std::_Exit(21);
}

int main(int argc, char **argv)
{
    const std::string how = argc > 1 ? argv[1] : "";

    if (how == "private")
        return private_parts(argc > 2 ? atoi(argv[2]) : 1);
    if (how == "throw")
        throw std::runtime_error("not caught");
    if (how == "handler") {
        std::set_terminate(handler);
        throw 1;
    }
    if (how == "exit in catch")
        try {
            throw 1;
        } catch (int) {
            exit(20);
        }
    return 1;
}
