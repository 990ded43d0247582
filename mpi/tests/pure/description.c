/* Reads a description of a mounted store from standard input, and prints what the library takes from it, for test_description.py:
 * its identifier, its node, the nodes of its servers and the targets of its node, each followed by a NUL. Exit code 1: it is no description. */
#include "mount_description.h"
#include <inttypes.h>
#include <stdio.h>

int main(void)
{
    static char text[64 << 10];
    struct store store;
    if (store_read(text, fread(text, 1, sizeof text, stdin), &store))
        return 1;
    printf("%s%c%s%c%s%c", store.id, 0, store.node, 0, store.nodes, 0);
    for (size_t i = 0; i < store.here_count; i++)
        printf("%s%" PRIu32, i ? "," : "", store.here[i]);
    putchar(0);
    store_forget(&store);
    return 0;
}
