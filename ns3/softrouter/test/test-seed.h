// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_TEST_SEED_H
#define SOFTROUTER_TEST_SEED_H

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace ns3
{

/**
 * \ingroup softrouter-tests
 * \brief Gets a seed for random input, and prints it: PERIGEE_FUZZ_SEED repeats a run.
 * \param test whose seed it is
 * \return the seed
 */
inline uint32_t
GetTestSeed(const std::string& test)
{
    const char* wanted = std::getenv("PERIGEE_FUZZ_SEED");
    const uint32_t seed =
        wanted ? static_cast<uint32_t>(std::strtoul(wanted, nullptr, 10)) : std::random_device()();
    std::cout << test << ": seed " << seed << std::endl;
    return seed;
}

/**
 * \ingroup softrouter-tests
 * \brief Gets how many rounds of random input to try: PERIGEE_FUZZ multiplies them.
 * \param rounds how many without it
 * \return how many
 */
inline uint32_t
GetTestRounds(uint32_t rounds)
{
    const char* factor = std::getenv("PERIGEE_FUZZ");
    const unsigned long times = factor ? std::strtoul(factor, nullptr, 10) : 1;
    return rounds * static_cast<uint32_t>(times > 0 ? times : 1);
}

} // namespace ns3

#endif // SOFTROUTER_TEST_SEED_H
