# SPDX-License-Identifier: MIT
# The public calls.
list(APPEND WHARF_SOURCES
     core/buffer.c core/buffer_query.c core/event.c core/layout.c
     core/mapping.c core/mapping_range.c core/mapping_share.c core/meet.c
     core/node.c core/node_links.c core/node_place.c core/node_print.c
     core/node_query.c core/pool.c core/stats.c)
