// SPDX-License-Identifier: GPL-2.0-only
#include "resource-manager.h"

#include "ns3/abort.h"
#include "ns3/trace-source-accessor.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(ResourceManager);

TypeId
ResourceManager::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::ResourceManager")
            .SetParent<Object>()
            .SetGroupName("SoftRouter")
            .AddTraceSource("Request",
                            "A task unit needs resources.",
                            MakeTraceSourceAccessor(&ResourceManager::m_requestTrace),
                            "ns3::ResourceManager::MessageTracedCallback")
            .AddTraceSource("Reply",
                            "A task unit has its resources.",
                            MakeTraceSourceAccessor(&ResourceManager::m_replyTrace),
                            "ns3::ResourceManager::MessageTracedCallback")
            .AddTraceSource("Release",
                            "A task unit gives its resources back.",
                            MakeTraceSourceAccessor(&ResourceManager::m_releaseTrace),
                            "ns3::ResourceManager::MessageTracedCallback")
            .AddTraceSource("Revoke",
                            "A task unit loses its resources to one of higher priority.",
                            MakeTraceSourceAccessor(&ResourceManager::m_revokeTrace),
                            "ns3::ResourceManager::MessageTracedCallback");
    return tid;
}

ResourceManager::ResourceManager()
    : m_arbiter(Create<ResourceArbiter>())
{
}

ResourceManager::~ResourceManager()
{
}

void
ResourceManager::DoDispose()
{
    m_arbiter = nullptr;
    Object::DoDispose();
}

uint32_t
ResourceManager::AddUser(ResourceUser* user,
                         uint32_t priority,
                         const std::vector<ResourceDemand>& demands)
{
    m_users++;
    return GetArbiter().AddUser(user, priority, demands, this);
}

void
ResourceManager::Request(uint32_t user)
{
    GetArbiter().Request(user);
}

void
ResourceManager::Release(uint32_t user, bool again)
{
    GetArbiter().Release(user, again);
}

bool
ResourceManager::IsHolding(uint32_t user) const
{
    return m_arbiter && m_arbiter->IsHolding(user);
}

Ptr<Resource>
ResourceManager::GetHeld(uint32_t user) const
{
    NS_ABORT_MSG_UNLESS(m_arbiter, "A resource manager was used after its end");
    return m_arbiter->GetHeld(user);
}

uint32_t
ResourceManager::GetWaiting() const
{
    return m_arbiter ? m_arbiter->GetWaiting() : 0;
}

ResourceArbiter&
ResourceManager::GetArbiter()
{
    NS_ABORT_MSG_UNLESS(m_arbiter, "A resource manager was used after its end");
    return *m_arbiter;
}

void
ResourceManager::ShareArbiter(ResourceManager& manager)
{
    NS_ABORT_MSG_IF(HasUsers(), "A manager joins another one before it has task units, not later");
    m_arbiter = manager.m_arbiter;
}

bool
ResourceManager::HasUsers() const
{
    return m_users > 0;
}

const TracedCallback<const ResourceMessage&>&
ResourceManager::GetTrace(ResourceMessage::Type type) const
{
    switch (type)
    {
    case ResourceMessage::REPLY:
        return m_replyTrace;
    case ResourceMessage::RELEASE:
        return m_releaseTrace;
    case ResourceMessage::REVOKE:
        return m_revokeTrace;
    case ResourceMessage::REQUEST:
        break;
    }
    return m_requestTrace;
}

bool
ResourceManager::Hears(ResourceMessage::Type type) const
{
    return !GetTrace(type).IsEmpty();
}

void
ResourceManager::Hear(const ResourceMessage& message)
{
    GetTrace(message.type)(message);
}

} // namespace ns3
