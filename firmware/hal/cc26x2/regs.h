/* Registers of the CC26x2 that the bench touches, and entry points in its ROM. TI SWCU185: memory map, PRCM 8, IOC 15,
   GPIO 16, UART 22, AUX 20; the oscillator interface (DDI_0_OSC) and the ROM's tables as in TI's driverlib for these
   chips (hw_ddi_0_osc.h, rom.h). */
#ifndef REGS_H
#define REGS_H

#include "core.h"

#define PRCM_CLKLOADCTL REG(0x40082028u)
#define PRCM_CLKLOADCTL_LOAD (1u << 0)
#define PRCM_CLKLOADCTL_LOAD_DONE (1u << 1)
#define PRCM_GPIOCLKGR REG(0x40082048u)
#define PRCM_UARTCLKGR REG(0x4008206Cu)
#define PRCM_UARTCLKGR_UART0 (1u << 0)
#define PRCM_PDCTL0SERIAL REG(0x40082134u)
#define PRCM_PDCTL0PERIPH REG(0x40082138u)
#define PRCM_PDSTAT0SERIAL REG(0x40082148u)
#define PRCM_PDSTAT0PERIPH REG(0x4008214Cu)
#define PRCM_PDCTL1VIMS REG(0x4008218Cu)

#define IOC_CFG(dio) REG(0x40081000u + 4u * (dio))
#define IOC_PORT_GPIO 0x00u
#define IOC_PORT_UART0_RX 0x0Fu
#define IOC_PORT_UART0_TX 0x10u
#define IOC_PULL_UP (2u << 13)
#define IOC_PULL_NONE (3u << 13)
#define IOC_INPUT (1u << 29)

#define GPIO_DOUTSET REG(0x40022090u)
#define GPIO_DOUTCLR REG(0x400220A0u)
#define GPIO_DOE REG(0x400220D0u)

/* PL011. */
#define UART0_DR REG(0x40001000u)
#define UART0_FR REG(0x40001018u)
#define UART_FR_BUSY (1u << 3)
#define UART_FR_RXFE (1u << 4)
#define UART_FR_TXFF (1u << 5)
#define UART0_IBRD REG(0x40001024u)
#define UART0_FBRD REG(0x40001028u)
#define UART0_LCRH REG(0x4000102Cu)
#define UART_LCRH_FEN (1u << 4)
#define UART_LCRH_8_BITS (3u << 5)
#define UART0_CTL REG(0x40001030u)
#define UART_CTL_UARTEN (1u << 0)
#define UART_CTL_TXE (1u << 8)
#define UART_CTL_RXE (1u << 9)

#define FLASH_CFG REG(0x40030024u)
#define FLASH_CFG_DIS_STANDBY (1u << 1)
#define FLASH_CFG_DIS_EFUSECLK (1u << 5)

#define AUX_OPMODEREQ REG(0x400C6000u)
#define AUX_OPMODEACK REG(0x400C6004u)
#define AUX_OPMODE_MASK 3u
#define AUX_OPMODE_POWERDOWN_ACTIVE 2u

/* Oscillator interface. CTL0 is written by halves: mask above, data below; + 4 for its upper half. */
#define OSC_CTL0_MASKED_LOW REG(0x400CA400u)
#define OSC_CTL0_MASKED_HIGH REG(0x400CA404u)
#define OSC_CTL0_HIGH_DCDC_FROM_RCOSC (1u << 8) /* bit 24 */
#define OSC_CTL0 REG(0x400CA000u)
#define OSC_STAT0 REG(0x400CA03Cu)
#define OSC_STAT0_READY_TO_SWITCH (1u << 0)
#define OSC_STAT0_SCLK_HF_IS_XOSC (1u << 28)

#define FCFG1_REVISION REG(0x5000131Cu)

/* ROM: word 14 of the table of hard functions; tables of the oscillator and of the set-up. */
#define ROM_HAPI ((const uint32_t *)0x10000048u)
#define ROM_HAPI_SWITCH_HF 14u
#define ROM_API ((const uint32_t *const *)0x10000180u)
#define ROM_API_OSCILLATOR 24u
#define ROM_OSCILLATOR_SET_SOURCE 1u
#define ROM_SOURCE_OF_HF 1u
#define ROM_XOSC_HF 1u
#define ROM_API_SETUP 28u
#define ROM_SETUP_TRIM_1 0u
#define ROM_SETUP_TRIM_2 1u
#define ROM_SETUP_TRIM_3 2u
#define ROM_SETUP_CACHE 18u

#endif
