/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The environment of a child: its own array of strings, first on its stack. The child may also
 * change `environ` itself. What is allocated here is freed when the child has ended.
 */
#define _GNU_SOURCE
#include "bind.h"

char ***um_environ(struct umbra_child *child)
{
    return um_variable(child, UM_ENVIRON, &child->environment);
}

/* The string NAME=..., or NULL. */
static char **entry_of(struct umbra_child *child, const char *name, size_t length)
{
    char **entry = *um_environ(child);

    for (; entry && *entry; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return entry;
    return NULL;
}

char *um_bind_getenv(const char *name)
{
    size_t length = strlen(name);
    char **entry = entry_of(um_child_self(), name, length);

    return entry ? *entry + length + 1 : NULL;
}

/* Puts a string into the array: over that of the same name, or at the end of a longer array. */
static int put(struct umbra_child *child, char *text, size_t length)
{
    char **entry = entry_of(child, text, length);
    char **old = *um_environ(child);
    char **grown;
    size_t count = 0;

    if (entry) {
        *entry = text;
        return 0;
    }
    while (old && old[count])
        count++;
    grown = malloc((count + 2) * sizeof(*grown));
    if (!grown)
        return -1;
    if (count > 0)
        memcpy(grown, old, count * sizeof(*grown));
    grown[count] = text;
    grown[count + 1] = NULL;
    free(child->own_environment);
    child->own_environment = *um_environ(child) = grown;
    return 0;
}

static bool is_name(const char *name)
{
    if (name && *name && !strchr(name, '='))
        return true;
    errno = EINVAL;
    return false;
}

int um_bind_setenv(const char *name, const char *value, int over)
{
    struct umbra_child *child = um_child_self();
    char **kept;
    char *text;

    if (!is_name(name))
        return -1;
    if (!over && entry_of(child, name, strlen(name)))
        return 0;
    kept = um_array_add(&child->own_strings);
    if (!kept || asprintf(&text, "%s=%s", name, value) < 0) {
        errno = ENOMEM;
        return -1;
    }
    *kept = text;
    return put(child, text, strlen(name));
}

int um_bind_unsetenv(const char *name)
{
    struct umbra_child *child = um_child_self();
    char **entry;

    if (!is_name(name))
        return -1;
    while ((entry = entry_of(child, name, strlen(name))) != NULL)
        for (; *entry; entry++)
            entry[0] = entry[1];
    return 0;
}

int um_bind_putenv(char *text)
{
    const char *equals = strchr(text, '=');

    return equals ? put(um_child_self(), text, (size_t)(equals - text)) : um_bind_unsetenv(text);
}

int um_bind_clearenv(void)
{
    *um_environ(um_child_self()) = NULL;
    return 0;
}

void um_environment_free(struct umbra_child *child)
{
    char **text = child->own_strings.first;

    for (size_t i = 0; i < child->own_strings.count; i++)
        free(text[i]);
    um_array_free(&child->own_strings);
    free(child->own_environment);
}
