// SPDX-License-Identifier: MIT
//! The table `native`: everything that tasks do not call for every burst. `lua/task/perigee/task.lua` makes an
//! interface of it.
//!
//! What fails throws a sentence.

use super::group::{Tasks, wait_for_link};
use super::host::{TaskHost, TaskPool};
use super::machine::DeviceRequest;
use super::shared::SharedDevice;
use super::steer::{Rule, Steering};
use mlua::{Function, LightUserData, Lua, LuaString, Table, Value};
use perigee_net::MacAddr;
use perigee_packet::expression::Expression;
use std::ffi::c_void;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

/// What a task runs.
pub enum Start {
    /// The script's `main`, or a program of libmoon's `master`, with the words of the command line.
    Main(Vec<String>),
    /// A function by its name, with encoded arguments.
    Call { name: String, arguments: Vec<u8>, numa_node: Option<u16> },
}

impl Start {
    pub fn name(&self) -> &str {
        match self {
            Start::Main(_) => "main",
            Start::Call { name, .. } => name,
        }
    }

    /// The NUMA node to run on, or that of the devices among its arguments.
    pub fn numa_node(&self) -> Option<u16> {
        match self {
            Start::Main(_) => None,
            Start::Call { numa_node, .. } => *numa_node,
        }
    }

    /// Calls it by the VM's own function; what it returns, encoded.
    pub fn call(&self, lua: &Lua, run: &Function) -> mlua::Result<Vec<u8>> {
        let result: LuaString = match self {
            Start::Main(words) => run.call(("main", lua.create_sequence_from(words.iter().map(String::as_str))?))?,
            Start::Call { name, arguments, .. } => run.call((name.as_str(), lua.create_string(arguments)?))?,
        };
        Ok(result.as_bytes().to_vec())
    }
}

fn throw(why: impl std::fmt::Display) -> mlua::Error {
    mlua::Error::runtime(why)
}

fn pointer(address: usize) -> LightUserData {
    LightUserData(address as *mut c_void)
}

/// The table for the task `id`, whose host is at `host`.
pub fn table(lua: &Lua, tasks: &Arc<Tasks>, id: u32, host: *mut c_void) -> mlua::Result<Table> {
    let to = lua.create_table()?;
    to.set("id", id)?;
    start_and_end(lua, &to, tasks, id)?;
    devices(lua, &to, tasks)?;
    packets(lua, &to, tasks, id, host as usize)?;
    Ok(to)
}

fn start_and_end(lua: &Lua, to: &Table, tasks: &Arc<Tasks>, id: u32) -> mlua::Result<()> {
    let group = tasks.clone();
    let start = move |_: &Lua, (name, arguments, core, numa_node): (String, LuaString, Option<usize>, Option<u16>)| {
        if let Some(core) = core
            && !group.machine().cores().iter().any(|usable| usable.number == core)
        {
            let usable: Vec<String> = group.machine().cores().iter().map(|core| core.number.to_string()).collect();
            return Err(throw(format!(
                "there is no core {core} to start {name} on: expected one of {}",
                usable.join(", ")
            )));
        }
        let arguments = arguments.as_bytes().to_vec();
        let id = group.start(Start::Call { name, arguments, numa_node }, core).map_err(throw)?;
        Ok((id, group.shares_core(id)))
    };
    let start = lua.create_function(move |lua, arguments| {
        let (id, shared): (u32, Option<(String, usize)>) = start(lua, arguments)?;
        let (other, core) = shared.unzip();
        Ok((id, other, core))
    })?;
    to.set("start", start)?;
    let group = tasks.clone();
    let wait = move |lua: &Lua, id: u32| group.wait(id).map(|result| lua.create_string(result)).transpose();
    to.set("wait", lua.create_function(wait)?)?;
    let group = tasks.clone();
    let wait_others = move |_: &Lua, ()| {
        group.wait_others(id);
        Ok(())
    };
    to.set("wait_others", lua.create_function(wait_others)?)?;
    let group = tasks.clone();
    to.set("ended", lua.create_function(move |_, id: u32| Ok(group.ended(id)))?)?;
    let group = tasks.clone();
    let stop = move |_: &Lua, ()| {
        group.stop();
        Ok(())
    };
    to.set("stop", lua.create_function(stop)?)?;
    let group = tasks.clone();
    let limit = move |_: &Lua, seconds: f64| {
        group.limit(nanoseconds(seconds)?);
        Ok(())
    };
    to.set("limit", lua.create_function(limit)?)?;
    let group = tasks.clone();
    let cores = move |lua: &Lua, ()| lua.create_sequence_from(group.machine().cores().iter().map(|core| core.number));
    to.set("cores", lua.create_function(cores)?)?;
    let group = tasks.clone();
    let shared = move |lua: &Lua, name: String| group.shared(&name).map(|value| lua.create_string(value)).transpose();
    to.set("shared", lua.create_function(shared)?)?;
    let group = tasks.clone();
    let set_shared = move |_: &Lua, (name, value): (String, Option<LuaString>)| {
        group.set_shared(name, value.map(|value| value.as_bytes().to_vec()));
        Ok(())
    };
    to.set("set_shared", lua.create_function(set_shared)?)?;
    let group = tasks.clone();
    let share_once = move |lua: &Lua, (name, value): (String, LuaString)| {
        lua.create_string(group.share_once(name, value.as_bytes().to_vec()))
    };
    to.set("share_once", lua.create_function(share_once)?)?;
    let group = tasks.clone();
    let shared_names = move |lua: &Lua, ()| lua.create_sequence_from(group.shared_names());
    to.set("shared_names", lua.create_function(shared_names)?)?;
    let group = tasks.clone();
    let drops = move |lua: &Lua, ()| {
        let list = lua.create_table()?;
        for (module, reason, packets) in group.drops() {
            list.set(format!("{module}.{reason}"), packets as f64)?;
        }
        Ok(list)
    };
    to.set("drops", lua.create_function(drops)?)
}

/// Seconds as ns; what is no time is an error.
fn nanoseconds(seconds: f64) -> mlua::Result<u64> {
    if seconds >= 0.0 && !seconds.is_nan() {
        Ok((seconds * 1e9) as u64)
    } else {
        Err(throw(format!("{seconds} is no time: expected seconds, 0 or more")))
    }
}

/// The options of a device.
fn requested(name: String, options: &Table) -> mlua::Result<DeviceRequest> {
    const KEYS: [&str; 9] =
        ["rx", "tx", "rx_descriptors", "tx_descriptors", "buffers", "mtu", "mac", "promiscuous", "share"];
    for pair in options.pairs::<Value, Value>() {
        let (key, _) = pair?;
        let key = key.to_string()?;
        if !KEYS.contains(&key.as_str()) {
            return Err(throw(format!("device {name}: there is no option {key}; expected one of {}", KEYS.join(", "))));
        }
    }
    let number = |key: &str, least: u32, most: u32| -> mlua::Result<Option<u32>> {
        match options.get::<Value>(key)? {
            Value::Nil => Ok(None),
            value => match value.as_u32().filter(|n| (least..=most).contains(n)) {
                Some(n) => Ok(Some(n)),
                None => Err(throw(format!(
                    "device {name}: {key} is {}, expected a whole number from {least} to {most}",
                    value.to_string()?
                ))),
            },
        }
    };
    let small = |key: &str, most: u16| Ok::<_, mlua::Error>(number(key, 1, most.into())?.map(|n| n as u16));
    let mac = match options.get::<Option<String>>("mac")? {
        None => None,
        Some(text) => {
            Some(text.parse::<MacAddr>().map_err(|error| throw(format!("device {name}: mac {text:?}: {error}")))?)
        }
    };
    Ok(DeviceRequest {
        receive_queues: small("rx", 64)?.unwrap_or(1),
        transmit_queues: small("tx", 64)?.unwrap_or(1),
        receive_descriptors: small("rx_descriptors", 32_768)?,
        transmit_descriptors: small("tx_descriptors", 32_768)?,
        buffers: number("buffers", 63, 1 << 24)?,
        mtu: number("mtu", 68, 9600)?.map(|n| n as u16),
        mac,
        promiscuous: options.get::<Option<bool>>("promiscuous")?.unwrap_or(true),
        share: options.get::<Option<bool>>("share")?.unwrap_or(false),
        ..DeviceRequest::new(&name)
    })
}

fn devices(lua: &Lua, to: &Table, tasks: &Arc<Tasks>) -> mlua::Result<()> {
    let group = tasks.clone();
    let open = move |_: &Lua, (name, options): (Value, Table)| {
        let name = match &name {
            Value::String(name) => name.to_str()?.to_owned(),
            number => match number.as_usize() {
                Some(number) => group.port(number).map_err(throw)?,
                None => {
                    return Err(throw(format!(
                        "a device is {}, expected its name or the number of a --port",
                        name.type_name()
                    )));
                }
            },
        };
        // Without options, one that is open will do.
        match group.find(&name).filter(|_| options.is_empty()) {
            Some(number) => Ok(number),
            None => group.open(&requested(name, &options)?).map_err(throw),
        }
    };
    to.set("open", lua.create_function(open)?)?;
    let group = tasks.clone();
    to.set("devices", lua.create_function(move |_, ()| Ok(group.devices()))?)?;
    let group = tasks.clone();
    let ports = move |lua: &Lua, ()| lua.create_sequence_from(group.ports().iter().map(String::as_str));
    to.set("ports", lua.create_function(ports)?)?;
    let group = tasks.clone();
    let describe = move |lua: &Lua, number: usize| describe(lua, &*group.device(number).map_err(throw)?);
    to.set("device", lua.create_function(describe)?)?;
    let group = tasks.clone();
    let stats = move |lua: &Lua, number: usize| {
        let device = group.device(number).map_err(throw)?;
        let stats = device.port.stats();
        // What found no room with its queue has not been received.
        let missed = device.steering.as_ref().map_or(0, Steering::missed);
        let table = lua.create_table()?;
        for (name, n) in [
            ("rx_packets", stats.rx_packets.saturating_sub(missed)),
            ("rx_bytes", stats.rx_bytes),
            ("rx_missed", stats.rx_missed + missed),
            ("rx_errors", stats.rx_errors),
            ("rx_no_buffer", stats.rx_no_buffer),
            ("tx_packets", stats.tx_packets),
            ("tx_bytes", stats.tx_bytes),
            ("tx_errors", stats.tx_errors),
        ] {
            table.set(name, n as f64)?;
        }
        Ok(table)
    };
    to.set("stats", lua.create_function(stats)?)?;
    let group = tasks.clone();
    let link = move |_: &Lua, (number, seconds): (usize, f64)| {
        let (device, longest) = (group.device(number).map_err(throw)?, Duration::from_nanos(nanoseconds(seconds)?));
        let up = wait_for_link(&*device.port, longest, || group.running(group.machine().now(), 0));
        Ok((up, device.port.link().speed))
    };
    to.set("link", lua.create_function(link)?)?;
    let group = tasks.clone();
    let promiscuous = move |_: &Lua, (number, on): (usize, bool)| {
        group.device(number).map_err(throw)?.port.set_promiscuous(on).map_err(throw)
    };
    to.set("promiscuous", lua.create_function(promiscuous)?)
}

/// A device's description, with the addresses of its queues.
fn describe(lua: &Lua, device: &SharedDevice) -> mlua::Result<Table> {
    let (info, table) = (device.port.info(), lua.create_table()?);
    table.set("name", device.name.as_str())?;
    table.set("device", info.device)?;
    table.set("driver", info.driver)?;
    table.set("mac", info.mac.to_string())?;
    table.set("mtu", info.mtu)?;
    table.set("port", info.port)?;
    table.set("numa_node", info.numa_node)?;
    table.set("notes", info.notes)?;
    let receive = device.receive.iter().map(|queue| pointer(&raw const **queue as usize));
    table.set("receive", lua.create_sequence_from(receive)?)?;
    let transmit = device.transmit.iter().map(|queue| pointer(&raw const **queue as usize));
    table.set("transmit", lua.create_sequence_from(transmit)?)?;
    Ok(table)
}

fn packets(lua: &Lua, to: &Table, tasks: &Arc<Tasks>, id: u32, host: usize) -> mlua::Result<()> {
    let group = tasks.clone();
    let pool = move |_: &Lua, (buffers, room, node, prototype, programs): (u32, u16, Option<u16>, LuaString, bool)| {
        let machine = group.machine();
        let pool = if programs { machine.programs_pool(node) } else { machine.pool(buffers, room, node) };
        let pool = pool.map_err(throw)?;
        // SAFETY: the task's host, which outlives its VM; Lua is in the middle of a call to us alone.
        let host = unsafe { &mut *(host as *mut TaskHost) };
        Ok(LightUserData(host.new_pool(TaskPool::new(pool, prototype.as_bytes().to_vec())).cast()))
    };
    to.set("pool", lua.create_function(pool)?)?;
    let group = tasks.clone();
    to.set("ring", lua.create_function(move |_, capacity: u32| group.ring(capacity).map(pointer).map_err(throw))?)?;
    let group = tasks.clone();
    to.set("pipe", lua.create_function(move |_, capacity: usize| group.pipe(capacity).map(pointer).map_err(throw))?)?;
    let group = tasks.clone();
    let leave = move |_: &Lua, queue: usize| {
        group.leave(id, queue);
        Ok(())
    };
    to.set("leave", lua.create_function(leave)?)?;
    let group = tasks.clone();
    // ns per frame and per byte; both 0: no limit.
    let rate = move |_: &Lua, (queue, frame_ns, byte_ns): (usize, f64, f64)| {
        let fine = |ns: f64| ns >= 0.0 && ns.is_finite();
        if !(fine(frame_ns) && fine(byte_ns)) {
            return Err(throw("a rate that is no number above 0"));
        }
        group.set_rate(queue, frame_ns, byte_ns).map_err(throw)
    };
    to.set("rate", lua.create_function(rate)?)?;
    let group = tasks.clone();
    let steer = move |_: &Lua, (device, queue, kind, what): (usize, usize, String, Value)| {
        let rule = match (kind.as_str(), &what) {
            ("ether_type", value) => value.as_u32().and_then(|n| u16::try_from(n).ok()).map(Rule::EtherType),
            ("ptp_over_udp", _) => Some(Rule::PtpOverUdp),
            (_, Value::String(text)) => {
                Some(Rule::Expression(Expression::parse(&text.to_str()?, |_| None).map_err(throw)?))
            }
            _ => None,
        };
        let rule = rule.ok_or_else(|| throw("a rule is an expression such as \"udp port 53\""))?;
        group.steer(device, queue, rule).map_err(throw)
    };
    to.set("steer", lua.create_function(steer)?)?;
    to.set("filter", lua.create_function(filter)?)?;
    let address = |lua: &Lua, text: String| match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => lua.create_string(address.octets()),
        Ok(IpAddr::V6(address)) => lua.create_string(address.octets()),
        Err(_) => Err(throw(format!("found {text:?}, expected an IPv4 or IPv6 address"))),
    };
    to.set("address", lua.create_function(address)?)?;
    let mac = |lua: &Lua, text: String| match text.parse::<MacAddr>() {
        Ok(mac) => lua.create_string(mac.0),
        Err(error) => Err(throw(format!("MAC address {text:?}: {error}"))),
    };
    to.set("mac", lua.create_function(mac)?)?;
    let text = |_: &Lua, bytes: LuaString| match &*bytes.as_bytes() {
        [a, b, c, d] => Ok(Ipv4Addr::new(*a, *b, *c, *d).to_string()),
        [a, b, c, d, e, f] => Ok(MacAddr([*a, *b, *c, *d, *e, *f]).to_string()),
        bytes => match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) => Ok(Ipv6Addr::from(bytes).to_string()),
            Err(_) => Err(throw(format!("an address of {} bytes: expected 4, 6 or 16", bytes.len()))),
        },
    };
    to.set("address_text", lua.create_function(text)?)?;
    // Checksums of a frame that is made as a string.
    let checksums = |lua: &Lua, (frame, l3): (LuaString, usize)| {
        let mut frame = frame.as_bytes().to_vec();
        perigee_packet::wire::checksums::fill(&mut frame, l3);
        lua.create_string(frame)
    };
    to.set("checksums", lua.create_function(checksums)?)
}

/// `native.filter(text)`: a compiled filter expression, which is good as long as the VM lives.
fn filter(lua: &Lua, text: String) -> mlua::Result<LightUserData> {
    let expression = Expression::parse(&text, |_| None).map_err(throw)?;
    let kept = lua.create_any_userdata(expression)?;
    let at = std::ptr::from_ref(&*kept.borrow::<Expression>()?).cast_mut().cast::<c_void>();
    // The registry keeps it until the VM ends.
    std::mem::forget(lua.create_registry_value(kept)?);
    Ok(LightUserData(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_of_seconds_from_0_on() {
        assert_eq!([0.0, 1.5, 1e-9].map(|seconds| nanoseconds(seconds).unwrap()), [0, 1_500_000_000, 1]);
        assert_eq!(nanoseconds(f64::INFINITY).unwrap(), u64::MAX, "for ever");
        for wrong in [-1e-9, f64::NAN] {
            let error = nanoseconds(wrong).unwrap_err().to_string();
            assert!(error.contains("is no time: expected seconds, 0 or more"), "{error}");
        }
    }

    /// What a table of options asks for, or why it cannot be.
    fn asked(options: &str) -> Result<DeviceRequest, String> {
        let lua = Lua::new();
        let table: Table = lua.load(format!("return {{{options}}}")).eval().unwrap();
        requested("d".to_owned(), &table).map_err(|error| error.to_string())
    }

    #[test]
    fn options_of_a_device_are_taken_from_a_table() {
        assert_eq!(asked(""), Ok(DeviceRequest::new("d")));
        let all = "rx = 2, tx = 3, rx_descriptors = 4, tx_descriptors = 5, buffers = 100, mtu = 1400, \
            mac = '02:00:00:00:00:07', promiscuous = false, share = true";
        let expected = DeviceRequest {
            name: "d".to_owned(),
            receive_queues: 2,
            transmit_queues: 3,
            receive_descriptors: Some(4),
            transmit_descriptors: Some(5),
            buffers: Some(100),
            mtu: Some(1400),
            mac: Some(MacAddr([2, 0, 0, 0, 0, 7])),
            promiscuous: false,
            share: true,
        };
        assert_eq!(asked(all), Ok(expected));
    }

    #[test]
    fn options_of_a_device_have_limits() {
        for (key, least, most) in [
            ("rx", 1, 64),
            ("tx", 1, 64),
            ("rx_descriptors", 1, 32_768),
            ("tx_descriptors", 1, 32_768),
            ("buffers", 63, 1 << 24),
            ("mtu", 68, 9600),
        ] {
            assert!(asked(&format!("{key} = {least}")).is_ok() && asked(&format!("{key} = {most}")).is_ok(), "{key}");
            for wrong in [format!("{}", least - 1), format!("{}", most + 1), format!("{least}.5"), "'x'".to_owned()] {
                let error = asked(&format!("{key} = {wrong}")).unwrap_err();
                let expected = format!("expected a whole number from {least} to {most}");
                assert!(error.contains(&format!("device d: {key} is ")) && error.contains(&expected), "{error}");
            }
        }
        assert!(asked("rxx = 1").unwrap_err().contains("there is no option rxx; expected one of rx, tx, "));
        assert!(asked("mac = 'x'").unwrap_err().contains("device d: mac \"x\": "));
    }
}
