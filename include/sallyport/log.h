/* log.h: one line a message on stderr, "<time> <role> <level> <text>" or an object of JSON, written
 * with one write(2) so that processes don't mix. What could end a line, move a terminal's cursor or
 * turn text around is escaped: what a client sent can't forge a line. */
#ifndef SALLYPORT_LOG_H
#define SALLYPORT_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum sp_log_level { SP_LOG_ERROR, SP_LOG_WARN, SP_LOG_INFO, SP_LOG_DEBUG };

/* role: a literal. level: messages above it are dropped. */
void sp_log_init(const char *role, enum sp_log_level level);
__attribute__((format(printf, 2, 3))) void sp_log(enum sp_log_level l, const char *fmt, ...);

/* From here on every line is a JSON object with time, role, level and message. */
void sp_log_as_json(bool on);

/* One request. The strings are our own words; identity has the first digits of a key, "" for none.
 */
struct sp_log_request {
    uint64_t id;
    const char *method, *route, *identity;
    int status; /* 0: no answer */
    uint64_t bytes, duration_us;
};
void sp_log_request(const struct sp_log_request *r);

#endif
