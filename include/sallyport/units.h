/* units.h: reads numbers with units from settings and policies. Strict: the whole
 * string must be used, no sign, no white space, no overflow. */
#ifndef SALLYPORT_UNITS_H
#define SALLYPORT_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* Decimal digits only. */
bool sp_parse_u64(const char *s, uint64_t *out);
/* A fraction has at most nine digits and is rounded down; what is over 0 but would become 0 is
 * refused, since 0 often means "no limit". Letters: case matters but for k m g t of sizes. */
/* "250ms" "30" (seconds) "1.5s" "2m" "1h" "1d"; in milliseconds. */
bool sp_parse_duration_ms(const char *s, uint64_t *out);
/* "4096" "64k" "64KiB" "1.5M" "16MiB" "2g" "1GiB" "500kB" (SI where 'B' without 'i': kB=1000;
 * a lone letter is binary); in bytes. */
bool sp_parse_size(const char *s, uint64_t *out);
/* "2" "1.5" "0.25"; in thousandths. */
bool sp_parse_thousandths(const char *s, uint64_t *out);
/* "1 0 true false yes no on off", any case. */
bool sp_parse_bool(const char *s, bool *out);

#endif
