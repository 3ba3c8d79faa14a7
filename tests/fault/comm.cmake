# SPDX-License-Identifier: MIT
wharf_mp_test(NAME t_comm_faults NP 3 LABELS fault TESTING)
