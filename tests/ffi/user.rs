// SPDX-License-Identifier: BSL-1.0
// libumbra.so called from Rust; nothing but the standard library is needed.
use std::alloc::{alloc, dealloc, Layout};
use std::ffi::c_void;
use std::os::raw::c_int;
use std::ptr::{addr_of_mut, null, null_mut};

#[repr(C)]
#[derive(Clone, Copy)]
struct Fiber {
    block: *mut c_void,
    generation: u64,
}

type ShadowFn = extern "C" fn(*mut c_void);
type FiberFn = extern "C" fn(*mut c_void) -> *mut c_void;
type RangeFn = extern "C" fn(usize, usize, *mut c_void);

#[link(name = "umbra")]
extern "C" {
    fn umbra_sizeof_shadow() -> usize;
    fn shadow_create(shadow: *mut c_void, options: *const c_void) -> c_int;
    fn shadow_fork(shadow: *mut c_void, function: ShadowFn, arg: *mut c_void) -> c_int;
    fn shadow_join(shadow: *mut c_void) -> c_int;
    fn shadow_destroy(shadow: *mut c_void) -> c_int;
    fn umbra_run(options: *const c_void, function: FiberFn, arg: *mut c_void) -> c_int;
    fn umbra_spawn(function: FiberFn, arg: *mut c_void, fiber: *mut Fiber) -> c_int;
    fn umbra_join(fiber: Fiber, deadline: u64, result: *mut *mut c_void) -> c_int;
    fn umbra_yield();
    fn umbra_parallel_for(begin: usize, end: usize, grain: usize, f: RangeFn, arg: *mut c_void);
}

const ENODEV: c_int = 19;
const UMBRA_NEVER: u64 = u64::MAX;

extern "C" fn count(calls: *mut c_void) {
    unsafe { *(calls as *mut u32) += 1 }
}

fn shadow_runs_a_function() {
    let mut calls = 0u32;
    unsafe {
        let layout = Layout::from_size_align(umbra_sizeof_shadow(), 16).unwrap();
        let shadow = alloc(layout) as *mut c_void;
        let error = shadow_create(shadow, null());
        if error != -ENODEV {
            assert_eq!(error, 0);
            for _ in 0..1000 {
                assert_eq!(shadow_fork(shadow, count, addr_of_mut!(calls) as *mut c_void), 0);
                assert_eq!(shadow_join(shadow), 0);
            }
            assert_eq!(shadow_destroy(shadow), 0);
            assert_eq!(calls, 1000);
        }
        dealloc(shadow as *mut u8, layout);
    }
}

extern "C" fn double(number: *mut c_void) -> *mut c_void {
    unsafe { umbra_yield() }
    (2 * number as usize) as *mut c_void
}

extern "C" fn spawn_and_join(sum: *mut c_void) -> *mut c_void {
    let mut fibers = [Fiber { block: null_mut(), generation: 0 }; 10];
    for (number, fiber) in fibers.iter_mut().enumerate() {
        assert_eq!(unsafe { umbra_spawn(double, number as *mut c_void, fiber) }, 0);
    }
    for fiber in fibers {
        let mut result = null_mut();
        assert_eq!(unsafe { umbra_join(fiber, UMBRA_NEVER, &mut result) }, 0);
        unsafe { *(sum as *mut usize) += result as usize }
    }
    null_mut()
}

// The parts of a loop are disjoint, so each may write to its own numbers.
extern "C" fn fill(begin: usize, end: usize, numbers: *mut c_void) {
    for index in begin..end {
        unsafe { *(numbers as *mut f64).add(index) = index as f64 }
    }
}

extern "C" fn fill_all(numbers: *mut c_void) -> *mut c_void {
    unsafe { umbra_parallel_for(0, COUNT, 100, fill, numbers) }
    null_mut()
}

const COUNT: usize = 10000;

fn main() {
    let mut sum = 0usize;
    let mut numbers = vec![0f64; COUNT];

    shadow_runs_a_function();
    assert_eq!(unsafe { umbra_run(null(), spawn_and_join, addr_of_mut!(sum) as *mut c_void) }, 0);
    assert_eq!(sum, 90);
    assert_eq!(unsafe { umbra_run(null(), fill_all, numbers.as_mut_ptr() as *mut c_void) }, 0);
    assert!(numbers.iter().enumerate().all(|(index, number)| *number == index as f64));
}
