# STM32F100 value line.
FAMILY_SOURCES := hal/stm32f1/hal.c hal/stm32f1/startup.c
