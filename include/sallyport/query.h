/* query.h: the query of a request target as named values, strict (RFC 3986 3.4, and the form
 * encoding's '&', '=' and '+'). All input is a stranger's. Nothing allocates.
 *
 * A parameter is NAME=VALUE, or NAME alone, whose value is empty. Both are percent-decoded once,
 * and
 * '+' is a blank, as every form encoder means it. Names are valid UTF-8, not empty, and come at
 * most once: two readers could each take another one of two. Values are any bytes but NUL. */
#ifndef SALLYPORT_QUERY_H
#define SALLYPORT_QUERY_H

#include "sallyport/http.h"

#define SP_QUERY_MAX 32u /* parameters */

enum sp_query_error {
    SP_QUERY_OK = 0,
    SP_QUERY_TOO_LONG, /* over SP_LINE_MAX bytes, or SP_QUERY_MAX parameters */
    SP_QUERY_BAD_CHAR, /* a raw byte that a query can't have */
    SP_QUERY_BAD_ESCAPE,
    SP_QUERY_NUL,
    SP_QUERY_NO_NAME, /* "=v", "a&&b", an '&' at either end */
    SP_QUERY_NOT_UTF8,
    SP_QUERY_REPEATED,
    SP_QUERY_ERROR_COUNT
};

struct sp_query {
    size_t n;
    struct {
        struct sp_slice name, value;
        bool has_value; /* there was a '=' */
    } param[SP_QUERY_MAX];
    char text[SP_LINE_MAX]; /* what the slices borrow */
};

/* in: without the '?'. Empty is fine: no parameter. On an error q->n is 0. */
enum sp_query_error sp_query_parse(struct sp_slice in, struct sp_query *q);
/* A sentence for people; ends in '.'. */
const char *sp_query_error_text(enum sp_query_error e);

/* The value, or p NULL where there is no such parameter. */
struct sp_slice sp_query_get(const struct sp_query *q, const char *name);
/* The first parameter that isn't among names (NULL-terminated); p NULL: all are. What nobody
 * reads must be refused: it would be ignored in silence. */
struct sp_slice sp_query_stranger(const struct sp_query *q, const char *const *names);
/* "true" "false" "1" "0"; absent: *val is left alone. False for any other value. */
bool sp_query_flag(const struct sp_query *q, const char *name, bool *val);
/* 1*DIGIT from min to max; absent: *val is left alone. False for any other value. */
bool sp_query_number(const struct sp_query *q, const char *name, uint64_t min, uint64_t max,
                     uint64_t *val);

#endif
