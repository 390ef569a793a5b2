# CC13x2/CC26x2, Cortex-M4F; the FPU stays off.
include hal/cortexm/cortexm.mk
FAMILY_SOURCES := $(CORTEXM_SOURCES) hal/cortexm/counter.c hal/cc26x2/clock.c hal/cc26x2/configuration.c \
                  hal/cc26x2/pins.c hal/cc26x2/serial.c
FAMILY_LINK_SCRIPT := hal/cc26x2/link.ld
