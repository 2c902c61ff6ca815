//! Until when what a server shows is valid.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

const DAY_SECS: i64 = 86_400;
/// So long before a certificate expires it is time to say so: two weeks.
const WARN_SECS: i64 = 14 * DAY_SECS;

/// The last second of the Unix epoch in which all of a chain is valid; `None` if none of it can be read.
pub(super) fn expiry(chain: &[CertificateDer<'_>]) -> Option<i64> {
    let ends = chain.iter().filter_map(|certificate| {
        let (_, read) = parse_x509_certificate(certificate).ok()?;
        Some(read.validity().not_after.timestamp())
    });
    ends.min()
}

/// What is said at `now` of the certificate in a file that expires at `expiry`, both in seconds of the Unix epoch: nothing
/// unless it has expired or soon will.
#[must_use]
pub fn expiry_warning(file: &Path, expiry: i64, now: i64) -> Option<String> {
    let left = expiry.saturating_sub(now);
    let file = file.display();
    match left / DAY_SECS {
        _ if left < 0 => Some(format!(
            "the certificate {file} has expired ({} days ago): clients that check it do not connect",
            left.saturating_neg() / DAY_SECS
        )),
        _ if left >= WARN_SECS => None,
        0 => Some(format!("the certificate {file} expires in less than a day")),
        1 => Some(format!("the certificate {file} expires in a day")),
        days => Some(format!("the certificate {file} expires in {days} days")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_expires_is_told_of_in_time() {
        let said = |expiry| expiry_warning(Path::new("a.pem"), expiry, 1_000_000);
        assert_eq!(said(1_000_000 + WARN_SECS), None);
        assert_eq!(said(i64::MAX), None);
        for (left, words) in [
            (WARN_SECS - 1, "a.pem expires in 13 days"),
            (2 * DAY_SECS, "a.pem expires in 2 days"),
            (0, "a.pem expires in less than a day"),
            (-1, "a.pem has expired (0 days ago)"),
            (-3 * DAY_SECS, "a.pem has expired (3 days ago)"),
        ] {
            let line = said(1_000_000 + left).expect("a warning");
            assert!(line.contains(words), "{line}");
        }
        assert!(said(i64::MIN).is_some());
        assert_eq!(expiry(&[CertificateDer::from(vec![1, 2, 3])]), None);
    }
}
