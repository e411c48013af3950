// SPDX-License-Identifier: MIT
//! Which devices stand for the ports that programs ask for, by number or by PCI address: `--port` and `SNABB_PORTS`.

use anyhow::{Context, Result, bail};

/// The environment variable; also how worker processes get their parent's ports.
pub const VARIABLE: &str = "SNABB_PORTS";

/// Devices in the order of their numbers, and the PCI addresses that some of them have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ports(Vec<Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// With its domain, in lower case.
    address: Option<String>,
    device: String,
}

impl Ports {
    /// Those of the command line, then those of the environment. An address in both is the command line's.
    pub fn read(arguments: &[String], variable: Option<&str>) -> Result<Ports> {
        let mut ports = Ports::default();
        for text in arguments {
            ports.add(entry(text).with_context(|| format!("--port {text}"))?).context("--port")?;
        }
        let of_environment = Ports::listed(variable.unwrap_or_default()).context(VARIABLE)?;
        for entry in of_environment.0 {
            if entry.address.is_none() || ports.find(entry.address.as_deref()).is_none() {
                ports.0.push(entry);
            }
        }
        Ok(ports)
    }

    /// Entries apart by line breaks, or if there is none by semicolons.
    fn listed(text: &str) -> Result<Ports> {
        let mut ports = Ports::default();
        let separator = if text.contains('\n') { '\n' } else { ';' };
        for part in text.split(separator).map(str::trim).filter(|part| !part.is_empty()) {
            ports.add(entry(part)?)?;
        }
        Ok(ports)
    }

    fn add(&mut self, entry: Entry) -> Result<()> {
        if let Some(known) = self.find(entry.address.as_deref()) {
            let address = entry.address.unwrap_or_default();
            bail!("{address} is there twice, as {known} and as {}: expected one device", entry.device);
        }
        self.0.push(entry);
        Ok(())
    }

    fn find(&self, address: Option<&str>) -> Option<&str> {
        let address = address?;
        let entry = self.0.iter().find(|entry| entry.address.as_deref() == Some(address))?;
        Some(&entry.device)
    }

    /// The devices, by number.
    pub fn devices(&self) -> Vec<String> {
        self.0.iter().map(|entry| entry.device.clone()).collect()
    }

    /// The devices that have PCI addresses.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|entry| Some((entry.address.as_deref()?, entry.device.as_str())))
    }

    /// The value of the variable that makes another process have the same ports.
    pub fn as_variable(&self) -> String {
        let line = |entry: &Entry| match &entry.address {
            Some(address) => format!("{address}={}\n", entry.device),
            None => format!("{}\n", entry.device),
        };
        self.0.iter().map(line).collect()
    }
}

/// `DEVICE` or `PCI=DEVICE`. The arguments of a device have equals signs, too, but come after a comma.
fn entry(text: &str) -> Result<Entry> {
    let head = text.split(',').next().unwrap_or(text);
    // Not xdp:eth0 and the like.
    let Some((address, _)) = head.split_once('=').filter(|(address, _)| address.contains([':', '.'])) else {
        if head.is_empty() || head.contains('=') {
            bail!("expected a device, or a PCI address, = and a device, such as 0000:01:00.0=eth0; found {text:?}");
        }
        return Ok(Entry { address: None, device: text.to_owned() });
    };
    let device = &text[address.len() + 1..];
    let Some(address) = qualified(address) else {
        bail!("{address:?} is not a PCI address such as 0000:01:00.0 or 01:00.0");
    };
    if device.is_empty() || device.starts_with(',') {
        bail!("{address} has no device: expected one after the equals sign, such as {address}=eth0");
    }
    Ok(Entry { address: Some(address), device: device.to_owned() })
}

/// A PCI address with its domain, in lower case.
fn qualified(text: &str) -> Option<String> {
    let (rest, function) = text.rsplit_once('.')?;
    let parts: Vec<&str> = rest.split(':').collect();
    let (domain, bus, slot) = match parts[..] {
        [domain, bus, slot] => (domain, bus, slot),
        [bus, slot] => ("0000", bus, slot),
        _ => return None,
    };
    let hex = |part: &str, digits| part.len() == digits && part.chars().all(|c| c.is_ascii_hexdigit());
    let plausible = hex(domain, 4) && hex(bus, 2) && hex(slot, 2) && hex(function, 1);
    plausible.then(|| format!("{domain}:{bus}:{slot}.{function}").to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str], variable: &str) -> Result<Ports, String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        Ports::read(&arguments, Some(variable)).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn devices_have_numbers_and_some_have_addresses() {
        let ports = read(&["eth0", "01:00.0=net_tap0,iface=x", "net_pcap0,rx_pcap=a;b"], "").unwrap();
        assert_eq!(ports.devices(), ["eth0", "net_tap0,iface=x", "net_pcap0,rx_pcap=a;b"]);
        assert_eq!(ports.addresses().collect::<Vec<_>>(), [("0000:01:00.0", "net_tap0,iface=x")]);
        // A card with arguments of its driver is a device.
        let card = read(&["0000:3B:00.1,mprq_en=1", "xdp:eth0"], "").unwrap();
        assert_eq!((card.devices().len(), card.addresses().count()), (2, 0));
    }

    #[test]
    fn the_environment_comes_after_the_command_line() {
        let ports = read(&["01:00.0=eth0"], "0000:01:00.0=eth1; AB:00.1=xdp:eth2 ;net_null0").unwrap();
        assert_eq!(ports.devices(), ["eth0", "xdp:eth2", "net_null0"]);
        assert_eq!(ports.addresses().collect::<Vec<_>>(), [("0000:01:00.0", "eth0"), ("0000:ab:00.1", "xdp:eth2")]);
    }

    #[test]
    fn another_process_reads_the_same() {
        let ports = read(&["net_pcap0,rx_pcap=a;b", "01:00.0=eth0"], "").unwrap();
        assert_eq!(read(&[], &ports.as_variable()), Ok(ports));
        assert_eq!(read(&[], ""), Ok(Ports::default()));
        let one = read(&["net_pcap0,rx_pcap=a;b"], "").unwrap();
        assert_eq!(read(&[], &one.as_variable()), Ok(one));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in [
            ("01:00=eth0", "\"01:00\" is not a PCI address"),
            ("0000:01:00.g=eth0", "\"0000:01:00.g\" is not a PCI address"),
            ("01:00.0=", "0000:01:00.0 has no device"),
            ("=eth0", "expected a device"),
            ("x=eth0", "expected a device"),
            (",iface=x", "expected a device"),
        ] {
            let error = read(&[text], "").unwrap_err();
            assert!(error.starts_with("--port") && error.contains(said), "{text}: {error}");
            let error = read(&[], text).unwrap_err();
            assert!(error.starts_with("SNABB_PORTS: ") && error.contains(said), "{text}: {error}");
        }
        let twice = read(&["01:00.0=eth0", "0000:01:00.0=eth1"], "").unwrap_err();
        assert!(twice.contains("0000:01:00.0 is there twice, as eth0 and as eth1"), "{twice}");
    }
}
