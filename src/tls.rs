//! Whom our own TLS connections trust, and how they speak: attempts ([`transport`](crate::transport)) and the command
//! line's requests to the API ([`cli`](crate::cli)) alike.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// Hosts whose TLS sessions are remembered, with eight tickets each: a ticket may have 64 KiB, so hostile hosts can take
/// 16 MiB. A handshake that is not shortened costs a round trip or two.
const SESSIONS: usize = 32;

/// Builds a client's configuration: ring, TLS 1.2 and 1.3, the system's roots (or those that `SSL_CERT_FILE` and
/// `SSL_CERT_DIR` name instead) and `extra_roots`, and only `http/1.1` in ALPN, so that nobody answers in HTTP/2 (C03).
///
/// Reads certificate files, hundreds of them on some systems: call it once and share what it returns.
///
/// # Errors
/// One of `extra_roots` is not a usable certificate.
pub fn client_config(extra_roots: &[CertificateDer<'static>]) -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for error in &native.errors {
        log::warn!("a root certificate of the system could not be read: {error}");
    }
    // Systems ship certificates that rustls refuses; that is no reason to refuse the others.
    let (usable, _) = roots.add_parsable_certificates(native.certs);
    if usable == 0 {
        log::warn!("the system has no root certificates: no https server will be trusted");
    }
    for root in extra_roots {
        roots.add(root.clone())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::in_memory_sessions(SESSIONS);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
