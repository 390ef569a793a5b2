/* Vector table, memory set-up and the place where a fault ends. */
#include <stdint.h>

#include "hal.h"
#include "image.h"
#include "parts.h"
#include "stack.h"

int main(void);
__attribute__((noreturn)) void reset_handler(void);

/* A fault ends here: trigger low, asleep, silent. The host sees a time-out, and a debugger the frame. */
void fault_handler(void) {
    hal_trigger_low();
    for (;;) {
        __asm volatile("wfi");
    }
}

void reset_handler(void) {
    __asm volatile("cpsid i" ::: "memory");
    uint32_t *from = image_data_load;
    for (uint32_t *to = image_data_start; to < image_data_end; to++) {
        *to = *from++;
    }
    for (uint32_t *to = image_bss_start; to < image_bss_end; to++) {
        *to = 0;
    }
    stack_paint();
    main();
    fault_handler();
}

/* PRIMASK stays set and no interrupt is ever enabled: the sixteen system entries are all that can be taken
   (ARM DDI 0403 B1.5.3). */
__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    image_stack_end, reset_handler, fault_handler, fault_handler, fault_handler, fault_handler,
    fault_handler,   fault_handler, fault_handler, fault_handler, fault_handler, fault_handler,
    fault_handler,   fault_handler, fault_handler, fault_handler,
};
