//! Certificates of version 1 of X.509, shown by clients. `openssl x509 -req` made them once: rcgen makes those of version 3 only.

use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::*;

/// Signed by [`VERSION_1_CERTIFICATE`], and its key.
const SIGNED: &str = "\
-----BEGIN CERTIFICATE-----
MIIBDTCBtQIBAjAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwIBcN
MjYxMTIzMTUxMTExWhgPMjEyNjEwMzAxNTExMTFaMBExDzANBgNVBAMMBmNsaWVu
dDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABB+okyA75StfM2ISZCOF3Bt3/nnK
bfKwo7+BSQ2xoEsIlbpepTxsmSNOAPa/YeBwLoAdXKOqjNZVgkqqIk3+Vr0wCgYI
KoZIzj0EAwIDRwAwRAIgTD6w8mwChsvaFm2Zmjv3OKWgxQZaEpVDd45ZKpCIW0YC
IFtZ6wphghDKyOd8iH06icfa9MHkeLkgxUrFHwFq4+sD
-----END CERTIFICATE-----
";
const KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg4Ps99jq6/ehqPsf8
R6GxFoLvNGtl7+Ox4FlHFCv0ggShRANCAAQfqJMgO+UrXzNiEmQjhdwbd/55ym3y
sKO/gUkNsaBLCJW6XqU8bJkjTgD2v2HgcC6AHVyjqozWVYJKqiJN/la9
-----END PRIVATE KEY-----
";
/// Signed by an authority of the same name with another key.
const FORGED: &str = "\
-----BEGIN CERTIFICATE-----
MIIBDjCBtQIBAjAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwIBcN
MjYxMTIzMTUxMTExWhgPMjEyNjEwMzAxNTExMTFaMBExDzANBgNVBAMMBmNsaWVu
dDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABB+okyA75StfM2ISZCOF3Bt3/nnK
bfKwo7+BSQ2xoEsIlbpepTxsmSNOAPa/YeBwLoAdXKOqjNZVgkqqIk3+Vr0wCgYI
KoZIzj0EAwIDSAAwRQIgeCSUemVmypI/X5uLSJS/t9rujvcSNrADWPfAy4TcjfoC
IQDQN1tTcP2hOXTqWRppT7lOnhTmKQS9bW/61iCKbJk+YQ==
-----END CERTIFICATE-----
";
/// Signed by the authority, and over.
const LATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBDDCBswIBAjAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwHhcN
MjYxMTIzMTUxMTExWhcNMjYxMTIzMTUxMTExWjARMQ8wDQYDVQQDDAZjbGllbnQw
WTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQfqJMgO+UrXzNiEmQjhdwbd/55ym3y
sKO/gUkNsaBLCJW6XqU8bJkjTgD2v2HgcC6AHVyjqozWVYJKqiJN/la9MAoGCCqG
SM49BAMCA0gAMEUCIQDZuXAQJphaOObePp1cs4Tgve1dbCz2SqQixXzxeAxGowIg
E9sw5ldj0OC+w6KjCW9Rfj0cxBwIDDKeakVDG9cjs1I=
-----END CERTIFICATE-----
";

/// A client that shows `certificate`. rustls cannot read it, so that the key belongs to it is not looked at.
fn showing(files: &Files, addr: SocketAddr, certificate: &str, key: &str) -> Client {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(files.path("server", "ca")).unwrap();
    roots.add(ca).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let key = provider.key_provider.load_private_key(key).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let own = SingleCertAndKey::from(CertifiedKey::new(chain, key));
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(own));
    Client::new(addr, config)
}

#[test]
fn a_client_may_show_one_that_an_authority_has_signed() {
    let files = Files::new("version-1-client");
    std::fs::write(files.path("old", "ca"), VERSION_1_CERTIFICATE).unwrap();
    let authority = ("tls-ca-cert-file", &*files.text("old", "ca"));
    for version in ["TLSv1.2", "TLSv1.3"] {
        let server = Tls::start(&files, &[authority, ("tls-protocols", version)]);
        let asked = |certificate, key| showing(&files, server.addr, certificate, key);
        asked(SIGNED, KEY).expect(b"PING\r\n", b"+PONG\r\n");
        // Of the list of authorities itself.
        asked(VERSION_1_CERTIFICATE, VERSION_1_KEY).expect(b"PING\r\n", b"+PONG\r\n");
        let refusal = asked(LATE, KEY).refusal();
        assert!(refusal.contains("CertificateExpired"), "{refusal}");
        let refusal = asked(FORGED, KEY).refusal();
        assert!(refusal.contains("received fatal alert"), "{refusal}");
        // The certificate of somebody else.
        let refusal = asked(SIGNED, VERSION_1_KEY).refusal();
        assert!(refusal.contains("received fatal alert"), "{refusal}");
    }
    // The list has another authority.
    let server = Tls::start(&files, &[]);
    let refusal = showing(&files, server.addr, SIGNED, KEY).refusal();
    assert!(refusal.contains("UnknownCA"), "{refusal}");
}
