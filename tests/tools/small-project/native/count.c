#include <stdio.h>
#include <stdlib.h>
#include "fast.h"

int main(int argc, char **argv)
{
    long numbers[64];
    size_t count = 0;
    for (int i = 1; i < argc && count < 64; i++)
        numbers[count++] = atol(argv[i]);
    printf("%ld\n", fast_sum(numbers, count));
    return 0;
}
