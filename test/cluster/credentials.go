package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is how long certificates hold; a cluster lives for minutes, and one
// to play with for days.
const validity = 30 * 24 * time.Hour

// adminUser is who the administrator is in the audit log.
const adminUser = "admin"

// An authority signs the certificates of a cluster: the API server's own, and
// those of its users.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// The files that the API server and the controller manager read.
type pki struct {
	ca                                      *authority
	caCert, caKey, serving, servingKey, key string // paths; key is that of service accounts
	token, tokens                           string // admin's token, and the file that names it
}

func newPKI(dir string) (*pki, error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	p := &pki{ca: ca, token: randomHex()}
	p.caCert, p.caKey = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	p.serving, p.servingKey = filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")
	p.key, p.tokens = filepath.Join(dir, "service-accounts.key"), filepath.Join(dir, "tokens.csv")

	serving, servingKey, err := ca.serve()
	if err != nil {
		return nil, err
	}
	caKey, err := encodeKey(ca.key)
	if err != nil {
		return nil, err
	}
	accounts, err := newKey()
	if err != nil {
		return nil, err
	}
	accountsKey, err := encodeKey(accounts)
	if err != nil {
		return nil, err
	}
	return p, writeAll(map[string][]byte{
		p.caCert: ca.pem, p.caKey: caKey,
		p.serving: serving, p.servingKey: servingKey,
		p.key:    accountsKey,
		p.tokens: []byte(p.token + "," + adminUser + ",admin,system:masters\n"),
	})
}

func newAuthority() (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := certificate(pkix.Name{CommonName: "test-cluster"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: encodeCert(der)}, nil
}

// serve returns the API server's certificate and key.
func (a *authority) serve() (cert, key []byte, err error) {
	template := certificate(pkix.Name{CommonName: "kube-apiserver"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.ParseIP(localhost), net.ParseIP(serviceIP)}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default.svc"}
	return a.sign(template)
}

// user returns a client certificate and its key for a user in groups.
func (a *authority) user(name string, groups []string) (cert, key []byte, err error) {
	template := certificate(pkix.Name{CommonName: name, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

func (a *authority) sign(template *x509.Certificate) (cert, key []byte, err error) {
	private, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate of %s: %w", template.Subject.CommonName, err)
	}
	key, err = encodeKey(private)
	return encodeCert(der), key, err
}

func certificate(subject pkix.Name) *x509.Certificate {
	serial := new(big.Int).SetBytes(randomBytes())
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// encodeKey uses the one form of an elliptic key that the API server also takes
// for service accounts.
func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func randomBytes() []byte {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	return b
}

func randomHex() string { return hex.EncodeToString(randomBytes()) }

func writeAll(files map[string][]byte) error {
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
