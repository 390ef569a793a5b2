/* Where the tables of own ciphers lie: in flash, or with TABLES=ram copied to RAM at start-up (mbedTLS: then it computes
 * its AES tables in RAM at the first key). `TABLE(uint8_t, sbox, 256) = {...};` */
#ifndef TABLES_H
#define TABLES_H

#ifdef TABLES_RAM
/* `used` keeps the compiler from finding that nothing writes it and moving it back to flash. */
#define TABLE(type, name, n) static type name[n] __attribute__((section(".data.table." #name), used))
#else
#define TABLE(type, name, n) static const type name[n]
#endif

#endif
