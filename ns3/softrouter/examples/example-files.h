// SPDX-License-Identifier: GPL-2.0-only
// The common part of the examples: the file for results, the time that they took, and the end if
// something is wrong.
#ifndef SOFTROUTER_EXAMPLE_FILES_H
#define SOFTROUTER_EXAMPLE_FILES_H

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

namespace ns3
{

/**
 * \brief End the program unless something is as it must be.
 * \param good whether it is
 * \param message what was found and what was expected
 */
inline void
Require(bool good, const std::string& message)
{
    if (!good)
    {
        std::cerr << message << std::endl;
        std::exit(1);
    }
}

/**
 * \brief A CSV file for results.
 */
class CsvFile
{
  public:
    /**
     * \param file its name; "none": there is none
     * \param plot what `perigee predict plot` draws of it, JSON
     * \param columns the header
     */
    CsvFile(const std::string& file, const std::string& plot, const std::string& columns)
        : m_file(file)
    {
        if (IsWanted())
        {
            m_out.open(file);
            m_out << "# plot: " << plot << '\n' << columns << '\n';
            Check();
        }
    }

    /**
     * \return where rows go; null: nowhere
     */
    std::ostream* GetStream()
    {
        return IsWanted() ? &m_out : nullptr;
    }

    /**
     * \brief Write a row.
     * \param first cell
     * \param others cells
     */
    template <typename First, typename... Others>
    void Row(const First& first, const Others&... others)
    {
        if (IsWanted())
        {
            m_out << first;
            ((m_out << ',' << others), ...);
            m_out << '\n';
        }
    }

    /**
     * \brief Close the file.
     */
    void Close()
    {
        if (IsWanted())
        {
            m_out.close();
            Check();
            std::printf("%s written; draw it: perigee predict plot %s\n",
                        m_file.c_str(),
                        m_file.c_str());
        }
    }

  private:
    /// \return whether there is a file
    bool IsWanted() const
    {
        return m_file != "none";
    }

    /// End the program if the file cannot be written.
    void Check() const
    {
        Require(static_cast<bool>(m_out),
                m_file + ": cannot be written, expected a file that can, or none");
    }

    std::string m_file;  //!< its name
    std::ofstream m_out; //!< the file
};

/**
 * \brief How long a program takes.
 */
class Stopwatch
{
  public:
    /**
     * \return seconds since it was made
     */
    double GetSeconds() const
    {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - m_start).count();
    }

    /**
     * \brief Print how fast it was.
     * \param packets that were simulated
     */
    void Print(uint64_t packets) const
    {
        const double took = GetSeconds();
        std::printf("%llu packets in %.1f s: %.2f million packets per second\n",
                    static_cast<unsigned long long>(packets),
                    took,
                    static_cast<double>(packets) / took / 1e6);
    }

  private:
    /// When it was made.
    std::chrono::steady_clock::time_point m_start{std::chrono::steady_clock::now()};
};

/**
 * \param seconds of simulated time that were asked for
 */
inline void
CheckSeconds(double seconds)
{
    Require(seconds > 0 && seconds <= 10,
            "--seconds: found " + std::to_string(seconds) + ", expected more than 0, at most 10");
}

} // namespace ns3

#endif // SOFTROUTER_EXAMPLE_FILES_H
