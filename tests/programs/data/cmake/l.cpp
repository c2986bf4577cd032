// An exception that crosses a shared library.
#include <stdexcept>

void raise_it()
{
    throw std::runtime_error("thrown");
}
