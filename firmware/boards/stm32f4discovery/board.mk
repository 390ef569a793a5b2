# STM32F4DISCOVERY, STM32F407VG: memory map of ST RM0090 and the STM32F407VG data sheet.
FAMILY := stm32f4
CPU := cortex-m4
CLOCKS := 168000000 84000000 8000000
IDLE_MODES := stop lpstop
FLASH_ADDRESS := 0x08000000
FLASH_BYTES := 1048576
# SRAM1 and SRAM2. The 64 KiB of core-coupled RAM are not used.
RAM_ADDRESS := 0x20000000
RAM_BYTES := 131072
# The stack lies at the bottom of RAM, so that an overflow faults instead of writing over data. The heap takes what
# is left above the data, at least HEAP_BYTES_MIN.
STACK_BYTES := 8192
HEAP_BYTES_MIN := 49152
