# SPDX-License-Identifier: MIT
# What kernels are handed, looked at from the host.
wharf_group_test(NAME t_views NP 2 LABELS mp)
wharf_group_test(NAME t_views NP 3 LABELS fake gpu)
