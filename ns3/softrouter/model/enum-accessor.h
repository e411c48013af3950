// SPDX-License-Identifier: GPL-2.0-only
#ifndef SOFTROUTER_ENUM_ACCESSOR_H
#define SOFTROUTER_ENUM_ACCESSOR_H

#include "ns3/attribute.h"
#include "ns3/enum.h"
#include "ns3/ptr.h"

namespace ns3
{

/// Where MakeEnumAccessor needs the enumeration as a parameter: ns-3 3.42 and newer.
template <typename Enum, typename Member>
auto
ChooseEnumAccessor(Member member, int /* preferred */) -> decltype(MakeEnumAccessor<Enum>(member))
{
    return MakeEnumAccessor<Enum>(member);
}

/// Where it does not: older ones.
template <typename Enum, typename Member>
auto
ChooseEnumAccessor(Member member, long /* otherwise */) -> decltype(MakeEnumAccessor(member))
{
    return MakeEnumAccessor(member);
}

/**
 * \ingroup softrouter
 * \brief Makes the accessor of an attribute that is an enumeration, with any ns-3.
 * \tparam Enum the enumeration
 * \param member the variable: &Class::m_variable
 * \return the accessor
 */
template <typename Enum, typename Member>
Ptr<const AttributeAccessor>
MakeAnyEnumAccessor(Member member)
{
    return ChooseEnumAccessor<Enum>(member, 0);
}

} // namespace ns3

#endif // SOFTROUTER_ENUM_ACCESSOR_H
