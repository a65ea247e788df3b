package mysqlconn_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld/mysqldtest"
)

// authority signs certificates into files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir string) *authority {
	a := &authority{t: t, dir: dir}
	a.cert, a.key = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes NAME.pem and NAME.key.
func (a *authority) issue(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		// The server reads them as another user.
		if err := os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(block), 0o644); err != nil {
			a.t.Fatal(err)
		}
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return signed, key
}

func TestTLS(t *testing.T) {
	dir := mysqldtest.Dir(t)
	ours := newAuthority(t, dir)
	ours.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	ours.issue("elsewhere", &x509.Certificate{DNSNames: []string{"db.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	ours.issue("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	file := func(name string) string { return filepath.Join(dir, name) }
	read := func(name string) string {
		raw, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	theirs := t.TempDir()
	newAuthority(t, theirs)
	raw, err := os.ReadFile(filepath.Join(theirs, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	other := string(raw)

	options := func(cert string) mysqldtest.Options {
		return mysqldtest.Options{Extra: []string{"ssl_ca=" + file("ca.pem"), "ssl_cert=" + file(cert+".pem"), "ssl_key=" + file(cert+".key")}}
	}
	named, elsewhere := mysqldtest.Start(t, options("server")), mysqldtest.Start(t, options("elsewhere"))
	without := mysqldtest.Start(t, mysqldtest.Options{Extra: []string{"tls_version="}})
	mysqldtest.Exec(t, named, "CREATE USER plain@'%' IDENTIFIED BY 'p'", "CREATE USER enc@'%' IDENTIFIED BY 'p' REQUIRE SSL", "CREATE USER cert@'%' IDENTIFIED BY 'p' REQUIRE X509")
	mysqldtest.Exec(t, elsewhere, "CREATE USER enc@'%' IDENTIFIED BY 'p' REQUIRE SSL")
	mysqldtest.Exec(t, without, "CREATE USER enc@'%' IDENTIFIED BY 'p'")

	for _, c := range []struct {
		name string
		port int
		user string
		tls  mysqlconn.TLS
		want string // in the error; "" connects, encrypted
	}{
		{"verified", named.Port(), "enc", mysqlconn.TLS{Mode: mysqlconn.TLSVerifyIdentity, CA: read("ca.pem")}, ""},
		{"verified, with a certificate of our own", named.Port(), "cert", mysqlconn.TLS{Mode: mysqlconn.TLSVerifyIdentity, CA: read("ca.pem"), Cert: read("client.pem"), Key: mysqlconn.Secret(read("client.key"))}, ""},
		{"a certificate is wanted", named.Port(), "cert", mysqlconn.TLS{Mode: mysqlconn.TLSVerifyIdentity, CA: read("ca.pem")}, `turned the account "cert" away`},
		{"another authority", named.Port(), "enc", mysqlconn.TLS{Mode: mysqlconn.TLSVerifyIdentity, CA: other}, "certificate was not accepted"},
		{"another authority, no name", named.Port(), "enc", mysqlconn.TLS{Mode: mysqlconn.TLSVerifyCA, CA: other}, "certificate was not accepted"},
		{"another authority, only encrypted", named.Port(), "enc", mysqlconn.TLS{Mode: mysqlconn.TLSRequired, CA: other}, ""},
		{"another name", elsewhere.Port(), "enc", mysqlconn.TLS{Mode: mysqlconn.TLSVerifyIdentity, CA: read("ca.pem")}, "certificate was not accepted"},
		{"another name, none wanted", elsewhere.Port(), "enc", mysqlconn.TLS{Mode: mysqlconn.TLSVerifyCA, CA: read("ca.pem")}, ""},
		{"no TLS where the account must", named.Port(), "enc", mysqlconn.TLS{}, "whether it must use TLS"},
		{"a server without TLS", without.Port(), "enc", mysqlconn.TLS{Mode: mysqlconn.TLSRequired}, "does not speak TLS"},
		{"a file of something else", named.Port(), "enc", mysqlconn.TLS{Mode: mysqlconn.TLSVerifyCA, CA: read("ca.key")}, "tls.ca: found no certificate in it"},
		{"an unknown mode", named.Port(), "enc", mysqlconn.TLS{Mode: "preferred"}, `TLS mode "preferred", expected`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), mysqldtest.Timeout)
			defer cancel()
			target := mysqlconn.Target{Name: "0123 side a", Host: "127.0.0.1", Port: c.port, Account: mysqlconn.Account{User: c.user, Password: "p", TLS: c.tls}}
			db, err := mysqlconn.Connect(ctx, target)
			if err == nil {
				defer db.Close()
			}
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "0123 side a") {
					t.Fatalf("%v, expected an error with %q and the server's name", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var name, cipher string
			if err := db.QueryRowContext(ctx, "SHOW STATUS LIKE 'Ssl_cipher'").Scan(&name, &cipher); err != nil || cipher == "" {
				t.Errorf("cipher %q, %v: the connection is not encrypted", cipher, err)
			}
		})
	}

	// A server that wants TLS of everybody.
	mysqldtest.Exec(t, named, "SET GLOBAL require_secure_transport = ON")
	ctx, cancel := context.WithTimeout(context.Background(), mysqldtest.Timeout)
	defer cancel()
	_, err = mysqlconn.Connect(ctx, mysqlconn.Target{Name: "0123 side a", Host: "127.0.0.1", Port: named.Port(), Account: mysqlconn.Account{User: "plain", Password: "p"}})
	if err == nil || !strings.Contains(err.Error(), "wants TLS (require_secure_transport)") {
		t.Errorf("%v, expected an error that says that the server wants TLS", err)
	}
}
