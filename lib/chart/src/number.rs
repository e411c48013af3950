// SPDX-License-Identifier: MIT
//! Numbers as tables and sentences show them.

pub use crate::svg::significant;

/// Four significant digits and a prefix: `10 G`, `14.88 M`.
pub fn prefixed(value: f64) -> String {
    let (scaled, prefix) = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(factor, _)| value >= *factor)
        .map_or((value, ""), |(factor, prefix)| (value / factor, prefix));
    format!("{} {prefix}", significant(scaled, 4))
}

/// A share in percent, three digits: `0.0012%`.
pub fn share(value: f64) -> String {
    format!("{}%", significant(value * 100.0, 3))
}

/// Nanoseconds in a unit that suits, three digits: `12.3us`.
pub fn time(nanoseconds: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let (value, unit) = units
        .into_iter()
        .find(|(factor, _)| nanoseconds >= *factor * 0.9995)
        .map_or((nanoseconds, "ns"), |(factor, unit)| (nanoseconds / factor, unit));
    format!("{}{unit}", significant(value, 3))
}

/// A loss as a share; less than a packet in ten thousand million is none.
pub fn loss(loss: f64) -> String {
    if loss < 1e-10 { "0%".to_owned() } else { share(loss) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([999.0, 14.88e6, 1e10].map(prefixed), ["999 ", "14.88 M", "10 G"]);
        assert_eq!((share(0.000_012), loss(1e-11), loss(0.5)), ("0.0012%".into(), "0%".into(), "50%".into()));
        assert_eq!([0.5, 999.6, 12_345.0, 2e9].map(time), ["0.5ns", "1us", "12.3us", "2s"]);
    }
}
