package tlsconfig

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// revoked is the set of certificates that trusted authorities have revoked. An authority is identified by its public
// key, because two of them may have the same name. It is immutable once loaded.
type revoked struct {
	entries map[revokedKey]struct{}
	// next is the earliest time at which a newer list is due; zero if there are no lists.
	next time.Time
}

// revokedKey identifies a certificate: serial numbers are unique for one authority only.
type revokedKey struct {
	authority [sha256.Size]byte // of the public key
	serial    string
}

// newRevokedKey returns the key of the certificate with a serial number that authority has issued.
func newRevokedKey(authority *x509.Certificate, serial *big.Int) revokedKey {
	return revokedKey{sha256.Sum256(authority.RawSubjectPublicKeyInfo), string(serial.Bytes())}
}

// loadRevoked reads revocation lists. Each must be signed by one of the authorities. A list that is out of date is
// used, too; warnExpiry reports it.
func loadRevoked(files []string, authorities []*x509.Certificate) (*revoked, error) {
	r := &revoked{entries: map[revokedKey]struct{}{}}
	for _, file := range files {
		b, err := read(file, revocationBytesMax, false)
		if err != nil {
			return nil, err
		}
		lists, err := ParseRevocationLists(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", describe(file), err)
		}
		// One list that cannot be used makes the reload fail: ignoring it would admit revoked certificates.
		for _, list := range lists {
			if err := r.add(list, authorities); err != nil {
				return nil, fmt.Errorf("%s: %w", describe(file), err)
			}
		}
	}
	return r, nil
}

// ParseRevocationLists returns the revocation lists of PEM text, or the one of DER. Other PEM blocks are ignored. It is
// an error if there is no list. Signatures are not verified.
func ParseRevocationLists(b []byte) ([]*x509.RevocationList, error) {
	if !bytes.Contains(b, []byte("-----BEGIN ")) {
		list, err := x509.ParseRevocationList(b)
		if err != nil {
			return nil, fmt.Errorf("not a revocation list in PEM or DER: %w", err)
		}
		return []*x509.RevocationList{list}, nil
	}
	var lists []*x509.RevocationList
	for rest := b; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "X509 CRL" {
			continue
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	if len(lists) == 0 {
		return nil, fmt.Errorf("has no X509 CRL block")
	}
	return lists, nil
}

// add adds the entries of a list. A list with critical extensions is a delta or covers only some certificates, which
// RFC 5280 section 5.2 forbids to treat as a complete one.
func (r *revoked) add(list *x509.RevocationList, authorities []*x509.Certificate) error {
	for _, e := range list.Extensions {
		if e.Critical {
			return fmt.Errorf("the revocation list has the critical extension %s; only complete lists of one "+
				"authority are supported", e.Id)
		}
	}
	signer := signerOf(list, authorities)
	if signer == nil {
		return fmt.Errorf("the revocation list of %q is signed by none of the trusted certificates", list.Issuer)
	}
	for _, e := range list.RevokedCertificateEntries {
		r.entries[newRevokedKey(signer, e.SerialNumber)] = struct{}{}
	}
	// The list that is due first determines the warning.
	if !list.NextUpdate.IsZero() && (r.next.IsZero() || list.NextUpdate.Before(r.next)) {
		r.next = list.NextUpdate
	}
	return nil
}

// signerOf returns the authority that has signed a list, or nil. Several may have the name of the issuer.
func signerOf(list *x509.RevocationList, authorities []*x509.Certificate) *x509.Certificate {
	for _, a := range authorities {
		// The name is compared first, because a signature costs much more.
		if bytes.Equal(a.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(a) == nil {
			return a
		}
	}
	return nil
}

// check returns an error if each of the chains contains a revoked certificate. One chain without revoked certificates
// is enough, because any of the verified chains proves the peer.
func (r *revoked) check(chains [][]*x509.Certificate) error {
	if len(r.entries) == 0 {
		return nil
	}
	var found error
	for _, chain := range chains {
		err := r.checkChain(chain)
		if err == nil {
			return nil
		}
		// The error is about the last chain; any of them is as good.
		found = err
	}
	return found
}

// checkChain examines each certificate of a chain but the root, with the one after it as its authority.
func (r *revoked) checkChain(chain []*x509.Certificate) error {
	// The root is trusted by configuration: it is removed, not revoked.
	for i := 0; i+1 < len(chain); i++ {
		if _, ok := r.entries[newRevokedKey(chain[i+1], chain[i].SerialNumber)]; ok {
			return &RevokedError{Subject: chain[i].Subject.String(), Serial: chain[i].SerialNumber}
		}
	}
	return nil
}

// RevokedError is the error for a peer with a revoked certificate.
type RevokedError struct {
	Subject string
	Serial  *big.Int
}

// Error returns a message that names the certificate.
func (e *RevokedError) Error() string {
	return fmt.Sprintf("the certificate of %q with serial number %x is revoked", e.Subject, e.Serial)
}
