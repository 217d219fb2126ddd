"""Makes a CA and a certificate for a name. Arguments: folder, name. Writes ca.pem, cert.pem and key.pem."""
import datetime
import pathlib
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
now = datetime.datetime.now(datetime.timezone.utc)


def named(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def signed(subject, key, extensions, signer):
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(named("test CA"))
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(hours=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=7))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
ca = signed(named("test CA"), ca_key, [x509.BasicConstraints(ca=True, path_length=None)], ca_key)
leaf = signed(named(name), key, [x509.SubjectAlternativeName([x509.DNSName(name)])], ca_key)
(folder / "ca.pem").write_bytes(ca)
(folder / "cert.pem").write_bytes(leaf)
(folder / "key.pem").write_bytes(
    key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
)
