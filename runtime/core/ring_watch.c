/* SPDX-License-Identifier: MIT */
/*
 * Dead ranks of a ring. A consumer that died will never release what it holds,
 * a producer that died will never fill what it issued; but this rank's stream
 * may be waiting for just that while its host waits for the stream, in no call
 * of Wharf's. So on GPUs one thread of the process looks ten times a second at
 * all its rings, and writes the words that the dead no longer write.
 *
 * It does so a moment after the death was found: the kernel may say that a
 * process has ended while the driver still ends its last work, which might
 * write after us.
 *
 * On the host backend whoever waits looks, and no word has to be written.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/trace.h"
#include "core/ring.h"

#define LOOK_MS 100
#define GRACE_NS (150 * WI_NS_PER_MS)

/* More than any number of slots under way, and not negative. */
#define PLENTY UINT32_C(0x40000000)

static struct {
    pthread_mutex_t life; /* held while the thread is started or ended */
    pthread_mutex_t lock; /* guards what follows, and each look */
    pthread_cond_t wake;
    wharf_ring *rings;
    bool ending;
    pthread_t thread;
} watch = {
    .life = PTHREAD_MUTEX_INITIALIZER,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

/* ---- What the dead would have written
 * --------------------------------------------- */

static void put(const wharf_ring *ring, uint32_t *word, uint32_t value)
{
    wi_device *device = ring->node->device;
    wharf_ignore(device->ops->write(device, word, &value, sizeof value));
}

static void put_released(const wharf_ring *ring, int rank, uint32_t more)
{
    uint64_t begun = __atomic_load_n(&ring->control->begun, __ATOMIC_SEQ_CST);
    uint32_t value =
        ring->mode == WHARF_RING_ALL
            ? ring->first + (uint32_t)begun
            : __atomic_load_n(&ring->count[rank], __ATOMIC_RELAXED);
    put(ring, wi_ring_released(ring, rank), value + more);
}

static void put_filled(const wharf_ring *ring)
{
    uint64_t issued = __atomic_load_n(&ring->control->issued, __ATOMIC_SEQ_CST);
    put(ring, wi_ring_filled(ring, ring->node->rank),
        ring->first + (uint32_t)issued);
}

void wi_ring_let_go(const wharf_node *node)
{
    for (const wharf_ring *ring = node->rings; ring; ring = ring->next_ring) {
        if (node->rank != ring->producer) {
            put_filled(ring);
            continue;
        }
        for (int r = 0; r < node->size; r++)
            if (r != node->rank && wi_ring_part_of(ring, r) != WI_RING_DEAD)
                put_released(ring, r, 0);
    }
}

/* ---- Looking
 * ------------------------------------------------------------------------ */

/* Unless it was told before. */
static void tell_producer(const wharf_ring *ring)
{
    if (__atomic_load_n(&ring->orphan, __ATOMIC_RELAXED))
        return;
    wi_log(WI_LOG_WARN,
           "rank %d, the producer of ring %llu, is dead: the ring ends",
           ring->producer, (unsigned long long)ring->serial);
}

/* True once the rank has been dead for long enough. Tells when it is found. */
static bool is_over(wharf_ring *ring, int rank)
{
    int64_t now = wi_now_ns();
    if (ring->dead_ns[rank] == 0) {
        if (!wi_comm_gone(ring->node->comm, rank))
            return false;
        ring->dead_ns[rank] = now;
        if (rank == ring->producer)
            tell_producer(ring);
        else if (wi_ring_part_of(ring, rank) != WI_RING_OUT)
            wi_log(WI_LOG_WARN,
                   "rank %d, a consumer of ring %llu, is dead: the ring goes "
                   "on without it",
                   rank, (unsigned long long)ring->serial);
    }
    return wi_ring_on_host(ring) || now - ring->dead_ns[rank] >= GRACE_NS;
}

static void bury_consumer(wharf_ring *ring, int rank)
{
    if (!wi_ring_on_host(ring))
        put_released(ring, rank, PLENTY);
    __atomic_store_n(&ring->control->member[rank].part, WI_RING_DEAD,
                     __ATOMIC_SEQ_CST);
    wi_ring_ring(&ring->control->answer);
}

void wi_ring_look(wharf_ring *ring)
{
    const wharf_node *node = ring->node;
    if (node->rank != ring->producer) {
        bool over = is_over(ring, ring->producer);
        if (ring->dead_ns[ring->producer] &&
            !__atomic_exchange_n(&ring->orphan, true, __ATOMIC_RELAXED))
            wi_ring_ring(&ring->control->news);
        if (over && !ring->let_go && !wi_ring_on_host(ring)) {
            put_filled(ring);
            ring->let_go = true;
        }
        return;
    }
    for (int r = 0; r < node->size; r++)
        if (r != node->rank && wi_ring_part_of(ring, r) != WI_RING_DEAD &&
            is_over(ring, r))
            bury_consumer(ring, r);
}

/* Touches nothing but `orphan`: another thread may be looking. */
void wi_ring_ask_producer(wharf_ring *ring)
{
    const wharf_node *node = ring->node;
    if (!wi_ring_on_host(ring) || node->rank == ring->producer ||
        __atomic_load_n(&ring->orphan, __ATOMIC_RELAXED) ||
        !wi_comm_gone(node->comm, ring->producer))
        return;
    tell_producer(ring);
    __atomic_store_n(&ring->orphan, true, __ATOMIC_RELAXED);
    wi_ring_ring(&ring->control->news);
}

wharf_status wi_ring_check_producer(const wharf_ring *ring)
{
    if (!__atomic_load_n(&ring->orphan, __ATOMIC_RELAXED))
        return WHARF_OK;
    wi_fail(WHARF_EPEER, "destroy the ring and close the node",
            "rank %d, the producer of the ring, is dead: its last slots may "
            "not have been filled",
            ring->producer);
    return wi_error_about(ring->producer);
}

/* ---- The thread
 * ------------------------------------------------------------------------- */

static void *watch_run(void *argument)
{
    (void)argument;
    wi_trace_thread("wharf rings");
    wi_call_begin("watching rings", -1);
    pthread_mutex_lock(&watch.lock);
    while (!watch.ending) {
        wi_cond_wait(&watch.wake, &watch.lock, wi_deadline_in_ms(LOOK_MS));
        if (watch.ending)
            break;
        for (wharf_ring *ring = watch.rings; ring; ring = ring->next_watched)
            wi_ring_look(ring);
    }
    pthread_mutex_unlock(&watch.lock);
    wharf_ignore(wi_call_end(WHARF_OK));
    return NULL;
}

/* Under `life`, without rings. */
static wharf_status watch_start(void)
{
    wi_cond_init(&watch.wake);
    watch.ending = false;
    wharf_status status =
        wi_thread_start(&watch.thread, watch_run, NULL,
                        "a thread that watches for dead ranks of rings");
    if (status != WHARF_OK)
        pthread_cond_destroy(&watch.wake);
    return status;
}

static void watch_stop(void)
{
    pthread_mutex_lock(&watch.lock);
    watch.ending = true;
    pthread_cond_signal(&watch.wake);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(watch.thread, NULL);
    pthread_cond_destroy(&watch.wake);
}

wharf_status wi_ring_watch_add(wharf_ring *ring)
{
    wharf_status status = WHARF_OK;
    pthread_mutex_lock(&watch.life);
    if (!watch.rings)
        status = watch_start();
    if (status == WHARF_OK) {
        pthread_mutex_lock(&watch.lock);
        ring->next_watched = watch.rings;
        watch.rings = ring;
        pthread_mutex_unlock(&watch.lock);
    }
    pthread_mutex_unlock(&watch.life);
    return status;
}

void wi_ring_watch_remove(wharf_ring *ring)
{
    bool found = false;
    pthread_mutex_lock(&watch.life);
    pthread_mutex_lock(&watch.lock);
    for (wharf_ring **at = &watch.rings; *at; at = &(*at)->next_watched)
        if (*at == ring) {
            *at = ring->next_watched;
            found = true;
            break;
        }
    pthread_mutex_unlock(&watch.lock);
    if (found && !watch.rings)
        watch_stop();
    pthread_mutex_unlock(&watch.life);
}
