/* The customer configuration: 22 words that the boot code in ROM reads (SWCU185, device configuration, CCFG). */
#include "configuration.h"

#include <stdint.h>

__attribute__((section(".ccfg"), used)) static const uint32_t customer_configuration[22] = {
    0x01800000u,    /* EXT_LF_CLK: unused */
    0xFF800010u,    /* MODE_CONF_1: DC/DC down to 2.25 V, crystal starts within 1.6 ms */
    0x0058FFFFu,    /* SIZE_AND_DIS_FLAGS: 88 bytes; the 8 KiB stay cache; no alternative DC/DC setting, no overrides */
    CCFG_MODE_CONF, /* MODE_CONF */
    0xFFFFFFFFu,    /* VOLT_LOAD_0 */
    0xFFFFFFFFu,    /* VOLT_LOAD_1 */
    0xFFFFFFFFu,    /* RTC_OFFSET */
    0xFFFFFFFFu,    /* FREQ_OFFSET */
    0xFFFFFFFFu,    /* IEEE_MAC_0: TI's address */
    0xFFFFFFFFu,    /* IEEE_MAC_1 */
    0xFFFFFFFFu,    /* IEEE_BLE_0 */
    0xFFFFFFFFu,    /* IEEE_BLE_1 */
    0x00FFFFFFu,    /* BL_CONFIG: no boot loader by pin */
    0xFFFFFFFFu,    /* ERASE_CONF: erasing allowed */
    0xFFFFFF00u,    /* CCFG_TI_OPTIONS: TI's failure analysis locked */
    0xFFC5C500u,    /* CCFG_TAP_DAP_0: debugger and power profiler allowed */
    0xFF000000u,    /* CCFG_TAP_DAP_1 */
    0x00000000u,    /* IMAGE_VALID_CONF: the vector table lies at 0 */
    0xFFFFFFFFu,    /* CCFG_PROT_31_0: nothing is write-protected */
    0xFFFFFFFFu,    /* CCFG_PROT_63_32 */
    0xFFFFFFFFu,    /* CCFG_PROT_95_64 */
    0xFFFFFFFFu,    /* CCFG_PROT_127_96 */
};
