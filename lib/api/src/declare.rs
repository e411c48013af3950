// SPDX-License-Identifier: MIT
//! How queries, answers and states are declared: once, so that server, client and documentation follow.
//!
//! ```text
//! queries! { GET "/v1/ports": ShowPorts {} -> Vec<PortStatus>; }   a struct, its [`Query`], a variant of `Show`
//! objects! { pub struct PortStatus { ... } }                       a struct, its JSON, its table in docs/api.md
//! states!  { pub enum LinkState { Up = "up", ... } }               an enum, its JSON, its values in docs/api.md
//! ```

use crate::ask::Reply;
use crate::document::{Page, Row};
use crate::queries::Request;
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Something with a path. Its fields are its parameters: in the URL of a GET, in the JSON body of every other method.
pub trait Endpoint: Serialize + DeserializeOwned + Describe + Send + 'static {
    /// The HTTP method.
    const METHOD: Method;
    /// The path, such as `/v1/ports`.
    const PATH: &'static str;
    /// What it does, in prose.
    const ABOUT: &'static str;
    /// The expected parameters, in the words of a refusal; empty if there are none.
    const EXPECTED: &'static str;

    /// Path and parameters, as in a request line.
    fn url(&self) -> String {
        let parameters = match Self::METHOD {
            // Flat structs of numbers, texts and options: all of them have a form in a URL.
            Method::GET => serde_urlencoded::to_string(self).unwrap_or_default(),
            _ => String::new(),
        };
        let mark = if parameters.is_empty() { "" } else { "?" };
        format!("{}{mark}{parameters}", Self::PATH)
    }
}

/// An [`Endpoint`] that is answered in JSON.
pub trait Query: Endpoint {
    /// The type of the answer.
    type Answer: Serialize + DeserializeOwned + Describe + Send + 'static;
    /// How long the router may take to answer.
    const PATIENCE: Duration;
    /// The longest body of a request, in bytes.
    const LONGEST_BODY: usize;

    /// The query as the backend gets it.
    fn request(self, reply: Reply<Self::Answer>) -> Request;
}

/// A view of the router that a query is answered from.
pub trait Answers<Q: Query> {
    /// The answer.
    fn answer(&self, query: Q) -> Q::Answer;
}

/// A type that docs/api.md describes.
pub trait Describe {
    /// The type in a few words of Markdown, such as `list of [PortStatus](#portstatus)`.
    fn words() -> String;
    /// The fields of an object.
    fn fields() -> Vec<Row> {
        Vec::new()
    }
    /// Adds the sections of the types inside it to the page.
    fn inner(_page: &mut Page) {}
    /// Adds its own section, where it has one, and those of the types inside it.
    fn sections(_page: &mut Page) {}
}

/// Does something with each query.
pub(crate) trait Visitor {
    /// Handles one query.
    fn query<Q: Query>(&mut self);
}

/// The text of doc comments among attributes.
macro_rules! doc_text {
    (@line doc = $text:literal) => { $text };
    (@line $($other:tt)*) => { "" };
    ($(#[$($attribute:tt)*])*) => { concat!($($crate::declare::doc_text!(@line $($attribute)*), "\n",)* "") };
}

/// Structs that are sent as JSON objects.
macro_rules! objects {
    ($($(#[$($about:tt)*])* pub struct $name:ident {
        $($(#[$($attribute:tt)*])* pub $field:ident: $kind:ty,)*
    })*) => {$(
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        $(#[$($about)*])*
        pub struct $name {
            $($(#[$($attribute)*])* pub $field: $kind,)*
        }

        impl $crate::declare::Describe for $name {
            fn words() -> String {
                $crate::document::link(stringify!($name))
            }

            fn fields() -> Vec<$crate::document::Row> {
                vec![$($crate::document::Row {
                    name: stringify!($field),
                    kind: <$kind as $crate::declare::Describe>::words(),
                    about: $crate::declare::doc_text!($(#[$($attribute)*])*),
                    optional: stringify!($($($attribute)*)*).contains("serde(default"),
                },)*]
            }

            fn inner(_page: &mut $crate::document::Page) {
                $(<$kind as $crate::declare::Describe>::sections(_page);)*
            }

            fn sections(page: &mut $crate::document::Page) {
                let about = $crate::declare::doc_text!($(#[$($about)*])*);
                if page.object(stringify!($name), about, &Self::fields()) {
                    Self::inner(page);
                }
            }
        }
    )*};
}

/// Enums that are sent as words.
macro_rules! states {
    ($($(#[$($about:tt)*])* pub enum $name:ident {
        $($(#[$($attribute:tt)*])* $state:ident = $word:literal,)*
    })*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        $(#[$($about)*])*
        pub enum $name {
            $($(#[$($attribute)*])* #[serde(rename = $word)] $state,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$state),*];

            /// The word for it in JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$state => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl $crate::declare::Describe for $name {
            fn words() -> String {
                $crate::document::link(stringify!($name))
            }

            fn sections(page: &mut $crate::document::Page) {
                let about = $crate::declare::doc_text!($(#[$($about)*])*);
                let words = vec![$(($word, $crate::declare::doc_text!($(#[$($attribute)*])*)),)*];
                page.state(stringify!($name), about, words);
            }
        }
    )*};
}

/// The struct of an endpoint: `Name { parameters }`, or `Name(Object)` for parameters that several have in common.
macro_rules! endpoint {
    (@struct [$($about:tt)*] $name:ident ($kind:ty)) => {
        $($about)*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $kind);

        impl $crate::declare::Describe for $name {
            fn words() -> String {
                <$kind as $crate::declare::Describe>::words()
            }

            fn fields() -> Vec<$crate::document::Row> {
                <$kind as $crate::declare::Describe>::fields()
            }

            fn inner(page: &mut $crate::document::Page) {
                <$kind as $crate::declare::Describe>::inner(page);
            }
        }
    };
    (@struct [$($about:tt)*] $name:ident { $($(#[$($attribute:tt)*])* $field:ident: $kind:ty,)* }) => {
        $crate::declare::objects! {
            $($about)*
            #[serde(deny_unknown_fields)]
            pub struct $name { $($(#[$($attribute)*])* pub $field: $kind,)* }
        }
    };
    ($(#[$($about:tt)*])* $method:ident $path:literal: $name:ident $fields:tt $($expected:literal)?) => {
        $crate::declare::endpoint! { @struct [$(#[$($about)*])*] $name $fields }

        impl $crate::declare::Endpoint for $name {
            const METHOD: hyper::Method = hyper::Method::$method;
            const PATH: &'static str = $path;
            const ABOUT: &'static str = $crate::declare::doc_text!($(#[$($about)*])*);
            const EXPECTED: &'static str = concat!("" $(, $expected)?);
        }
    };
}

/// The registry of queries that are answered in JSON.
macro_rules! queries {
    (@seconds $seconds:literal) => { $seconds };
    (@seconds) => { $crate::declare::PATIENCE };
    (@bytes $bytes:literal) => { $bytes };
    (@bytes) => { $crate::declare::LONGEST_BODY };
    ($(
        $(#[$($about:tt)*])*
        $method:ident $path:literal: $name:ident $fields:tt -> $answer:ty
        $(, expected $expected:literal)? $(, seconds $seconds:literal)? $(, bytes $bytes:literal)?;
    )*) => {
        $(
            $crate::declare::endpoint! { $(#[$($about)*])* $method $path: $name $fields $($expected)? }

            impl $crate::declare::Query for $name {
                type Answer = $answer;
                const PATIENCE: std::time::Duration =
                    std::time::Duration::from_secs($crate::declare::queries!(@seconds $($seconds)?));
                const LONGEST_BODY: usize = $crate::declare::queries!(@bytes $($bytes)?);

                fn request(self, reply: $crate::Reply<$answer>) -> Request {
                    $crate::declare::requests!(@request $method Show::$name(self, reply), Request::$name(self, reply))
                }
            }
        )*

        $crate::declare::requests! { [] [] $($method [$(#[$($about)*])*] $name $answer;)* }

        /// Shows all queries to a visitor, in the order they are declared in.
        pub(crate) fn each(visitor: &mut impl $crate::declare::Visitor) {
            $(visitor.query::<$name>();)*
        }
    };
}

/// The requests to the backend. Queries are sorted by their methods: a GET is a variant of `Show`, all others of
/// `Request`.
macro_rules! requests {
    (@request GET $show:expr, $request:expr) => { Request::Show($show) };
    (@request $method:ident $show:expr, $request:expr) => { $request };
    ([$($shows:tt)*] $requests:tt GET $about:tt $name:ident $answer:ty; $($rest:tt)*) => {
        $crate::declare::requests! { [$($shows)* $about $name $answer;] $requests $($rest)* }
    };
    ($shows:tt [$($requests:tt)*] $method:ident $about:tt $name:ident $answer:ty; $($rest:tt)*) => {
        $crate::declare::requests! { $shows [$($requests)* $about $name $answer;] $($rest)* }
    };
    (
        [$([$(#[$($show_about:tt)*])*] $show:ident $shown:ty;)*]
        [$([$(#[$($about:tt)*])*] $name:ident $answer:ty;)*]
    ) => {
        /// A request to the backend, with where its answer goes.
        #[derive(Debug)]
        pub enum Request {
            /// To show something.
            Show(Show),
            $($(#[$($about)*])* $name($name, $crate::Reply<$answer>),)*
            /// Everything that `GET /metrics` shows.
            Metrics($crate::Reply<Box<$crate::answers::Snapshot>>),
            /// Turns a tap on, for a trace or a capture; records follow through the request's outlet.
            Tap($crate::taps::TapRequest, $crate::Reply<$crate::taps::TapOn>),
        }

        /// A GET query: it is answered at once and changes nothing.
        #[derive(Debug)]
        pub enum Show {
            $($(#[$($show_about)*])* $show($show, $crate::Reply<$shown>),)*
        }

        impl Show {
            /// Answers it. It does not compile unless `view` implements every query.
            pub fn answer<V>(self, view: &V)
            where
                V: $($crate::Answers<$show> +)*
            {
                match self {
                    $(Show::$show(query, reply) => reply.send(Ok(view.answer(query))),)*
                }
            }
        }
    };
}

pub(crate) use {doc_text, endpoint, objects, queries, requests, states};

/// Seconds that the router may take to answer. It is asked on busy machines too, so it is not short.
pub(crate) const PATIENCE: u64 = 60;

/// The longest request body in bytes; but for routes that are loaded and scripts, the longest sensible one has a
/// hundred.
pub(crate) const LONGEST_BODY: usize = 64 * 1024;
