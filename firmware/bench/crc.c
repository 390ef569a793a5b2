#include "crc.h"

uint16_t crc16_add(uint16_t crc, uint8_t byte) {
    crc = (uint16_t)(crc ^ (byte << 8));
    for (int bit = 0; bit < 8; bit++) {
        crc = (uint16_t)(crc << 1 ^ ((crc & 0x8000u) ? 0x1021 : 0));
    }
    return crc;
}

uint32_t crc32_add(uint32_t crc, const uint8_t *data, size_t n) {
    crc = ~crc;
    while (n--) {
        crc ^= *data++;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 1u) ? (crc >> 1) ^ 0xEDB88320u : crc >> 1;
        }
    }
    return ~crc;
}
