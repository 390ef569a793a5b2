/* Stop mode and the way out of it: PWR, backup domain, EXTI. RM0041, RM0091, RM0090, RM0410, the chapters of that name;
   the bits are the same in all four. regs.h says where RCC and EXTI lie. */
#ifndef STOP_H
#define STOP_H

#include "core.h"

#define PWR_CR REG(0x40007000u)
#define PWR_CR_LPDS (1u << 0)
#define PWR_CR_PDDS (1u << 1)
#define PWR_CR_CWUF (1u << 2)
#define PWR_CR_DBP (1u << 8)

#define RCC_CSR_LSION (1u << 0)
#define RCC_CSR_LSIRDY (1u << 1)
#define RCC_BDCR_RTCSEL_MASK (3u << 8)
#define RCC_BDCR_RTCSEL_LSI (2u << 8)
#define RCC_BDCR_RTCEN (1u << 15)
#define RCC_BDCR_BDRST (1u << 16)

#define EXTI_IMR REG(EXTI + 0x00u)
#define EXTI_RTSR REG(EXTI + 0x08u)
#define EXTI_PR REG(EXTI + 0x14u)

/* The family's real-time clock, which the LSI drives. */
int rtc_start(void);               /* set up and counting; 0 where it does not answer */
uint32_t rtc_ticks(void);          /* counted, modulo RTC_TICKS_MASK + 1 */
void rtc_wake_in(uint32_t ticks);  /* raises its line so many ticks from now, at least 4 */
void rtc_wake_off(void);           /* and not again */

#endif
