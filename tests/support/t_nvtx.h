/* SPDX-License-Identifier: MIT */
/* What the recorder of NVTX ranges (t_nvtx.c) has seen in this process. */
#ifndef T_NVTX_H
#define T_NVTX_H

typedef enum t_nvtx_kind {
    T_NVTX_DOMAIN, /* a domain was made */
    T_NVTX_PUSH,
    T_NVTX_POP, /* its name is empty */
    T_NVTX_THREAD
} t_nvtx_kind;

typedef struct t_nvtx_event {
    t_nvtx_kind kind;
    int thread; /* of the kernel; who did it, or who was named */
    char name[64];
} t_nvtx_event;

enum { T_NVTX_EVENTS = 20000 };

/* The symbol "t_nvtx_events" of the library: all events, oldest first. */
typedef const t_nvtx_event *t_nvtx_list(int *count);

#endif
