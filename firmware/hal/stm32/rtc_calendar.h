/* The RTC with a calendar: RM0091 25, RM0090 26, RM0410 29, "RTC registers". */
#ifndef RTC_CALENDAR_H
#define RTC_CALENDAR_H

#include "core.h"

#define RTC_CR REG(0x40002808u)
#define RTC_CR_WUCKSEL_MASK 7u
#define RTC_CR_WUCKSEL_HALF 3u /* the LSI over 2 */
#define RTC_CR_BYPSHAD (1u << 5)
#define RTC_CR_ALRAE (1u << 8)
#define RTC_CR_WUTE (1u << 10)
#define RTC_CR_ALRAIE (1u << 12)
#define RTC_CR_WUTIE (1u << 14)
#define RTC_ISR REG(0x4000280Cu)
#define RTC_ISR_ALRAWF (1u << 0)
#define RTC_ISR_WUTWF (1u << 2)
#define RTC_ISR_INITF (1u << 6)
#define RTC_ISR_INIT (1u << 7)
#define RTC_ISR_ALRAF (1u << 8)
#define RTC_ISR_WUTF (1u << 10)
#define RTC_PRER REG(0x40002810u)
#define RTC_WUTR REG(0x40002814u)
#define RTC_ALRMAR REG(0x4000281Cu)
#define RTC_ALRMAR_ANY 0x80808080u /* neither seconds, minutes, hours nor date need match */
#define RTC_WPR REG(0x40002824u)
#define RTC_SSR REG(0x40002828u)
#define RTC_ALRMASSR REG(0x40002844u)
#define RTC_ALRMASSR_ALL (15u << 24) /* all 15 bits of the sub-seconds must */
#define RTC_TICKS_MASK 0x7FFFu

#endif
