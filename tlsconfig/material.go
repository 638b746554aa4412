package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// material contains the certificates and keys that were read from the files at one time. It is immutable. Connections
// that have begun with it keep it after a reload.
type material struct {
	// pair is the certificate with its key and chain; nil if there is no certificate.
	pair *tls.Certificate
	// trusted are the authorities for peers; nil means the authorities of the operating system.
	trusted *x509.CertPool
	// revoked is never nil.
	revoked *revoked
	// expiry is when the first certificate of the chain expires; zero if there is no certificate.
	expiry time.Time
}

// load reads all files. now is used to refuse a certificate that no peer would accept. Either everything is usable, or
// there is an error: a Source never mixes old and new files.
func load(f Files, now time.Time) (*material, error) {
	m := &material{revoked: &revoked{}}
	var authorities []*x509.Certificate
	if f.TrustedCertificates != "" {
		b, err := read(f.TrustedCertificates, pemBytesMax, false)
		if err != nil {
			return nil, fmt.Errorf("trusted certificates: %w", err)
		}
		if authorities, err = ParseCertificates(describe(f.TrustedCertificates), b, trustedMax); err != nil {
			return nil, fmt.Errorf("trusted certificates: %w", err)
		}
		// A pool that is not nil replaces the authorities of the operating system.
		m.trusted = x509.NewCertPool()
		for _, a := range authorities {
			m.trusted.AddCert(a)
		}
	}
	if len(f.RevocationLists) > 0 {
		// A list proves itself by the signature of a trusted authority.
		if authorities == nil {
			return nil, errors.New("revocation lists need trusted certificates, which must contain the authorities " +
				"that signed them")
		}
		var err error
		if m.revoked, err = loadRevoked(f.RevocationLists, authorities); err != nil {
			return nil, fmt.Errorf("revocation list: %w", err)
		}
	}
	// Clients may have authorities only, or no files at all.
	if f.PrivateKey == "" && f.Certificate == "" {
		return m, nil
	}
	if f.PrivateKey == "" {
		return nil, errors.New("a certificate needs a private key")
	}
	var err error
	if m.pair, err = loadPair(f); err != nil {
		return nil, err
	}
	// A certificate of this process that has expired is an error when it is read. One that expires later stays in use,
	// and is reported by warnExpiry.
	m.expiry, err = m.validity(now)
	return m, err
}

// validity returns when the certificate, or an authority above it, expires. The error is for a certificate that is not
// valid at now.
func (m *material) validity(now time.Time) (expiry time.Time, err error) {
	leaf := m.pair.Leaf
	if now.After(leaf.NotAfter) {
		return time.Time{}, fmt.Errorf("the certificate of %q expired on %s; renew it", leaf.Subject,
			date(leaf.NotAfter))
	}
	if now.Before(leaf.NotBefore) {
		return time.Time{}, fmt.Errorf("the certificate of %q is not valid before %s; check the clock", leaf.Subject,
			date(leaf.NotBefore))
	}
	expiry = leaf.NotAfter
	// Peers refuse a chain as soon as one of its certificates has expired.
	earliest := func(c *x509.Certificate) {
		if c.NotAfter.Before(expiry) {
			expiry = c.NotAfter
		}
	}
	intermediates := x509.NewCertPool()
	for _, der := range m.pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return time.Time{}, err
		}
		earliest(c)
		intermediates.AddCert(c)
	}
	if m.trusted == nil {
		return expiry, nil
	}
	// Peers may trust other authorities, so it is no error if the certificate is not from the trusted ones.
	chains, err := leaf.Verify(x509.VerifyOptions{Roots: m.trusted, Intermediates: intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	// The root counts as well: the chain that was found ends with it.
	if err == nil {
		for _, c := range chains[0] {
			earliest(c)
		}
	}
	return expiry, nil
}

// date returns a time as messages contain it.
func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
