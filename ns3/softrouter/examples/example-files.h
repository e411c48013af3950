// SPDX-License-Identifier: GPL-2.0-only
// What examples share: reading profiles and opening the file for results, or saying why not.
#ifndef SOFTROUTER_EXAMPLE_FILES_H
#define SOFTROUTER_EXAMPLE_FILES_H

#include "ns3/soft-router-profile.h"

#include <fstream>
#include <iostream>
#include <string>

namespace ns3
{

/**
 * \brief Read a profile; if that cannot be, say so on standard error.
 * \param file its name
 * \param profile [out] the profile
 * \return whether it was read
 */
inline bool
ReadProfile(const std::string& file, SoftRouterProfile& profile)
{
    std::string error;
    if (SoftRouterProfile::Read(file, profile, error))
    {
        return true;
    }
    std::cerr << error << std::endl;
    return false;
}

/**
 * \brief Open a file for results, unless its name is "none"; if that cannot be, say so.
 * \param file its name
 * \param out the file
 * \return whether it is open or not wanted
 */
inline bool
OpenCsv(const std::string& file, std::ofstream& out)
{
    if (file == "none")
    {
        return true;
    }
    out.open(file);
    if (!out)
    {
        std::cerr << file << ": cannot be written, expected a file that can, or none" << std::endl;
    }
    return static_cast<bool>(out);
}

/**
 * \param seconds of simulated time, as asked for on the command line
 * \return whether they make sense; if not, it was said
 */
inline bool
AreSeconds(double seconds)
{
    if (seconds > 0 && seconds <= 10)
    {
        return true;
    }
    std::cerr << "--seconds: found " << seconds << ", expected more than 0, at most 10"
              << std::endl;
    return false;
}

} // namespace ns3

#endif // SOFTROUTER_EXAMPLE_FILES_H
