/* probe_ns.h: tries namespaces and views on this host. */
#ifndef SP_CONFINE_PROBE_NS_H
#define SP_CONFINE_PROBE_NS_H

#include "sallyport/confine.h"
#include "sallyport/view.h"

#include <stdio.h>

/* Whether a role started with ns could build its root: that of a cell, or the front's empty one. c
 * as the role would have it. 0, or -errno with the step in why. */
int sp_probe_ns(const struct sp_config *c, const struct sp_role_ns *ns, bool cell, char *why,
                size_t len);

#endif
