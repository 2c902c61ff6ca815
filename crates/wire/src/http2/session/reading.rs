//! The header fields of a call as they are read.

use std::rc::Rc;
use std::time::Duration;

use super::super::hpack::{self, Meaning};
use super::super::timeout::grpc_timeout;
use super::Head;
use crate::trace::TraceParent;

/// A call's fields as they are read.
#[derive(Default)]
pub(super) struct Reading {
    is_post: bool,
    is_grpc: bool,
    path: Option<Rc<[u8]>>,
    timeout: Option<Duration>,
    trace: Option<TraceParent>,
    trace_state: Option<Rc<[u8]>>,
    has_method: bool,
    has_scheme: bool,
    is_broken: bool,
    /// Another field than a pseudo-field came.
    past_pseudo: bool,
    /// By the RFC's count.
    pub(super) size: usize,
}

impl Reading {
    pub(super) fn take(&mut self, meaning: Meaning, value: &hpack::Value<'_>, size: usize) {
        self.size = self.size.saturating_add(size);
        if meaning.is_pseudo() {
            self.is_broken |= self.past_pseudo;
        } else {
            self.past_pseudo = true;
        }
        match meaning {
            Meaning::Method => {
                self.is_broken |= self.has_method;
                self.has_method = true;
                self.is_post = value.bytes() == b"POST";
            }
            Meaning::Scheme => {
                self.is_broken |= self.has_scheme;
                self.has_scheme = true;
            }
            Meaning::Path => {
                self.is_broken |= self.path.is_some() || value.bytes().is_empty();
                self.path = Some(value.share());
            }
            Meaning::ContentType => self.is_grpc = value.bytes().starts_with(b"application/grpc"),
            Meaning::Timeout => self.timeout = grpc_timeout(value.bytes()),
            Meaning::TraceParent => self.trace = TraceParent::parse(value.bytes()),
            Meaning::TraceState => {
                self.trace_state.get_or_insert_with(|| value.share());
            }
            Meaning::Te => self.is_broken |= value.bytes() != b"trailers",
            Meaning::Forbidden => self.is_broken = true,
            Meaning::Authority | Meaning::GrpcStatus | Meaning::GrpcMessage | Meaning::Other => {}
        }
    }

    /// `None` if it is no request by HTTP/2's rules.
    pub(super) fn head(self) -> Option<Head> {
        let path = self.path?;
        (self.has_method && self.has_scheme && !self.is_broken).then_some(Head {
            is_post: self.is_post,
            is_grpc: self.is_grpc,
            path,
            timeout: self.timeout,
            trace: self.trace,
            trace_state: self.trace_state,
        })
    }
}
