//! TLS of the Rust driver.

use std::env;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// Returns the configuration with the certificate authority that CQLD_TLS_CA names, or none.
pub fn context() -> Option<Arc<ClientConfig>> {
    let file = env::var("CQLD_TLS_CA").ok().filter(|f| !f.is_empty())?;
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_file_iter(file).expect("CQLD_TLS_CA") {
        roots.add(cert.expect("CQLD_TLS_CA")).expect("CQLD_TLS_CA");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("TLS versions");
    Some(Arc::new(versions.with_root_certificates(roots).with_no_client_auth()))
}
