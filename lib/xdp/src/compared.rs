// SPDX-License-Identifier: MIT
//! Does the plane read what the router's tables say? The settings that hold are compared with new ones; what is patched
//! in place is one memory for both planes.

use crate::layout::Settings;
use std::mem::offset_of;
use std::ops::Range;
use zerocopy::IntoBytes;

/// Parts of the settings, in bytes, and what a user calls them. Without the slots of links, which differ by the order in
/// which interfaces came.
fn parts() -> [(Range<usize>, &'static str); 8] {
    let starts = [
        (offset_of!(Settings, ports), "ports"),
        (offset_of!(Settings, interfaces), "interfaces"),
        (offset_of!(Settings, vlans), "VLANs"),
        (offset_of!(Settings, marks4), "the router's own addresses"),
        (offset_of!(Settings, list4), "filters"),
    ];
    let ends = starts[1..].iter().map(|(start, _)| *start).chain([size_of::<Settings>()]);
    let mut behind = starts.iter().zip(ends).map(|((start, name), end)| (*start..end, *name));
    let (rules, marks) = (offset_of!(Settings, rules4), offset_of!(Settings, mark_shift4));
    let links = offset_of!(Settings, links);
    std::array::from_fn(|at| match at {
        0 => (0..rules, "lookup structures, next hops and neighbors"),
        1 => (rules..marks, "numbers of filters"),
        2 => (marks..links, "marks of the router's own addresses"),
        _ => behind.next().expect("a part for each"),
    })
}

/// In which parts two settings differ.
pub(crate) fn differing(held: &Settings, wanted: &Settings) -> Vec<&'static str> {
    let (held, wanted) = (held.as_bytes(), wanted.as_bytes());
    let differs = |(range, _): &(Range<usize>, &str)| held[range.clone()] != wanted[range.clone()];
    parts().into_iter().filter(differs).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LINK_SLOTS;
    use zerocopy::FromZeros;

    #[test]
    fn parts_cover_the_settings_but_for_the_slots_of_links() {
        let covered: usize = parts().iter().map(|(range, _)| range.len()).sum();
        assert_eq!(covered, size_of::<Settings>() - LINK_SLOTS * 8);
    }

    #[test]
    fn what_differs_is_named() {
        let new = || Settings::new_box_zeroed().unwrap();
        assert!(differing(&new(), &new()).is_empty());
        let mut other = new();
        (other.nodes, other.interfaces[7].mtu, other.links[3]) = (1, 1500, 5);
        assert_eq!(differing(&new(), &other), ["lookup structures, next hops and neighbors", "interfaces"]);
        let mut other = new();
        (other.rules4, other.list6[0].tail.flags) = (1, 1);
        assert_eq!(differing(&new(), &other), ["numbers of filters", "filters"]);
    }
}
