/* The two edges: one store each, in functions that begin a flash line, so that both cost the same in every image. */
#include "board.h"
#include "hal.h"
#include "regs.h"

__attribute__((noinline, aligned(32))) void hal_trigger_high(void) {
    PIN_HIGH(BOARD_TRIGGER_GPIO, BOARD_TRIGGER_PIN);
}

__attribute__((noinline, aligned(32))) void hal_trigger_low(void) {
    PIN_LOW(BOARD_TRIGGER_GPIO, BOARD_TRIGGER_PIN);
}
