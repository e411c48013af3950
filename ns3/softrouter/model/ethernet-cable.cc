// SPDX-License-Identifier: GPL-2.0-only
#include "ethernet-cable.h"

#include "ethernet-port.h"

#include "ns3/abort.h"
#include "ns3/log.h"

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("EthernetCable");

NS_OBJECT_ENSURE_REGISTERED(EthernetCable);

TypeId
EthernetCable::GetTypeId()
{
    static TypeId tid = TypeId("ns3::EthernetCable")
                            .SetParent<Channel>()
                            .SetGroupName("SoftRouter")
                            .AddConstructor<EthernetCable>()
                            .AddAttribute("Delay",
                                          "Propagation delay",
                                          TimeValue(Time(0)),
                                          MakeTimeAccessor(&EthernetCable::m_delay),
                                          MakeTimeChecker(Time(0)));
    return tid;
}

EthernetCable::EthernetCable()
{
    NS_LOG_FUNCTION(this);
}

EthernetCable::~EthernetCable()
{
    NS_LOG_FUNCTION(this);
}

void
EthernetCable::DoDispose()
{
    NS_LOG_FUNCTION(this);
    m_ends.fill(nullptr);
    Channel::DoDispose();
}

void
EthernetCable::Connect(Ptr<EthernetPort> first, Ptr<EthernetPort> second)
{
    NS_LOG_FUNCTION(this << first << second);
    NS_ABORT_MSG_IF(m_ends[0] || first == second,
                    "EthernetCable: found a cable that is in use or one port for both ends, "
                    "expected a new cable and two ports");
    m_ends = {first, second};
    first->Plug(this, second);
    second->Plug(this, first);
}

Time
EthernetCable::GetDelay() const
{
    return m_delay;
}

std::size_t
EthernetCable::GetNDevices() const
{
    return m_ends[0] ? 2 : 0;
}

Ptr<NetDevice>
EthernetCable::GetDevice(std::size_t i) const
{
    return m_ends.at(i);
}

} // namespace ns3
