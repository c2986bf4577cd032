/* test_http_accept.c: which Accept values ask for server-sent events. */
#include "unit.h"

#include "sallyport/http.h"

static const struct {
    struct sp_slice value;
    bool events;
} cases[] = {
    {{NULL, 0}, false},
    {SLICE(""), false},
    {SLICE("*/*"), false},
    {SLICE("text/*"), false},
    {SLICE("application/json"), false},
    {SLICE("text/event-stream"), true},
    {SLICE("Text/Event-Stream"), true},
    {SLICE(" text/event-stream "), true},
    {SLICE("text/event-stream, */*"), true},
    {SLICE("*/*,text/event-stream"), true},
    {SLICE(",, text/event-stream ,"), true},
    {SLICE("application/json, text/event-stream"), true},
    {SLICE("application/json;q=0.5, text/event-stream"), true},
    {SLICE("application/json, text/event-stream;q=0.5"), false},
    {SLICE("application/json;q=0.5, text/event-stream;q=0.5"), true},
    {SLICE("application/json;q=0.501, text/event-stream;q=0.5"), false},
    {SLICE("text/event-stream;q=0"), false},
    {SLICE("text/event-stream;q=0.000"), false},
    {SLICE("text/event-stream;q=0.001"), true},
    {SLICE("text/event-stream;q=1.000"), true},
    {SLICE("text/event-stream;q=1.001"), false},
    {SLICE("text/event-stream; charset=utf-8 ; q=1"), true},
    {SLICE("text/event-stream;Q=1"), true},
    {SLICE("text/event-stream;q"), false},
    {SLICE("text/event-stream;q="), false},
    {SLICE("text/event-stream;q=2"), false},
    {SLICE("text/event-stream;q=-1"), false},
    {SLICE("text/event-stream;q=0.0001"), false},
    {SLICE("text/event-stream;q=a"), false},
    {SLICE("text/event-stream;q=11"), false},
    {SLICE("text/event-streams"), false},
    {SLICE("text/event-strea"), false},
    {SLICE("text/event-stream\xff"), false},
    {SLICE(";q=1"), false},
};

START_TEST(test_asks_for_events)
{
    for (size_t i = 0; i < COUNT(cases); i++)
        ck_assert_msg(sp_accept_events(cases[i].value) == cases[i].events, "%.*s",
                      (int)cases[i].value.n, cases[i].value.n > 0 ? cases[i].value.p : "");
}
END_TEST

UNIT_MAIN("http_accept", test_asks_for_events)
