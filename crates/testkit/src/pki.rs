//! The certificates of a throw-away control plane.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, SanType,
};

/// A certificate and its key, both PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Identity {
    /// A certificate that names `user` in `group`, from an authority nobody knows: for callers that stand in for a TLS
    /// listener and have verified it themselves.
    pub fn of(user: &str, group: &str) -> Result<Identity, rcgen::Error> {
        Authority::new("throw-away")?.client(user, Some(group))
    }
}

/// A certificate authority that lives as long as the control plane it was made for.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Authority, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(Authority { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn server(&self, name: &str, alternatives: Vec<SanType>) -> Result<Identity, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name, None);
        params.subject_alt_names = alternatives;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<Identity, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Identity, rcgen::Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn named(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut whole = DistinguishedName::new();
    if let Some(group) = group {
        whole.push(DnType::OrganizationName, group);
    }
    whole.push(DnType::CommonName, name);
    whole
}
