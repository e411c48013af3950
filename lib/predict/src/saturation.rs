// SPDX-License-Identifier: MIT
//! What a saturated router forwards: limited by its cores, by its links, or by each for some of the flows.
//!
//! Each flow is sent as fast as its direction's link carries, divided by the flows of that direction. A core takes what
//! its flows bring, or what it can. So of three flows of 512 bytes on three cores, two go the same way at 5 Gbit/s
//! each, which their cores can do, and one goes the other way at 10 Gbit/s, of which its core does 6.543: 16.543
//! Gbit/s.

use crate::error::Error;
use crate::points::{Bound, Point};

/// A point's rate as the links and a core's rate make it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturated {
    /// All flows together, in Gbit/s on the wire.
    pub gbps: f64,
    pub directions: [f64; 2],
    /// [`Bound::Line`] if a core could do more than its flows bring.
    pub bound: Bound,
}

/// What comes out, if a core does `core_gbps` and each link and direction `line_gbps`, on the wire.
pub fn saturated(point: &Point, core_gbps: f64, line_gbps: f64) -> Saturated {
    let placed = point.placed();
    let flows = placed.each_ref().map(|cores| f64::from(cores.iter().sum::<u32>()));
    let (mut directions, mut bound) = ([0.0; 2], Bound::Cpu);
    for (&there, &back) in placed[0].iter().zip(&placed[1]) {
        let part = |count: u32, of: f64| if of > 0.0 { line_gbps * f64::from(count) / of } else { 0.0 };
        let offered = [part(there, flows[0]), part(back, flows[1])];
        let sum = offered[0] + offered[1];
        let accepted = sum.min(core_gbps);
        if core_gbps >= sum {
            bound = Bound::Line;
        }
        for (direction, offered) in directions.iter_mut().zip(offered) {
            *direction += accepted * offered / sum;
        }
    }
    Saturated { gbps: directions.iter().sum(), directions, bound }
}

/// The rate of a point's links: its own, or else this.
///
/// # Errors
/// A point that forwarded more than such links carry.
pub fn line_gbps(point: &Point, file: &str, otherwise: f64) -> Result<f64, Error> {
    let line = point.line_gbps.unwrap_or(otherwise);
    let directions = if point.two_way { 2.0 } else { 1.0 };
    // Rounding may take a figure a little over what is possible.
    if point.gbps > line * directions * 1.001 {
        return Err(Error::Cell {
            file: file.to_owned(),
            line: point.line,
            column: None,
            found: format!("{} Gbit/s on the wire", point.gbps),
            expected: format!(
                "at most {line} for each of {directions} directions. Column line_gbps, or link_gbps of the profile, says how \
                 fast links are; column two_way whether flows go both ways"
            ),
        });
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points;
    use proptest::prelude::*;

    fn point(flows: u32, cores: u32, two_way: bool) -> Point {
        let text = format!("flows,cores,frame_size,gbps,two_way\n{flows},{cores},512,1,{}\n", u8::from(two_way));
        points::parse(text.as_bytes(), "p.csv").expect("a point").remove(0)
    }

    #[test]
    fn the_published_row_that_is_limited_in_one_direction_only() {
        // D(3, 512) / 3, with Eq. 5's published parameters.
        let core = ((0.011392 * 3.0 + 0.002709) * 512.0 + 0.227037 * 3.0 + 0.063321) / 3.0;
        let found = saturated(&point(3, 3, true), core, 10.0);
        assert!((found.gbps - 16.5430).abs() < 5e-4 && found.bound == Bound::Line, "{found:?}");
        assert!((found.directions[0] - 10.0).abs() < 1e-9, "{found:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Cores fill each other's place nowhere: the sum over cores, one by one.
        #[test]
        fn limits_hold(flows in 2..300_u32, cores in 1..32_u32, two_way in any::<bool>(), core in 0.01..30.0, line in 0.1..100.0) {
            let point = point(flows, cores.min(flows), two_way);
            let found = saturated(&point, core, line);
            let each = |direction: u32| (0..flows).filter(|flow| !two_way || flow % 2 == direction).count() as f64;
            let mut sum = 0.0;
            for k in 0..point.cores {
                let offered: f64 = (0..flows).filter(|flow| flow % point.cores == k)
                    .map(|flow| line / each(if two_way { flow % 2 } else { 0 })).sum();
                sum += offered.min(core);
            }
            prop_assert!((found.gbps - sum).abs() < 1e-9 * sum);
            for direction in found.directions {
                prop_assert!(direction <= line * (1.0 + 1e-9));
            }
            let all_busy = (found.gbps - core * f64::from(point.cores)).abs() < 1e-9 * found.gbps;
            prop_assert!(found.bound == Bound::Line || all_busy);
        }
    }
}
