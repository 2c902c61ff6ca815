//! The addresses of the setting `bind`, as Redis writes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address to listen on. Source: the comments of redis.conf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindAddress {
    /// Unspecified for `*` (IPv4) and `::*` (IPv6).
    pub ip: IpAddr,
    /// Written with `-` in front: a machine without this address is no reason not to start.
    pub may_be_absent: bool,
}

impl BindAddress {
    /// Reads one word of the setting; `None` when it is no address.
    pub(super) fn parse(word: &str) -> Option<BindAddress> {
        let (address, may_be_absent) = match word.strip_prefix('-') {
            Some(address) => (address, true),
            None => (word, false),
        };
        let ip = match address {
            "*" => Ipv4Addr::UNSPECIFIED.into(),
            "::*" => Ipv6Addr::UNSPECIFIED.into(),
            "localhost" => Ipv4Addr::LOCALHOST.into(),
            _ => address.parse().ok()?,
        };
        Some(BindAddress { ip, may_be_absent })
    }
}

/// The addresses of a value that [`normalise`] has checked.
pub(super) fn parse(value: &str) -> impl Iterator<Item = BindAddress> {
    value.split(' ').filter_map(BindAddress::parse)
}

/// The words as they were given, each address once.
pub(super) fn normalise(text: &str) -> Result<String, String> {
    let mut words: Vec<&str> = Vec::new();
    let mut ips: Vec<IpAddr> = Vec::new();
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        let Some(address) = BindAddress::parse(word) else {
            return Err(format!("'{word}' is not an IP address"));
        };
        if !ips.contains(&address.ip) {
            ips.push(address.ip);
            words.push(word);
        }
    }
    Ok(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_one_by_one() {
        assert_eq!(normalise("127.0.0.1 ::1").unwrap(), "127.0.0.1 ::1");
        assert_eq!(normalise("* -::*").unwrap(), "* -::*");
        assert_eq!(normalise("127.0.0.1,-127.0.0.1 ").unwrap(), "127.0.0.1");
        for word in ["nowhere", "-", "--::1", "::**", "127.0.0.1:6379"] {
            let said = normalise(&format!("127.0.0.1 {word}")).unwrap_err();
            assert_eq!(said, format!("'{word}' is not an IP address"));
        }
        assert_eq!(normalise(" ").unwrap(), "");
    }

    #[test]
    fn a_hyphen_lets_an_address_be_absent() {
        let read: Vec<BindAddress> = parse("* -::1").collect();
        let expected = [("0.0.0.0", false), ("::1", true)].map(|(ip, may_be_absent)| BindAddress {
            ip: ip.parse().unwrap(),
            may_be_absent,
        });
        assert_eq!(read, expected);
    }
}
