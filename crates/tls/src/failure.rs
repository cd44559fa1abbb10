//! Why TLS of a connection failed.

use std::borrow::Cow;
use std::fmt;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, PeerMisbehaved};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::verifiers::AnotherType;

/// Why TLS of a connection failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer sent this fatal alert (RFC 8446, section 6.2).
    Alert(u8),
    /// The peer's certificate is not accepted; what is wrong with it.
    Certificate(Cow<'static, str>),
    /// The two have no application protocol in common (RFC 7301): the peer sent the alert that says so, or chose a
    /// protocol that was not offered.
    Alpn,
    /// The peer did something that TLS forbids or that this side cannot do.
    Protocol(String),
}

impl Failure {
    /// The failure of a connection whose peer sent the fatal alert of this number.
    pub fn of_alert(number: u8) -> Self {
        Self::from(Error::AlertReceived(AlertDescription::from(number)))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::AlertReceived(AlertDescription::NoApplicationProtocol)
            | Error::NoApplicationProtocol
            | Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedApplicationProtocol) => Self::Alpn,
            Error::AlertReceived(alert) => Self::Alert(alert.into()),
            Error::InvalidCertificate(error) => Self::Certificate(fault(&error)),
            Error::NoCertificatesPresented => Self::Certificate("none was sent".into()),
            other => Self::Protocol(other.to_string()),
        }
    }
}

/// The fault of a certificate, in words.
fn fault(error: &CertificateError) -> Cow<'static, str> {
    Cow::Borrowed(match error {
        CertificateError::ExpiredContext { not_after, .. } => return when("expired at", *not_after),
        CertificateError::NotValidYetContext { not_before, .. } => {
            return when("not valid yet, before", *not_before);
        }
        CertificateError::Expired => "expired",
        CertificateError::NotValidYet => "not valid yet",
        CertificateError::UnknownIssuer => "unknown issuer",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => "another name",
        CertificateError::Revoked => "revoked",
        CertificateError::BadSignature => "bad signature",
        CertificateError::BadEncoding => "bad encoding",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "another purpose"
        }
        CertificateError::UnhandledCriticalExtension => "unknown critical extension",
        CertificateError::UnsupportedSignatureAlgorithmContext { .. } => "unsupported signature algorithm",
        CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "signature of another type than its issuer's key"
        }
        CertificateError::Other(other) => return other_fault(&other.to_string()),
        _ => "not accepted",
    })
}

/// A fault with its time, to the minute.
fn when(what: &str, time: UnixTime) -> Cow<'static, str> {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    let time = i64::try_from(time.as_secs()).ok().and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok());
    match time.and_then(|time| time.format(format).ok()) {
        Some(time) => format!("{what} {time}").into(),
        None => format!("{what} a time that has no date").into(),
    }
}

/// A fault that rustls passes on from webpki, or from a verifier of ours, whose text is the name of the fault.
fn other_fault(name: &str) -> Cow<'static, str> {
    match name {
        "CaUsedAsEndEntity" => "that of an issuer".into(),
        AnotherType::TEXT => "a key of another type than asked for".into(),
        name => format!("not accepted ({name})").into(),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alert(number) => match alert_name(*number) {
                Some(name) => write!(formatter, "alert {name}"),
                None => write!(formatter, "alert {number}"),
            },
            Self::Certificate(fault) => write!(formatter, "certificate: {fault}"),
            Self::Alpn => formatter.write_str("no common application protocol"),
            Self::Protocol(what) => write!(formatter, "TLS: {what}"),
        }
    }
}

/// The name of an alert (RFC 8446, appendix B.2; RFC 5246, section 7.2).
fn alert_name(number: u8) -> Option<&'static str> {
    Some(match number {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        22 => "record_overflow",
        40 => "handshake_failure",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        100 => "no_renegotiation",
        109 => "missing_extension",
        110 => "unsupported_extension",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn alerts_have_their_names() {
        assert_eq!(
            Failure::from(Error::AlertReceived(AlertDescription::HandshakeFailure)),
            Failure::Alert(40)
        );
        assert_eq!(Failure::Alert(40).to_string(), "alert handshake_failure");
        assert_eq!((Failure::of_alert(40), Failure::of_alert(120)), (Failure::Alert(40), Failure::Alpn));
        assert_eq!(Failure::Alert(255).to_string(), "alert 255");
        assert_eq!(
            Failure::from(Error::AlertReceived(AlertDescription::NoApplicationProtocol)),
            Failure::Alpn
        );
    }

    #[test]
    fn faults_of_certificates_have_their_words() {
        let of = |error| Failure::from(Error::InvalidCertificate(error)).to_string();
        assert_eq!(of(CertificateError::Expired), "certificate: expired");
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let expired =
            CertificateError::ExpiredContext { time: at(1_800_000_000), not_after: at(1_700_000_000) };
        assert_eq!(of(expired), "certificate: expired at 2023-11-14 22:13 UTC");
        let early = CertificateError::NotValidYetContext { time: at(0), not_before: at(1_700_000_000) };
        assert_eq!(of(early), "certificate: not valid yet, before 2023-11-14 22:13 UTC");
        assert_eq!(of(CertificateError::UnknownIssuer), "certificate: unknown issuer");
        assert_eq!(
            of(CertificateError::UnhandledCriticalExtension),
            "certificate: unknown critical extension"
        );
        assert_eq!(of(CertificateError::ApplicationVerificationFailure), "certificate: not accepted");
        let other = CertificateError::Other(OtherError(Arc::new(fmt::Error)));
        let of_other = of(other);
        assert!(of_other.starts_with("certificate: not accepted ("), "{of_other}");
        assert_eq!(other_fault("CaUsedAsEndEntity"), "that of an issuer");
        assert!(matches!(Failure::from(Error::DecryptError), Failure::Protocol(_)));
    }
}
