# STM32F0x1, Cortex-M0.
include hal/cortexm/cortexm.mk
FAMILY_SOURCES := $(CORTEXM_SOURCES) hal/cortexm/no_counter.c hal/stm32/trigger.c hal/stm32/usart_isr.c \
                  hal/stm32/pins.c hal/stm32f0/clock.c hal/stm32f0/stopwatch.c \
                  hal/stm32/stop.c hal/stm32/rtc_calendar.c hal/stm32/rtc_alarm.c
