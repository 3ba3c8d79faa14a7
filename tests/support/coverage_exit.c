/* SPDX-License-Identifier: MIT */
/*
 * For builds that count lines (WHARF_COVERAGE) alone: stands in for _exit, by
 * which tests end that have seen a rank die, and writes the counts first. It
 * is linked into the library, whose counts nobody else can write.
 */
#include <sys/syscall.h>
#include <unistd.h>

void __gcov_dump(void);

__attribute__((visibility("default"), noreturn)) void _exit(int code)
{
    __gcov_dump();
    for (;;)
        syscall(SYS_exit_group, code);
}
