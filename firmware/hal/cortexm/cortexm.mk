# What every family with a Cortex-M core is built from; a family adds its own.
CORTEXM_SOURCES := hal/cortexm/startup.c hal/cortexm/setup.c hal/cortexm/sleep.c hal/cortexm/busy.c
