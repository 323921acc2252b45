#include <stddef.h>

long fast_sum(const long *numbers, size_t count);
