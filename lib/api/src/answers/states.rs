// SPDX-License-Identifier: MIT
//! The words in answers: states and kinds, each with its meaning.

use crate::declare::states;

states! {
    /// Where the routes of Linux come from.
    #[derive(Default)]
    pub enum LinuxFeed {
        /// The kernel.
        Netlink = "netlink",
        /// FRR's zebra.
        Fpm = "fpm",
        /// Nowhere: only links, addresses and neighbors are followed.
        #[default]
        None = "none",
    }

    /// Whether what is known of Linux is what Linux has.
    #[derive(Default)]
    pub enum LinuxState {
        /// It is, and changes are taken over as they come.
        Following = "following",
        /// Everything is being read again.
        Reading = "reading",
        /// Notifications were lost, or the namespace is gone.
        Lost = "lost",
        /// No port has a twin, so Linux is not followed.
        #[default]
        Off = "off",
    }

    /// Whether there is a process that may change Linux.
    #[derive(Default)]
    pub enum HelperState {
        /// None is needed.
        #[default]
        None = "none",
        /// There is.
        Alive = "alive",
        /// There is, and it does not answer.
        Silent = "silent",
        /// There was: it has died, and its standby too.
        Dead = "dead",
    }

    /// Whether a worker gives signs of life.
    #[derive(Default)]
    pub enum WorkerState {
        /// It does.
        #[default]
        Running = "running",
        /// It has not come to a batch boundary for a second.
        Silent = "silent",
    }

    /// What a script's value is.
    pub enum ValueKind {
        /// It only grows.
        Counter = "counter",
        /// It is set; those of the workers are added.
        Gauge = "gauge",
    }

    /// Whether a packet ended or went to the slow path.
    pub enum DropKind {
        /// It ended.
        Drop = "drop",
        /// The slow path has it.
        Punt = "punt",
    }

    /// An address family.
    pub enum IpFamily {
        /// IPv4.
        V4 = "IPv4",
        /// IPv6.
        V6 = "IPv6",
    }

    /// Where a route came from.
    pub enum RouteOrigin {
        /// An address of the router's own.
        Local = "local",
        /// The network of one of the router's addresses.
        Connected = "connected",
        /// The configuration.
        Static = "static",
        /// Linux, which has it from an operator or a routing daemon.
        Linux = "linux",
        /// Reserved for a routing protocol of the router's own.
        Dynamic = "dynamic",
        /// An operator, through this API.
        Api = "api",
    }

    /// What happens to packets to a route's destinations.
    pub enum RouteAction {
        /// They are forwarded.
        Forward = "forward",
        /// They are for the router itself.
        Local = "local",
        /// They are dropped silently.
        Blackhole = "blackhole",
        /// They are dropped, and the sender gets ICMP destination unreachable.
        Unreachable = "unreachable",
        /// They are dropped, and the sender gets ICMP administratively prohibited.
        Prohibit = "prohibit",
        /// They are given to Linux, which alone can forward by the route.
        ToLinux = "to-linux",
        /// They are dropped, and the sender gets ICMP host unreachable: Linux alone could forward by the route.
        Refused = "refused",
    }

    /// What happens to packets to the destinations of a route without a gateway.
    pub enum RouteFate {
        /// They are dropped silently.
        Blackhole = "blackhole",
        /// They are dropped, and the sender gets ICMP destination unreachable.
        Unreachable = "unreachable",
        /// They are dropped, and the sender gets ICMP administratively prohibited.
        Prohibit = "prohibit",
    }

    /// What a next hop leads to.
    pub enum NextHopType {
        /// A neighbor.
        Neighbor = "neighbor",
        /// Whatever is on an interface's link.
        Connected = "connected",
        /// A router that other routes lead to.
        Recursive = "recursive",
        /// Several next hops, of which each flow takes one.
        Group = "group",
    }

    /// The state of a neighbor (RFC 4861 7.3.2, for IPv4 as well).
    pub enum NeighborState {
        /// An operator or the configuration has set its MAC address.
        Static = "static",
        /// It is being resolved.
        Incomplete = "incomplete",
        /// It answered a short while ago.
        Reachable = "reachable",
        /// It has not been heard from for a while; it is asked when a packet is sent to it.
        Stale = "stale",
        /// A packet has been sent to it; it is asked soon if nothing shows that it is there.
        Delay = "delay",
        /// It is being asked whether it is still there.
        Probe = "probe",
        /// It does not answer.
        Failed = "failed",
    }

    /// Whether a worker runs the requested script.
    #[derive(Default)]
    pub enum ScriptState {
        /// It does.
        #[default]
        Running = "running",
        /// The script threw too often; the one before it runs again.
        RolledBack = "rolled_back",
    }

    /// The section of the configuration that a rule stands in.
    pub enum FilterKind {
        /// `[[filter]]`.
        Filter = "filter",
        /// `[[steer]]`.
        Steer = "steer",
    }

    /// What happens to packets that match a rule.
    pub enum FilterAction {
        /// They go on.
        Accept = "accept",
        /// They are dropped.
        Drop = "drop",
        /// They go to the slow path.
        SlowPath = "slow path",
    }

    /// Whose packets a rule is about.
    pub enum FilteredFrom {
        /// Those that ports receive.
        Ports = "ports",
        /// Those that Linux sends by the twins.
        Linux = "linux",
        /// Both.
        Both = "both",
    }

    /// What carries out a rule.
    pub enum DoneIn {
        /// The workers.
        Software = "software",
        /// The devices of all ports that it is about.
        Hardware = "hardware",
    }
}
