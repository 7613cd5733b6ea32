/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Counts words with tasks: each text is a task, which reads through a buffer of 64 KiB on its own
 * stack and enters the words into one table that all tasks share. Each chain of the table is a struct
 * from malloc, with the lock that guards it: most words are there already, so tasks read a chain
 * together, and change it alone. The texts are files, or without any some that the program makes. A
 * word is a row of letters. A core that reads a file runs nothing else meanwhile.
 *
 *     word_count [FILE...]
 *
 * Exit status: 0; 1 something failed; 2 bad argument.
 */
#include <ctype.h>

#include <umbra/sync.h>
#include <umbra/task.h>

#include "program.h"

const char program_name[] = "word_count";

#define CHAINS 1024
#define LONGEST 63 /* letters; what a word has more is left out */

struct word {
    struct word *next;
    _Atomic unsigned long count;
    char letters[LONGEST + 1];
};

struct chain {
    struct umbra_rwlock lock;
    struct word *first;
};

struct text {
    struct umbra_task task;
    const char *name;
    FILE *file;
    char letters[LONGEST + 1]; /* of a word, which may go on in the next buffer */
    int length;                /* of it */
    bool failed;
};

static struct chain *table[CHAINS];
static struct text *text;
static size_t texts;

/* The word in a chain that the caller has locked; NULL: it is not there. */
static struct word *find(const struct chain *chain, const char *letters)
{
    struct word *word = chain->first;

    while (word && strcmp(word->letters, letters) != 0)
        word = word->next;
    return word;
}

/* The same, and if it is not there a new word; NULL: no memory. */
static struct word *find_or_add(struct chain *chain, const char *letters)
{
    struct word *word;

    umbra_rwlock_read(&chain->lock);
    word = find(chain, letters);
    umbra_rwlock_unlock(&chain->lock);
    if (word)
        return word;
    umbra_rwlock_write(&chain->lock);
    word = find(chain, letters); /* another task may have added it */
    if (!word && (word = calloc(1, sizeof(*word)))) {
        strcpy(word->letters, letters);
        word->next = chain->first;
        chain->first = word;
    }
    umbra_rwlock_unlock(&chain->lock);
    return word;
}

static void end_word(struct text *self)
{
    unsigned hash = 0;
    struct word *word;

    if (self->length == 0)
        return;
    self->letters[self->length] = 0;
    self->length = 0;
    for (const char *at = self->letters; *at; at++)
        hash = hash * 33 + (unsigned char)*at;
    word = find_or_add(table[hash % CHAINS], self->letters);
    if (word)
        word->count++;
    self->failed |= !word;
}

/* The task. */
static void count_words(void *arg)
{
    struct text *self = arg;
    char buffer[65536];
    size_t bytes;

    while ((bytes = fread(buffer, 1, sizeof(buffer), self->file)) > 0) {
        for (size_t i = 0; i < bytes; i++) {
            if (!isalpha((unsigned char)buffer[i]))
                end_word(self);
            else if (self->length < LONGEST)
                self->letters[self->length++] = (char)tolower((unsigned char)buffer[i]);
        }
    }
    end_word(self);
    self->failed |= ferror(self->file) != 0;
}

static void *count_all(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < texts; i++)
        umbra_task_fork(&text[i].task, count_words, &text[i]);
    for (size_t i = texts; i > 0; i--)
        umbra_task_join(&text[i - 1].task, UMBRA_NEVER);
    return NULL;
}

/* Prints the sums. */
static void sum_up(void)
{
    const struct word none = {.count = 0}, *most = &none;
    unsigned long words = 0, different = 0;

    for (size_t i = 0; i < CHAINS; i++) {
        for (const struct word *word = table[i]->first; word; word = word->next) {
            words += word->count;
            different++;
            most = word->count > most->count ? word : most;
        }
    }
    printf("%zu texts, %lu words, %lu different; most often: %s (%lu)\n", texts, words, different,
           most->letters, most->count);
}

static FILE *make_text(void)
{
    FILE *file = tmpfile();

    for (int i = 0; file && i < 500; i++)
        fputs("The quick brown fox jumps over the lazy dog, and the dog sleeps on.\n", file);
    if (file)
        rewind(file);
    return file;
}

static void give_up(const char *what, const char *why, int status)
{
    fprintf(stderr, "word_count: %s: %s\n", what, why);
    exit(status);
}

int main(int argc, char **argv)
{
    texts = argc > 1 ? (size_t)argc - 1 : 16;
    text = calloc(texts, sizeof(*text));
    for (size_t i = 0; i < CHAINS; i++) {
        table[i] = malloc(sizeof(*table[i]));
        if (!text || !table[i])
            give_up("the table", strerror(ENOMEM), 1);
        table[i]->lock = (struct umbra_rwlock)UMBRA_RWLOCK_INIT;
        table[i]->first = NULL;
    }
    for (size_t i = 0; i < texts; i++) {
        text[i].name = argc > 1 ? argv[i + 1] : "a text of its own";
        text[i].file = argc > 1 ? fopen(text[i].name, "r") : make_text();
        if (!text[i].file)
            give_up(text[i].name, strerror(errno), argc > 1 ? 2 : 1);
    }
    if (umbra_run(NULL, count_all, NULL) != 0)
        give_up("the start", umbra_last_error_text(), 1);
    for (size_t i = 0; i < texts; i++)
        if (text[i].failed)
            give_up(text[i].name, "not counted to its end", 1);
    sum_up();
    return printed(0);
}
