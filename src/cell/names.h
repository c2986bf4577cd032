/* names.h: the names of one folder, to be gone through in order. Names are bytes that commands
 * chose. */
#ifndef SALLYPORT_CELL_NAMES_H
#define SALLYPORT_CELL_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct sp_names {
    char *text; /* one type byte (DT_*), the name, a NUL; one after the other */
    size_t used, cap;
    struct sp_name {
        uint32_t at; /* of its type byte in text */
        uint32_t nr; /* the how-manieth was added, from 0 */
    } * name;
    size_t count, room;
};

/* 0, -ENOMEM, or -E2BIG: more than fits in 32-bit places. All zero is an empty set. */
int sp_names_add(struct sp_names *s, unsigned char type, const char *name);
void sp_names_sort(struct sp_names *s); /* by bytes */
const char *sp_names_get(const struct sp_names *s, size_t i, unsigned char *type);
size_t sp_names_memory(const struct sp_names *s);
void sp_names_free(struct sp_names *s); /* and empties it */

#endif
