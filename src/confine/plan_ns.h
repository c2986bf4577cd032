/* plan_ns.h: between plan.c and plan_ns.c. */
#ifndef SP_CONFINE_PLAN_NS_H
#define SP_CONFINE_PLAN_NS_H

#include "sallyport/confine.h"

/* Fills the layers view, pid-ns, ipc-ns, net-ns and front-root, and what of c follows from them. */
void sp_plan_namespaces(struct sp_plan *p, struct sp_config *c, const bool off[SP_LAYER_COUNT]);
/* What an operator can do about each layer that is off. */
void sp_plan_fixes(struct sp_plan *p, const struct sp_config *c);

#endif
