/* Power domains, clock gates and pins of the CC26x2. */
#include "board.h"
#include "hal.h"
#include "parts.h"
#include "regs.h"

/* GPIO lies in the domain PERIPH, UART0 in SERIAL; clock gates take effect when they are loaded (SWCU185 8.5). A write
   to a domain without power would fault, so this waits for as long as it takes. */
static void power_on(void) {
    PRCM_PDCTL0SERIAL = 1;
    PRCM_PDCTL0PERIPH = 1;
    while (!(PRCM_PDSTAT0SERIAL & 1u) || !(PRCM_PDSTAT0PERIPH & 1u)) {
    }
    PRCM_GPIOCLKGR = 1;
    PRCM_UARTCLKGR = PRCM_UARTCLKGR_UART0;
    PRCM_CLKLOADCTL = PRCM_CLKLOADCTL_LOAD;
    while (!(PRCM_CLKLOADCTL & PRCM_CLKLOADCTL_LOAD_DONE)) {
    }
}

void pins_start(void) {
    power_on();
    hal_trigger_low();
    GPIO_DOE |= 1u << BOARD_TRIGGER_DIO;
    IOC_CFG(BOARD_TRIGGER_DIO) = IOC_PORT_GPIO | IOC_PULL_NONE;
    IOC_CFG(BOARD_SERIAL_TX_DIO) = IOC_PORT_UART0_TX | IOC_PULL_NONE;
    /* Receives with its pull-up, so that an absent adapter is an idle line. */
    IOC_CFG(BOARD_SERIAL_RX_DIO) = IOC_PORT_UART0_RX | IOC_PULL_UP | IOC_INPUT;
}

/* One store each, in functions that begin a flash line, so that both cost the same in every image. */
__attribute__((noinline, aligned(32))) void hal_trigger_high(void) {
    GPIO_DOUTSET = 1u << BOARD_TRIGGER_DIO;
}

__attribute__((noinline, aligned(32))) void hal_trigger_low(void) {
    GPIO_DOUTCLR = 1u << BOARD_TRIGGER_DIO;
}
