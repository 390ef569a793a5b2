#include "random.h"

static uint32_t state = 0x6C616263u;

uint32_t random_word(void) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

int random_bytes(void *unused, unsigned char *out, size_t n) {
    (void)unused;
    for (size_t i = 0; i < n; i++) {
        out[i] = (unsigned char)(random_word() >> 24);
    }
    return 0;
}
