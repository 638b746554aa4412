package authority

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// CertificatePEM returns the certificate and the intermediate certificates, in the order that peers require: each is
// followed by its signer's.
//
//	leaf ─ signed by ─▶ intermediate ─ signed by ─▶ root, which is not included
func (p *Pair) CertificatePEM() []byte {
	var b bytes.Buffer
	for _, c := range append([]*x509.Certificate{p.Certificate}, p.Chain...) {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return b.Bytes()
}

// KeyPEM returns the private key as unencrypted PKCS#8. The caller must store it in a file that only its user can read.
func (p *Pair) KeyPEM() ([]byte, error) { return keyPEM(p.Key) }

// keyPEM returns a private key as an unencrypted PEM block.
func keyPEM(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// TLS returns the pair for crypto/tls. It shares the certificates with p.
func (p *Pair) TLS() tls.Certificate {
	c := tls.Certificate{PrivateKey: p.Key, Leaf: p.Certificate, Certificate: [][]byte{p.Certificate.Raw}}
	for _, i := range p.Chain {
		c.Certificate = append(c.Certificate, i.Raw)
	}
	return c
}

// Pool returns a pool that contains the authority. Peers with this pool accept certificates of the authority, even of
// an intermediate one.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate)
	return pool
}

// Revoke returns a revocation list, as PEM, of certificates that the authority has issued. It must be replaced within
// validity. It supersedes earlier lists, so serials must contain all revoked certificates.
func (a *Authority) Revoke(validity time.Duration, serials ...*big.Int) ([]byte, error) {
	// List numbers must increase (RFC 5280 section 5.2.3), and the time of issue does.
	now := a.environment.now().Truncate(time.Second)
	list := &x509.RevocationList{Number: big.NewInt(now.Unix()), ThisUpdate: now.Add(-backdated),
		NextUpdate: now.Add(validity)}
	for _, s := range serials {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: s, RevocationTime: now})
	}
	der, err := x509.CreateRevocationList(signatureRandom(a.Key, a.environment.random()), list, a.Certificate, a.Key)
	if err != nil {
		return nil, fmt.Errorf("revocation list: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), nil
}
