/* SPDX-License-Identifier: BSL-1.0 */
/* For consumer.c in a library. */
int library_main(void);

int main(void)
{
    return library_main();
}
