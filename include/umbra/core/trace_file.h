/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The file of a trace, in the JSON of Chrome's trace events, which Perfetto and Chrome's viewer
 * open. Private; included by core.h. A core has a track, on which what it does between two switches
 * is a slice, and what one fiber causes another to do is an arrow. Marks have a track of their own
 * below it: Perfetto takes a mark for a slice, and would tie the arrow to the last one.
 *
 * Each writing appends what the rings hold and the file does not have yet. So a file may be written
 * on signals, at the end of each runtime and at the program's exit, and has each record once. A
 * record that was overwritten before it was written is counted and reported in the file.
 *
 * A signal handler may write: nothing here locks or allocates, and a writing that finds another one
 * under way in a handler leaves it to that.
 */
#ifndef UMBRA_CORE_TRACE_FILE_H
#define UMBRA_CORE_TRACE_FILE_H

#include <string.h>

#include <umbra/base/atomic.h>
#include <umbra/base/base.h>
#include <umbra/base/trace.h>
#include <umbra/core/fiber.h>
#include <umbra/core/report.h>
#include <umbra/core/runtime.h>
#include <umbra/core/sleeper.h>
#include <umbra/core/trace.h>
#include <umbra/cpu.h>
#include <umbra/os/os.h>
#include <umbra/protocol/records.h>

#ifndef UMBRA_SHOW_WARNINGS
#pragma GCC system_header
#endif

#define UM_TRACE_BUFFER 65536 /* bytes of text for one write(2) */

/* What the environment asks for, and the file. One for each executable or shared object. */
struct um_traces {
    bool ready;        /* the environment has been read; under um_runtimes.lock, as the next five */
    bool on;           /* cores of new runtimes are traced */
    bool top;          /* for a live view; under um_runtimes.lock, too */
    bool stats;        /* a table at the end of each runtime */
    int signal;        /* writes the file; 0: none */
    unsigned runtimes; /* how many have been traced */
    uint64_t records;  /* places in a ring */
    uint64_t start;    /* the file's time 0, in cycles; fixed before the first record */
    um_atomic_u32 fd;  /* the file, 0: none; set when `ready` and at exit */
    um_atomic_u32 writing; /* 1: a thread or handler writes, which owns all that follows */
    bool any;              /* the file has an event */
    int error;             /* of the first write(2) that failed: the file ends there; or 0 */
    size_t filled;
    char buffer[UM_TRACE_BUFFER];
};

#ifdef UMBRA_IMPLEMENTATION

UM_SHARED(struct um_traces um_traces, {.ready = false});

/* A writing under way. */
struct um_trace_writer {
    const struct umbra_core *core; /* the ring that is written is its */
    bool names;                    /* no signal handler: symbols may be looked up */
    struct um_text text;           /* the event that is being made */
};

/* ---- words ---- */

/* How a record looks in the file. */
struct um_trace_form {
    const char *name;
    char form;         /* X slice, i mark, b and e the ends of a span beside the tracks */
    const char *a, *b; /* names of its words, or NULL: not shown */
};

/* In the order of enum um_trace_kind. */
UM_LINKONCE const struct um_trace_form *um_trace_form(enum um_trace_kind kind)
{
    static const struct um_trace_form form[UM_TRACE_KINDS] = {
        {"run", 'X', NULL, NULL},          {"yield", 'X', NULL, NULL},
        {"transfer", 'X', NULL, NULL},     {"block", 'X', NULL, NULL},
        {"end", 'X', NULL, NULL},          {"idle", 'X', NULL, NULL},
        {"busy", 'X', NULL, NULL},         {"spawn", 'i', "fiber", "fn"},
        {"begin", 'i', "fiber", "fn"},     {"signal", 'i', "event", NULL},
        {"wake", 'i', "fiber", NULL},      {"continue", 'i', "fiber", NULL},
        {"return", 'i', "fiber", NULL},    {"task", 'i', "fn", "task"},
        {"step", 'b', "dispatch", "step"}, {"step_over", 'e', "dispatch", NULL},
        {"fork", 'b', "shadow", "fn"},     {"join", 'e', "shadow", NULL},
        {"call", 'b', "call", "fn"},       {"call_over", 'e', "call", "result"},
        {"mark", 'i', NULL, "value"},
    };

    return &form[kind];
}

UM_LINKONCE const char *um_trace_ending_name(enum um_trace_ending ending)
{
    static const char *const name[] = {"woken", "timed out", "canceled"};

    return ending < UM_TRACE_ENDINGS ? name[ending] : "?";
}

UM_LINKONCE const char *um_trace_idle_name(enum um_trace_idle how)
{
    static const char *const name[] = {"looked", "spun", "monitor", "parked", "timer"};

    return how < UM_TRACE_IDLES ? name[how] : "?";
}

/* ---- the buffer ---- */

UM_LINKONCE void um_trace_drain(void)
{
    if (um_traces.error == 0) /* relaxed: only the owner of the buffer writes to the file */
        um_traces.error = um_os_write((int)um_atomic_load(&um_traces.fd, relaxed), um_traces.buffer,
                                      um_traces.filled);
    um_traces.filled = 0;
}

UM_LINKONCE void um_trace_append(const char *text, size_t length)
{
    if (um_traces.filled + length > UM_TRACE_BUFFER)
        um_trace_drain();
    memcpy(um_traces.buffer + um_traces.filled, text, length);
    um_traces.filled += length;
}

/* Appends the event that was made. */
UM_LINKONCE void um_trace_emit(struct um_trace_writer *writer)
{
    um_trace_append(um_traces.any ? ",\n" : "[\n", 2);
    um_trace_append(writer->text.line, writer->text.length);
    um_traces.any = true;
    writer->text.length = 0;
}

/* ---- parts of an event ---- */

/* At most `most` bytes of a text, as the inside of a JSON string. */
UM_LINKONCE void um_trace_add_text(struct um_text *text, const char *more, size_t most)
{
    char letter[2] = "";

    for (; *more && most > 0; more++, most--) {
        letter[0] = (unsigned char)*more < ' ' ? '?' : *more;
        if (*more == '"' || *more == '\\')
            um_text_add(text, "\\");
        um_text_add(text, letter);
    }
}

/* A key and a value in quotation marks. */
UM_LINKONCE void um_trace_add_word(struct um_text *text, const char *key, const char *value)
{
    um_text_add(text, "\"");
    um_text_add(text, key);
    um_text_add(text, "\":\"");
    um_trace_add_text(text, value, 100);
    um_text_add(text, "\"");
}

UM_LINKONCE void um_trace_add_value(struct um_text *text, const char *key, uint64_t value,
                                    unsigned base)
{
    um_text_add(text, "\"");
    um_text_add(text, key);
    um_text_add(text, base == 16 ? "\":\"" : "\":");
    um_text_add_number(text, value, base);
    um_text_add(text, base == 16 ? "\"" : "");
}

/* Nanoseconds as microseconds with three decimals: the format's unit. */
UM_LINKONCE void um_trace_add_time(struct um_text *text, const char *key, uint64_t ns)
{
    um_text_add(text, "\"");
    um_text_add(text, key);
    um_text_add(text, "\":");
    um_text_add_number(text, ns / 1000, 10);
    um_text_add(text, ns % 1000 < 10 ? ".00" : ns % 1000 < 100 ? ".0" : ".");
    um_text_add_number(text, ns % 1000, 10);
}

/* From the file's time 0. */
UM_INLINE uint64_t um_trace_ns(uint64_t cycles)
{
    return cycles > um_traces.start ? umbra_cycles_to_ns(cycles - um_traces.start) : 0;
}

/* The beginning of every event. marks: it is on the core's second track. ns: its time. */
UM_LINKONCE void um_trace_open(struct um_trace_writer *writer, const char *form, bool marks,
                               uint64_t ns)
{
    struct um_text *text = &writer->text;
    unsigned track = 2 * writer->core->index + (marks ? 2 : 1);

    text->length = 0;
    um_text_add(text, "{");
    um_trace_add_word(text, "ph", form);
    um_text_add(text, ",");
    um_trace_add_value(text, "pid", writer->core->more->trace->runtime, 10);
    um_text_add(text, ",");
    um_trace_add_value(text, "tid", track, 10);
    um_text_add(text, ",");
    um_trace_add_time(text, "ts", ns);
    um_text_add(text, ",");
}

/* The name of a function: its symbol, if the dynamic linker knows it, else its object file and the
 * offset there, which addr2line knows. In a signal handler its address. */
UM_LINKONCE void um_trace_add_fn(struct um_trace_writer *writer, uint64_t fn)
{
    struct um_os_symbol symbol;
    const char *file;

    if (!writer->names || !um_os_symbol((const void *)(uintptr_t)fn, &symbol)) {
        um_text_add_number(&writer->text, fn, 16);
    } else if (symbol.name && (uintptr_t)symbol.address == fn) {
        um_trace_add_text(&writer->text, symbol.name, 60);
    } else {
        file = strrchr(symbol.file, '/');
        um_trace_add_text(&writer->text, file ? file + 1 : symbol.file, 60);
        um_text_add(&writer->text, "+");
        um_text_add_number(&writer->text, fn - (uintptr_t)symbol.base, 16);
    }
}

/* The name of a fiber of the ring's core: its own, its function's, or its address. */
UM_LINKONCE void um_trace_add_fiber(struct um_trace_writer *writer, uint64_t self)
{
    struct um_trace_fiber *entry = um_trace_find(writer->core->more->trace, self);
    char name[UMBRA_FIBER_NAME_BYTES] = "";
    uint64_t fn = 0;

    if (entry) {
        for (int i = 0; i < UMBRA_FIBER_NAME_BYTES / 8; i++) {
            uint64_t word = um_atomic_load(&entry->name[i], acquire); /* see um_trace_enlist() */

            memcpy(name + i * 8, &word, 8);
        }
        name[UMBRA_FIBER_NAME_BYTES - 1] = 0;
        fn = um_atomic_load(&entry->fn, acquire); /* as above */
        if ((um_atomic_load(&entry->self, acquire) & ~UM_TRACE_ENDED) != self)
            fn = 0;
    }
    if (fn != 0 && name[0]) {
        um_trace_add_text(&writer->text, name, sizeof(name));
    } else if (fn != 0) {
        um_trace_add_fn(writer, fn);
    } else {
        um_text_add(&writer->text, "fiber ");
        um_text_add_number(&writer->text, um_self_block(self), 16);
    }
}

/* ---- events ---- */

/* What the core did until this record. */
UM_LINKONCE void um_trace_slice(struct um_trace_writer *writer, enum um_trace_kind kind,
                                const uint64_t *words)
{
    struct um_text *text = &writer->text;
    uint64_t since = um_trace_ns(writer->core->more->trace->slice_since);
    const struct um_kind *what = (const struct um_kind *)(uintptr_t)(words[1] >> 8);
    bool idle = kind == UM_TRACE_BUSY, fiber = words[2] != 0 && !idle;

    um_trace_open(writer, "X", false, since);
    um_trace_add_time(text, "dur", um_trace_ns(words[0]) - since);
    um_text_add(text, fiber ? ",\"cat\":\"fiber\",\"name\":\"" : ",\"cat\":\"core\",\"name\":\"");
    if (fiber)
        um_trace_add_fiber(writer, words[2]);
    else
        um_text_add(text, idle ? "idle" : "scheduler");
    um_text_add(text, "\",\"args\":{");
    um_trace_add_word(text, "until", um_trace_form(kind)->name);
    if (idle) {
        um_text_add(text, ",");
        um_trace_add_word(text, "ended", um_trace_idle_name((enum um_trace_idle)words[2]));
    } else if (fiber) {
        um_text_add(text, ",");
        um_trace_add_value(text, "fiber", um_self_block(words[2]), 16);
    }
    if (kind == UM_TRACE_BLOCK && what) {
        um_text_add(text, ",");
        um_trace_add_word(text, "for", what->name);
    }
    um_text_add(text, "}}");
    um_trace_emit(writer);
    writer->core->more->trace->slice_since = words[0];
}

/* One end of an arrow. form: s, the cause, or f, the effect. */
UM_LINKONCE void um_trace_arrow(struct um_trace_writer *writer, const char *form,
                                enum um_trace_kind kind, const uint64_t *words)
{
    bool begins = kind == UM_TRACE_SPAWN || kind == UM_TRACE_BEGIN;
    struct um_text *text = &writer->text;

    um_trace_open(writer, form, false, um_trace_ns(words[0]));
    if (form[0] == 'f')
        um_text_add(text, "\"bp\":\"e\",");
    um_text_add(text, begins ? "\"cat\":\"spawn\",\"name\":\"spawn\","
                             : "\"cat\":\"wake\",\"name\":\"wake\",");
    /* both ends compute one number: Perfetto takes no other names */
    um_trace_add_value(text, "id", words[2] ^ (begins ? 0 : (words[3] + 1) * UM_TRACE_MIX), 16);
    um_text_add(text, "}");
    um_trace_emit(writer);
}

/* A word of a record as an argument: a function by its name, a number, or an address. */
UM_LINKONCE void um_trace_add_arg(struct um_trace_writer *writer, const char *key, uint64_t value)
{
    struct um_text *text = &writer->text;

    if (strcmp(key, "fn") == 0) {
        um_text_add(text, "\"fn\":\"");
        um_trace_add_fn(writer, value);
        um_text_add(text, "\"");
    } else if (strcmp(key, "fiber") == 0) {
        um_trace_add_value(text, key, um_self_block(value), 16);
    } else {
        um_trace_add_value(text, key, value,
                           strcmp(key, "step") == 0 || strcmp(key, "value") == 0 ? 10 : 16);
    }
}

/* A mark on the core's track, or an end of a span beside it. */
UM_LINKONCE void um_trace_mark(struct um_trace_writer *writer, enum um_trace_kind kind,
                               const uint64_t *words)
{
    const struct um_trace_form *form = um_trace_form(kind);
    const char letter[2] = {form->form, 0};
    struct um_text *text = &writer->text;
    uint64_t on = words[1] >> 12;

    um_trace_open(writer, letter, form->form == 'i', um_trace_ns(words[0]));
    if (form->form != 'i') { /* the ends have one name, which is that of the beginning */
        const char *name =
            um_trace_form(form->form == 'b' ? kind : (enum um_trace_kind)(kind - 1))->name;

        um_trace_add_value(text, "id", words[2], 16);
        um_text_add(text, ",");
        um_trace_add_word(text, "cat", name);
        um_text_add(text, ",");
        um_trace_add_word(text, "name", name);
    } else {
        um_text_add(text, "\"s\":\"t\",");
        um_trace_add_word(text, "cat", form->name);
        um_text_add(text, ",");
        um_trace_add_word(text, "name",
                          kind == UM_TRACE_MARK ? (const char *)(uintptr_t)words[2] : form->name);
    }
    um_text_add(text, ",\"args\":{");
    if (form->a)
        um_trace_add_arg(writer, form->a, words[2]);
    if (form->a && form->b)
        um_text_add(text, ",");
    if (form->b)
        um_trace_add_arg(writer, form->b, words[3]);
    if (kind == UM_TRACE_RETURN) {
        um_text_add(text, ",");
        um_trace_add_word(text, "ended",
                          um_trace_ending_name((enum um_trace_ending)(words[1] >> 8 & 7)));
        um_text_add(text, on ? "," : "");
        if (on)
            um_trace_add_value(text, on & 1 ? "of_fiber" : "on", on & ~UINT64_C(1), 16);
    }
    um_text_add(text, "}}");
    um_trace_emit(writer);
}

UM_LINKONCE void um_trace_event(struct um_trace_writer *writer, const uint64_t *words)
{
    enum um_trace_kind kind = (enum um_trace_kind)(words[1] & 0xff);

    if (um_trace_form(kind)->form == 'X') {
        um_trace_slice(writer, kind, words);
        return;
    }
    um_trace_mark(writer, kind, words);
    if (kind == UM_TRACE_SPAWN || kind == UM_TRACE_WAKE || kind == UM_TRACE_CONTINUE)
        um_trace_arrow(writer, "s", kind, words);
    else if ((kind == UM_TRACE_BEGIN || kind == UM_TRACE_RETURN) && (words[1] >> 11 & 1))
        um_trace_arrow(writer, "f", kind, words);
}

/* ---- a core, and the whole ---- */

/* The signal on which the file is written, or 0. */
UM_LINKONCE int um_trace_signal(void)
{
    return um_traces.signal;
}

/* Records are lost: says how many, where the file goes on. */
UM_LINKONCE void um_trace_say_lost(struct um_trace_writer *writer, uint64_t lost, uint64_t time)
{
    struct um_trace *trace = writer->core->more->trace;

    trace->lost += lost;
    trace->slice_since = time;
    um_trace_open(writer, "i", true, um_trace_ns(time));
    um_text_add(&writer->text,
                "\"s\":\"t\",\"cat\":\"lost\",\"name\":\"LOST: the ring was full\",\"args\":{");
    um_trace_add_value(&writer->text, "records", lost, 10);
    um_text_add(&writer->text, "}}");
    um_trace_emit(writer);
}

/* Names the runtime, as a process, or one of the core's tracks. */
UM_LINKONCE void um_trace_name(struct um_trace_writer *writer, const char *what, const char *name,
                               uint64_t number, const char *between, uint64_t other)
{
    struct um_text *text = &writer->text;

    um_trace_add_word(text, "name", what);
    um_text_add(text, ",\"args\":{\"name\":\"");
    um_text_add(text, name);
    um_text_add_number(text, number, 10);
    um_text_add(text, between);
    if (other != UINT64_MAX)
        um_text_add_number(text, other, 10);
    um_text_add(text, "\"}}");
    um_trace_emit(writer);
}

/* The first events of a core. */
UM_LINKONCE void um_trace_introduce(struct um_trace_writer *writer)
{
    const struct umbra_core *core = writer->core;

    um_trace_open(writer, "M", false, 0);
    um_trace_name(writer, "process_name", "runtime ", core->more->trace->runtime, " of process ",
                  um_os_process());
    um_trace_open(writer, "M", false, 0);
    um_trace_name(writer, "thread_name", "core ", core->index, " on cpu ", (unsigned)core->cpu);
    um_trace_open(writer, "M", true, 0);
    um_trace_name(writer, "thread_name", "core ", core->index, ", marks", UINT64_MAX);
}

/* Appends what the core has recorded up to now and the file does not have. */
UM_LINKONCE void um_trace_write_core(struct um_trace_writer *writer)
{
    struct um_trace *trace = writer->core->more->trace;
    uint64_t head = um_records_head(&trace->ring);
    uint64_t words[UM_RECORD_WORDS];
    uint64_t from = trace->next;

    if (trace->next == 0 && head > 0)
        um_trace_introduce(writer);
    while (trace->next < head) {
        bool whole;

        if (head - trace->next >= trace->ring.records) /* these are overwritten */
            trace->next = head - trace->ring.records + 1;
        whole = um_records_get(&trace->ring, trace->next++, words);

        if (whole && trace->next - 1 > from)
            um_trace_say_lost(writer, trace->next - 1 - from, words[0]);
        if (whole) {
            um_trace_event(writer, words);
            from = trace->next;
        }
    }
    if (head > from)
        um_trace_say_lost(writer, head - from, um_arch_cycles());
}

/* True if the caller writes now. handler: it must not wait for another that writes. */
UM_LINKONCE bool um_trace_lock(bool handler)
{
    for (unsigned looks = 0;; looks++) {
        uint32_t writing = 0;

        if (um_atomic_load(&um_traces.fd, acquire) ==
            0) /* pairs with um_trace_from_environment() */
            return false;
        /* acquire: what the last writing has left; pairs with um_trace_unlock() */
        if (um_atomic_cas(&um_traces.writing, &writing, 1, acquire, relaxed))
            return true;
        if (handler)
            return false;
        um_thread_look_again(looks, UMBRA_NEVER);
    }
}

/* Returns 0, or the error that ended the file. */
UM_LINKONCE int um_trace_unlock(void)
{
    int error;

    um_trace_drain();
    error = um_traces.error;
    um_atomic_store(&um_traces.writing, 0, release); /* pairs with um_trace_lock() */
    return error;
}

/* Appends what the cores of a runtime have recorded. The caller writes. */
UM_LINKONCE void um_trace_write_runtime(const struct umbra_runtime *runtime, bool handler)
{
    struct um_trace_writer writer = {.names = !handler};

    for (unsigned i = 0; i < runtime->cores; i++) {
        writer.core = runtime->core[i];
        if (writer.core->more->trace)
            um_trace_write_core(&writer);
    }
}

/* The same of all runtimes. Any thread or fiber, or (handler) a signal handler. Returns 0; -ENOENT:
 * there is no file, or (handler) another thread writes; or the error that ended the file. */
UM_LINKONCE int um_trace_write_all(bool handler)
{
    const struct umbra_runtime *runtime;

    if (!um_trace_lock(handler))
        return -ENOENT;
    um_report_begin(); /* as um_report_for_signal() */
    /* acquire, both: pairs with um_runtime_watch() */
    for (runtime = um_atomic_load(&um_runtimes.first, acquire); runtime;
         runtime = um_atomic_load(&runtime->next, acquire))
        um_trace_write_runtime(runtime, handler);
    um_report_end();
    return um_trace_unlock();
}

#endif /* UMBRA_IMPLEMENTATION */

#endif
