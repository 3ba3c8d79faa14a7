/* SPDX-License-Identifier: MIT */
/* Who a process is: stable in itself, different from its child, equal pids in
 * two pid namespaces told apart field by field. */
#include "base/identity.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t_test.h"

static void check_self(void)
{
    wi_identity a, b;
    char host[256];

    memset(&a, 0x5a, sizeof a);
    memset(&b, 0xa5, sizeof b);
    wi_identity_self(&a);
    /* A program's name may look like the fields that follow it. */
    T_EQ_INT(0, prctl(PR_SET_NAME, "a) R 1 (1 2 3"));
    wi_identity_self(&b);
    /* Padding as well, since the bytes go over MPI. */
    T_EQ_MEM(&a, &b, sizeof a);
    T_EQ_INT(getpid(), a.pid);
    T_EQ_INT(geteuid(), a.uid);
    T_EQ_INT(0, gethostname(host, sizeof host));
    T_EQ_INT(0, strncmp(host, a.host, sizeof a.host - 1));
    T_EQ_INT(36, strlen(a.boot_id));
    T_CHECK(a.pid_ns != 0 && a.net_ns != 0 && a.start_ticks != 0);
    T_CHECK(wi_identity_same_kernel(&a, &b));
    T_CHECK(wi_identity_number(&a) == wi_identity_number(&b));
}

static void check_child(void)
{
    wi_identity mine;
    wi_identity *theirs = mmap(NULL, sizeof *theirs, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid;
    int state;

    T_CHECK(theirs != MAP_FAILED);
    wi_identity_self(&mine);
    pid = fork();
    T_CHECK(pid >= 0);
    if (pid == 0) {
        wi_identity_self(theirs);
        _exit(0);
    }
    T_EQ_INT(pid, waitpid(pid, &state, 0));
    T_EQ_INT(0, state);
    T_EQ_INT(pid, theirs->pid);
    T_EQ_INT(mine.pid_ns, theirs->pid_ns);
    T_CHECK(theirs->start_ticks >= mine.start_ticks);
    T_CHECK(wi_identity_same_kernel(&mine, theirs));
    T_CHECK(wi_identity_number(&mine) != wi_identity_number(theirs));
    munmap(theirs, sizeof *theirs);
}

static wi_identity sample(void)
{
    wi_identity identity;

    memset(&identity, 0, sizeof identity);
    strcpy(identity.boot_id, "01234567-89ab-cdef-0123-456789abcdef");
    strcpy(identity.host, "alpha");
    identity.pid_ns = 4026531836;
    identity.net_ns = 4026531840;
    identity.start_ticks = 1000;
    identity.pid = 42;
    return identity;
}

static void check_compare(void)
{
    wi_identity a = sample(), b = sample();

    /* Two names of one kernel; the network does not matter. */
    strcpy(b.host, "beta");
    b.net_ns++;
    T_CHECK(wi_identity_same_kernel(&a, &b));
    T_CHECK(wi_identity_number(&a) == wi_identity_number(&b));
    b = sample();
    b.pid_ns++;
    T_CHECK(wi_identity_same_kernel(&a, &b));
    T_CHECK(wi_identity_number(&a) != wi_identity_number(&b));
    b = sample();
    b.pid++;
    T_CHECK(wi_identity_number(&a) != wi_identity_number(&b));
    /* A pid that was used again. */
    b = sample();
    b.start_ticks++;
    T_CHECK(wi_identity_number(&a) != wi_identity_number(&b));
    b = sample();
    b.boot_id[0] = 'f';
    T_CHECK(!wi_identity_same_kernel(&a, &b));
    T_CHECK(wi_identity_number(&a) != wi_identity_number(&b));
}

/* Without boot ids the host names decide; no knowledge is never equality. */
static void check_unknown(void)
{
    wi_identity a = sample(), b = sample();

    b.boot_id[0] = '\0';
    T_CHECK(!wi_identity_same_kernel(&a, &b));
    T_CHECK(!wi_identity_same_kernel(&b, &a));
    a.boot_id[0] = '\0';
    T_CHECK(wi_identity_same_kernel(&a, &b));
    strcpy(b.host, "beta");
    T_CHECK(!wi_identity_same_kernel(&a, &b));
    a.host[0] = b.host[0] = '\0';
    T_CHECK(!wi_identity_same_kernel(&a, &b));
}

int main(void)
{
    check_self();
    check_child();
    check_compare();
    check_unknown();
    return 0;
}
