//! TLS between the sockets and a driver.
//!
//! [`TlsDriver`] is a driver around another one: what arrives on a TLS listener is deciphered before the inner driver sees
//! it, and what that answers is enciphered. It does no I/O of its own, so every event loop serves it, and connections of
//! other listeners pass it at the cost of a branch. [`TlsConnector`] is the other side, for a thread that waits.

mod connector;
mod driver;
mod listed;
mod own;
mod settings;
mod validity;
mod version_1;

pub use connector::{TlsClientFiles, TlsConnector};
pub use driver::{TlsConn, TlsDriver};
pub use settings::{TlsAcceptor, TlsClients, TlsError, TlsFiles};
pub use validity::expiry_warning;
