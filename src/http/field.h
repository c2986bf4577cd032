/* field.h: what the header fields of one request mean, gathered line by line. Private to
 * src/http. All input is a stranger's. */
#ifndef SP_HTTP_FIELD_H
#define SP_HTTP_FIELD_H

#include "sallyport/http.h"

struct sp_fields {
    struct sp_head *h;
    uint32_t seen; /* one bit a known field */
    unsigned count;
    bool chunked, close, keep_alive; /* as the fields said */
    bool expect, expect_known;
};

/* One line without its CRLF: "name:value". False: *err is set. */
bool sp_field_line(struct sp_fields *f, struct sp_slice line, enum sp_err *err);
/* After the last line, with h->minor set: the rules between fields. Fills what is left of h. */
bool sp_fields_finish(struct sp_fields *f, enum sp_err *err);

#endif
