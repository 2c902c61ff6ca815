//! What a request is answered.

use std::borrow::Cow;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use tollgate_wire::http1::{Answer, Reader};

/// A whole answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    fields: Vec<(Cow<'static, str>, String)>,
    body: Cow<'static, [u8]>,
}

impl Reply {
    pub(super) fn new(
        status: StatusCode,
        content_type: &'static str,
        body: impl Into<Cow<'static, [u8]>>,
    ) -> Self {
        Self {
            status,
            content_type,
            fields: Vec::new(),
            body: body.into(),
        }
    }

    /// Sets a header field, in the place of one of that name; left out where it could not stand in a head.
    pub(super) fn set(&mut self, name: Cow<'static, str>, value: String) {
        let is_valid = HeaderName::from_bytes(name.as_bytes()).is_ok()
            && HeaderValue::from_str(&value).is_ok();
        if is_valid {
            let earlier = |(known, _): &(Cow<'_, str>, _)| known.eq_ignore_ascii_case(&name);
            self.fields.retain(|field| !earlier(field));
            self.fields.push((name, value));
        }
    }

    /// Appends it to what is sent, as the answer to the request that the reader is at.
    pub(super) fn write(&self, reader: &mut Reader, date: &[u8], out: &mut Vec<u8>) {
        let answer = Answer {
            status: self.status.as_u16(),
            reason: self.status.canonical_reason().unwrap_or_default(),
            content_type: self.content_type,
            fields: &self.fields,
            date,
            body: &self.body,
        };
        reader.answer(&answer, out);
    }
}
