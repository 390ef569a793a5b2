# STM32VLDISCOVERY, STM32F100RB: memory map of ST RM0041 and the STM32F100RB data sheet.
FAMILY := stm32f1
CPU := cortex-m3
CLOCKS := 24000000 8000000
IDLE_MODES := stop lpstop
FLASH_ADDRESS := 0x08000000
FLASH_BYTES := 131072
RAM_ADDRESS := 0x20000000
RAM_BYTES := 8192
# The stack lies at the bottom of RAM, so that an overflow faults instead of writing over data. The heap takes what
# is left above the data, at least HEAP_BYTES_MIN.
# Measured: stack 2.4 KB for P-256 and 3.2 KB for SHA-512 without optimisation, 1.8 KB and less with; heap 3.8 KB for
# twenty runs of ecdsa-p256.full, which with its blinding varies by some tens of bytes.
STACK_BYTES := $(if $(filter O0,$(PROFILE)),3584,2816)
HEAP_BYTES_MIN := 3968
