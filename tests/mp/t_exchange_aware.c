/* SPDX-License-Identifier: MIT */
/*
 * Device pointers given to MPI, over an MPI library that takes them: this
 * program's own persistent requests stand before the library's and carry the
 * bytes between the GPU and host memory, as a CUDA-aware library would. They
 * also count what they are given.
 */
#include "t_exchange.h"

enum { REQUESTS_MOST = 256, BYTES = 5000 };

typedef struct carried {
    MPI_Request request;
    void *device;
    void *host;
    int bytes;
    bool sends;
} carried;

static carried all[REQUESTS_MOST];
static int made, started;
static wharf_node *node;
static wharf_stream carrier; /* waits for nobody else's work */

static carried *carried_find(MPI_Request request)
{
    for (int i = 0; i < made; i++)
        if (all[i].request == request)
            return &all[i];
    return NULL;
}

/* Only Wharf makes persistent requests here, and of bytes without gaps. */
static carried *carried_new(const void *device, int count, MPI_Datatype type,
                            bool sends)
{
    T_CHECK(made < REQUESTS_MOST && type == MPI_BYTE);
    all[made] = (carried){.device = (void *)(uintptr_t)device,
                          .host = malloc((size_t)count + 1),
                          .bytes = count,
                          .sends = sends};
    T_CHECK(all[made].host != NULL);
    return &all[made++];
}

int MPI_Send_init(const void *buf, int count, MPI_Datatype datatype, int dest,
                  int tag, MPI_Comm comm, MPI_Request *request)
{
    carried *c = carried_new(buf, count, datatype, true);
    int code =
        PMPI_Send_init(c->host, count, datatype, dest, tag, comm, request);

    c->request = *request;
    return code;
}

int MPI_Recv_init(void *buf, int count, MPI_Datatype datatype, int source,
                  int tag, MPI_Comm comm, MPI_Request *request)
{
    carried *c = carried_new(buf, count, datatype, false);
    int code =
        PMPI_Recv_init(c->host, count, datatype, source, tag, comm, request);

    c->request = *request;
    return code;
}

static void carry(void *to, const void *from, int bytes)
{
    t_stream_copy(node, carrier, to, from, (size_t)bytes);
    t_stream_sync(node, carrier);
}

int MPI_Start(MPI_Request *request)
{
    carried *c = carried_find(*request);

    T_CHECK(c != NULL);
    started++;
    if (c->sends)
        carry(c->host, c->device, c->bytes);
    return PMPI_Start(request);
}

int MPI_Testsome(int incount, MPI_Request requests[], int *outcount,
                 int indices[], MPI_Status statuses[])
{
    int code = PMPI_Testsome(incount, requests, outcount, indices, statuses);

    for (int i = 0; *outcount != MPI_UNDEFINED && i < *outcount; i++) {
        carried *c = carried_find(requests[indices[i]]);

        if (c != NULL && !c->sends)
            carry(c->device, c->host, c->bytes);
    }
    return code;
}

static void forget_all(void)
{
    for (int i = 0; i < made; i++)
        free(all[i].host);
    made = started = 0;
}

/* A box without gaps goes as it is, one with gaps through memory of the GPU. */
static void ring(void)
{
    t_field f = t_field_begin(node = t_open(), 2, BYTES);
    int right = (t_me + 1) % t_ranks, left = (t_me + t_ranks - 1) % t_ranks;
    wharf_exchange_box out[2][2], in[2][2];
    wharf_exchange_plan plan = WHARF_EXCHANGE_PLAN_INIT;
    wharf_exchange_info info = WHARF_EXCHANGE_INFO_INIT;
    wharf_exchange *x;

    carrier = t_stream_create(node);
    for (int s = 0; s < 2; s++) {
        out[0][s] = t_box(&f, s, 0, 1000, 1, 0);
        in[0][s] = t_box(&f, s, 2000, 1000, 1, 0);
        out[1][s] = t_box(&f, s, 1000, 8, 30, 32);
        in[1][s] = t_box(&f, s, 3000, 8, 30, 40);
    }
    wharf_exchange_transfer ring_of_two[] = {
        {right, 0, 0, out[0], NULL},
        {left, 0, 0, NULL, in[0]},
        {left, 1, 0, out[1], NULL},
        {right, 0, 1, NULL, in[1]},
    };
    x = t_exchange_create(node, MPI_COMM_WORLD, 4, ring_of_two, 2);
    T_OK(wharf_exchange_plan_get(x, &plan));
    T_EQ_INT(1, plan.cuda_aware);
    T_CHECK(plan.staging_bytes > 0 && plan.staging_bytes < 1000);
    T_OK(wharf_exchange_info_get(x, 0, &info));
    T_EQ_INT(WHARF_EXCHANGE_MPI, info.way);
    /* Of each set one message each way and box. */
    T_EQ_INT(8, made);
    for (int i = 0; i < made; i++)
        T_CHECK(all[i].bytes == 1000 || all[i].bytes == 240);
    t_field_rounds(&f, x, MPI_COMM_WORLD, ring_of_two, 4, 6);
    T_EQ_INT(6 * 4, started);
    t_exchange_destroy(x);
    forget_all();
    t_stream_destroy(node, carrier);
    t_field_end(&f);
    t_close(node);
}

int main(int argc, char **argv)
{
    static const t_case cases[] = {
        {"ring", ring, T_CUDA},
        {NULL, NULL, 0},
    };

    return t_main(argc, argv, MPI_THREAD_SINGLE, cases);
}
