# STM32F405/407, Cortex-M4.
include hal/cortexm/cortexm.mk
FAMILY_SOURCES := $(CORTEXM_SOURCES) hal/cortexm/counter.c hal/stm32/trigger.c hal/stm32/usart_sr.c hal/stm32/pins.c \
                  hal/stm32f4/clock.c \
                  hal/stm32/stop.c hal/stm32/rtc_calendar.c hal/stm32/rtc_wakeup.c
