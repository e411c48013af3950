// SPDX-License-Identifier: MIT
//! The requests of `ioctl` of each kind of thread. The kernel looks at 32 bits of a request, and so do the filters. All
//! others are refused, whatever descriptor they are for: typing into a terminal or taking one over (`TIOCSTI`,
//! `TIOCLINUX`, `TIOCSCTTY`), changing a twin behind Linux's back (`TUNSETPERSIST`, `TUNSETOWNER`, `SIOCSIFHWADDR`),
//! changing an interface (`SIOCS...`).

/// An interface's number, MTU, MAC address, whether it is up; its driver, carrier, speed and queues. By a packet
/// socket: when the interface under it was made again (workers), and for `perigee show ports` (slow path; DPDK's
/// `af_packet`, `af_xdp` and `tap` likewise). What changes an interface by the last of these takes CAP_NET_ADMIN, which
/// no thread has.
pub(super) const INTERFACES: &[u32] = &[
    libc::SIOCGIFINDEX as u32,
    libc::SIOCGIFMTU as u32,
    libc::SIOCGIFHWADDR as u32,
    libc::SIOCGIFFLAGS as u32,
    SIOCETHTOOL,
];

const SIOCETHTOOL: u32 = 0x8946;

/// Making a socket non-blocking, as Rust's library does it: connections to the API, to FPM and to metrics.
pub(super) const SOCKETS: &[u32] = &[libc::FIONBIO as u32];

/// PCI devices by vfio (linux/vfio.h), while they move packets: interrupts, and memory that DPDK has got for its heap,
/// or gives back.
pub(super) const VFIO: &[u32] = &[VFIO_DEVICE_SET_IRQS, VFIO_IOMMU_MAP_DMA, VFIO_IOMMU_UNMAP_DMA];

/// PCI devices until they are closed: a reset, the group that leaves its container; NVIDIA's by verbs
/// (rdma/rdma_user_ioctl_cmds.h). Those by uio need none: their interrupts are read from a file.
pub(super) const PCI: &[u32] = &[
    VFIO_GROUP_UNSET_CONTAINER,
    VFIO_DEVICE_GET_INFO,
    VFIO_DEVICE_GET_REGION_INFO,
    VFIO_DEVICE_GET_IRQ_INFO,
    VFIO_DEVICE_RESET,
    RDMA_VERBS_IOCTL,
];

const VFIO_GROUP_UNSET_CONTAINER: u32 = 0x3b69;
const VFIO_DEVICE_GET_INFO: u32 = 0x3b6b;
const VFIO_DEVICE_GET_REGION_INFO: u32 = 0x3b6c;
const VFIO_DEVICE_GET_IRQ_INFO: u32 = 0x3b6d;
const VFIO_DEVICE_SET_IRQS: u32 = 0x3b6e;
const VFIO_DEVICE_RESET: u32 = 0x3b6f;
const VFIO_IOMMU_MAP_DMA: u32 = 0x3b71;
const VFIO_IOMMU_UNMAP_DMA: u32 = 0x3b72;
const RDMA_VERBS_IOCTL: u32 = 0xc018_1b01;
