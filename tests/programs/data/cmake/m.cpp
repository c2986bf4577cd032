// An exception that crosses a thread.
#include <future>
#include <iostream>
#include <stdexcept>

void raise_it();

int main()
{
    auto f = std::async(std::launch::async, [] {
        raise_it();
        return 1;
    });
    try {
        f.get();
    } catch (const std::exception &e) {
        std::cout << e.what() << '\n';
    }
}
