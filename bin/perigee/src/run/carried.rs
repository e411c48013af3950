// SPDX-License-Identifier: MIT
//! Interfaces that carry the machine's own traffic: a port would cut it off, the operator's own session with it.

use anyhow::{Result, bail};
use perigee_config::{Config, Device, Port, Stack};
use std::net::IpAddr;

/// Refuses ports on interfaces that carry the machine's own traffic, unless `force` is set or they stay Linux's.
///
/// # Errors
/// The sentence that says what would be lost.
pub(super) fn look(config: &Config, force: bool) -> Result<()> {
    let linux = |port: &Port| match &port.device {
        Device::Linux { interface, .. } => Some((interface.clone(), port.name.clone())),
        Device::Dpdk(_) => None,
    };
    let ports: Vec<(String, String)> = config.ports.iter().filter_map(linux).collect();
    if config.router.stack == Stack::Linux {
        return look_past(force);
    }
    if ports.is_empty() {
        return Ok(());
    }
    let interfaces: Vec<&str> = ports.iter().map(|(interface, _)| interface.as_str()).collect();
    // One that is not there is refused where it is opened.
    let carried = perigee_helper::carried(&interfaces, session()).unwrap_or_else(|error| {
        tracing::warn!("{error}; what they carry is cut off while the router runs");
        Vec::new()
    });
    let what = |((interface, port), carried): (&(String, String), &Vec<String>)| {
        format!("the interface {interface} under port {port} carries {}", list(carried))
    };
    let lost: Vec<String> = ports.iter().zip(&carried).filter(|(_, carried)| !carried.is_empty()).map(what).collect();
    let lost = lost.join("; ");
    match force {
        _ if lost.is_empty() => {}
        true => tracing::warn!("{lost}: that is cut off while the router runs, as --force says"),
        false => bail!(
            "{lost}: that would be cut off while the router runs; take it off the interface, choose another one, or start \
             with --force"
        ),
    }
    Ok(())
}

/// Refuses to forward past Linux's own filters, translations and encryption, unless `force` is set.
fn look_past(force: bool) -> Result<()> {
    // The kernel answers root alone. Other users are refused when the plane is loaded.
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let mut passed = Vec::new();
    match perigee_netlink::forward_chains() {
        Ok(chains) if chains.is_empty() => {}
        Ok(chains) => {
            let chains: Vec<String> = chains.into_iter().map(|chain| format!("`{chain}`")).collect();
            passed.push(format!("rules of nftables ({})", list(&chains)));
        }
        Err(error) => passed.push(format!("any rules of nftables, which the kernel does not tell ({error})")),
    }
    match perigee_netlink::ipsec_policies() {
        Ok(0) => {}
        Ok(count) => passed.push(format!("policies of IPsec (`ip xfrm policy` lists {count})")),
        Err(error) => passed.push(format!("any policies of IPsec, which the kernel does not tell ({error})")),
    }
    if passed.is_empty() {
        return Ok(());
    }
    let what = format!("packets that the in-kernel plane forwards would pass by {}", list(&passed));
    match force {
        true => tracing::warn!("{what}, as --force says"),
        false => bail!(
            "{what}: nothing is dropped, translated or encrypted there; put rules into [[filter]], take them out of Linux, or start \
             with --force"
        ),
    }
    Ok(())
}

/// Where the operator's session comes from, if SSH says it.
fn session() -> Option<IpAddr> {
    from(&std::env::var("SSH_CONNECTION").ok()?)
}

/// The client's address in SSH_CONNECTION: `client port server port`.
fn from(connection: &str) -> Option<IpAddr> {
    let client = connection.split_whitespace().next()?;
    // With the link of a link-local address.
    client.split('%').next()?.parse().ok().map(|client: IpAddr| client.to_canonical())
}

fn list(all: &[String]) -> String {
    match all {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        all => all.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_carried_is_listed_and_the_session_known() {
        let of = |words: &[&str]| list(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            [of(&[]), of(&["a"]), of(&["a", "b"]), of(&["a", "b", "c"])],
            ["", "a", "a and b", "a, b and c"].map(str::to_owned)
        );
        assert_eq!(from("::ffff:10.0.1.2 50000 10.0.1.1 22"), Some("10.0.1.2".parse().unwrap()));
        assert_eq!(from("fe80::1%eth0 50000 fe80::2 22"), Some("fe80::1".parse().unwrap()));
        assert_eq!((from(""), from("x 1 y 2")), (None, None));
    }
}
