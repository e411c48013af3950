// SPDX-License-Identifier: MIT
//! Which frames: from flags, a file of TOML, a script, or a capture.

use super::script::{TrafficScript, Watch};
use crate::measure::ports::Longest;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use perigee_dpdk::Clock;
use perigee_measure::replay::{Capture, LIMIT, Playback, Replay};
use perigee_measure::traffic::{Addresses, Description, Family, Frames, Protocol, Range, Rss, Sizes, Traffic, VlanId};
use perigee_net::MacAddr;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args, Clone)]
#[command(next_help_heading = "Frames")]
pub struct TrafficArgs {
    /// A description of the frames, in TOML: the flags below by name (source_port = "1024-2047"); flags override it
    #[arg(long, value_name = "FILE")]
    traffic: Option<PathBuf>,
    /// A Lua script that sets the table `traffic`, with the same keys, has a function modify(burst, first, seconds)
    /// that changes frames before they are sent, or both; flags override the table
    #[arg(long, value_name = "FILE", conflicts_with_all = ["traffic", "pcap"])]
    script: Option<PathBuf>,
    /// The script's arguments, behind --
    #[arg(last = true, value_name = "ARGS", requires = "script")]
    words: Vec<String>,
    /// A capture to send: pcap or pcapng
    #[arg(long, value_name = "FILE", conflicts_with_all = ["traffic", "sizes", "protocol", "source", "destination"])]
    pcap: Option<PathBuf>,
    /// How often the capture is sent; 0: for ever
    #[arg(long, value_name = "N", requires = "pcap", default_value_t = 1)]
    loops: u64,
    /// The capture's own timing, so many times as fast (1: as it was), instead of --rate
    #[arg(long, value_name = "FACTOR", requires = "pcap", conflicts_with = "rate")]
    speed: Option<f64>,
    /// Fill up frames of the capture that were not captured whole
    #[arg(long, requires = "pcap")]
    pad: bool,
    /// Frame sizes in bytes with the FCS: 64, imix, 64:7,594:4,1518:1, 64-1518
    #[arg(long)]
    sizes: Option<Sizes>,
    /// udp, tcp-syn or icmp
    #[arg(long)]
    protocol: Option<Protocol>,
    /// ipv4 or ipv6, where no address says it
    #[arg(long)]
    family: Option<Family>,
    /// Number of flows [default: all combinations of the ranges, at most 65536]
    #[arg(long, value_name = "N")]
    flows: Option<u32>,
    /// Source addresses: 198.18.0.1, 198.18.0.1-198.18.0.99, random:198.18.0.0/16, zipf(1.1):198.18.0.0/16,
    /// routes:FILE
    #[arg(long, value_name = "RANGE")]
    source: Option<Addresses>,
    /// Destination addresses
    #[arg(long, value_name = "RANGE")]
    destination: Option<Addresses>,
    /// Source ports: 1024, 1024-65535, random:1024-65535
    #[arg(long, value_name = "RANGE")]
    source_port: Option<Range<u16>>,
    /// Destination ports
    #[arg(long, value_name = "RANGE")]
    destination_port: Option<Range<u16>>,
    /// VLAN ids: 100, 100-199
    #[arg(long, value_name = "RANGE")]
    vlan: Option<Range<VlanId>>,
    /// VLAN ids of an outer service tag
    #[arg(long, value_name = "RANGE")]
    service_vlan: Option<Range<VlanId>>,
    /// Source MAC addresses
    #[arg(long, value_name = "RANGE")]
    source_mac: Option<Range<MacAddr>>,
    /// Destination MAC addresses: the router's, or of a device behind a switch
    #[arg(long, value_name = "RANGE")]
    destination_mac: Option<Range<MacAddr>>,
    /// TTL or hop limit
    #[arg(long)]
    ttl: Option<u8>,
    /// DSCP, 0 to 63
    #[arg(long)]
    dscp: Option<u8>,
    /// Random ports as RFC 4814 has them
    #[arg(long)]
    rfc4814: bool,
    /// Flows that RSS spreads evenly over 4 queues (4), or puts on queue 2 of 4 (2/4)
    #[arg(long, value_name = "QUEUES")]
    rss: Option<Rss>,
    /// What all that is random follows from
    #[arg(long)]
    seed: Option<u64>,
    /// Frames without a stamp: they can be counted, and nothing else
    #[arg(long)]
    no_stamp: bool,
}

/// Frames, and what is known of them.
pub struct Source {
    pub frames: Box<dyn Frames + Send>,
    described: serde_json::Value,
    stamped: bool,
    /// Whether the frames leave at times of their own.
    pub timed: bool,
    flows: u32,
    mean_size: f64,
    longest: Longest,
}

impl Source {
    /// The same frames, changed by a script; and what to ask about it, if it changes them.
    pub fn changed_by(self, script: TrafficScript) -> (Source, Option<Arc<Watch>>) {
        let mut described = self.described;
        described["script"] = script.name.as_str().into();
        let (frames, watch) = script.changing(self.frames);
        (Source { frames, described, ..self }, watch)
    }

    /// What was asked for.
    pub fn describe(&self) -> serde_json::Value {
        self.described.clone()
    }

    pub fn is_stamped(&self) -> bool {
        self.stamped
    }

    pub fn flows(&self) -> u32 {
        self.flows
    }

    /// Bytes with FCS.
    pub fn mean_size(&self) -> f64 {
        self.mean_size
    }

    /// How long they get. What a script makes of them is not known before.
    pub fn longest(&self) -> Longest {
        self.longest
    }
}

impl TrafficArgs {
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// The script, loaded; `clock` is that of the generator.
    pub fn script(&self, clock: Clock) -> Result<Option<TrafficScript>> {
        self.script.as_ref().map(|path| TrafficScript::load(path, &self.words, clock)).transpose()
    }

    /// What is asked for, compiled. MAC addresses that are not given are those of the sending and of the receiving
    /// port, once they are known.
    pub fn source(&self, script: Option<&TrafficScript>, from: Option<MacAddr>, to: Option<MacAddr>) -> Result<Source> {
        if let Some(path) = &self.pcap {
            return self.capture(path);
        }
        let mut description = self.description(script)?;
        description.source_mac = description.source_mac.or(from.map(Range::one));
        if description.groups().is_some_and(|range| range.len() > 1) && description.destination_mac.is_none() {
            bail!("found several groups as destinations and no MAC addresses, expected --destination-mac FIRST-LAST");
        }
        let group = description.group_mac();
        description.destination_mac = description.destination_mac.or(group).or(to.map(Range::one));
        described(&description)
    }

    /// The description of the file or the script, and the flags.
    pub fn description(&self, script: Option<&TrafficScript>) -> Result<Description> {
        let mut to = match &self.traffic {
            None => script.map_or_else(Description::default, |script| script.description.clone()),
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
                toml::from_str(&text).with_context(|| format!("{} is no description of frames", path.display()))?
            }
        };
        to.sizes = self.sizes.clone().or(to.sizes);
        to.protocol = self.protocol.unwrap_or(to.protocol);
        to.family = self.family.or(to.family);
        to.flows = self.flows.or(to.flows);
        to.source = self.source.clone().or(to.source);
        to.destination = self.destination.clone().or(to.destination);
        to.source_port = self.source_port.or(to.source_port);
        to.destination_port = self.destination_port.or(to.destination_port);
        to.vlan = self.vlan.or(to.vlan);
        to.service_vlan = self.service_vlan.or(to.service_vlan);
        to.source_mac = self.source_mac.or(to.source_mac);
        to.destination_mac = self.destination_mac.or(to.destination_mac);
        to.ttl = self.ttl.unwrap_or(to.ttl);
        to.dscp = self.dscp.unwrap_or(to.dscp);
        to.rfc4814 |= self.rfc4814;
        to.rss = self.rss.clone().or(to.rss);
        to.seed = self.seed.unwrap_or(to.seed);
        to.stamp &= !self.no_stamp;
        Ok(to)
    }

    fn capture(&self, path: &std::path::Path) -> Result<Source> {
        let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let capture =
            Capture::read(BufReader::new(file), self.pad, LIMIT).with_context(|| path.display().to_string())?;
        let longest = Longest::of((0..capture.len()).filter_map(|number| Some(capture.frame(number)?.0)));
        let (mean_size, longest) = (capture.mean_size(), longest.unwrap_or(Longest::untagged(64)));
        let frames = capture.len();
        let playback = Playback { speed: self.speed, loops: self.loops, pad: self.pad };
        let replay = Replay::new(capture, &playback)?;
        Ok(Source {
            frames: Box::new(replay),
            described: serde_json::json!({ "pcap": path.display().to_string(), "frames": frames, "loops": self.loops, "speed": self.speed }),
            stamped: false,
            timed: self.speed.is_some(),
            flows: 0,
            mean_size,
            longest,
        })
    }
}

fn described(description: &Description) -> Result<Source> {
    let read = |path: &std::path::Path| std::fs::read_to_string(path);
    let traffic = Traffic::with_files(description, read)?;
    let Ok(serde_json::Value::Object(described)) = serde_json::to_value(description) else {
        bail!("the description of the frames is no JSON");
    };
    let largest = traffic.sizes().max().unwrap_or(64);
    let one_tag = description.vlan.is_some() && description.service_vlan.is_none();
    let longest = Longest::untagged(largest);
    let longest = Longest { mtu: longest.mtu.saturating_sub(if one_tag { 4 } else { 0 }), ..longest };
    Ok(Source {
        described: described.into(),
        stamped: traffic.is_stamped(),
        timed: false,
        flows: traffic.flows(),
        mean_size: traffic.mean_size(),
        longest,
        frames: Box::new(traffic),
    })
}
