"""Certificates for the tests of TLS, made by openssl: an authority, servers and clients it vouches for."""
import subprocess


def _openssl(*arguments, **options):
    subprocess.run(["openssl", *[str(a) for a in arguments]], check=True, capture_output=True, **options)


class Authority:
    def __init__(self, folder, name="ca"):
        self.folder = folder
        self.certificate = folder / f"{name}.pem"
        self.key = folder / f"{name}.key"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-keyout", self.key, "-out", self.certificate, "-subj", f"/CN=weir test {name}", "-days", "2")

    def issue(self, name, subject=None):
        """(certificate, key) files for |name|, signed."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request = self.folder / f"{name}.csr"
        extensions = self.folder / f"{name}.ext"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                 "-out", request, "-subj", subject or f"/CN={name}")
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
                 "-out", certificate, "-days", "2", "-extfile", extensions)
        return certificate, key
