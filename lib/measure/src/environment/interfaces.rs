// SPDX-License-Identifier: MIT
//! Facts about the Linux interfaces that are measured through.

use super::machine::uses_node;
use super::{Finding, Judgement, Root};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A Linux interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    pub name: String,
    /// `None` for one without a device, such as a veth.
    pub driver: Option<String>,
    pub speed_mbit: Option<u32>,
    /// Bytes.
    pub mtu: Option<u32>,
    /// NUMA node of its device.
    pub node: Option<u32>,
    /// Whether processors of that node are used; `None` if the node is not known.
    pub near: Option<bool>,
    /// Whether it sends or obeys pause frames (IEEE 802.3 annex 31B). No file in `/sys` shows it: `None` until the
    /// caller fills it in from ethtool.
    pub pause: Option<bool>,
}

impl Interface {
    pub(super) fn read(root: &Root, name: &str, cores: &BTreeSet<u32>) -> Interface {
        let folder = format!("sys/class/net/{name}");
        let number =
            |file: &str| root.number(&format!("{folder}/{file}")).and_then(|number| u32::try_from(number).ok());
        let driver = std::fs::read_link(root.path(&format!("{folder}/device/driver"))).ok();
        let driver = driver.and_then(|path| path.file_name()?.to_str().map(str::to_string));
        let node = number("device/numa_node");
        let near = node.map(|node| cores.is_empty() || uses_node(root, node, cores));
        // Drivers without a speed report -1, which is no number here, or 0.
        let speed_mbit = number("speed").filter(|speed| *speed > 0);
        Interface { name: name.into(), driver, speed_mbit, mtu: number("mtu"), node, near, pause: None }
    }

    /// What is known about it.
    pub fn findings(&self) -> Vec<Finding> {
        // A veth's reported speed means nothing.
        if let (None, None, None, Some(mtu)) = (&self.driver, self.node, self.pause, self.mtu) {
            let value = format!("no device behind it, as with veth: no line rate, no flow control; MTU {mtu}");
            return vec![Finding::fine(self.name.clone(), value)];
        }
        let name = |what: &str| format!("{} of {}", what, self.name);
        let or_unknown = |what: &str, value: Option<String>| match value {
            Some(value) => Finding::fine(name(what), value),
            None => Finding::unknown(name(what)),
        };
        let pause = match self.pause {
            None => Finding::unknown(name("flow control")),
            Some(false) => Finding::fine(name("flow control"), "off"),
            Some(true) => Finding::but(
                name("flow control"),
                "on",
                Judgement::MayFalsify,
                format!(
                    "A device that is overloaded stops the tester instead of dropping, so its limit is not seen; switch it off \
                     (ethtool -A {} rx off tx off).",
                    self.name
                ),
            ),
        };
        let node = match (self.node, self.near) {
            (Some(node), Some(false)) => Finding::but(
                name("NUMA node"),
                node.to_string(),
                Judgement::CostsRepeatability,
                format!("No processor of its node is used; use some of node {node}."),
            ),
            (node, _) => or_unknown("NUMA node", node.map(|node| node.to_string())),
        };
        vec![
            or_unknown("driver", self.driver.clone()),
            or_unknown("speed", self.speed_mbit.map(|speed| format!("{speed} Mbit/s"))),
            or_unknown("MTU", self.mtu.map(|mtu| mtu.to_string())),
            node,
            pause,
        ]
    }
}
