package authority

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// ErrForeign is the error for a certificate that another authority has issued.
var ErrForeign = errors.New("the certificate was issued by another authority")

// Issued reports whether the authority has signed a certificate. It verifies the signature, because another authority
// may have the same name.
func (a *Authority) Issued(c *x509.Certificate) bool {
	return bytes.Equal(c.RawIssuer, a.Certificate.RawSubject) && c.CheckSignatureFrom(a.Certificate) == nil
}

// Renew issues a certificate with the subject, names, usages and key type of an old one, which the authority must have
// issued. Unless key is set, it generates a new key. validity 0 means the old certificate's. An expired certificate can
// be renewed. The error is ErrForeign, or concerns the certificate or the authority.
func (a *Authority) Renew(old *x509.Certificate, key crypto.Signer, validity time.Duration) (*Pair, error) {
	if !a.Issued(old) {
		return nil, ErrForeign
	}
	if old.IsCA {
		return nil, errors.New("the certificate is one of a certificate authority")
	}
	e := a.environment
	// A new key has the type of the old one, which the peers accept.
	if key == nil {
		var err error
		if key, err = newKeyLike(e, old.PublicKey); err != nil {
			return nil, err
		}
	}
	// The serial number is new, so a revocation of the old certificate does not apply.
	cert, err := a.sign(e, renewal(old), key.Public(), validityOf(old, validity))
	if err != nil {
		return nil, err
	}
	return &Pair{Certificate: cert, Key: key, Chain: a.intermediates()}, nil
}

// RenewAuthority returns the authority with a later expiry. It keeps its key, so issued certificates remain valid:
// peers verify them with the old or the new certificate of the authority. The error is ErrForeign for an intermediate
// authority, which only its parent can renew.
func (a *Authority) RenewAuthority(validity time.Duration) (*Authority, error) {
	if !a.Issued(a.Certificate) {
		return nil, ErrForeign // an intermediate authority
	}
	template := renewal(a.Certificate)
	// Issued certificates refer to the authority's key by this identifier.
	template.SubjectKeyId = a.Certificate.SubjectKeyId
	cert, err := sign(a.environment, template, template, a.Key.Public(), a.Key, validityOf(a.Certificate, validity))
	if err != nil {
		return nil, err
	}
	return &Authority{Pair{Certificate: cert, Key: a.Key}, a.environment}, nil
}

// renewal returns a template with the contents of old. sign sets the serial number, validity and key.
func renewal(old *x509.Certificate) *x509.Certificate {
	return &x509.Certificate{
		// The encoded subject is copied, because peers may compare its bytes.
		RawSubject: old.RawSubject, DNSNames: old.DNSNames, IPAddresses: old.IPAddresses, URIs: old.URIs,
		EmailAddresses: old.EmailAddresses,
		KeyUsage:       old.KeyUsage, ExtKeyUsage: old.ExtKeyUsage, UnknownExtKeyUsage: old.UnknownExtKeyUsage,
		BasicConstraintsValid: old.BasicConstraintsValid, IsCA: old.IsCA, MaxPathLen: old.MaxPathLen,
		MaxPathLenZero: old.MaxPathLenZero,
	}
}

// validityOf returns the validity for a renewal: the given one or, if it is 0, the old certificate's without the
// backdating.
//
//	validity 0, old valid for 90 days and backdated by 5 min   90 days
func validityOf(old *x509.Certificate, validity time.Duration) time.Duration {
	if validity != 0 {
		return validity
	}
	return old.NotAfter.Sub(old.NotBefore) - backdated
}

// newKeyLike generates a key of the same type and size as a public key.
func newKeyLike(e Environment, public crypto.PublicKey) (crypto.Signer, error) {
	switch p := public.(type) {
	case *ecdsa.PublicKey:
		// newKey depends only on the environment's randomness; other key types may use more.
		if p.Curve.Params().BitSize == 256 {
			return newKey(e.random())
		}
		return ecdsa.GenerateKey(p.Curve, e.random())
	case *rsa.PublicKey:
		return rsa.GenerateKey(e.random(), p.N.BitLen())
	case ed25519.PublicKey:
		_, key, err := ed25519.GenerateKey(e.random())
		return key, err
	}
	return nil, fmt.Errorf("keys of type %T are not supported", public)
}
