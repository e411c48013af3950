// SPDX-License-Identifier: MIT
//! A configuration as TOML again: everything spelled out, defaults and all, so that it can be kept and edited.

use std::fmt::Write;

use toml::Value;

use perigee_net::{FiveTuple, InterfaceId, Member, Prefix, Route, RouteTarget};

use super::model::*;

impl Config {
    /// TOML that [`Config::parse`] reads back to this same configuration. Paths are as they were resolved; the
    /// contents of the routes file are not repeated.
    pub fn to_toml(&self) -> String {
        let mut out = Printer(String::new());
        if let Some(path) = &self.routes_file {
            out.key("routes_file", path.display().to_string());
        }
        self.print_router(&mut out);
        for index in 0..self.ports.len() {
            self.print_port(index, &mut out);
        }
        for (prefix, route) in &self.routes {
            self.print_route(*prefix, route, &mut out);
        }
        for neighbor in &self.neighbors {
            out.head("[[neighbor]]");
            out.key("address", neighbor.address.to_string());
            out.key("mac", neighbor.mac.to_string());
            out.key("dev", self.name_of(neighbor.interface));
        }
        for filter in &self.filters {
            out.head("[[filter]]");
            out.tuple(&filter.tuple);
            let action = match filter.action {
                Action::Accept => "accept",
                Action::Drop => "drop",
            };
            out.key("action", action);
        }
        for steer in &self.steers {
            out.head("[[steer]]");
            let port = steer.port.map(|index| self.ports[usize::from(index)].name.clone());
            out.maybe("port", port);
            match &steer.what {
                SteerMatch::EtherType(kind) => out.key("ethertype", i64::from(*kind)),
                SteerMatch::FiveTuple(tuple) => out.tuple(tuple),
            }
        }
        out.0
    }

    fn name_of(&self, interface: InterfaceId) -> String {
        self.interfaces[interface.index()].name.clone()
    }

    fn print_router(&self, out: &mut Printer) {
        let router = &self.router;
        out.head("[router]");
        out.key("name", router.name.clone());
        out.maybe("script", router.script.as_ref().map(|path| path.display().to_string()));
        out.maybe("namespace", router.namespace.as_ref().map(ToString::to_string));
        out.key("burst", i64::from(router.burst));
        out.key("transmit_queue", i64::from(router.transmit_queue));
        out.key("transmit_timeout", format!("{}us", router.transmit_timeout.as_micros()));
        let idle = match router.idle {
            Idle::Poll => "poll",
            Idle::Sleep => "sleep",
        };
        out.key("idle", idle);
        out.key("fib", vec![Value::from(router.fib.v4.clone()), Value::from(router.fib.v6.clone())]);
        out.key("socket", router.socket.display().to_string());
        out.maybe("metrics", router.metrics.map(|address| address.to_string()));
        out.key("punt_ring", i64::from(router.punt_ring));
        out.key("mbufs", i64::from(router.mbufs));
        out.key("icmp_rate", i64::from(router.icmp_rate));
        let cores: Vec<Value> = self.workers.iter().map(|w| i64::from(w.core).into()).collect();
        out.key("cores", cores);
        out.head("[eal]");
        out.key("args", self.eal.args.clone());
        match self.eal.hugepages {
            Hugepages::Auto => out.key("hugepages", "auto"),
            Hugepages::On => out.key("hugepages", true),
            Hugepages::Off => out.key("hugepages", false),
        }
        out.maybe("memory", self.eal.memory.map(i64::from));
        out.key("file_prefix", self.eal.file_prefix.clone());
        self.print_linux(out);
    }

    fn print_linux(&self, out: &mut Printer) {
        let linux = &self.linux;
        out.head("[linux]");
        out.key("feed", linux.feed.name());
        let list = |numbers: &[u8]| numbers.iter().map(|n| i64::from(*n).into()).collect::<Vec<Value>>();
        out.key("tables", linux.tables.iter().map(|table| i64::from(*table).into()).collect::<Vec<Value>>());
        out.maybe("protocols", linux.protocols.as_deref().map(list));
        out.key("ignore_protocols", list(&linux.ignore_protocols));
        out.key("fpm", linux.fpm.to_string());
        out.key("fpm_hold", format!("{}us", linux.fpm_hold.as_micros()));
        out.key("receive_buffer", format!("{} KB", linux.receive_buffer >> 10));
        out.maybe("audit", linux.audit.map(|every| format!("{}us", every.as_micros())));
    }

    fn print_port(&self, index: usize, out: &mut Printer) {
        let port = &self.ports[index];
        out.head(&format!("[port.{}]", port.name));
        match &port.device {
            Device::Dpdk(device) => out.key("device", device.clone()),
            Device::Linux { interface, driver } => {
                out.key("interface", interface.clone());
                let driver = match driver {
                    LinuxDriver::AfPacket => "af_packet",
                    LinuxDriver::AfXdp => "af_xdp",
                };
                out.key("driver", driver);
            }
        }
        out.maybe("mac", port.mac.map(|mac| mac.to_string()));
        out.key("mtu", i64::from(port.mtu));
        out.key("promiscuous", port.promiscuous);
        out.maybe("queues", port.queues.map(i64::from));
        out.key("twin", port.twin);
        for interface in self.interfaces.iter().filter(|i| usize::from(i.port) == index) {
            if let Some(vlan) = interface.vlan {
                out.head(&format!("[port.{}.vlan.{vlan}]", port.name));
                out.key("mtu", i64::from(interface.mtu));
            }
            let addresses: Vec<Value> = interface.addresses.iter().map(|a| a.to_string().into()).collect();
            out.key("addresses", addresses);
        }
    }

    fn print_route(&self, prefix: Prefix, route: &Route, out: &mut Printer) {
        out.head("[[route]]");
        out.key("prefix", prefix.to_string());
        match &route.target {
            RouteTarget::Gateway { address, interface } => {
                out.key("via", address.to_string());
                match interface {
                    Some(interface) => out.key("dev", self.name_of(*interface)),
                    None => out.key("recursive", true),
                }
            }
            RouteTarget::Multipath(multipath) => {
                let gateways: Vec<Value> = multipath.members().iter().map(|gateway| self.gateway(gateway)).collect();
                out.key("via", gateways);
            }
            RouteTarget::Blackhole => out.key("blackhole", true),
            RouteTarget::Unreachable => out.key("unreachable", true),
            RouteTarget::Prohibit => out.key("prohibit", true),
            // No route of a configuration: an interface's addresses say it.
            RouteTarget::Connected { .. } | RouteTarget::Local => {}
        }
        out.key("preference", i64::from(route.preference));
        out.key("metric", i64::from(route.metric));
    }

    /// A gateway of several, as an inline table.
    fn gateway(&self, gateway: &Member) -> Value {
        let mut table = toml::Table::new();
        if let Some(address) = gateway.address {
            table.insert("address".into(), address.to_string().into());
        }
        match gateway.interface {
            Some(interface) => table.insert("dev".into(), self.name_of(interface).into()),
            None => table.insert("recursive".into(), true.into()),
        };
        table.insert("weight".into(), i64::from(gateway.weight).into());
        Value::Table(table)
    }
}

/// TOML under construction; values are quoted by the toml crate.
struct Printer(String);

impl Printer {
    fn head(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{title}"); // a String takes everything
    }

    fn key(&mut self, key: &str, value: impl Into<Value>) {
        let _ = writeln!(self.0, "{key} = {}", value.into());
    }

    fn maybe(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.key(key, value);
        }
    }

    fn tuple(&mut self, tuple: &FiveTuple) {
        self.maybe("src", tuple.src.map(|net| net.to_string()));
        self.maybe("dst", tuple.dst.map(|net| net.to_string()));
        self.maybe("proto", tuple.proto.map(i64::from));
        self.maybe("sport", tuple.sport.map(|range| range.to_string()));
        self.maybe("dport", tuple.dport.map(|range| range.to_string()));
    }
}
