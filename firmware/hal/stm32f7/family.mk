# STM32F76x/77x, Cortex-M7.
include hal/cortexm/cortexm.mk
FAMILY_SOURCES := $(CORTEXM_SOURCES) hal/cortexm/counter.c hal/stm32/trigger.c hal/stm32/usart_isr.c hal/stm32/pins.c \
                  hal/stm32f7/cache.c hal/stm32f7/clock.c \
                  hal/stm32/stop.c hal/stm32/rtc_calendar.c hal/stm32/rtc_wakeup.c
