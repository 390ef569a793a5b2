/* Customer configuration, the words that the program needs too. */
#ifndef CONFIGURATION_H
#define CONFIGURATION_H

/* MODE_CONF: DC/DC converter in use; low-frequency clock from RCOSC_LF; 48 MHz crystal, its capacitors as trimmed by
   TI; at least 5.8 uF at VDDR; the rest as TI's own default (SWCU185, CCFG). */
#define CCFG_MODE_CONF 0xF3FBFF3Au

#endif
