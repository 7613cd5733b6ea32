/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Images: unmodified executables that run as fibers of this process, each run with globals,
 * thread-locals, constructors and exit of its own. x86-64 Linux with glibc 2.35 or newer. What is
 * private to a child, what is shared, and what is refused: docs/mpi.md.
 *
 *     struct umbra_image *image;
 *     struct umbra_child *child;
 *     int status;
 *
 *     if (umbra_image_open("./sort", &image) != 0)
 *         puts(umbra_last_error_text());
 *     else if (umbra_child_start(NULL, image, NULL, &child) == 0)
 *         umbra_child_wait(child, &status);
 *
 * An image is what was read of one executable, once: its text stays in the page cache, its data is
 * kept with all symbols resolved. A child is one run of it: a fiber with a stack of its own, on a
 * copy of the image. A copy is the file's text, mapped, and private data. A copy that a child has
 * left is used again by the next.
 *
 *   opened -> child started -> runs -> ended -> waited for      the child's memory is freed
 *      '-> closed, when no child is left                        the copies are unmapped
 *
 * A child ends when its main returns, or calls exit or one of its family, abort, or a failed
 * assert; when an exception leaves its main; or when its own code faults or uses up its stack. Then
 * that child ends and all others go on. The text of umbra_last_error_text() says why a call here
 * failed.
 */
#ifndef UMBRA_IMAGE_H
#define UMBRA_IMAGE_H

#include <umbra.h>

/* Default size of a child's stack: address space, of which used pages become memory. */
#ifndef UMBRA_CHILD_STACK_BYTES
#define UMBRA_CHILD_STACK_BYTES 1048576
#endif

struct umbra_image;
struct umbra_child;

/* Options of a child. All zero, or NULL for the whole, is a good default. */
struct umbra_child_options {
    struct umbra_spawn_options spawn; /* where, delay; stack_bytes 0: UMBRA_CHILD_STACK_BYTES;
                                         name NULL: the executable's */
    char *const *argv;                /* copied when the child starts to run, until when they must
                                         stay; NULL: the path alone */
    char *const *envp;                /* the same; NULL: this process's environment */
    void (*ended)(void *arg, int status); /* not NULL: called in the child's fiber when its code has
                                             ended, with what waitpid(2) gives; then the child frees
                                             itself, and is not waited for */
    void *arg;                            /* of ended */
};

/*
 * Reads an executable and resolves its symbols; loads the shared objects that it needs, which stay
 * loaded. Any thread or fiber; blocks for file system and dynamic linker (0.1 to some ms). Returns
 * 0, or with nothing left behind an error, which umbra_last_error_text() explains:
 *   -ENOEXEC     no executable that can be held here (docs/mpi.md lists them): run it as a process
 *   -ENOTSUP     this process cannot hold any: its own thread-locals leave no room
 *   -ENOMEM, -ENOENT, -EACCES and other negative errno of memory and file
 */
int umbra_image_open(const char *path, struct umbra_image **image);

/* Frees an image and its copies. Any thread or fiber; never switches. Returns 0; -EBUSY: a child of
 * it has not been waited for. NULL is allowed. */
int umbra_image_close(struct umbra_image *image);

/*
 * Starts a child. runtime NULL: the caller's. Any thread or fiber, but no signal handler; never
 * waits for another fiber. Returns 0, or an error of umbra_spawn_with; -ENOMEM also if there is no
 * memory, address space or mapping left for another copy (vm.max_map_count: two mappings each).
 * child may be NULL if options->ended is not.
 */
int umbra_child_start(struct umbra_runtime *runtime, struct umbra_image *image,
                      const struct umbra_child_options *options, struct umbra_child **child);

/*
 * Waits until the child has ended, and frees it. *status (NULL: not wanted) becomes what waitpid(2)
 * gives: exited with a code, or ended by a signal. Any thread or fiber; may switch, a thread
 * blocks. Returns 0, or an error of umbra_join: then the child must still be waited for.
 */
int umbra_child_wait(struct umbra_child *child, int *status);

/* The fiber that a child is, for calls that look at fibers; not to be joined, detached or canceled.
 * Any thread or fiber, until the child is waited for; never switches or blocks. */
struct umbra_fiber umbra_child_fiber(const struct umbra_child *child);

#endif
