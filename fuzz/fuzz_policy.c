/* fuzz_policy.c: the filters' text parser: any text is accepted or refused with a line. */
#include "sallyport/confine.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_policy_error e = {0};
    if (sp_policy_check((const char *)data, size, &e) != 0 && e.text[0] == '\0')
        abort();
    return 0;
}
