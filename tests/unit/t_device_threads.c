/* SPDX-License-Identifier: MIT */
/*
 * One device, many threads: small transfers, blocks and events at the same
 * time. On the fake driver, the real one, or the host backend where there is
 * neither. Meant for the thread sanitizer as well.
 */
#include "device/device.h"

#include <pthread.h>

#include "base/stat.h"
#include "t_test.h"

#define THREADS 4
#define ROUNDS 20
#define WORDS 5

static const wi_device_ops *ops = &wi_device_cuda;
static const wi_memory_ops *memory;
static wi_device *device;

static void one_round(uint64_t seed)
{
    size_t bytes = memory->granularity(device);
    wi_range range = {NULL, 0};
    wi_event *event = NULL;
    const void *from[WORDS];
    uint64_t got[WORDS];
    wi_block *block;
    wharf_status status;
    void *at;

    T_OK(memory->reserve(device, NULL, bytes, &range));
    T_OK(memory->create(device, bytes, 0, &block));
    T_OK(memory->map(device, block, &range, 0, WI_ACCESS_READ_WRITE, &at));
    T_OK(ops->fill_zero(device, at, bytes));
    for (int i = 0; i < WORDS; i++) {
        uint64_t word = seed + (uint64_t)i;

        from[i] = (char *)at + (size_t)i * 64;
        T_OK(ops->write(device, (char *)at + (size_t)i * 64, &word, 8));
    }
    T_OK(ops->event_create(device, &event));
    T_OK(ops->event_record(event, NULL));
    T_OK(ops->event_wait(event, NULL));
    T_OK(ops->read_words(device, from, WORDS, got));
    for (int i = 0; i < WORDS; i++)
        T_EQ_INT(seed + (uint64_t)i, got[i]);
    while ((status = ops->event_query(event)) == WHARF_ENOTREADY)
        ;
    T_OK(status);
    T_OK(ops->health(device));
    ops->event_destroy(event);
    memory->destroy(device, block);
    memory->unreserve(device, &range);
}

static void *thread_run(void *argument)
{
    uint64_t seed = *(uint64_t *)argument;

    for (int i = 0; i < ROUNDS; i++)
        one_round(seed + (uint64_t)i * 100);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    uint64_t seeds[THREADS];
    wi_device_desc desc[1];
    wharf_handle_kind kind = WHARF_HANDLE_VMM;
    char reason[96];
    int count;

    if (ops->enumerate(desc, 1, &count) != WHARF_OK) {
        ops = &wi_device_host;
        kind = WHARF_HANDLE_MEMFD;
        T_OK(ops->enumerate(desc, 1, &count));
    }
    T_OK(ops->open(&desc[0], &device));
    memory = ops->memory(device, kind, reason);
    T_CHECK(memory);
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = (uint64_t)(i + 1) << 32;
        T_EQ_INT(0, pthread_create(&threads[i], NULL, thread_run, &seeds[i]));
    }
    for (int i = 0; i < THREADS; i++)
        T_EQ_INT(0, pthread_join(threads[i], NULL));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_blocks_owned));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_ranges));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_driver_events));
    ops->close(device);
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_contexts));
    T_EQ_INT(0, wi_stat_get(WI_STAT_live_host_allocations));
    return 0;
}
