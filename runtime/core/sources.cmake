# SPDX-License-Identifier: MIT
# The public calls.
list(APPEND WHARF_SOURCES
     core/barrier.c core/barrier_enter.c core/barrier_plan.c core/buffer.c core/buffer_memory.c
     core/buffer_query.c core/copy.c core/copy_way.c core/event.c core/exchange.c core/exchange_build.c
     core/exchange_cut.c
     core/exchange_far.c core/exchange_host.c core/exchange_list.c
     core/exchange_match.c core/exchange_query.c core/exchange_run.c
     core/exchange_shape.c core/exchange_stream.c
     core/event_word.c core/fortran.c
     core/existing.c core/existing_share.c core/join.c
     core/keeper.c core/layout.c
     core/mapping.c core/mapping_range.c core/mapping_share.c core/mechanism.c core/meet.c
     core/node.c core/node_bind.c core/node_census.c core/node_links.c
     core/node_place.c core/node_plan.c core/node_print.c
     core/node_print_gpus.c
     core/node_query.c core/notify.c core/notify_host.c
     core/offer.c core/pad.c core/pool.c core/publish.c
     core/host_space.c core/ring.c core/ring_consume.c core/ring_hold.c core/ring_produce.c
     core/ring_race.c core/ring_watch.c
     core/signal_rescue.c core/stats.c core/stream.c
     core/trace.c core/visit.c core/visit_buffer.c core/visit_node.c core/visit_wire.c
     core/worker.c core/worker_call.c core/worker_child.c core/worker_lend.c
     core/worker_life.c core/worker_message.c core/worker_report.c
     core/worker_watch.c)
