/* terms.h: the conditions of a request on what is at its path (If-Match and its like), and the turn
 * of those who look and then act by what they saw. */
#ifndef SALLYPORT_CELL_TERMS_H
#define SALLYPORT_CELL_TERMS_H

#include "cell/files.h"

struct sp_terms {
    uint8_t flags; /* SP_IF_*; 0: none, and the rest says nothing */
    int64_t latest_ns;
    char tags[SP_TAGS_MAX + 1], none[SP_TAGS_MAX + 1];
};

/* What m asks for; its decoder bounds it. */
void sp_terms_set(struct sp_terms *t, const struct sp_msg *m);
/* path leads to `there`, or to nothing where that is false; a link itself, if it is one. SP_OK, or
 * SP_E_PRECONDITION_FAILED. */
enum sp_err sp_terms_check(const struct sp_terms *t, const struct sp_workspace *w, const char *path,
                           size_t n, bool there, const struct stat *st);
/* Of two requests with the same If-Match only one can win. Against a running command there is no
 * such promise. */
void sp_turn_take(void);
void sp_turn_end(void);

#endif
