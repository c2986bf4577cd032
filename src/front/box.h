/* box.h: what the box adds to a connection. */
#ifndef SP_FRONT_BOX_H
#define SP_FRONT_BOX_H

#include "front.h"

/* stream.c */
void stream_message(struct conn *c, const struct sp_msg *m, struct sp_frame *f);

/* boxroute.c */
void box_route(struct conn *c);
/* USAGE and REMOVE. */
void box_message(struct conn *c, const struct sp_msg *m);
/* A descriptor came for a path: true if the address wants the other kind, and was told so. */
bool box_wrong_kind(struct conn *c, bool listing);

/* All as JSON strings, a comma between. Bytes written. */
size_t box_routes(char *out, size_t cap);

/* A line for the request at hand, before it is freed; status 0: it got no answer. */
void box_log(struct conn *c, int status);

/* boxinfo.c: what the box says of itself */
void box_capabilities(struct conn *c);
void box_ready(struct conn *c);
/* /ready's command is over. */
void box_probed(struct conn *c, bool well);
/* Whoever asked is gone before it was. */
void box_probe_dropped(struct conn *c);

#endif
