# LAUNCHXL-CC26X2R1, CC2652R: memory map of TI SWCU185 and the CC2652R data sheet.
FAMILY := cc26x2
CPU := cortex-m4
CLOCKS := 48000000
FLASH_ADDRESS := 0x00000000
# 352 KiB; the last 88 bytes hold the customer configuration.
FLASH_BYTES := 360448
# The 8 KiB at 0x1100 0000 stay the cache of the flash.
RAM_ADDRESS := 0x20000000
RAM_BYTES := 81920
# The stack lies at the bottom of RAM, so that an overflow faults instead of writing over data. The heap takes what
# is left above the data, at least HEAP_BYTES_MIN.
STACK_BYTES := 8192
HEAP_BYTES_MIN := 49152
