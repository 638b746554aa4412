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

// Issued reports whether the authority has signed a certificate. A signature is verified, because any authority may
// have the same name.
func (a *Authority) Issued(c *x509.Certificate) bool {
	return bytes.Equal(c.RawIssuer, a.Certificate.RawSubject) && c.CheckSignatureFrom(a.Certificate) == nil
}

// Renew makes a certificate with the subject, names, usages and key type of an old one that the authority has issued,
// and with a new key unless key is set. validity 0 means the validity of the old one. The error is ErrForeign, or one
// about the certificate or the authority. Validity of the old one is not required: an expired certificate can be
// renewed.
func (a *Authority) Renew(old *x509.Certificate, key crypto.Signer, validity time.Duration) (*Pair, error) {
	if !a.Issued(old) {
		return nil, ErrForeign
	}
	if old.IsCA {
		return nil, errors.New("the certificate is one of a certificate authority")
	}
	e := a.environment
	// A new key of the old one's type is accepted by the same peers.
	if key == nil {
		var err error
		if key, err = newKeyLike(e, old.PublicKey); err != nil {
			return nil, err
		}
	}
	// The new certificate has a new serial number, so that a revocation of the old one does not affect it.
	cert, err := a.sign(e, renewal(old), key.Public(), validityOf(old, validity))
	if err != nil {
		return nil, err
	}
	return &Pair{Certificate: cert, Key: key, Chain: a.intermediates()}, nil
}

// RenewAuthority returns the authority with a later end. It keeps its key, so that the certificates that it has issued
// remain valid. Peers verify them with the old or the new certificate of the authority. The error is ErrForeign for an
// intermediate authority, which only its parent can renew.
func (a *Authority) RenewAuthority(validity time.Duration) (*Authority, error) {
	if !a.Issued(a.Certificate) {
		return nil, ErrForeign // an intermediate authority
	}
	template := renewal(a.Certificate)
	// Issued certificates name the authority's key by this identifier.
	template.SubjectKeyId = a.Certificate.SubjectKeyId
	cert, err := sign(a.environment, template, template, a.Key.Public(), a.Key, validityOf(a.Certificate, validity))
	if err != nil {
		return nil, err
	}
	return &Authority{Pair{Certificate: cert, Key: a.Key}, a.environment}, nil
}

// renewal returns a certificate to be signed with the contents of old. It has no serial number, validity or key: sign
// sets them.
func renewal(old *x509.Certificate) *x509.Certificate {
	return &x509.Certificate{
		// The subject is copied as encoded, so that peers that compare its bytes find no difference.
		RawSubject: old.RawSubject, DNSNames: old.DNSNames, IPAddresses: old.IPAddresses, URIs: old.URIs,
		EmailAddresses: old.EmailAddresses,
		KeyUsage:       old.KeyUsage, ExtKeyUsage: old.ExtKeyUsage, UnknownExtKeyUsage: old.UnknownExtKeyUsage,
		BasicConstraintsValid: old.BasicConstraintsValid, IsCA: old.IsCA, MaxPathLen: old.MaxPathLen,
		MaxPathLenZero: old.MaxPathLenZero,
	}
}

// validityOf returns the validity for a renewal: the given one, or the one of the old certificate, without the time by
// which it was backdated.
func validityOf(old *x509.Certificate, validity time.Duration) time.Duration {
	if validity != 0 {
		return validity
	}
	return old.NotAfter.Sub(old.NotBefore) - backdated
}

// newKeyLike draws a key of the same type and size as a public key.
func newKeyLike(e Environment, public crypto.PublicKey) (crypto.Signer, error) {
	switch p := public.(type) {
	case *ecdsa.PublicKey:
		// newKey depends on the randomness of the environment only; other types of keys may use more.
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
