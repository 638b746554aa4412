package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// material contains the certificates and keys that were read from the files at one time. It is immutable. Connections
// that started with it keep it after a reload.
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

// load reads all files. It refuses a certificate that is invalid at now, because no peer would accept it. It uses all
// files or none: a Source never mixes old and new files.
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
		// A non-nil pool replaces the operating system's authorities.
		m.trusted = x509.NewCertPool()
		for _, a := range authorities {
			m.trusted.AddCert(a)
		}
	}
	if len(f.RevocationLists) > 0 {
		// A revocation list is verified by the signature of a trusted authority.
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
	// An expired certificate is an error only when it is loaded. One that expires later stays in use, and warnExpiry
	// reports it.
	m.expiry, err = m.validity(now)
	return m, err
}

// validity returns when the certificate, or an authority above it, expires. It returns an error if the certificate is
// not valid at now.
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
	// The certificate need not be signed by a trusted authority, because peers may trust others.
	chains, err := leaf.Verify(x509.VerifyOptions{Roots: m.trusted, Intermediates: intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	// The verified chain ends with the root, whose expiry counts as well.
	if err == nil {
		for _, c := range chains[0] {
			earliest(c)
		}
	}
	return expiry, nil
}

// date formats a time for messages.
func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
