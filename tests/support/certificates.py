"""Certificates made for a test: an authority of its own, and a server's or client's below it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID


def make_authority(folder: Path) -> tuple[Path, Path]:
    """Write an authority and a certificate of it for ``localhost``; return the authority's PEM and the server's."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _name("Test authority")
    authority = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    own = ec.generate_private_key(ec.SECP256R1())
    server = (
        _builder(_name("localhost"), name, own.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .add_extension(_usage(digital_signature=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    authority_file, server_file = folder / "authority.pem", folder / "server.pem"
    authority_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    server_file.write_bytes(_private(own) + server.public_bytes(serialization.Encoding.PEM))
    return authority_file, server_file


def make_client_certificate() -> tuple[str, str]:
    """Return a client's private key and certificate in one PEM, and the certificate alone."""
    key, name = rsa.generate_private_key(public_exponent=65537, key_size=2048), _name("opensre")
    made = _builder(name, name, key.public_key()).sign(key, hashes.SHA256())
    certificate = made.public_bytes(serialization.Encoding.PEM)
    return (_private(key) + certificate).decode(), certificate.decode()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(**used: bool) -> x509.KeyUsage:
    kinds = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{kind: used.get(kind, False) for kind in kinds})


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _private(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
