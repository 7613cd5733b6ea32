// SPDX-License-Identifier: BSL-1.0
// See exceptions.h.
#include "exceptions.h"

#include <exception>

namespace {

struct Error {
    int name;
};

// Of the exception that is handled now; -1: none.
int handled()
{
    std::exception_ptr current = std::current_exception();

    if (!current)
        return -1;
    try {
        std::rethrow_exception(current);
    } catch (const Error &error) {
        return error.name;
    }
}

struct Fiber {
    int name;
    leave_fn *leave;
    void *arg;
    int wrong;

    void expect(bool right)
    {
        wrong += right ? 0 : 1;
    }

    // Leaves the core: what the runtime has in hand is the same before and after.
    void away(int name_of_handled, int on_their_way)
    {
        expect(std::uncaught_exceptions() == on_their_way);
        leave(arg);
        expect(std::uncaught_exceptions() == on_their_way);
        expect(handled() == name_of_handled);
    }
};

// Leaves the core when it is destroyed, and throws and catches something itself in between.
class Destroyed {
    Fiber &fiber;
    int handled_then;

  public:
    Destroyed(Fiber &in, int handled_now) : fiber(in), handled_then(handled_now)
    {
    }
    ~Destroyed()
    {
        fiber.away(handled_then, 1);
        try {
            throw Error{fiber.name + 3};
        } catch (const Error &error) {
            fiber.away(fiber.name + 3, 1);
            fiber.expect(error.name == fiber.name + 3);
        }
        fiber.away(handled_then, 1);
    }
};

void throws_through_a_destructor(Fiber &fiber, int handled_now)
{
    Destroyed destroyed(fiber, handled_now);

    throw Error{fiber.name + 1};
}

void throws_again(Fiber &fiber)
{
    try {
        throws_through_a_destructor(fiber, fiber.name);
    } catch (const Error &error) {
        fiber.away(fiber.name + 1, 0);
        fiber.expect(error.name == fiber.name + 1);
    }
    fiber.away(fiber.name, 0);
    throw;
}

void nests(Fiber &fiber)
{
    try {
        try {
            throw Error{fiber.name};
        } catch (const Error &error) {
            fiber.away(fiber.name, 0);
            fiber.expect(error.name == fiber.name);
            throws_again(fiber);
        }
    } catch (const Error &error) {
        fiber.away(fiber.name, 0);
        fiber.expect(error.name == fiber.name);
    }
}

} // namespace

int handle_exceptions(int name, leave_fn *leave, void *arg)
{
    Fiber fiber = {name, leave, arg, 0};

    fiber.away(-1, 0);
    nests(fiber);
    try {
        throws_through_a_destructor(fiber, -1);
    } catch (const Error &error) {
        fiber.away(name + 1, 0);
        fiber.expect(error.name == name + 1);
    }
    fiber.away(-1, 0);
    return fiber.wrong;
}

int handle_none(int times, leave_fn *leave, void *arg)
{
    Fiber fiber = {0, leave, arg, 0};

    for (int i = 0; i < times; i++)
        fiber.away(-1, 0);
    return fiber.wrong;
}
