/* Registers of the Cortex-M cores that the bench touches. ARM DDI 0403 (ARMv7-M), B3 and C1; the Cortex-M0 has the same
   SysTick and SCB (DDI 0419, B3), and no DWT cycle counter. */
#ifndef CORE_H
#define CORE_H

#include <stdint.h>

#define REG(address) (*(volatile uint32_t *)(address))

#define SYST_CSR REG(0xE000E010u)
#define SYST_CSR_ENABLE (1u << 0)
#define SYST_CSR_TICKINT (1u << 1)
#define SYST_CSR_CLKSOURCE (1u << 2)
#define SYST_CSR_COUNTFLAG (1u << 16)
#define SYST_RVR REG(0xE000E014u)
#define SYST_CVR REG(0xE000E018u)
#define SYST_SPAN (1u << 24)

#define SCB_ICSR REG(0xE000ED04u)
#define SCB_ICSR_PENDSTCLR (1u << 25)
#define SCB_SCR REG(0xE000ED10u)
#define SCB_SCR_SLEEPDEEP (1u << 2)
#define NVIC_ISER(irq) REG(0xE000E100u + 4u * ((irq) / 32u))
#define NVIC_ICER(irq) REG(0xE000E180u + 4u * ((irq) / 32u))
#define NVIC_ICPR(irq) REG(0xE000E280u + 4u * ((irq) / 32u))
#define NVIC_BIT(irq) (1u << ((irq) % 32u))
#define SCB_DEMCR REG(0xE000EDFCu)
#define SCB_DEMCR_TRCENA (1u << 24)

#define DWT_CTRL REG(0xE0001000u)
#define DWT_CTRL_CYCCNTENA (1u << 0)
#define DWT_CYCCNT REG(0xE0001004u)
#define DWT_LAR REG(0xE0001FB0u)
#define DWT_LAR_KEY 0xC5ACCE55u

/* The cycle counter as it is and as it shall be; nothing where the core has none. */
static inline uint32_t counter_get(void) {
#ifdef __ARM_ARCH_6M__
    return 0;
#else
    return DWT_CYCCNT;
#endif
}

static inline void counter_put(uint32_t cycles) {
#ifdef __ARM_ARCH_6M__
    (void)cycles;
#else
    DWT_CYCCNT = cycles;
#endif
}

#endif
