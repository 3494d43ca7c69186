//! The TLS side of a connection: one client configuration for the whole process.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::domain::target::TargetUrl;

/// Builds the configuration that all connections of a factory share: ring, TLS 1.2 and 1.3, the system's roots and
/// `extra_roots` (private authorities), and only `http/1.1` in ALPN, so that no receiver answers in HTTP/2 (C03).
///
/// Reads the system's certificate files: call it once, at start.
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
        log::warn!("the system has no root certificates: https receivers will not be trusted");
    }
    for root in extra_roots {
        roots.add(root.clone())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The name to verify the certificate against. A host name is also sent as SNI; for an address rustls sends none
/// (RFC 6066 §3, C22). `None` if no certificate could be for that name.
pub fn server_name(target: &TargetUrl) -> Option<ServerName<'static>> {
    ServerName::try_from(target.tls_name()).ok()
}
