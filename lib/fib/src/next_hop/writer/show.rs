// SPDX-License-Identifier: MIT
//! The next hops in use, as values to be shown.

use std::net::IpAddr;

use super::{Group, NextHopWriter, Via, What};
use crate::next_hop::NextHopId;
use crate::next_hop::group;
use perigee_net::MacAddr;

/// A next hop in use, to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHopInfo {
    pub id: NextHopId,
    /// How many prefixes, groups and recursive next hops use it.
    pub uses: u32,
    /// What it is.
    pub kind: NextHopKind,
}

/// What a next hop is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHopKind {
    /// A neighbor, or the destinations on a link.
    Direct {
        /// The link and the neighbor.
        via: Via,
        /// The neighbor's MAC address, if it is known.
        mac: Option<MacAddr>,
        /// Whether nothing can be sent by the interface now.
        down: bool,
    },
    /// A gateway that is reached over other routes.
    Recursive {
        gateway: IpAddr,
        /// The next hop it is reached by, if it is reachable.
        target: Option<NextHopId>,
    },
    /// Several next hops.
    Group {
        /// The members, with their weights and the buckets they have now.
        members: Vec<GroupMember>,
        /// How many buckets there are.
        buckets: usize,
    },
}

/// A member of a group, to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The member.
    pub id: NextHopId,
    /// Its weight; the weights of a group have no common divisor.
    pub weight: u32,
    /// How many of the group's buckets it has now.
    pub buckets: usize,
}

impl NextHopWriter {
    /// Every next hop in use, in order of id.
    pub fn iter(&self) -> impl Iterator<Item = NextHopInfo> {
        let ids = (NextHopId::FIRST_FREE..).map(NextHopId);
        ids.zip(&self.entries).filter(|(_, entry)| entry.uses > 0).filter_map(|(id, entry)| {
            let kind = match &entry.what {
                What::Nothing => return None,
                What::Direct(via) => NextHopKind::Direct {
                    via: *via,
                    mac: self.neighbors.get(via).copied(),
                    down: self.down.contains(&via.interface),
                },
                What::Recursive { gateway, target } => NextHopKind::Recursive { gateway: *gateway, target: *target },
                What::Group(group) => self.describe(group),
            };
            Some(NextHopInfo { id, uses: entry.uses, kind })
        })
    }

    fn describe(&self, group: &Group) -> NextHopKind {
        let alive: Vec<bool> = group.members.iter().map(|(member, _)| self.rank(*member) == group.rank).collect();
        let mut members: Vec<GroupMember> =
            group.members.iter().map(|&(id, weight)| GroupMember { id, weight, buckets: 0 }).collect();
        for bucket in 0..group.block.len() {
            members[usize::from(group::owner(&group.owners, bucket, &alive))].buckets += 1;
        }
        members.sort_by_key(|member| member.id);
        NextHopKind::Group { members, buckets: group.block.len() }
    }
}
