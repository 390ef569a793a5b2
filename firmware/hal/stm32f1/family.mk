# STM32F100 value line, Cortex-M3.
include hal/cortexm/cortexm.mk
FAMILY_SOURCES := $(CORTEXM_SOURCES) hal/cortexm/counter.c hal/stm32/trigger.c hal/stm32/usart_sr.c \
                  hal/stm32f1/clock.c hal/stm32f1/pins.c \
                  hal/stm32/stop.c hal/stm32f1/rtc.c
