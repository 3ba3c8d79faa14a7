/* SPDX-License-Identifier: MIT */
/* topo_gen: prints one of the tests' topologies, or the list of them. */
#include <stdio.h>
#include <stdlib.h>

#include "topo_gen.h"

int main(int argc, char **argv)
{
    char *text;

    if (argc != 2) {
        for (int i = 0; t_shape_name(i); i++)
            printf("%-14s %s\n", t_shape_name(i), t_shape_about(i));
        return argc == 1 ? 0 : 2;
    }
    text = t_shape_xml(argv[1]);
    if (!text) {
        fprintf(stderr, "topo_gen: no shape \"%s\"\n", argv[1]);
        return 2;
    }
    fputs(text, stdout);
    free(text);
    return 0;
}
