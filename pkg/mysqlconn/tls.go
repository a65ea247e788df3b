package mysqlconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// Modes of TLS, as the --ssl-mode of MySQL's own clients names them.
const (
	// TLSRequired encrypts, and takes any certificate: it keeps out who listens, not who
	// answers in the server's place.
	TLSRequired = "required"
	// TLSVerifyCA also wants the certificate to be signed by one of the authorities. The certificates
	// that a MySQL server makes for itself can be verified so only: they name no host.
	TLSVerifyCA = "verify_ca"
	// TLSVerifyIdentity also wants the certificate to name the host that was asked for.
	TLSVerifyIdentity = "verify_identity"
)

// TLS says how a connection is encrypted. The zero value is none. Authorities, certificate and key are
// PEM itself and no files: a seed connects from a process that may not read what is root's.
type TLS struct {
	Mode string // "" for no TLS
	CA   string // authorities; "" for the system's
	Cert string // our own certificate, for accounts that REQUIRE X509; "" for none
	Key  Secret // its key
}

// TLSConfig is what a connection to the target needs; nil without TLS, and over a socket, which no
// network is between.
func (t Target) TLSConfig() (*tls.Config, error) {
	s := t.TLS
	if s.Mode == "" || t.Socket != "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.Host}
	if s.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(s.CA)) {
			return nil, fmt.Errorf("%s: tls.ca: found no certificate in it, expected some in PEM", t)
		}
	}
	if s.Cert != "" || s.Key != "" {
		pair, err := tls.X509KeyPair([]byte(s.Cert), []byte(s.Key.Reveal()))
		if err != nil {
			return nil, fmt.Errorf("%s: tls.cert and tls.key: %w", t, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	switch s.Mode {
	case TLSRequired:
		c.InsecureSkipVerify = true
	case TLSVerifyCA:
		// Go verifies all or nothing; this is the part that has nothing to do with the name.
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(cs tls.ConnectionState) error {
			o := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool()}
			for _, cert := range cs.PeerCertificates[1:] {
				o.Intermediates.AddCert(cert)
			}
			_, err := cs.PeerCertificates[0].Verify(o)
			return err
		}
	case TLSVerifyIdentity:
	default:
		return nil, fmt.Errorf("%s: TLS mode %q, expected %s, %s or %s", t, s.Mode, TLSRequired, TLSVerifyCA, TLSVerifyIdentity)
	}
	return c, nil
}

// withoutTLS is a hint: a server turns an account that must use TLS away with the words for a wrong
// password.
func (t Target) withoutTLS() string {
	if t.TLS.Mode != "" || t.Socket != "" {
		return ""
	}
	return ", and whether it must use TLS (tls of the account in vifl.yaml)"
}

// isHandshake reports a TLS handshake that either end refused.
func isHandshake(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		record       tls.RecordHeaderError
		alert        tls.AlertError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid) || errors.As(err, &record) || errors.As(err, &alert)
}
