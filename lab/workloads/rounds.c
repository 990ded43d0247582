/* rounds: two OpenMP threads that meet after each round, of which only the first has anything to do. */
#include "workload.h"

#include <stdio.h>

static uint64_t count = 50, compute_ns = 1000000;

static const struct option_row rows[] = {
    { "--rounds", COUNT, &count, "how many (50)" },
    { "--compute", TIME, &compute_ns, "processor time of the first thread in each (1ms)" },
    { NULL, 0, NULL, NULL },
};

int main(int argc, char **argv)
{
    if (parse_options(argc, argv, "[OPTION]...", rows) != 0) {
        fprintf(stderr, "%s: expected options only; --help lists them\n", argv[0]);
        return 2;
    }
    uint64_t begun_ns = now_ns();
    for (uint64_t done = 0; done < count; done++) {
#pragma omp parallel for schedule(static, 1) num_threads(2)
        for (int share = 0; share < 2; share++)
            if (share == 0)
                spin_for(compute_ns);
    }
    print_result(0, begun_ns, "");
    return 0;
}
