/* sanitize.h: LeakSanitizer looks for leaks at exit by ptrace, from a thread of its own and with
 * /proc. A confined process can't, and would fail for it: so it says that it is confined. */
#ifndef SP_CONFINE_SANITIZE_H
#define SP_CONFINE_SANITIZE_H

#ifdef SP_SANITIZE
void sp_sanitizer_confined(void);
#else
static inline void sp_sanitizer_confined(void)
{
}
#endif

#endif
