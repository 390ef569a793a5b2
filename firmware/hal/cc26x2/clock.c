/* Clock of the CC26x2: 48 MHz from the crystal (XOSC_HF), or from RCOSC_HF, on which the chip starts. There is no other
   core clock: the divider before the CPU is reserved for TI's software (SWCU185, PRCM).

   The crystal oscillator works only with the trim that TI stored in the chip, and the switch must not be executed from
   flash: both are done by functions in ROM. The order of steps is that of TI's start-up code: cache mode, trim in three
   parts, AUX domain to power-down, crystal on, switch when ready. Left out of it: the trim of the low-power comparator,
   the real-time clock, and what concerns waking from standby or shutdown. Never run on silicon. */
#include "board.h"
#include "configuration.h"
#include "parts.h"
#include "regs.h"

#define RCOSC_HZ 48000000u

_Static_assert(BOARD_CLOCK_HZ == 48000000u, "CLOCK: the CC26x2 runs at 48 MHz only");

static void rom_setup(uint32_t function, uint32_t first, uint32_t second) {
    ((void (*)(uint32_t, uint32_t))ROM_API[ROM_API_SETUP][function])(first, second);
}

static void trim(void) {
    FLASH_CFG &= ~FLASH_CFG_DIS_STANDBY;
    rom_setup(ROM_SETUP_CACHE, 0, 0);
    /* The DC/DC converter stays on RCOSC_HF until the crystal is the source: it would miss a clock that stops. */
    OSC_CTL0_MASKED_HIGH = OSC_CTL0_HIGH_DCDC_FROM_RCOSC << 16 | OSC_CTL0_HIGH_DCDC_FROM_RCOSC;
    (void)OSC_CTL0;
    uint32_t revision = FCFG1_REVISION;
    rom_setup(ROM_SETUP_TRIM_1, CCFG_MODE_CONF, 0);
    rom_setup(ROM_SETUP_TRIM_2, revision == 0xFFFFFFFFu ? 0 : revision, CCFG_MODE_CONF);
    rom_setup(ROM_SETUP_TRIM_3, CCFG_MODE_CONF, 0);
    AUX_OPMODEREQ = AUX_OPMODE_POWERDOWN_ACTIVE;
    wait_for(&AUX_OPMODEACK, AUX_OPMODE_MASK, AUX_OPMODE_POWERDOWN_ACTIVE);
    FLASH_CFG |= FLASH_CFG_DIS_EFUSECLK;
    PRCM_PDCTL1VIMS = 0;
}

static int start_crystal(void) {
    ((void (*)(uint32_t, uint32_t))ROM_API[ROM_API_OSCILLATOR][ROM_OSCILLATOR_SET_SOURCE])(ROM_SOURCE_OF_HF,
                                                                                          ROM_XOSC_HF);
    if (!wait_for(&OSC_STAT0, OSC_STAT0_READY_TO_SWITCH, OSC_STAT0_READY_TO_SWITCH)) {
        return 0;
    }
    ((void (*)(void))ROM_HAPI[ROM_HAPI_SWITCH_HF])();
    OSC_CTL0_MASKED_HIGH = OSC_CTL0_HIGH_DCDC_FROM_RCOSC << 16;
    return (OSC_STAT0 & OSC_STAT0_SCLK_HF_IS_XOSC) != 0;
}

struct clock clock_start(void) {
    trim();
    const char *source = start_crystal() ? "crystal" : "internal";
    return (struct clock){RCOSC_HZ, RCOSC_HZ, source};
}
