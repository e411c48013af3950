// SPDX-License-Identifier: MIT
//! What to measure of a router so that its profile is determined, and where to look whether it holds.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Networks of most settings: their routes are in the innermost caches.
const FEW: u32 = 256;
/// The burst and the frame size of most settings: a router's by default, and the shortest.
const BURST: u32 = 32;
const SHORTEST: u32 = 64;
/// Shares of a core's capacity at which times are measured.
const LOADS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.8];

/// Numbers of cores that are measured on a machine that has more of them: each further one costs as much as all cores
/// take for a setting.
const LADDER: [u32; 10] = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64];

/// The numbers of cores to measure on, of up to `most` cores: all of a few, some of many, and `most` itself.
pub fn ladder(most: u32) -> Vec<u32> {
    LADDER.into_iter().filter(|cores| *cores < most).chain((most > 0).then_some(most)).collect()
}

/// What a router is measured under.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Workers, a core each.
    pub cores: u32,
    /// Flow i is on core i mod cores.
    pub flows: u32,
    /// Do flows go both ways, by turns?
    pub two_way: bool,
    /// Bytes of a frame, check sequence included.
    pub frame_size: u32,
    /// Packets that a core takes at once, at most.
    pub burst: u32,
    /// Networks that packets are for, each with a route.
    pub networks: u32,
    /// Share of the packets that go to the slow path.
    pub punted: f64,
}

impl Setting {
    /// The one from which all others differ in something.
    pub fn plain() -> Setting {
        Setting { cores: 1, flows: 1, two_way: false, frame_size: SHORTEST, burst: BURST, networks: FEW, punted: 0.0 }
    }

    /// Of so many cores and their flows.
    fn on(cores: u32, two_way: bool) -> Setting {
        Setting { cores, flows: if two_way { 2 * cores } else { cores }, two_way, ..Setting::plain() }
    }

    /// In a few words.
    pub fn words(&self) -> String {
        let Setting { cores, two_way, frame_size, burst, networks, punted, .. } = self;
        let mut text = format!("{cores} core{}", if *cores == 1 { "" } else { "s" });
        let _ = write!(text, ", {frame_size} bytes, bursts of {burst}, {networks} networks");
        if *two_way {
            text += ", both ways";
        }
        if *punted > 0.0 {
            let _ = write!(text, ", {:.1} % for the slow path", punted * 100.0);
        }
        text
    }
}

/// The settings that determine a profile's service times, on up to `cores` cores.
pub fn identifying(cores: u32, quick: bool) -> Vec<Setting> {
    let plain = Setting::plain;
    let mut all = vec![plain()];
    let bursts: &[u32] = if quick { &[1, 4, 16, 64] } else { &[1, 2, 4, 8, 16, 64, 128] };
    all.extend(bursts.iter().map(|burst| Setting { burst: *burst, ..plain() }));
    let sizes: &[u32] = if quick { &[1518] } else { &[256, 512, 1024, 1518] };
    all.extend(sizes.iter().map(|size| Setting { frame_size: *size, ..plain() }));
    let networks: &[u32] = match quick {
        true => &[1 << 12, 1 << 16, 1 << 18, 1 << 20],
        false => &[1 << 10, 1 << 12, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21],
    };
    all.extend(networks.iter().map(|networks| Setting { networks: *networks, ..plain() }));
    let shares: &[f64] = if quick { &[0.1, 0.5] } else { &[0.01, 0.05, 0.1, 0.25, 0.5] };
    all.extend(shares.iter().map(|share| Setting { punted: *share, ..plain() }));
    all.push(Setting::on(1, true));
    all.push(Setting { burst: 8, ..Setting::on(1, true) });
    for cores in ladder(cores).into_iter().skip(1) {
        all.extend([Setting::on(cores, false), Setting::on(cores, true)]);
        if !quick {
            all.extend([8, 64].map(|burst| Setting { burst, ..Setting::on(cores, false) }));
            all.push(Setting { networks: 1 << 18, ..Setting::on(cores, false) });
        }
    }
    all
}

/// Shares of a core's capacity at which times are measured.
pub fn loads() -> [f64; 5] {
    LOADS
}

/// So many settings of which none is likely to be among [`identifying`], drawn at random.
pub fn held_out(count: usize, cores: u32, seed: u64) -> Vec<Setting> {
    let mut random = StdRng::seed_from_u64(seed);
    // Those that a profile has references for.
    let numbers = ladder(cores);
    let mut draw = || {
        let workers = numbers[random.random_range(0..numbers.len() as u32) as usize];
        let two_way = random.random_bool(0.4);
        let flows = workers * random.random_range(1..=4) * if two_way { 2 } else { 1 };
        Setting {
            cores: workers,
            flows,
            two_way,
            frame_size: random.random_range(64..=1518),
            burst: 2_f64.powf(random.random_range(2.0..6.5)).round() as u32,
            networks: 2_f64.powf(random.random_range(7.0..20.0)).round() as u32,
            // Whoever takes such packets needs a core.
            punted: if random.random_bool(0.5) || workers == cores { 0.0 } else { random.random_range(0.0..0.2) },
        }
    };
    (0..count).map(|_| draw()).collect()
}

/// Loads between a tenth and four fifths of a core's capacity, and settings for them, drawn at random.
pub fn held_out_loads(count: usize, seed: u64) -> Vec<(Setting, f64)> {
    let mut random = StdRng::seed_from_u64(seed ^ 0x6c6f_6164);
    let mut draw = || {
        let networks = 2_f64.powf(random.random_range(7.0..18.0)).round() as u32;
        (Setting { networks, ..Setting::plain() }, random.random_range(0.1..0.8))
    };
    (0..count).map(|_| draw()).collect()
}

/// Loads above a core's capacity, drawn at random: what is lost.
pub fn held_out_overloads(count: usize, seed: u64) -> Vec<(Setting, f64)> {
    let mut random = StdRng::seed_from_u64(seed ^ 0x6f76_6572);
    let mut draw =
        || (Setting { frame_size: random.random_range(64..=1518), ..Setting::plain() }, random.random_range(1.05..1.6));
    (0..count).map(|_| draw()).collect()
}

/// A measured setting: million packets per second, and of each round alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub setting: Setting,
    pub mpps: f64,
    pub rounds: Vec<f64>,
    /// A core that something else slowed down in all rounds: the rate is not that of this number of cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<Slow>,
}

/// A core that did less than the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slow {
    pub core: usize,
    /// Of what they did.
    pub share: f64,
}

/// The points as a CSV file, which [`points`](crate::points) reads; `head` are lines of comments, and so are points
/// with a slow core.
pub fn csv(head: &[String], measured: &[Measured]) -> String {
    let mut text = String::new();
    for line in head {
        let _ = writeln!(text, "# {line}");
    }
    text += "flows,cores,frame_size,mpps,two_way,burst,routes,destinations,punted,bound,#rounds\n";
    for Measured { setting, mpps, rounds, slow } in measured {
        let Setting { cores, flows, two_way, frame_size, burst, networks, punted } = setting;
        let rounds: Vec<String> = rounds.iter().map(|round| format!("{round:.4}")).collect();
        if let Some(Slow { core, share }) = slow {
            let _ = write!(text, "# left out, as core {core} did {share:.2} of what the others did: ");
        }
        let _ = writeln!(
            text,
            "{flows},{cores},{frame_size},{mpps:.4},{},{burst},{networks},{networks},{punted},cpu,{}",
            u8::from(*two_way),
            rounds.join(" ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All numbers of cores up to 16 were measured, each with that many workers, first of all 60 times for references.
    #[test]
    fn many_cores_are_measured_in_steps() {
        assert_eq!(
            (ladder(1), ladder(2), ladder(3), ladder(6)),
            (vec![1], vec![1, 2], vec![1, 2, 3], vec![1, 2, 4, 6])
        );
        assert_eq!((ladder(16), ladder(17).len()), (vec![1, 2, 4, 8, 12, 16], 7));
        assert_eq!((ladder(64), ladder(0)), (LADDER.to_vec(), vec![]));
        for (cores, quick, most) in [(1, true, 14), (16, true, 24), (64, true, 32), (16, false, 54), (64, false, 74)] {
            let settings = identifying(cores, quick);
            assert_eq!(settings.len(), most, "{cores} cores");
            assert!(settings.iter().all(|setting| ladder(cores).contains(&setting.cores)));
            assert_eq!(settings.iter().map(|setting| setting.cores).max(), Some(cores));
        }
    }

    #[test]
    fn held_out_settings_follow_from_their_seed_and_can_be_measured() {
        assert_eq!(held_out(20, 2, 7), held_out(20, 2, 7));
        assert_ne!(held_out(20, 2, 7), held_out(20, 2, 8));
        for setting in held_out(1000, 3, 1) {
            assert!((1..=3).contains(&setting.cores) && setting.flows >= setting.cores);
            assert!(!setting.two_way || setting.flows >= 2 && setting.networks >= 2);
            assert!((4..=91).contains(&setting.burst) && (64..=1518).contains(&setting.frame_size));
            assert!((0.0..0.2).contains(&setting.punted));
        }
        assert!(held_out_loads(100, 3).iter().all(|(_, load)| (0.1..0.8).contains(load)));
        assert!(held_out_overloads(100, 3).iter().all(|(_, load)| (1.05..1.6).contains(load)));
    }

    #[test]
    fn points_are_read_back() {
        for quick in [true, false] {
            let mut measured: Vec<Measured> = identifying(2, quick)
                .into_iter()
                .map(|setting| Measured { setting, mpps: 12.5, rounds: vec![12.5], slow: None })
                .collect();
            let slow = Measured { slow: Some(Slow { core: 1, share: 0.6 }), ..measured[3].clone() };
            let with_slow = [&measured[..2], &[slow], &measured[2..]].concat();
            let text = csv(&["a machine".to_owned()], &with_slow);
            assert!(text.contains("\n# left out, as core 1 did 0.60 of what the others did: 1,1,64,"), "{text}");
            measured.retain(|measured| measured.slow.is_none());
            let read = crate::points::parse(text.as_bytes(), "points.csv").expect("points");
            assert_eq!(read.len(), measured.len());
            for (point, Measured { setting, .. }) in read.iter().zip(&measured) {
                assert_eq!((point.cores, point.flows, point.two_way), (setting.cores, setting.flows, setting.two_way));
                assert_eq!((point.burst, point.punted), (Some(setting.burst), Some(setting.punted)));
                assert_eq!(point.working_set, Some(64.0 * f64::from(setting.networks)));
            }
        }
    }
}
