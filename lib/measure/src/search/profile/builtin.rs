// SPDX-License-Identifier: MIT
//! The profiles that have names.

use super::super::goal::Goal;
use super::*;

/// RFC 2544 section 9.1.
const SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
/// RFC 5180 section 5.1.1, up to what Ethernet without tags and jumbo frames allows. 64 bytes have no room for IPv6, UDP, and the
/// stamp of each frame: 14 + 40 + 8 + 18 + 4 = 84.
const SIZES_IPV6: [u32; 7] = [84, 128, 256, 512, 1024, 1280, 1518];

impl Profile {
    /// As RFC 2544 has it, with 2 s for learning (section 23), latencies also below the throughput, and with 500 tagged frames
    /// (RFC 8219).
    pub fn rfc2544() -> Self {
        Self {
            name: "rfc2544".into(),
            sizes: SIZES.to_vec(),
            sizes_ipv6: SIZES_IPV6.to_vec(),
            settle: Settle { learning: 2.0, drain: 2.0, pause: 5.0 },
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

    /// As ETSI GS NFV-TST 009 has it: a load fails when it is lossy twice. All else as in RFC 2544.
    pub fn tst009() -> Self {
        let throughput = ThroughputPlan { goals: vec![Goal::tst009()], ..Self::rfc2544().throughput };
        Self { name: "tst009".into(), throughput, ..Self::rfc2544() }
    }

    /// For a first look, and for machines that CI runs on: two sizes in a few minutes. Machines that do other things as well lose
    /// a frame now and again; so a load may be lossy in half of its trials, and there is a goal with some loss.
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
            settle: Settle { learning: 0.1, drain: 0.2, pause: 0.2 },
            trust: Trust::default(),
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
