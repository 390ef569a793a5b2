/* Where things lie on the STM32F76x/77x, and what is cached: code and constants in flash at 0x0800 0000, the AXIM
   interface, by the core's instruction and data cache (16 KiB each; the flash's own ART accelerator serves the ITCM
   interface only, RM0410 3.3.2, and stays off). RAM begins with the 128 KiB of DTCM, which no cache is in front of:
   stack, data and the first part of the heap. What lies behind it, in SRAM1 and SRAM2, goes by the data cache. */
#include "cache.h"

#include "regs.h"

#define BARRIER() __asm volatile("dsb\n\tisb" ::: "memory")

/* Contents are undefined after a reset: each line is invalidated, set by set and way by way (ARM DDI 0403 B2.2.7). */
static void invalidate_data(void) {
    SCB_CSSELR = 0;
    BARRIER();
    uint32_t sizes = SCB_CCSIDR;
    uint32_t last_set = sizes >> 13 & 0x7FFFu;
    uint32_t last_way = sizes >> 3 & 0x3FFu;
    uint32_t set_shift = (sizes & 7u) + 4u;
    uint32_t way_shift = last_way == 0 ? 0 : (uint32_t)__builtin_clz(last_way);
    for (uint32_t set = 0; set <= last_set; set++) {
        for (uint32_t way = 0; way <= last_way; way++) {
            SCB_DCISW = set << set_shift | way << way_shift;
        }
    }
}

void cache_start(void) {
    BARRIER();
    SCB_ICIALLU = 0;
    BARRIER();
    SCB_CCR |= SCB_CCR_IC;
    BARRIER();
    invalidate_data();
    BARRIER();
    SCB_CCR |= SCB_CCR_DC;
    BARRIER();
}
