/* CRC-16/CCITT-FALSE guards the lines, CRC-32 (IEEE 802.3) the outputs. Of "123456789": 0x29B1 and 0xCBF43926. */
#ifndef CRC_H
#define CRC_H

#include <stddef.h>
#include <stdint.h>

#define CRC16_START 0xFFFFu
uint16_t crc16_add(uint16_t crc, uint8_t byte);
uint32_t crc32_add(uint32_t crc, const uint8_t *data, size_t n); /* starts from 0 */

#endif
