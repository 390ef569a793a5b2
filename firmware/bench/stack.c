#include "stack.h"

#include "image.h"

#define PAINT 0xA5C3F00Du
/* Left alone below the caller's frame: what this function itself may use. */
#define MARGIN_WORDS 16

void stack_paint(void) {
    uint32_t *here = (uint32_t *)__builtin_frame_address(0) - MARGIN_WORDS;
    for (volatile uint32_t *word = image_stack_start; word < here; word++) {
        *word = PAINT;
    }
}

uint32_t stack_peak_bytes(void) {
    const volatile uint32_t *word = image_stack_start;
    while (word < image_stack_end && *word == PAINT) {
        word++;
    }
    return (uint32_t)((image_stack_end - word) * (int)sizeof(uint32_t));
}
