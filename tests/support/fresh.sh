#!/bin/sh
# SPDX-License-Identifier: MIT
# fresh.sh COMMAND...: runs COMMAND with an unused fake machine. A run that was
# killed may have left devices with memory in use behind.
rm -rf "$WHARF_FAKE_STATE"
mkdir -p "$(dirname "$WHARF_FAKE_STATE")"
exec "$@"
