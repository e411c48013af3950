// SPDX-License-Identifier: MIT
//! The list of all modules. A module is its file and one line here: `pub mod`, its number, its C export and prototype
//! in `perigee.h`, its Lua name, its counters, its drop and punt reasons and its page in the documentation follow.

/// Calls the macro `$then` with the registry: `name(one)` for a module that narrows one mask, `name(two)` for one that
/// narrows two (IPv4, IPv6). `host` is not a module: it names what the worker itself drops.
///
/// Numbers are not stored anywhere, so a new line can go anywhere. Tests run the modules in this order.
#[macro_export]
macro_rules! for_each_module {
    ($then:ident) => {
        $then! {
            host(none),
            classify(two),
            ipv4_valid(one),
            ipv6_valid(one),
            filter(two),
            urpf(two),
            multicast(two),
            ipv4_lookup(one),
            ipv6_lookup(one),
            mtu(two),
            redirect(two),
            ttl(one),
            hop_limit(one),
            apply(two),
            distribute(two),
            count(one),
        }
    };
}

macro_rules! module_id {
    ($($name:ident($kind:ident),)*) => {
        /// Number of a module in the registry.
        #[allow(non_camel_case_types)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        pub enum ModuleId { $($name,)* }

        impl ModuleId {
            /// How many there are.
            pub const COUNT: usize = [$(ModuleId::$name,)*].len();
        }
    };
}
for_each_module!(module_id);
