# SPDX-License-Identifier: MIT
# The public calls.
list(APPEND WHARF_SOURCES
     core/barrier.c core/barrier_enter.c core/barrier_plan.c core/buffer.c
     core/buffer_query.c core/event.c core/event_word.c
     core/keeper.c core/layout.c
     core/mapping.c core/mapping_range.c core/mapping_share.c core/mechanism.c core/meet.c
     core/node.c core/node_bind.c core/node_census.c core/node_links.c
     core/node_place.c core/node_plan.c core/node_print.c
     core/node_print_gpus.c
     core/node_query.c core/notify.c core/notify_host.c core/pad.c core/pool.c core/signal_rescue.c core/stats.c)
