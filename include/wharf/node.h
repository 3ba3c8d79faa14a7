/* SPDX-License-Identifier: MIT */
/*
 * A node: the ranks that can share memory, and their GPUs.
 *
 * A collective call is made by every rank of the node, on all of them in the
 * same order, from any thread; one that comes while another one of the node
 * runs waits for it. Those that are collective on a communicator call MPI: from
 * MPI's main thread only, below MPI_THREAD_SERIALIZED.
 *
 * When a rank dies. The others learn it by WHARF_EPEER: from collective calls,
 * which all answer so from then on, and from whatever holds the calling thread
 * for that rank. A stream on a GPU waits for it for good; so wait for streams
 * by wharf_stream_synchronize (event.h), which looks at the ranks meanwhile,
 * and let them go by destroying what they wait in. What is attached stays
 * mapped, the dead rank's segments as well, and can be read and saved. Destroy,
 * detach and wharf_node_close give back all the same and say WHARF_EPEER once
 * more.
 *
 * MPI has no part in this: MPI_Finalize may wait for the dead rank, so the
 * others end by _exit, and the launcher has to let the job go on (Open MPI:
 * mpirun --enable-recovery). mpi_examples/10_checkpoint.c does all that.
 *
 * When a rank calls cudaDeviceReset. All that Wharf made in its context is gone
 * with it: that rank's calls and all collective ones answer WHARF_EFAULT from
 * then on and name the reset, destroy, detach and close give back what is left,
 * and the ranks may open another node. What the others mapped stays readable.
 * No thread of the rank may be in a call of Wharf at the moment of the reset.
 */
#ifndef WHARF_NODE_H
#define WHARF_NODE_H

#include <mpi.h>
#include <stdio.h>

#include "wharf/base.h"
#include "wharf/status.h"

typedef struct wharf_node wharf_node;

/* Stated limits of one node; WHARF_ELIMIT names the one that was reached. */
#define WHARF_MAX_RANKS 512 /* ranks of one node */
#define WHARF_MAX_GPUS 64   /* GPUs (or MIG instances) of one node */

/* What holds the memory of device-space buffers. */
typedef enum wharf_backend {
    WHARF_BACKEND_AUTO = 0, /* cuda where every rank has a GPU, else host */
    WHARF_BACKEND_CUDA = 1, /* GPU memory, or WHARF_ENODEV */
    WHARF_BACKEND_HOST = 2  /* shared host memory, no GPU is touched */
} wharf_backend;

/* How ranks are given GPUs; see topo.h. */
typedef enum wharf_placement {
    WHARF_PLACEMENT_AUTO = 0,       /* least total distance, balanced */
    WHARF_PLACEMENT_CLOSEST = 1,    /* nearest GPU, balance second */
    WHARF_PLACEMENT_BLOCK = 2,      /* ranks 0..k-1 on the first GPU, ... */
    WHARF_PLACEMENT_ROUND_ROBIN = 3 /* rank r on GPU r modulo GPUs */
} wharf_placement;

/* A three-valued switch, so that 0 in an options struct means "not said":
 * then the environment decides, then the default. */
typedef enum wharf_switch {
    WHARF_SWITCH_UNSET = 0,
    WHARF_SWITCH_ON = 1,
    WHARF_SWITCH_OFF = 2
} wharf_switch;

/* How two ranks reach each other's segments. */
typedef enum wharf_path {
    WHARF_PATH_SAME_PROCESS = 0, /* a rank and itself */
    WHARF_PATH_SAME_GPU = 1,     /* two ranks, one GPU */
    WHARF_PATH_NVLINK = 2,       /* peer access over NVLink */
    WHARF_PATH_PCIE_PEER = 3,    /* peer access over PCIe */
    WHARF_PATH_HOST = 4          /* host memory */
} wharf_path;

/**
 * Options of wharf_node_open. Start from WHARF_NODE_OPTIONS_INIT. A field left
 * at 0 or NULL takes the environment variable's value, else the default.
 */
typedef struct wharf_node_options {
    size_t struct_size;
    wharf_backend backend;     /* WHARF_BACKEND: auto, cuda, host */
    wharf_placement placement; /* WHARF_PLACEMENT: auto, closest, ... */
    const char *device_map;    /* WHARF_DEVICE_MAP: one entry a rank, comma
                                  separated: index in PCI order, UUID (or a
                                  unique start of one) or PCI id */
    int timeout_ms;            /* WHARF_TIMEOUT_MS: deadline of collectives
                                  and waits in ms, 1 .. 86400000, default
                                  30000 */
    wharf_switch strict;       /* WHARF_STRICT: refuse degraded paths */
    wharf_switch keep_current; /* WHARF_KEEP_CURRENT: leave the calling
                                  thread's current CUDA device as it is; the
                                  only field that may differ by rank */
    wharf_switch pool;         /* WHARF_POOL: keep detached blocks mapped */
    size_t pool_bytes;         /* WHARF_POOL_BYTES: most device bytes that
                                  one GPU's pool keeps, default 1 GiB; to
                                  keep none, switch pool off */
    wharf_switch bind;         /* WHARF_BIND: bind the calling threads of
                                  ranks that came unbound to CPUs near their
                                  GPUs, see wharf_node_open */
    wharf_switch refuse_bad;   /* WHARF_REFUSE_BAD: WHARF_EDEGRADED for a plan
                                  with a warning that is bad (topo.h), such as
                                  a rank on another socket than its GPU */
} wharf_node_options;

#define WHARF_NODE_OPTIONS_INIT                                                \
    {                                                                          \
        sizeof(wharf_node_options), WHARF_BACKEND_AUTO, WHARF_PLACEMENT_AUTO,  \
            NULL, 0, WHARF_SWITCH_UNSET, WHARF_SWITCH_UNSET,                   \
            WHARF_SWITCH_UNSET, 0, WHARF_SWITCH_UNSET, WHARF_SWITCH_UNSET      \
    }

/* The device of one rank. Start from WHARF_DEVICE_INIT. */
typedef struct wharf_device {
    size_t struct_size;
    int gpu;       /* index of the GPU in the node, 0 up in PCI order;
                      -1 on the host backend */
    int ordinal;   /* ordinal in the *calling* process; -1 if the calling
                      process cannot see it, or on the host backend */
    int owner;     /* node rank that allocates on it, 0 on the host backend */
    int users;     /* ranks that use it, the owner included */
    char uuid[48]; /* "GPU-..." or "MIG-...", empty on the host backend */
    char pci[16];  /* "0000:06:00.0", empty on the host backend */
    char name[64]; /* "NVIDIA H200"; "host" on the host backend */
    uint64_t memory_bytes; /* of the GPU or instance; 0 on the host backend */
    int distance; /* NUMA distance of the rank's CPUs to it, 10 = local,
                     -1 = unknown */
    char reason[WHARF_MAX_REASON + 1]; /* why this rank has this GPU */
} wharf_device;

#define WHARF_DEVICE_INIT                                                      \
    {                                                                          \
        sizeof(wharf_device), 0, 0, 0, 0, {0}, {0}, {0}, 0, 0,                 \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

/* The link between two ranks. Start from WHARF_LINK_INIT. */
typedef struct wharf_link {
    size_t struct_size;
    wharf_path path;
    int nvlinks; /* NVLinks between the two GPUs; 0: none or unknown */
    char reason[WHARF_MAX_REASON + 1]; /* why this path and no faster one */
} wharf_link;

#define WHARF_LINK_INIT                                                        \
    {                                                                          \
        sizeof(wharf_link), WHARF_PATH_SAME_PROCESS, 0,                        \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

/* How wharf_node_print writes. */
typedef enum wharf_format {
    WHARF_FORMAT_TEXT = 0,
    WHARF_FORMAT_JSON = 1
} wharf_format;

WHARF_BEGIN_DECLS

/**
 * Opens a node: finds the ranks of comm that share memory with the caller,
 * gives every rank a GPU and prepares the ways by which handles travel.
 *
 * Collective on comm. comm may span several hosts: each host gets a node of
 * its own and the call agrees inside each. Creates no context on any other GPU
 * than the chosen one. comm is duplicated once, kept as an attribute of comm
 * and freed with it.
 *
 * Makes the chosen GPU the calling thread's current CUDA device, by making its
 * primary context current, unless options.keep_current is on; wharf_join and
 * wharf_worker_join do the same, no other call does, and wharf_node_close does
 * not undo it. So does the open of a further node: one of a sub-communicator
 * plans for its own ranks alone and may give a rank another GPU than it has in
 * the first node. Calls on a node use that node's GPU whatever is current; the
 * program's own streams and kernels do not. Pass keep_current, or a device_map
 * that names the GPUs of the first node, to go on with one.
 *
 * GPUs are given out as wharf_plan_make (topo.h) says, from this machine's
 * topology, the ranks' CPU masks, the GPUs that each rank sees and the links
 * that the driver tells of. GPUs in compute mode "prohibited" are not given
 * out; one in mode "exclusive process" serves one rank, unless MPS runs.
 *
 * With options.bind on, the calling thread of a rank that may run on every
 * online CPU is bound to CPUs near its GPU: to a share of its own where several
 * such ranks want the same CPUs. Threads that are made later inherit that. A
 * rank that cannot be bound is a warning, never a failure. wharf_node_close
 * gives the thread its CPUs back, unless it was bound anew in between. Nothing
 * is bound on the host backend.
 *
 * @param comm     an intracommunicator; not MPI_COMM_NULL
 * @param options  NULL for defaults; must agree on all ranks (keep_current
 *                 aside), else WHARF_EMISMATCH
 * @param[out] node the node, to be given to wharf_node_close; untouched on
 *                  failure
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (MPI not initialised or already
 *         finalised, or not to be called from this thread; forked child);
 *         WHARF_ECONFIG (environment);
 *         WHARF_EMISMATCH; WHARF_ENODEV (backend cuda, a rank has no usable
 *         GPU; a GPU for one process would have to serve several);
 *         WHARF_EDEGRADED (strict, refuse_bad); WHARF_ELIMIT;
 *         WHARF_ETIMEDOUT (also for a rank that died early in the call, when
 *         there is but MPI, which does not tell); WHARF_EPROTOCOL (different
 *         versions of Wharf, or ranks hold different plans); WHARF_EOS,
 *         WHARF_EDRIVER, WHARF_EMPI, WHARF_ENOMEM, WHARF_EDEVMEM; WHARF_EPEER,
 *         WHARF_EFAULT
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_node_open(
    MPI_Comm comm, const wharf_node_options *options, wharf_node **node);

/**
 * Closes a node and gives back all that it holds, buffers and events still
 * attached included (each is named in a warning).
 *
 * Collective on the node's ranks. If a rank is dead or silent the call cleans
 * up locally and says so; it never hangs. Works after WHARF_EFAULT and after
 * the CUDA driver was shut down.
 *
 * @param[in,out] node the node; set to NULL, except on WHARF_EMISMATCH. NULL or
 *                     *node NULL: WHARF_EARG
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (closed already, forked child);
 *         WHARF_EMISMATCH (another rank is in another call: nothing was done);
 *         WHARF_ETIMEDOUT, WHARF_EPEER (cleaned up all the same)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_node_close(wharf_node **node);

/**
 * The caller's rank in the node.
 *
 * Local, any thread.
 *
 * @param node an open node
 * @return 0 .. size-1, or -1 if node is no open node
 */
WHARF_API int wharf_node_rank(const wharf_node *node);

/**
 * The number of ranks of the node.
 *
 * Local, any thread.
 *
 * @param node an open node
 * @return 1 .. WHARF_MAX_RANKS, or -1 if node is no open node
 */
WHARF_API int wharf_node_size(const wharf_node *node);

/**
 * The backend in use.
 *
 * Local, any thread.
 *
 * @param node an open node
 * @return WHARF_BACKEND_CUDA or WHARF_BACKEND_HOST (also for no open node)
 */
WHARF_API wharf_backend wharf_node_backend(const wharf_node *node);

/**
 * Why the backend in use was chosen, in one phrase.
 *
 * Local, any thread.
 *
 * @param node an open node
 * @return a string owned by the node; "" if node is no open node
 */
WHARF_API const char *wharf_node_backend_reason(const wharf_node *node);

/**
 * The communicator of the node's ranks, in node rank order.
 *
 * Local, any thread. Owned by the node: do not free it, and use it only for
 * your own traffic until wharf_node_close.
 *
 * @param node an open node
 * @param[out] comm the communicator
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (closed; the node of a worker or
 *         of a joined buffer)
 */
WHARF_API WHARF_MUSTCHECK wharf_status
wharf_node_communicator(const wharf_node *node, MPI_Comm *comm);

/**
 * The number of GPUs that the node's ranks use; 0 on the host backend.
 *
 * Local, any thread.
 *
 * @param node an open node
 * @return 0 .. WHARF_MAX_GPUS, or -1 if node is no open node
 */
WHARF_API int wharf_node_gpus(const wharf_node *node);

/**
 * The rank that allocates on a GPU for all its ranks.
 *
 * Local, any thread.
 *
 * @param node an open node
 * @param gpu 0 .. wharf_node_gpus - 1
 * @param[out] rank its owner
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (closed)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_node_owner(const wharf_node *node,
                                                        int gpu, int *rank);

/**
 * The device that a rank uses.
 *
 * Local, any thread.
 *
 * @param node an open node
 * @param rank 0 .. size-1
 * @param[in,out] device started from WHARF_DEVICE_INIT, filled
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (closed)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_node_device(const wharf_node *node,
                                                         int rank,
                                                         wharf_device *device);

/**
 * The link by which rank a reaches memory of rank b.
 *
 * Local, any thread.
 *
 * @param node an open node
 * @param a, b 0 .. size-1
 * @param[in,out] link started from WHARF_LINK_INIT, filled
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (closed)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_node_link(const wharf_node *node,
                                                       int a, int b,
                                                       wharf_link *link);

/**
 * The name of a path, such as "nvlink".
 *
 * Local, any thread.
 *
 * @param path any value
 * @return a constant string; "unknown" for a value outside the list
 */
WHARF_API const char *wharf_path_name(wharf_path path);

/**
 * Prints the node: ranks, devices, owners, links with reasons, handle kinds,
 * versions. Text for people or JSON (one object, with a list "ranks").
 *
 * Local, any thread; call it on one rank.
 *
 * @param node   an open node
 * @param file   where to print
 * @param format WHARF_FORMAT_TEXT or WHARF_FORMAT_JSON
 * @return WHARF_OK; WHARF_EARG; WHARF_ESTATE (closed); WHARF_EOS (writing
 *         failed)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_node_print(const wharf_node *node,
                                                        FILE *file,
                                                        wharf_format format);

/**
 * Prints every environment variable that Wharf reads: name, values, default,
 * meaning.
 *
 * Local, any thread. Needs neither MPI nor an open node.
 *
 * @param file where to print
 * @return WHARF_OK; WHARF_EARG; WHARF_EOS (writing failed)
 */
WHARF_API WHARF_MUSTCHECK wharf_status wharf_environment_print(FILE *file);

WHARF_END_DECLS

#endif
