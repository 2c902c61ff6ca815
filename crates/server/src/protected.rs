//! Protected mode: as long as the default user needs no password, only clients of this machine are let in.

use crate::config::Key;
use crate::shared::Shared;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tollgate_net::PeerAddress;

/// What others are told, in Redis' words.
pub(crate) const DENIED: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is enabled and no \
password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want \
to connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode \
sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host \
the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE \
to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis \
configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the \
server manually just for testing, restart it with the '--protected-mode no' option. 4) Setup a an authentication password \
for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting \
connections from the outside.\r\n";

/// Whether a client comes from this machine: by a Unix socket, or from one of the two addresses that Redis takes for local.
fn is_local(remote: &PeerAddress) -> bool {
    match remote {
        PeerAddress::Unix(_) => true,
        PeerAddress::Tcp(address) => [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ]
        .contains(&address.ip().to_canonical()),
    }
}

/// Whether a client is let in; `is_closed`: whether protected mode is on and there is no password.
fn lets_in(remote: &PeerAddress, is_closed: impl FnOnce() -> bool) -> bool {
    is_local(remote) || !is_closed()
}

/// Whether a new client is let in.
pub(crate) fn admits(shared: &Shared, remote: &PeerAddress) -> bool {
    lets_in(remote, || {
        shared.settings.is_set(Key::ProtectedMode)
            && shared.engine.access().default_user().any_password
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_of_this_machine_come_in_without_a_password() {
        let tcp = |text: &str| PeerAddress::Tcp(text.parse().unwrap());
        for local in ["127.0.0.1:5", "[::1]:5", "[::ffff:127.0.0.1]:5"] {
            assert!(lets_in(&tcp(local), || true), "{local}");
        }
        assert!(lets_in(&PeerAddress::Unix("/run/a".into()), || true));
        for other in ["127.0.0.2:5", "10.0.0.1:5", "[2001:db8::1]:5"] {
            assert!(!lets_in(&tcp(other), || true), "{other}");
            assert!(lets_in(&tcp(other), || false), "{other}");
        }
    }
}
