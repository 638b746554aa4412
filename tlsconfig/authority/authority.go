package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/netip"
	"net/url"
	"time"

	"cqld/tlsconfig"
)

// Defaults of validity.
const (
	AuthorityValidity = 10 * 365 * 24 * time.Hour
	LeafValidity      = 90 * 24 * time.Hour
)

// backdated is how long before the time of issue certificates become valid, for peers whose clocks are late.
const backdated = 5 * time.Minute

// keyAttempts bounds the attempts to generate a key. An attempt fails with a probability of 2^-32.
const keyAttempts = 16

// Environment provides time and randomness. Tests set both fields to issue the same certificates again.
type Environment struct {
	// Random is read for keys and serial numbers; nil means crypto/rand.
	Random io.Reader
	// Now is the time of issue; zero means the machine's time.
	Now time.Time
}

// now returns the time of issue.
func (e Environment) now() time.Time {
	if e.Now.IsZero() {
		return time.Now()
	}
	return e.Now
}

// random returns the source of randomness.
func (e Environment) random() io.Reader {
	if e.Random == nil {
		return rand.Reader
	}
	return e.Random
}

// Pair is a certificate with its private key. Its fields must not be changed.
type Pair struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
	// Chain has the certificates of intermediate authorities. The root is not among them.
	Chain []*x509.Certificate
}

// Authority is a certificate authority that can issue certificates. It is immutable and safe for concurrent use if
// Environment.Random is.
type Authority struct {
	Pair
	environment Environment
}

// New creates a certificate authority with a common name. validity 0 means AuthorityValidity.
func New(e Environment, name string, validity time.Duration) (*Authority, error) {
	return newAuthority(e, &x509.Certificate{Subject: pkix.Name{CommonName: name}}, validity)
}

// NewCluster creates the certificate authority of a cluster. Its certificate contains the cluster's SPIFFE trust
// domain.
func NewCluster(e Environment, cluster string, validity time.Duration) (*Authority, error) {
	return newAuthority(e, &x509.Certificate{Subject: pkix.Name{CommonName: cluster + " CA"},
		URIs: []*url.URL{{Scheme: "spiffe", Host: tlsconfig.TrustDomain(cluster)}}}, validity)
}

// newAuthority creates a self-signed root: template is also its parent.
func newAuthority(e Environment, template *x509.Certificate, validity time.Duration) (*Authority, error) {
	if validity == 0 {
		validity = AuthorityValidity
	}
	key, err := newKey(e.random())
	if err != nil {
		return nil, err
	}
	template.BasicConstraintsValid, template.IsCA = true, true
	// The key may only sign certificates and revocation lists.
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	if template.SubjectKeyId, err = keyID(key.Public()); err != nil {
		return nil, err
	}
	cert, err := sign(e, template, template, key.Public(), key, validity)
	if err != nil {
		return nil, err
	}
	return &Authority{Pair{Certificate: cert, Key: key}, e}, nil
}

// Cluster returns the SPIFFE trust domain of the authority's cluster, or "" if the authority is not from NewCluster.
func (a *Authority) Cluster() string {
	for _, u := range a.Certificate.URIs {
		if u.Scheme == "spiffe" {
			return u.Host
		}
	}
	return ""
}

// Load returns the authority in PEM text, which other programs may have created. key may be encrypted with password.
// The first certificate is the authority's, and must match the key; the following ones are intermediate authorities
// above it.
func Load(e Environment, certificate, key []byte, password string) (*Authority, error) {
	chain, err := tlsconfig.ParseCertificates("the certificate of the authority", certificate, 16)
	if err != nil {
		return nil, err
	}
	signer, err := tlsconfig.ParseKey("the private key of the authority", key, password)
	if err != nil {
		return nil, err
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(chain[0].PublicKey) {
		return nil, errors.New("the private key does not belong to the certificate of the authority")
	}
	// Go would also sign with a leaf certificate, but no peer would accept the result.
	if !chain[0].IsCA {
		return nil, fmt.Errorf("the certificate of %q is not one of a certificate authority", chain[0].Subject)
	}
	return &Authority{Pair{Certificate: chain[0], Key: signer, Chain: chain[1:]}, e}, nil
}

// Request describes a certificate. The names in it are not validated.
type Request struct {
	// Name is the common name.
	Name      string
	DNS       []string
	Addresses []netip.Addr
	// Identity is a SPIFFE URI; empty means none.
	Identity string
	Server   bool // the certificate may serve
	Client   bool // the certificate may connect
	// Validity begins with the time of issue; 0 means LeafValidity.
	Validity time.Duration
	// Key is the private key; nil means a new one.
	Key crypto.Signer
	// Issued overrides the time of issue; zero means the time of the environment.
	Issued time.Time
}

// Node returns the request for a node of a cluster. Nodes serve clients and other nodes, and connect to other nodes.
// Clients and nodes connect to one of dns and addresses.
func Node(cluster, name string, dns []string, addresses []netip.Addr) Request {
	return Request{Name: name, DNS: dns, Addresses: addresses, Identity: tlsconfig.NodeIdentity(cluster, name),
		Server: true, Client: true}
}

// Client returns the request for a client of a cluster.
func Client(cluster, name string) Request {
	return Request{Name: name, Identity: tlsconfig.ClientIdentity(cluster, name), Client: true}
}

// Issue issues a certificate, which expires with the authority at the latest. r is not modified. Unless r.Key is set, a
// new key is generated.
func (a *Authority) Issue(r Request) (*Pair, error) {
	e := a.environment
	if !r.Issued.IsZero() {
		e.Now = r.Issued
	}
	if r.Validity == 0 {
		r.Validity = LeafValidity
	}
	if r.Key == nil {
		key, err := newKey(e.random())
		if err != nil {
			return nil, err
		}
		r.Key = key
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: r.Name},
		DNSNames:              r.DNS,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
	}
	for _, ip := range r.Addresses {
		template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
	}
	if r.Identity != "" {
		u, err := url.Parse(r.Identity)
		if err != nil {
			return nil, fmt.Errorf("identity: %w", err)
		}
		template.URIs = []*url.URL{u}
	}
	// Extended key usages separate clients from servers: a client's certificate cannot be used by a server.
	if r.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if r.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	cert, err := a.sign(e, template, r.Key.Public(), r.Validity)
	if err != nil {
		return nil, err
	}
	// The peer needs the certificates between this one and the root.
	return &Pair{Certificate: cert, Key: r.Key, Chain: a.intermediates()}, nil
}

// intermediates returns the certificates between issued ones and the root, which is not sent to peers.
func (a *Authority) intermediates() []*x509.Certificate {
	// A root is its own issuer.
	if string(a.Certificate.RawSubject) == string(a.Certificate.RawIssuer) {
		return nil
	}
	return append([]*x509.Certificate{a.Certificate}, a.Chain...)
}

// sign signs a certificate with the authority's key. It expires with the authority at the latest.
func (a *Authority) sign(e Environment, template *x509.Certificate, public crypto.PublicKey,
	validity time.Duration) (*x509.Certificate, error) {
	now := e.now()
	if now.After(a.Certificate.NotAfter) {
		return nil, fmt.Errorf("the certificate authority expired on %s",
			a.Certificate.NotAfter.UTC().Format(time.DateOnly))
	}
	// Peers would refuse the certificate once the authority has expired.
	if left := a.Certificate.NotAfter.Sub(now); validity > left {
		validity = left
	}
	return sign(e, template, a.Certificate, public, a.Key, validity)
}

// sign signs a certificate that is valid from slightly before now. It sets the validity and the serial number of
// template. Unless it is self-signed, the certificate does not become valid before its parent.
func sign(e Environment, template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer,
	validity time.Duration) (*x509.Certificate, error) {
	now := e.now().Truncate(time.Second)
	// Certificates have times in whole seconds.
	template.NotBefore, template.NotAfter = now.Add(-backdated), now.Add(validity)
	if parent != template && template.NotBefore.Before(parent.NotBefore) {
		template.NotBefore = parent.NotBefore
	}
	serial, err := newSerial(e.random())
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(signatureRandom(key, e.random()), template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// signatureRandom returns the randomness for signatures. ECDSA signatures need none (RFC 6979), so they are
// reproducible.
func signatureRandom(key crypto.Signer, random io.Reader) io.Reader {
	if _, ok := key.(*ecdsa.PrivateKey); ok {
		return nil
	}
	return random
}

// newKey generates a private key. ecdsa.GenerateKey ignores the given randomness, so the scalar is drawn directly, and
// the key depends on random alone.
func newKey(random io.Reader) (*ecdsa.PrivateKey, error) {
	var scalar [32]byte
	for range keyAttempts {
		if _, err := io.ReadFull(random, scalar[:]); err != nil {
			return nil, err
		}
		// Zero, and numbers not below the order of the curve, are not valid keys.
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar[:]); err == nil {
			return key, nil
		}
	}
	return nil, errors.New("the random numbers are no private keys")
}

// newSerial generates a serial number of 127 bits. The first bit is zero, because serial numbers are positive (RFC 5280
// section 4.1.2.2).
func newSerial(random io.Reader) (*big.Int, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return nil, err
	}
	b[0] &= 0x7f
	b[15] |= 1 // never zero
	return new(big.Int).SetBytes(b[:]), nil
}

// keyID returns the identifier of a public key (RFC 7093, method 1). It is the first 160 bits of the SHA-256 hash of
// the key.
func keyID(public crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(der)
	return sum[:20], nil
}
