# 32F769IDISCOVERY, STM32F769NI: memory map of ST RM0410 and the STM32F769NI data sheet.
FAMILY := stm32f7
CPU := cortex-m7
CLOCKS := 216000000 108000000 25000000
IDLE_MODES := stop lpstop
FLASH_ADDRESS := 0x08000000
FLASH_BYTES := 2097152
# DTCM, SRAM1 and SRAM2, one behind the other.
RAM_ADDRESS := 0x20000000
RAM_BYTES := 524288
# The stack lies at the bottom of RAM, so that an overflow faults instead of writing over data. The heap takes what
# is left above the data, at least HEAP_BYTES_MIN.
STACK_BYTES := 8192
HEAP_BYTES_MIN := 49152
