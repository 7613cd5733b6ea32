! SPDX-License-Identifier: BSL-1.0
! What Fortran has of its own: the names of omp_lib, with integers of both kinds; commons and
! saved variables of threads; workshare; copyprivate; and loops, reductions and tasks as gfortran compiles them.
program fortran
    use omp_lib
    implicit none
    integer :: counter, seed
    common /counters/ counter, seed
    !$omp threadprivate(/counters/)

    call omp_set_dynamic(.false.)
    call omp_set_num_threads(4)
    call queries()
    call locks()
    call commons()
    call loops()
    call in_order()
    call reductions()
    call shared_work()
    call tasks()
contains

    subroutine queries()
        integer(omp_sched_kind) :: kind
        integer :: chunk, inside(4)
        integer(8) :: wide

        wide = 3
        call omp_set_num_threads(wide)
        call omp_set_schedule(omp_sched_dynamic, 5)
        call omp_get_schedule(kind, chunk)
        call omp_set_max_active_levels(2)
        inside = 0
        !$omp parallel if(omp_get_max_threads() > 1)
        !$omp single
        inside = [omp_get_num_threads(), omp_get_level(), omp_get_team_size(wide - 2), &
                  omp_get_ancestor_thread_num(0)]
        !$omp end single
        !$omp end parallel
        print *, 'queries', kind == omp_sched_dynamic, chunk, inside, omp_in_parallel(), &
            omp_get_max_active_levels(), omp_get_dynamic(), omp_get_wtick() > 0, &
            omp_get_wtime() > 0, omp_get_cancellation(), omp_get_num_devices(), omp_in_final()
        call omp_set_num_threads(4)
    end subroutine

    subroutine locks()
        integer(omp_lock_kind) :: lock
        integer(omp_nest_lock_kind) :: nest
        integer :: sum, depth, deepest

        call omp_init_lock(lock)
        call omp_init_nest_lock(nest)
        sum = 0
        deepest = 0
        !$omp parallel private(depth)
        call omp_set_lock(lock)
        sum = sum + 1
        call omp_unset_lock(lock)
        call omp_set_nest_lock(nest)
        depth = omp_test_nest_lock(nest)
        deepest = max(deepest, depth)
        call omp_unset_nest_lock(nest)
        call omp_unset_nest_lock(nest)
        !$omp end parallel
        print *, 'locks', sum, deepest, omp_test_lock(lock), omp_test_lock(lock)
        call omp_unset_lock(lock)
        call omp_destroy_lock(lock)
        call omp_destroy_nest_lock(nest)
    end subroutine

    subroutine commons()
        integer :: total, others

        counter = 100
        seed = 7
        total = 0
        others = 0
        !$omp parallel copyin(seed)
        counter = 10 * omp_get_thread_num() + seed
        !$omp end parallel
        !$omp parallel reduction(+:total, others)
        total = counter
        if (counter /= 10 * omp_get_thread_num() + 7) others = 1
        !$omp single
        seed = 99
        !$omp end single copyprivate(seed)
        if (seed /= 99) others = others + 1
        !$omp end parallel
        print *, 'commons', total, others, counter
    end subroutine

    subroutine loops()
        integer :: i, j, last, bad
        integer, dimension(0:999) :: a, b, c, d, e

        a = 0
        b = 0
        c = 0
        d = 0
        e = 0
        last = -1
        !$omp parallel
        !$omp do schedule(static, 7) lastprivate(last)
        do i = 0, 999
            a(i) = a(i) + i
            last = i
        end do
        !$omp end do nowait
        !$omp do schedule(dynamic, 3)
        do i = 999, 0, -1
            b(i) = b(i) + i
        end do
        !$omp end do nowait
        !$omp do schedule(guided)
        do i = 0, 998, 3
            c(i) = c(i) + i
        end do
        !$omp end do nowait
        !$omp do schedule(runtime)
        do i = 5, 4 * omp_get_level()
            d(i) = -1
        end do
        !$omp end do nowait
        !$omp do schedule(runtime) collapse(2)
        do i = 0, 19
            do j = 0, 49
                d(50 * i + j) = d(50 * i + j) + 50 * i + j
            end do
        end do
        !$omp end do
        !$omp end parallel
        !$omp parallel do simd schedule(monotonic: dynamic, 16) num_threads(3)
        do i = 0, 999
            e(i) = a(i) - d(i)
        end do
        bad = count(a /= b) + count(a /= d) + count(e /= 0)
        print *, 'loops', bad, sum(c), last
    end subroutine

    subroutine in_order()
        integer :: i, next, wrong

        next = 1
        wrong = 0
        !$omp parallel do ordered schedule(dynamic, 2)
        do i = 1, 200
            !$omp ordered
            if (i /= next) wrong = wrong + 1
            next = i + 1
            !$omp end ordered
        end do
        print *, 'in order', next, wrong
    end subroutine

    subroutine reductions()
        integer :: i, mask, least, cells(4)
        integer(8) :: big
        real(8) :: product
        logical :: all_even

        mask = 0
        least = huge(least)
        cells = 0
        big = 0
        product = 1
        all_even = .true.
        !$omp parallel do reduction(ieor:mask) reduction(min:least) reduction(+:cells, big) &
        !$omp reduction(*:product) reduction(.and.:all_even)
        do i = 2, 400, 2
            mask = ieor(mask, i)
            least = min(least, abs(i - 150))
            cells(1 + mod(i, 4)) = cells(1 + mod(i, 4)) + i
            big = big + int(i, 8) ** 6
            if (i <= 20) product = product * i
            all_even = all_even .and. mod(i, 2) == 0
        end do
        print *, 'reductions', mask, least, cells, big, nint(product, 8), all_even
    end subroutine

    subroutine shared_work()
        real(8), dimension(64) :: x, y
        integer :: i, sections, in_critical, in_atomic, got

        sections = 0
        in_critical = 0
        in_atomic = 0
        !$omp parallel private(got)
        !$omp workshare
        x = [(real(i, 8), i = 1, 64)]
        y = 2 * x
        where (y > 64) y = 0
        !$omp end workshare
        !$omp sections
        !$omp section
        !$omp atomic
        sections = sections + 1
        !$omp section
        !$omp atomic
        sections = sections + 10
        !$omp section
        !$omp atomic
        sections = sections + 100
        !$omp end sections
        !$omp critical (named)
        in_critical = in_critical + 1
        !$omp end critical (named)
        !$omp atomic capture
        got = in_atomic
        in_atomic = in_atomic + 1
        !$omp end atomic
        if (got > 3) in_critical = -1000
        !$omp end parallel
        print *, 'shared work', nint(sum(y)), sections, in_critical, in_atomic
    end subroutine

    recursive integer function fibonacci(n) result(value)
        integer, intent(in) :: n
        integer :: a, b

        value = n
        if (n < 2) return
        !$omp task shared(a) if(n > 5)
        a = fibonacci(n - 1)
        !$omp end task
        !$omp task shared(b) final(n < 5)
        b = fibonacci(n - 2)
        !$omp end task
        !$omp taskwait
        value = a + b
    end function

    subroutine tasks()
        integer :: i, value, chain, looped

        chain = 1
        looped = 0
        value = 0
        !$omp parallel
        !$omp single
        value = fibonacci(17)
        do i = 1, 10
            !$omp task depend(inout: chain) firstprivate(i)
            chain = mod(7 * chain + i, 10007)
            !$omp end task
        end do
        !$omp taskloop grainsize(5) reduction(+:looped)
        do i = 1, 100
            looped = looped + i
        end do
        !$omp end single
        !$omp end parallel
        print *, 'tasks', value, chain, looped
    end subroutine
end program
