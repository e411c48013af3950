// SPDX-License-Identifier: MIT
//! Bits of a packet's `flags`: what receive knows of it, and what a filter has said. They go with the packet from batch
//! to batch.

use super::{BATCH_SIZE, Batch, Mask};

/// The device found the IPv4 header checksum good: it need not be computed again.
pub const IPV4_CHECKSUM_GOOD: u8 = 1;
/// The device found the IPv4 header checksum bad.
pub const IPV4_CHECKSUM_BAD: u8 = 2;
/// `hash` holds the device's flow hash.
pub const HASH: u8 = 4;
/// `time` holds when the frame arrived: by the kernel's clock, unless `DEVICE_TIME` is set, too.
pub const TIME: u8 = 8;
/// `time` is of the device's clock, which may not count from 1970.
pub const DEVICE_TIME: u8 = 16;
/// The configuration's filters let the packet pass, as it was received.
pub const FILTERED: u8 = 32;

/// A byte of 1 in each of eight.
const ONES: u64 = u64::from_le_bytes([1; 8]);

/// Bits as bytes, the lowest first: 1 where a bit is set, else 0.
const fn spread(bits: u8) -> u64 {
    let each = (bits as u64).wrapping_mul(ONES) & 0x8040_2010_0804_0201;
    (each + 0x0040_6070_787c_7e7f) >> 7 & ONES
}

/// The other way round, of bytes that are 0 or 1.
const fn gather(bytes: u64) -> u8 {
    (bytes.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

impl Batch {
    /// Sets a flag of the packets of a mask.
    pub fn set_flag(&mut self, mask: Mask, flag: u8) {
        let used = self.count().div_ceil(8);
        let (words, flag) = (mask.words(), u64::from(flag));
        let (groups, _) = self.flags.as_chunks_mut::<8>();
        for (at, group) in groups.iter_mut().take(used).enumerate() {
            let bits = (words[at / 8] >> (at % 8 * 8)) as u8;
            *group = (u64::from_le_bytes(*group) | (spread(bits) * flag)).to_le_bytes();
        }
    }

    /// The live packets that have a flag.
    pub fn flagged(&self, flag: u8) -> Mask {
        debug_assert!(flag.is_power_of_two());
        let used = self.count().div_ceil(8);
        let (mut bytes, shift) = ([0; BATCH_SIZE / 8], flag.trailing_zeros());
        let (groups, _) = self.flags.as_chunks::<8>();
        for (byte, group) in bytes.iter_mut().zip(groups).take(used) {
            *byte = gather(u64::from_le_bytes(*group) >> shift & ONES);
        }
        Mask::from_bytes(bytes) & self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use crate::batch::heap::HeapPool;

    #[test]
    fn bits_and_bytes_are_the_same() {
        for bits in 0..=u8::MAX {
            let bytes: [u8; 8] = std::array::from_fn(|i| bits >> i & 1);
            assert_eq!(spread(bits), u64::from_le_bytes(bytes));
            assert_eq!(gather(spread(bits)), bits);
        }
    }

    #[test]
    fn a_flag_is_of_the_packets_it_was_set_for_and_changes_no_other() {
        let pool = HeapPool::leak(BATCH_SIZE);
        let mut batch = Batch::new(pool);
        while batch.room() > 6 {
            let packet = pool.packet(&[0; 60]).expect("a packet");
            batch.push(packet, 0).expect("room");
        }
        let all = batch.live();
        let third: Mask = all.filter(|slot| slot % 3 == 0);
        batch.set_flag(all.filter(|slot| slot % 5 == 0), HASH);
        batch.set_flag(third, FILTERED);
        assert_eq!(batch.flagged(FILTERED), third);
        assert_eq!(batch.flagged(HASH), all.filter(|slot| slot % 5 == 0));
        assert!(batch.flagged(TIME).is_empty());
        batch.discard(Mask::only(0));
        assert_eq!(batch.flagged(FILTERED), third - Mask::only(0), "a packet that is gone has none");
    }
}
