/* log.h: one line a message on stderr, "<time> <role> <level> <text>", written with one
 * write(2) so that processes don't mix. Control characters in the text are escaped: what
 * a client sent can't forge a line. */
#ifndef SALLYPORT_LOG_H
#define SALLYPORT_LOG_H

enum sp_log_level { SP_LOG_ERROR, SP_LOG_WARN, SP_LOG_INFO, SP_LOG_DEBUG };

/* role: a literal. level: messages above it are dropped. */
void sp_log_init(const char *role, enum sp_log_level level);
__attribute__((format(printf, 2, 3))) void sp_log(enum sp_log_level l, const char *fmt, ...);

#endif
