#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""libumbra.so called from Python by ctypes: user.py LIBRARY"""
import ctypes
import errno
import sys
import unittest

umbra = ctypes.CDLL(sys.argv.pop(1))

SHADOW_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
FIBER_FN = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
RANGE_FN = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)


class Fiber(ctypes.Structure):
    """struct umbra_fiber: passed by value, so its fields are declared."""

    _fields_ = [("block", ctypes.c_void_p), ("generation", ctypes.c_uint64)]


def declare(name, result, *arguments):
    function = getattr(umbra, name)
    function.restype, function.argtypes = result, arguments
    return function


shadow_create = declare("shadow_create", ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
shadow_fork = declare("shadow_fork", ctypes.c_int, ctypes.c_void_p, SHADOW_FN, ctypes.c_void_p)
shadow_join = declare("shadow_join", ctypes.c_int, ctypes.c_void_p)
shadow_destroy = declare("shadow_destroy", ctypes.c_int, ctypes.c_void_p)
last_error_text = declare("umbra_last_error_text", ctypes.c_char_p)
run = declare("umbra_run", ctypes.c_int, ctypes.c_void_p, FIBER_FN, ctypes.c_void_p)
spawn = declare("umbra_spawn", ctypes.c_int, FIBER_FN, ctypes.c_void_p, ctypes.POINTER(Fiber))
join = declare("umbra_join", ctypes.c_int, Fiber, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p))
parallel_for = declare("umbra_parallel_for", None, ctypes.c_size_t, ctypes.c_size_t,
                       ctypes.c_size_t, RANGE_FN, ctypes.c_void_p)


NEVER = 2**64 - 1  # UMBRA_NEVER


class Memory:
    """Memory for a struct of Umbra, which begins at a multiple of 16, as malloc's does."""

    def __init__(self, name):
        self.bytes = declare(f"umbra_sizeof_{name}", ctypes.c_size_t)()
        self.raw = ctypes.create_string_buffer(self.bytes + 15)
        self.address = (ctypes.addressof(self.raw) + 15) & ~15


def in_fiber(function):
    """umbra_run; what the function raises is raised here."""
    raised = []

    @FIBER_FN
    def body(_):
        try:
            function()
        except BaseException as error:  # must not leave the callback
            raised.append(error)

    error = run(None, body, None)
    if raised:
        raise raised[0]
    return error


class User(unittest.TestCase):
    def test_a_shadow_runs_a_function(self):
        shadow, got = Memory("shadow"), []
        work = SHADOW_FN(got.append)
        error = shadow_create(shadow.address, None)
        if error == -errno.ENODEV:
            self.skipTest(last_error_text().decode())
        self.assertEqual(error, 0, last_error_text())
        for number in range(1, 101):
            self.assertEqual(shadow_fork(shadow.address, work, number), 0)
            self.assertEqual(shadow_join(shadow.address), 0)
        self.assertEqual(shadow_join(shadow.address), -errno.EINVAL)
        self.assertEqual(shadow_destroy(shadow.address), 0)
        self.assertEqual(got, list(range(1, 101)))

    def test_fibers_are_spawned_and_joined(self):
        results = []

        @FIBER_FN
        def double(number):
            return 2 * number

        def body():
            fibers = [Fiber() for _ in range(10)]
            for number, fiber in enumerate(fibers, 1):
                self.assertEqual(spawn(double, number, ctypes.byref(fiber)), 0)
            for fiber in fibers:
                result = ctypes.c_void_p()
                self.assertEqual(join(fiber, NEVER, ctypes.byref(result)), 0)
                results.append(result.value)

        self.assertEqual(in_fiber(body), 0)
        self.assertEqual(results, [2 * number for number in range(1, 11)])

    def test_a_loop_over_a_buffer_runs_on_all_cores(self):
        count = 10000
        buffer = (ctypes.c_double * count)()

        @RANGE_FN
        def fill(begin, end, at):
            numbers = (ctypes.c_double * count).from_address(at)
            for index in range(begin, end):
                numbers[index] += index

        def body():
            parallel_for(0, count, 500, fill, ctypes.addressof(buffer))

        self.assertEqual(in_fiber(body), 0)
        self.assertEqual(list(buffer), [float(index) for index in range(count)])


if __name__ == "__main__":
    unittest.main()
