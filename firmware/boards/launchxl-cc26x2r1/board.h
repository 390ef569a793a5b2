/* LAUNCHXL-CC26X2R1: 48 MHz crystal, free header pin DIO21, UART0 on DIO3/DIO2 to the XDS110 (TI SWRU528). */
#ifndef BOARD_H
#define BOARD_H

#define BOARD_NAME "launchxl-cc26x2r1"

#define BOARD_TRIGGER_DIO 21u

#define BOARD_SERIAL_TX_DIO 3u
#define BOARD_SERIAL_RX_DIO 2u
#define BOARD_SERIAL_BAUD 115200u

#endif
