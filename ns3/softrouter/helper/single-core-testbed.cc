// SPDX-License-Identifier: GPL-2.0-only
#include "single-core-testbed.h"

#include "ns3/service-time-model.h"

#include <algorithm>

namespace ns3
{

namespace
{

/**
 * \param profile of a router
 * \return the same router in theory
 */
BatchServer
MakeTheory(const SoftRouterProfile& profile)
{
    const auto model = profile.CreateServiceTimeModel();
    const ServiceContext context{1, false, profile.workingSetBytes};
    return {model->GetBurstNs(context),
            model->GetPacketNs(SingleCoreTestbed::FRAME, context),
            profile.burst,
            profile.receiveRing};
}

} // namespace

SingleCoreTestbed::SingleCoreTestbed(const SoftRouterProfile& profile)
    : m_profile(profile),
      m_theory(MakeTheory(profile))
{
    m_profile.linkGbps = LINK_GBPS;
    m_profile.ports = 2;
}

double
SingleCoreTestbed::GetCapacity() const
{
    return m_theory.GetCapacity();
}

double
SingleCoreTestbed::GetTheoryNs(double rate) const
{
    const bool md1 = m_profile.burst == 1 && rate < GetCapacity();
    return md1 ? m_theory.GetMd1Ns(rate) : m_theory.Solve(rate).sojournNs;
}

RouterTestbed::Result
SingleCoreTestbed::Run(double rate, double packets, double warmUp, uint32_t seed) const
{
    RouterTestbed::Setup setup;
    setup.profile = m_profile;
    setup.directions = 1;
    setup.rateGbps = rate * WIRE_BITS;
    setup.sizes = {{FRAME, 1.0}};
    setup.poisson = seed != 0;
    setup.seed = std::max(seed, 1U);
    setup.warmUp = warmUp / rate / 1e9;
    setup.duration = packets / rate / 1e9;
    return RouterTestbed::Run(setup);
}

} // namespace ns3
