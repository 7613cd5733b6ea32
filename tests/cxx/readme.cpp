/* SPDX-License-Identifier: BSL-1.0 */
/*
 * README's programs in C++, and tasks, and two fibers that name each other.
 * Exit status: 0; 1 something is wrong; 77 no second hardware thread.
 */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <umbra.h>

namespace {

bool check(bool ok, const char *what)
{
    std::printf("%s: %s\n", what, ok ? "ok" : "FAILED");
    return ok;
}

/* ---- a loop ---- */

void fill(std::size_t begin, std::size_t end, void *squares)
{
    for (std::size_t i = begin; i < end; i++)
        static_cast<double *>(squares)[i] = double(i) * double(i);
}

bool loop()
{
    std::vector<double> squares(10000000);

    umbra_parallel_for(0, squares.size(), 0, fill, squares.data());
    return squares[9999999] == 9999999.0 * 9999999.0;
}

/* ---- a shadow ---- */

enum class outcome { right, wrong, none };

outcome shadow()
{
    umbra_shadow shadow;
    int sum = 0, error = shadow_create(&shadow, nullptr);

    if (error != 0)
        return error == -ENODEV ? outcome::none : outcome::wrong;
    auto add = [](void *sum) {
        for (int i = 1; i <= 1000; i++)
            *static_cast<int *>(sum) += i;
    };
    shadow_fork(&shadow, add, &sum);
    shadow_join(&shadow);
    return shadow_destroy(&shadow) == 0 && sum == 500500 ? outcome::right : outcome::wrong;
}

/* ---- two fibers and an event ---- */

umbra_event ready = UMBRA_EVENT_INIT;

void *produce(void *number)
{
    *static_cast<int *>(number) = 42;
    umbra_event_signal(&ready); /* wakes the consumer, on whatever core it is */
    return nullptr;
}

void *consume(void *number)
{
    umbra_spawn_options elsewhere{};

    elsewhere.where = UMBRA_ANYWHERE; /* the first idle core */
    if (umbra_spawn_with(nullptr, &elsewhere, produce, number, nullptr) == 0)
        umbra_event_wait(&ready, UMBRA_NEVER); /* this core runs other fibers meanwhile */
    return nullptr;
}

bool event()
{
    int number = 0;

    return umbra_run(nullptr, consume, &number) == 0 && number == 42;
}

/* ---- a channel ---- */

UMBRA_CHANNEL(int) numbers;

void *push_all(void *last)
{
    for (int i = 1; i <= *static_cast<int *>(last); i++)
        UMBRA_CHANNEL_PUSH(&numbers, &i, UMBRA_NEVER);
    UMBRA_CHANNEL_CLOSE(&numbers);
    return nullptr;
}

void *pop_all(void *last)
{
    int number, sum = 0;

    if (UMBRA_CHANNEL_OPEN(&numbers, 4, UMBRA_CHANNEL_ONE) != 0)
        return nullptr;
    umbra_spawn(push_all, last, nullptr);
    while (UMBRA_CHANNEL_POP(&numbers, &number, UMBRA_NEVER) == 0)
        sum += number;
    UMBRA_CHANNEL_FINI(&numbers);
    *static_cast<int *>(last) = sum;
    return nullptr;
}

bool channel()
{
    int last = 5;

    return umbra_run(nullptr, pop_all, &last) == 0 && last == 15;
}

/* ---- tasks ---- */

struct part {
    std::uint64_t *begin, *end;
};

void quicksort(void *arg)
{
    part all = *static_cast<part *>(arg);

    if (all.end - all.begin < 24) {
        std::sort(all.begin, all.end);
        return;
    }
    std::uint64_t pivot = all.begin[(all.end - all.begin) / 2];
    auto below = [pivot](std::uint64_t number) { return number < pivot; };
    auto same = [pivot](std::uint64_t number) { return number == pivot; };
    part left{all.begin, std::partition(all.begin, all.end, below)};
    part right{std::partition(left.end, all.end, same), all.end};
    umbra_task task;

    umbra_task_fork(&task, quicksort, &right);
    quicksort(&left);
    umbra_task_join_with(&task, quicksort, &right);
}

bool sorts()
{
    std::vector<std::uint64_t> numbers(20000);
    std::uint64_t state = 1;

    for (auto &number : numbers) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        number = state >> 20;
    }
    part all{numbers.data(), numbers.data() + numbers.size()};
    auto body = [](void *part) -> void * {
        quicksort(part);
        return nullptr;
    };
    return umbra_run(nullptr, body, &all) == 0 && std::is_sorted(numbers.begin(), numbers.end());
}

/* ---- two fibers that name each other ---- */

struct game {
    unsigned long rallies, played;
    umbra_fiber ping, pong;
    int error;
};

void *pong(void *arg)
{
    auto *game = static_cast<struct game *>(arg);

    for (game->played = 1; game->played < game->rallies; game->played++)
        game->error |= umbra_transfer(game->ping);
    umbra_continue(game->ping);
    return nullptr;
}

void *ping(void *arg)
{
    auto *game = static_cast<struct game *>(arg);

    game->ping = umbra_self();
    game->error = umbra_spawn(pong, game, &game->pong);
    if (game->error != 0)
        return nullptr;
    for (unsigned long i = 0; i < game->rallies; i++)
        game->error |= umbra_transfer(game->pong);
    game->error |= umbra_join(game->pong, UMBRA_NEVER, nullptr);
    return nullptr;
}

bool plays()
{
    game game{1000, 0, {}, {}, 0};

    return umbra_run(nullptr, ping, &game) == 0 && game.error == 0 && game.played == 1000;
}

/* ---- a port ---- */

struct note {
    umbra_message message;
    int number;
};

bool passes()
{
    UMBRA_PORT(struct note) notes;
    note sent = {}, *got = nullptr;

    UMBRA_PORT_OPEN(&notes, 0);
    sent.number = 5;
    return UMBRA_PORT_POST(&notes, &sent, UMBRA_NEVER) == 0 &&
           UMBRA_PORT_RECEIVE(&notes, &got, UMBRA_NEVER) == 0 && got == &sent &&
           UMBRA_MESSAGE_FROM(&notes, &got->message) &&
           UMBRA_MESSAGE_OF(&notes, &got->message)->number == 5;
}

} // namespace

int main()
{
    bool ok = check(loop(), "a loop");
    outcome helped = shadow();

    ok &= check(helped != outcome::wrong, "a shadow");
    ok &= check(event(), "two fibers and an event");
    ok &= check(channel(), "a channel");
    ok &= check(sorts(), "tasks");
    ok &= check(plays(), "two fibers that name each other");
    ok &= check(passes(), "a port that knows a type");
    if (!ok)
        return 1;
    return helped == outcome::none ? 77 : 0;
}
