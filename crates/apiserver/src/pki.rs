//! The certificates and secrets of one server: a CA of its own, its server certificate, an administrator's
//! certificate and token, and the key service account tokens are signed with.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

use crate::auth::{Credentials, Secret};

/// Why certificates could not be had.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A certificate could not be made.
    #[error("making the {what} certificate")]
    Make {
        /// Which one.
        what: &'static str,
        /// The cause.
        #[source]
        source: rcgen::Error,
    },
    /// The machine gave no random bytes.
    #[error("drawing random bytes for a secret")]
    Random,
    /// A file could not be read.
    #[error("reading {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("writing {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path} is damaged; remove its directory to have new certificates made")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// Everything a server and its administrator need to trust each other.
#[derive(Clone, Debug)]
pub struct Pki {
    /// The CA's certificate, PEM.
    pub ca: String,
    /// The server's certificate, PEM.
    pub server_cert: String,
    /// The server's key, PEM.
    pub server_key: String,
    /// The administrator's certificate, PEM.
    pub admin_cert: String,
    /// The administrator's key, PEM.
    pub admin_key: String,
    /// The administrator's token.
    pub admin_token: String,
    /// What service account tokens are signed with, base64.
    token_secret: String,
}

const FILES: [&str; 7] =
    ["ca.crt", "server.crt", "server.key", "admin.crt", "admin.key", "admin.token", "token.secret"];

impl Pki {
    /// New ones, for a server that answers on these addresses (and on loopback).
    pub fn fresh(addresses: &[IpAddr]) -> Result<Pki, PkiError> {
        let make = |what| move |source| PkiError::Make { what, source };
        let ca_key = KeyPair::generate().map_err(make("CA"))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named("netferry-ca", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = params.self_signed(&ca_key).map_err(make("CA"))?.pem();
        let issuer = Issuer::new(params, ca_key);

        let mut server = CertificateParams::new(vec![
            "localhost".to_owned(),
            "kubernetes".to_owned(),
            "kubernetes.default".to_owned(),
            "kubernetes.default.svc".to_owned(),
        ])
        .map_err(make("server"))?;
        server.distinguished_name = named("netferry-apiserver", None);
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from(std::net::Ipv6Addr::LOCALHOST)];
        for address in loopback.iter().chain(addresses) {
            server.subject_alt_names.push(SanType::IpAddress(*address));
        }
        let (server_cert, server_key) = signed(&server, &issuer).map_err(make("server"))?;

        let mut admin = CertificateParams::default();
        admin.distinguished_name = named("kubernetes-admin", Some("system:masters"));
        admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let (admin_cert, admin_key) = signed(&admin, &issuer).map_err(make("administrator"))?;

        Ok(Pki {
            ca,
            server_cert,
            server_key,
            admin_cert,
            admin_key,
            admin_token: URL_SAFE_NO_PAD.encode(random()?),
            token_secret: STANDARD.encode(random()?),
        })
    }

    /// Those in the directory; made there when it is not there yet.
    pub fn open(directory: &Path, addresses: &[IpAddr]) -> Result<Pki, PkiError> {
        if directory.join(FILES[0]).exists() {
            return Pki::read(directory);
        }
        let pki = Pki::fresh(addresses)?;
        // All of them or none: a server killed here must not find half a set at its next start.
        let staging = directory.with_extension(format!("{}.making", std::process::id()));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| PkiError::Write { path, source }
        };
        fs::create_dir_all(&staging).map_err(failed(&staging))?;
        fs::set_permissions(&staging, fs::Permissions::from_mode(0o700)).map_err(failed(&staging))?;
        for (name, content) in FILES.iter().zip(pki.contents()) {
            write_private(&staging.join(name), content.as_bytes())?;
        }
        match fs::rename(&staging, directory) {
            Ok(()) => Ok(pki),
            Err(source) => {
                let _ = fs::remove_dir_all(&staging);
                if directory.join(FILES[0]).exists() {
                    return Pki::read(directory);
                }
                Err(PkiError::Write { path: directory.to_owned(), source })
            }
        }
    }

    fn read(directory: &Path) -> Result<Pki, PkiError> {
        let read = |name: &str| {
            let path = directory.join(name);
            fs::read_to_string(&path).map_err(|source| PkiError::Read { path, source })
        };
        let pki = Pki {
            ca: read(FILES[0])?,
            server_cert: read(FILES[1])?,
            server_key: read(FILES[2])?,
            admin_cert: read(FILES[3])?,
            admin_key: read(FILES[4])?,
            admin_token: read(FILES[5])?.trim().to_owned(),
            token_secret: read(FILES[6])?.trim().to_owned(),
        };
        if pki.admin_token.is_empty() {
            return Err(PkiError::Damaged { path: directory.join(FILES[5]) });
        }
        pki.secret().map_err(|_| PkiError::Damaged { path: directory.join(FILES[6]) })?;
        Ok(pki)
    }

    fn contents(&self) -> [&String; 7] {
        [
            &self.ca,
            &self.server_cert,
            &self.server_key,
            &self.admin_cert,
            &self.admin_key,
            &self.admin_token,
            &self.token_secret,
        ]
    }

    /// What callers are recognised by.
    pub fn credentials(&self) -> Credentials {
        Credentials { admin_token: self.admin_token.clone() }
    }

    /// What service account tokens are signed with.
    pub fn secret(&self) -> Result<Secret, PkiError> {
        let damaged = || PkiError::Damaged { path: PathBuf::from(FILES[6]) };
        let bytes = STANDARD.decode(&self.token_secret).map_err(|_| damaged())?;
        Secret::new(&bytes).map_err(|_| damaged())
    }

    /// A kubeconfig with which the administrator reaches the server at `url`.
    pub fn kubeconfig(&self, url: &str) -> String {
        let data = |pem: &str| STANDARD.encode(pem);
        let config: Value = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "netferry",
            "clusters": [{"name": "netferry", "cluster": {"server": url, "certificate-authority-data": data(&self.ca)}}],
            "users": [{"name": "netferry-admin", "user": {
                "client-certificate-data": data(&self.admin_cert), "client-key-data": data(&self.admin_key),
            }}],
            "contexts": [{"name": "netferry", "context": {"cluster": "netferry", "user": "netferry-admin"}}],
        });
        serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
    }
}

fn named(common: &str, organisation: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if let Some(organisation) = organisation {
        name.push(DnType::OrganizationName, organisation);
    }
    name
}

fn signed(
    params: &CertificateParams,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, issuer)?.pem(), key.serialize_pem()))
}

pub(crate) fn random() -> Result<[u8; 32], PkiError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| PkiError::Random)?;
    Ok(bytes)
}

/// Writes a file only its owner can read, in one step: a reader finds the old one or the new one.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), PkiError> {
    let failed = |source| PkiError::Write { path: path.to_owned(), source };
    let mut staging = path.as_os_str().to_owned();
    staging.push(format!(".{}.new", std::process::id()));
    let staging = PathBuf::from(staging);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&staging)
        .map_err(failed)?;
    std::io::Write::write_all(&mut file, content).map_err(failed)?;
    fs::rename(&staging, path).map_err(failed)
}
