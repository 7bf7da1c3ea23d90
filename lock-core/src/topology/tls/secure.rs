//! TLS options and handshakes: whom a connection trusts and how it identifies itself.
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::{
    borrow::Cow,
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
pub(in crate::topology) use tokio_rustls::client::TlsStream;

use crate::topology::dial_error::DialError;
use crate::{Pem, TlsOptions};

/// What every TLS connection of a client is made from. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Secure {
    connector: TlsConnector,
    server_name: Option<ServerName<'static>>,
}

impl Secure {
    /// Reads the files once, so that a wrong one is said before anything is dialled.
    pub(crate) fn new(options: &TlsOptions) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = if options.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAnyPeer(provider)))
        } else {
            builder.with_root_certificates(roots(source(&options.ca_pem, &options.ca_file))?)
        };
        let (cert, key) = match &options.client_pem {
            Some((cert, key)) => (Some(Source::Memory(cert)), Some(Source::Memory(key))),
            None => (source(&None, &options.cert_file), source(&None, &options.key_file)),
        };
        let config = match (cert, key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let chain = certificates(cert)?;
                let unread = |error: &dyn fmt::Display| unreadable("private key", key, error);
                let pem = pem(key).map_err(|error| unread(&error))?;
                let secret = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| unread(&error))?;
                builder
                    .with_client_auth_cert(chain, secret)
                    .map_err(|error| unreadable("client certificate", cert, &error))?
            }
            _ => {
                return Err(
                    "a client certificate and its private key are given together (tls-cert and tls-key)"
                        .to_owned(),
                );
            }
        };
        let server_name = match &options.server_name {
            None => None,
            Some(name) => Some(server_name(name)?),
        };
        Ok(Secure { connector: TlsConnector::from(Arc::new(config)), server_name })
    }

    /// Shakes hands; the certificate must be for `host`, unless another name was given.
    pub(crate) async fn handshake(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, DialError> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => server_name(host).map_err(DialError::new)?,
        };
        let shaken = self.connector.connect(name, stream).await;
        shaken.map_err(|error| {
            let alert = error.get_ref().and_then(|inner| inner.downcast_ref());
            DialError {
                code: None,
                // A peer that speaks plain Redis or refuses us does so each time; a cut link may recover.
                fatal: matches!(alert, Some(Error::InvalidCertificate(_) | Error::InvalidMessage(_))),
                message: format!("TLS: {error}"),
            }
        })
    }
}

/// Where certificates or a key are.
#[derive(Clone, Copy)]
enum Source<'a> {
    File(&'a Path),
    Memory(&'a Pem),
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(file) => file.display().fmt(f),
            Source::Memory(_) => f.write_str("memory"),
        }
    }
}

fn source<'a>(memory: &'a Option<Pem>, file: &'a Option<PathBuf>) -> Option<Source<'a>> {
    memory.as_ref().map(Source::Memory).or(file.as_deref().map(Source::File))
}

fn server_name(name: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(name.to_owned())
        .map_err(|_| format!("`{name}` is no name that a certificate could be for"))
}

/// The authorities that are given, or those of the operating system.
fn roots(given: Option<Source<'_>>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match given {
        Some(given) => {
            for certificate in certificates(given)? {
                roots.add(certificate).map_err(|error| unreadable("certificate", given, &error))?;
            }
        }
        None => {
            let system = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(system.certs);
            if roots.is_empty() {
                return Err(
                    "this system has no trusted certificates: install them (package ca-certificates) or name a \
                     CA file (tls-ca)"
                        .to_owned(),
                );
            }
        }
    }
    Ok(roots)
}

/// A file of certificates or keys. All authorities that an operating system trusts are less than a megabyte.
fn pem(source: Source<'_>) -> io::Result<Cow<'_, [u8]>> {
    const LIMIT: u64 = 16 << 20;
    let file = match source {
        Source::Memory(pem) => return Ok(Cow::Borrowed(&pem.0)),
        Source::File(file) => file,
    };
    if fs::metadata(file)?.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe and no file"));
    }
    let mut pem = Vec::new();
    fs::File::open(file)?.take(LIMIT + 1).read_to_end(&mut pem)?;
    match pem.len() as u64 > LIMIT {
        true => Err(io::Error::other("it is longer than 16 MB, which is the limit")),
        false => Ok(Cow::Owned(pem)),
    }
}

fn certificates(source: Source<'_>) -> Result<Vec<CertificateDer<'static>>, String> {
    let unread = |error: &dyn fmt::Display| unreadable("certificate", source, error);
    let pem = pem(source).map_err(|error| unread(&error))?;
    let read = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let certificates = read.map_err(|error| unread(&error))?;
    if certificates.is_empty() {
        return Err(format!("there is no certificate in {source}"));
    }
    Ok(certificates)
}

fn unreadable(what: &str, source: Source<'_>, why: &dyn fmt::Display) -> String {
    format!("the {what} in {source} cannot be used: {why}")
}

/// Trusts every peer that has the key of the certificate that it shows.
#[derive(Debug)]
struct TrustAnyPeer(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyPeer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
