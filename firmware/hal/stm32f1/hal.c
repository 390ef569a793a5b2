/* HAL of the STM32F100 value line. */
#include "hal.h"

#include "board.h"
#include "regs.h"

#define HSI_HZ 8000000u
/* Polls before a clock is given up: several cycles each at 8 MHz, so some 50 ms; the crystal needs about 2 ms
   (STM32F100RB data sheet, HSE start-up time), the PLL 0.2 ms. */
#define POLLS_MAX 50000u

static uint32_t clock_hz = HSI_HZ;
static const char *clock_source = "internal";

static int wait_for(volatile uint32_t *reg, uint32_t mask, uint32_t value) {
    for (uint32_t polls = 0; polls < POLLS_MAX; polls++) {
        if ((*reg & mask) == value) {
            return 1;
        }
    }
    return 0;
}

/* Runs the core from the PLL; leaves it on the 8 MHz internal oscillator where the PLL does not lock. */
static int start_pll(uint32_t source_and_factor) {
    RCC_CR &= ~RCC_CR_PLLON;
    /* All bus prescalers 1: AHB, APB1 and APB2 may run at 24 MHz (RM0041 6.2). */
    RCC_CFGR = source_and_factor;
    RCC_CR |= RCC_CR_PLLON;
    if (!wait_for(&RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY)) {
        return 0;
    }
    RCC_CFGR |= RCC_CFGR_SW_PLL;
    return wait_for(&RCC_CFGR, RCC_CFGR_SWS_MASK, RCC_CFGR_SWS_PLL);
}

static void setup_clock(void) {
    /* The value line has no wait states up to 24 MHz; half-cycle access is for slow clocks without PLL only. */
    FLASH_ACR &= ~FLASH_ACR_HLFCYA;
    RCC_CR |= RCC_CR_HSEON;
    if (wait_for(&RCC_CR, RCC_CR_HSERDY, RCC_CR_HSERDY) &&
        start_pll(RCC_CFGR_PLLSRC_CRYSTAL | RCC_CFGR_PLLMUL(BOARD_PLL_FACTOR))) {
        clock_hz = BOARD_CRYSTAL_HZ * BOARD_PLL_FACTOR;
        clock_source = "crystal";
    } else {
        RCC_CR &= ~RCC_CR_HSEON;
        if (start_pll(RCC_CFGR_PLLMUL(BOARD_PLL_FACTOR_INTERNAL))) {
            clock_hz = HSI_HZ / 2u * BOARD_PLL_FACTOR_INTERNAL;
        }
    }
}

static void setup_pins(void) {
    RCC_APB2ENR |= RCC_APB2ENR_IOPA | BOARD_TRIGGER_GPIO_ENABLE | RCC_APB2ENR_USART1;
    hal_trigger_low();
    uint32_t shift = 4u * BOARD_TRIGGER_PIN;
    GPIO_CRL(BOARD_TRIGGER_GPIO) =
        (GPIO_CRL(BOARD_TRIGGER_GPIO) & ~(0xFu << shift)) | (GPIO_OUTPUT_50MHZ << shift);
    /* PA9 transmits; PA10 receives with its pull-up, so that an absent adapter is an idle line. */
    GPIO_BSRR(GPIOA_BASE) = 1u << 10;
    GPIO_CRH(GPIOA_BASE) =
        (GPIO_CRH(GPIOA_BASE) & ~0xFF0u) | (GPIO_ALTERNATE_50MHZ << 4) | (GPIO_INPUT_PULL << 8);
}

void hal_setup(void) {
    __asm volatile("cpsid i" ::: "memory");
    setup_clock();
    setup_pins();
    USART1_BRR = (clock_hz + BOARD_SERIAL_BAUD / 2u) / BOARD_SERIAL_BAUD;
    USART1_CR1 = USART_CR1_UE | USART_CR1_TE | USART_CR1_RE;
    SCB_DEMCR |= SCB_DEMCR_TRCENA;
    DWT_CYCCNT = 0;
    DWT_CTRL |= DWT_CTRL_CYCCNTENA;
}

uint32_t hal_clock_hz(void) {
    return clock_hz;
}

const char *hal_clock_source(void) {
    return clock_source;
}

uint32_t hal_cycles(void) {
    return DWT_CYCCNT;
}

uint8_t hal_read(void) {
    while (!(USART1_SR & USART_SR_RXNE)) {
    }
    return (uint8_t)USART1_DR;
}

void hal_write(uint8_t byte) {
    while (!(USART1_SR & USART_SR_TXE)) {
    }
    USART1_DR = byte;
}

void hal_flush(void) {
    while (!(USART1_SR & USART_SR_TC)) {
    }
}

__attribute__((noinline)) void hal_trigger_high(void) {
    GPIO_BSRR(BOARD_TRIGGER_GPIO) = 1u << BOARD_TRIGGER_PIN;
}

__attribute__((noinline)) void hal_trigger_low(void) {
    GPIO_BRR(BOARD_TRIGGER_GPIO) = 1u << BOARD_TRIGGER_PIN;
}

/* One stretch of sleep. The pending SysTick wakes WFI although PRIMASK is set, and no handler runs (ARM DDI 0403
   B1.5.19). DWT_CYCCNT may stand still while the core sleeps, so it is set from the SysTick afterwards. */
static void sleep_cycles(uint32_t cycles) {
    SYST_RVR = cycles - 1u;
    SYST_CVR = 0;
    SCB_ICSR = SCB_ICSR_PENDSTCLR;
    uint32_t start = DWT_CYCCNT;
    SYST_CSR = SYST_CSR_ENABLE | SYST_CSR_TICKINT | SYST_CSR_CLKSOURCE;
    while (!(SYST_CSR & SYST_CSR_COUNTFLAG)) {
        __asm volatile("dsb\n\twfi" ::: "memory");
    }
    uint32_t since = cycles - SYST_CVR; /* the reload from 0 takes a tick of its own */
    DWT_CYCCNT = start + cycles + since;
    SYST_CSR = 0;
    SCB_ICSR = SCB_ICSR_PENDSTCLR;
    __asm volatile("dsb\n\tisb" ::: "memory");
}

void hal_sleep_us(uint32_t us) {
    uint32_t left = us * (clock_hz / 1000000u);
    while (left > 0) {
        /* Never leaves a remainder too short to sleep through. */
        uint32_t cycles = left > SYST_SPAN ? SYST_SPAN / 2u : left;
        sleep_cycles(cycles);
        left -= cycles;
    }
}

void hal_pause_cycles(uint32_t n) {
    if (n & 1u) {
        __asm volatile("nop");
    }
    if (n & 2u) {
        __asm volatile("nop\n\tnop");
    }
    hal_busy_loop(n / 4u + 1u);
}

__attribute__((noinline)) void hal_busy_loop(uint32_t rounds) {
    __asm volatile("1: subs %0, %0, #1\n\tbne 1b" : "+r"(rounds) : : "cc");
}
