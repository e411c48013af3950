// SPDX-License-Identifier: GPL-2.0-only
// Runs the module's test suites where there is no ns-3 tree with its test-runner. Without --suite=
// (or another argument that says what to do) it runs them all, one after the other, as newer ns-3
// refuse to run more than one at a time.

#include "ns3/test.h"

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace
{

/// Runs ns-3's test runner with these arguments.
int
Run(const char* program, std::vector<std::string> arguments)
{
    std::vector<char*> argv{const_cast<char*>(program)};
    for (std::string& argument : arguments)
    {
        argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    return ns3::TestRunner::Run(static_cast<int>(argv.size() - 1), argv.data());
}

/// The names of all suites, which ns-3 only prints.
std::vector<std::string>
GetSuites(const char* program)
{
    std::stringstream text;
    std::streambuf* screen = std::cout.rdbuf(text.rdbuf());
    Run(program, {"--list"});
    std::cout.rdbuf(screen);
    std::vector<std::string> suites;
    for (std::string name; text >> name;)
    {
        suites.push_back(name);
    }
    return suites;
}

} // namespace

int
main(int argc, char* argv[])
{
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    for (const std::string& argument : arguments)
    {
        if (argument != "--verbose" && argument != "--stop-on-failure" &&
            argument.find("--fullness=") != 0)
        {
            return Run(argv[0], arguments);
        }
    }
    int failed = 0;
    for (const std::string& suite : GetSuites(argv[0]))
    {
        std::vector<std::string> one = arguments;
        one.push_back("--suite=" + suite);
        failed += Run(argv[0], one) == 0 ? 0 : 1;
    }
    return failed == 0 ? 0 : 1;
}
