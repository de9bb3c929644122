"""Certificates of one control plane: its own authority, which lives as long as its folder."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = datetime.timedelta(days=7)


@dataclass(frozen=True)
class Certificates:
    """Paths of PEM files: the authority, a server on 127.0.0.1, an administrator, service accounts' key."""

    authority: Path
    server: Path
    server_key: Path
    admin: Path
    admin_key: Path
    accounts_key: Path


def make_certificates(folder: Path) -> Certificates:
    """Write the files of one control plane into `folder`, readable by this user only."""
    folder.mkdir(mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("hyperpod-fleet rehearsal")
    authority = (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = Certificates(
        *(folder / each for each in ("ca.crt", "tls.crt", "tls.key", "admin.crt", "admin.key", "sa.key"))
    )
    _write(paths.authority, authority)
    local = x509.SubjectAlternativeName(
        [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    )
    server_key, admin_key = _write_key(paths.server_key), _write_key(paths.admin_key)
    _write_key(paths.accounts_key)
    server = _builder(_name("localhost"), name, server_key).add_extension(local, critical=False)
    _write(paths.server, _leaf(server, key, ExtendedKeyUsageOID.SERVER_AUTH))
    # Kubernetes reads the user from CN and the groups from O; this group may do everything.
    admin = _builder(_name("admin", "system:masters"), name, admin_key)
    _write(paths.admin, _leaf(admin, key, ExtendedKeyUsageOID.CLIENT_AUTH))
    return paths


def _name(common: str, organization: str | None = None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A clock that was set back meanwhile.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFE)
    )


def _leaf(
    builder: x509.CertificateBuilder, authority: ec.EllipticCurvePrivateKey, usage: x509.ObjectIdentifier
) -> x509.Certificate:
    return builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False).sign(
        authority, hashes.SHA256()
    )


def _write_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.TraditionalOpenSSL
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return key


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
