/* SPDX-License-Identifier: MIT */
/* The library reports the version of the header that it was built with. */
#include "t_test.h"
#include "wharf/base.h"

int main(void)
{
    int version = wharf_version();

    T_EQ_INT(WHARF_VERSION_NUMBER, version);
    T_EQ_INT(WHARF_VERSION_MAJOR, version / 10000);
    T_EQ_INT(WHARF_VERSION_MINOR, version / 100 % 100);
    T_EQ_INT(WHARF_VERSION_PATCH, version % 100);
    return 0;
}
