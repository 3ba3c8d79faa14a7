# SPDX-License-Identifier: MIT
# Moving data: every shape by every way.
foreach(np 2 4)
  wharf_group_test(NAME t_copy_shapes NP ${np} LABELS mp fake gpu)
endforeach()
foreach(way engine kernel)
  wharf_group_test(NAME t_copy_shapes NP 2 LABELS fake gpu SUFFIX by_${way}
                   ENV WHARF_COPY=${way})
endforeach()

# Put with a notify: where ranks share a GPU, some do, none do; by every way
# and mechanism.
foreach(np 2 4)
  wharf_group_test(NAME t_copy_notify NP ${np} LABELS mp fake gpu)
endforeach()
wharf_group_test(NAME t_copy_notify NP 2 DEVICES 1 LABELS fake SUFFIX dev1
                 ARGS replays=200)
foreach(way engine kernel)
  wharf_group_test(NAME t_copy_notify NP 2 LABELS fake gpu SUFFIX by_${way}
                   ARGS replays=200 ENV WHARF_COPY=${way})
endforeach()
foreach(mechanism kernel mem-ops hybrid)
  wharf_group_test(NAME t_copy_notify NP 2 LABELS fake gpu SUFFIX signal_${mechanism}
                   ARGS replays=100 rounds=8
                   ENV WHARF_COPY=kernel WHARF_MECHANISM=${mechanism}
                       WHARF_LOG=error)
endforeach()
wharf_group_test(NAME t_copy_notify NP 2 LABELS fake SUFFIX no_vmm
                 ARGS replays=100 rounds=8 ENV WHARF_FAKE_CAPS=no_vmm)

# What is refused; what the other side may be, and which way is taken.
foreach(np 2 4)
  wharf_group_test(NAME t_copy_errors NP ${np} LABELS mp fake gpu)
  wharf_group_test(NAME t_copy_memory NP ${np} LABELS mp fake gpu)
endforeach()
foreach(way engine kernel)
  wharf_group_test(NAME t_copy_memory NP 2 LABELS fake gpu SUFFIX by_${way}
                   ENV WHARF_COPY=${way})
endforeach()

# Sizes beyond 32 bits: real memory only.
foreach(way engine kernel)
  wharf_group_test(NAME t_copy_big NP 2 LABELS gpu SUFFIX by_${way}
                   ENV WHARF_COPY=${way} TIMEOUT 180)
endforeach()
