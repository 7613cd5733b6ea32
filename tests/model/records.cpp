/* SPDX-License-Identifier: BSL-1.0 */
/*
 * A ring of records (umbra/fiber/trace_ring.h) under the model checker. See checker.hpp.
 *
 * Each scenario: one thread adds records, another reads them as tools/umbra-trace does, from the
 * oldest that may be left up to the head. Checked: a record that the reader keeps is whole and is
 * the one that it asked for.
 */
#include "checker.hpp"
#include "records_variants.hpp"

template <class P, int Places, int Records> struct reading : world {
    struct { /* as in the file */
        typename P::um_records ring;
        um_atomic_u64 word[Places * UM_RECORD_WORDS];
    } file;

    reading()
    {
        for (int i = 0; i < Places * UM_RECORD_WORDS; i++)
            um_atomic_store(&file.word[i], 0, relaxed);
        um_atomic_store(&file.ring.head, 0, relaxed);
        file.ring.last = (Places - 1) * UM_RECORD_WORDS;
    }

    /* What a word of a record is; never 0. */
    static uint64_t worth(uint64_t number, int i)
    {
        return (number + 1) * 10 + i;
    }

    void thread(int index)
    {
        if (index == 0)
            write();
        else
            read();
    }

    void write()
    {
        for (uint64_t n = 0; n < Records; n++)
            P::um_records_add(&file.ring, worth(n, 0), worth(n, 1), worth(n, 2), worth(n, 3));
    }

    void read()
    {
        uint64_t head = P::um_records_head(&file.ring);

        for (uint64_t n = head > Places ? head - Places : 0; n < head; n++) {
            uint64_t words[UM_RECORD_WORDS];

            if (!P::um_records_get(&file.ring, n, words))
                continue;
            for (int i = 0; i < UM_RECORD_WORDS; i++)
                RL_ASSERT(words[i] == worth(n, i));
        }
    }
};

/* Alone, the reader gets all records but one, which may be under way. */
template <class P, int Places, int Records> struct after_it : reading<P, Places, Records> {
    void thread(int)
    {
        uint64_t words[UM_RECORD_WORDS];
        int kept = 0;

        this->write();
        for (uint64_t n = 0; n < Records; n++)
            kept += P::um_records_get(&this->file.ring, n, words);
        RL_ASSERT(kept == (Records < Places ? Records : Places - 1));
    }
};

template <class P>
static variant make_variant(const char *name, const char *what, const char *expected)
{
    static const scenario scenarios[] = {
        {"fits", make_world<reading<P, 4, 2>>, 2, 0, false, 0, 20000},
        {"overwrites", make_world<reading<P, 2, 3>>, 2, 0, false, 0, 400000},
        {"overwrites often", make_world<reading<P, 2, 5>>, 2, 0, false, 0, 100000},
        {"kept", make_world<after_it<P, 2, 3>>, 1, 0, false, 0, 1},
        {"all kept", make_world<after_it<P, 4, 3>>, 1, 0, false, 0, 1},
    };

    return variant{name, what, expected, scenarios, sizeof(scenarios) / sizeof(scenarios[0])};
}

#define UM_VARIANT(name, what, expected) make_variant<name>(#name, what, expected),

int main(int argc, char **argv)
{
    const variant variants[] = {UM_VARIANTS(UM_VARIANT)};

    return run(variants, sizeof(variants) / sizeof(variants[0]), argc, argv);
}
