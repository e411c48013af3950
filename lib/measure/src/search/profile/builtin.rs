// SPDX-License-Identifier: MIT
//! The built-in profiles.

use super::super::goal::Goal;
use super::*;

/// RFC 2544 section 9.1.
const SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
/// RFC 5180 section 5.1.1, without tagged and jumbo frames. 84 takes the place of 64, which is too short for Ethernet,
/// IPv6, UDP, the stamp and the FCS: 14 + 40 + 8 + 18 + 4 = 84.
const SIZES_IPV6: [u32; 7] = [84, 128, 256, 512, 1024, 1280, 1518];

impl Profile {
    /// RFC 2544, with latency measured also below the throughput, and by 500 frames (RFC 8219) instead of one.
    pub fn rfc2544() -> Self {
        Self {
            name: "rfc2544".into(),
            sizes: SIZES.to_vec(),
            sizes_ipv6: SIZES_IPV6.to_vec(),
            settle: Settle { learning: 2.0, ramp: 1.0, drain: 2.0, pause: 5.0 },
            trust: Trust::default(),
            throughput: ThroughputPlan {
                search: Algorithm::Mlr,
                goals: vec![Goal::rfc2544()],
                minimum: 0.001,
                verify: None,
            },
            latency: Some(LatencyPlan {
                shares: vec![0.1, 0.5, 0.9, 1.0],
                duration: 120.0,
                tag_after: 60.0,
                repeats: 20,
                tagged: 500,
            }),
            loss_rate: Some(LossRatePlan { step: 0.1, duration: 60.0 }),
            back_to_back: Some(BackToBackPlan { longest: 2.0, repeats: 50, resolution: 64, idle: 2.0 }),
            recovery: Some(RecoveryPlan { overload: 1.1, duration: 60.0, fall: 0.5, after: 60.0, repeats: 3 }),
            reset: None,
        }
    }

    /// Like RFC 2544, but with the throughput of ETSI GS NFV-TST 009: a load fails if two trials are lossy.
    pub fn tst009() -> Self {
        let throughput = ThroughputPlan { goals: vec![Goal::tst009()], ..Self::rfc2544().throughput };
        Self { name: "tst009".into(), throughput, ..Self::rfc2544() }
    }

    /// For a first look, and for CI: two frame sizes in a few minutes. Busy machines lose a frame occasionally, so a
    /// load passes even if half of its trials are lossy, and there is a second goal that allows some loss.
    pub fn quick() -> Self {
        let goal = Goal {
            name: "no_loss".into(),
            loss_ratio: 0.0,
            exceed_ratio: 0.5,
            final_duration: 1.0,
            duration_sum: 2.0,
            initial_duration: Some(0.25),
            width: 0.01,
        };
        let partial = Goal { name: "loss_0.5%".into(), loss_ratio: 0.005, ..goal.clone() };
        Self {
            name: "quick".into(),
            sizes: vec![64, 1518],
            sizes_ipv6: vec![84, 1518],
            settle: Settle { learning: 0.1, ramp: 0.05, drain: 0.2, pause: 0.2 },
            // Pauses of 10 ms in a second are common there; the goals' width is as large.
            trust: Trust { unsent: 0.01, ..Trust::default() },
            throughput: ThroughputPlan {
                search: Algorithm::Mlr,
                goals: vec![goal, partial],
                minimum: 0.001,
                verify: None,
            },
            latency: Some(LatencyPlan {
                shares: vec![0.5, 0.9],
                duration: 1.0,
                tag_after: 0.2,
                repeats: 3,
                tagged: 500,
            }),
            loss_rate: Some(LossRatePlan { step: 0.1, duration: 0.5 }),
            back_to_back: Some(BackToBackPlan { longest: 0.5, repeats: 3, resolution: 64, idle: 0.2 }),
            recovery: Some(RecoveryPlan { overload: 1.1, duration: 1.0, fall: 0.5, after: 0.5, repeats: 2 }),
            reset: None,
        }
    }
}
