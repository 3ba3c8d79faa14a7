# SPDX-License-Identifier: MIT
# Turns a binary file into C: cmake -DINPUT=... -DOUTPUT=... -DSYMBOL=... -P
# embed.cmake. 16-byte aligned, as the driver wants a module image.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
get_filename_component(name ${INPUT} NAME)
file(WRITE ${OUTPUT} "/* Made from ${name}; do not edit. */
extern const unsigned char ${SYMBOL}[];
__attribute__((aligned(16))) const unsigned char ${SYMBOL}[] = {
${hex}
};
")
