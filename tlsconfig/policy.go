package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// ClientAuth says whether a server requests certificates from its clients. Certificates that clients present are always
// verified.
type ClientAuth uint8

// Values of ClientAuth.
const (
	// ClientAuthNone does not request certificates.
	ClientAuthNone ClientAuth = iota
	// ClientAuthOptional requests certificates, but accepts clients without one.
	ClientAuthOptional
	// ClientAuthRequired refuses clients without a certificate.
	ClientAuthRequired
)

// Policy says how the files of a Source are used. The zero value is a server that accepts all clients, or a client that
// verifies the server's certificate and name, with TLS 1.2 and 1.3. A Policy is copied; its slices must not be
// modified.
type Policy struct {
	// ClientAuth is for servers.
	ClientAuth ClientAuth
	// MinVersion and MaxVersion are tls.VersionTLS12 or tls.VersionTLS13. 0 means TLS 1.2 and 1.3, respectively.
	MinVersion, MaxVersion uint16
	// CipherSuites applies to TLS 1.2; nil means DefaultCipherSuites. TLS 1.3 has no configurable suites.
	CipherSuites []uint16
	// NextProtos are the application protocols (ALPN), the preferred ones first.
	NextProtos []string
	// ServerName is the DNS name or IP address that the server's certificate must contain. A client without a
	// ServerName must set AnyName.
	ServerName string
	// AnyName makes a client accept every trusted certificate, whatever its names. The caller then sets Verify.
	AnyName bool
	// MaxValidity and MinValidity refuse certificates of peers that are issued for longer, or that expire sooner. 0
	// means no limit.
	MaxValidity, MinValidity time.Duration
	// Verify is called with the peer's certificate after it was verified, for each connection. An error ends the
	// handshake.
	Verify func(peer *x509.Certificate) error
}

// errNoCertificate is the error of a handshake that needs a certificate of this process when it has none.
var errNoCertificate = errors.New("tlsconfig: no certificate is configured")

// Server returns a configuration for servers. Each connection uses the files that are current when it begins.
//
// Clients resume sessions only if they present no certificates: each connection of a client with a certificate proves
// that it has the private key, and revocation takes effect at the next connection. A Source without a certificate
// refuses all connections.
func (s *Source) Server(p Policy) *tls.Config {
	// The configuration is cached for each material instead of each connection, because crypto/tls keeps the keys of
	// session tickets in it. After a reload, two connections may both create one; one of them is then used only once.
	var cached atomic.Pointer[serverConfig]
	outer := s.base(p)
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		m := s.current.Load()
		if m.pair == nil {
			return nil, errNoCertificate
		}
		c := cached.Load()
		// The files were reloaded since the configuration was created.
		if c == nil || c.material != m {
			c = &serverConfig{m, s.serverConfig(p, m)}
			cached.Store(c)
		}
		return c.config, nil
	}
	// crypto/tls requires a certificate in the outer configuration, which it does not use.
	outer.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if m := s.current.Load(); m.pair != nil {
			return m.pair, nil
		}
		return nil, errNoCertificate
	}
	return outer
}

// serverConfig is the configuration that was made from a material.
type serverConfig struct {
	material *material
	config   *tls.Config
}

// serverConfig returns the configuration for connections that begin while m is current.
func (s *Source) serverConfig(p Policy, m *material) *tls.Config {
	c := s.base(p)
	c.Certificates = []tls.Certificate{*m.pair}
	if p.ClientAuth == ClientAuthNone {
		return c
	}
	// A presented certificate is verified even if none is required.
	c.ClientAuth = tls.VerifyClientCertIfGiven
	if p.ClientAuth == ClientAuthRequired {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if c.ClientCAs = m.trusted; c.ClientCAs == nil {
		c.ClientCAs = x509.NewCertPool() // nil would mean the operating system's authorities
	}
	// A resumed session would skip the proof of the private key.
	c.SessionTicketsDisabled = true
	c.VerifyConnection = func(state tls.ConnectionState) error {
		// ClientAuthOptional admits clients without a certificate.
		if len(state.PeerCertificates) == 0 {
			return nil
		}
		return s.verified(p, m, state.PeerCertificates[0], state.VerifiedChains)
	}
	return c
}

// Client returns a configuration for clients. Each connection uses the files that are current when it begins. Sessions
// are not resumed. MinValidity, MaxValidity and Verify apply to the certificate of the server.
func (s *Source) Client(p Policy) *tls.Config {
	c := s.base(p)
	c.ServerName = p.ServerName
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if m := s.current.Load(); m.pair != nil {
			return m.pair, nil
		}
		return &tls.Certificate{}, nil // presents no certificate
	}
	// The authorities in a configuration cannot change, so VerifyConnection verifies the server instead.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(state tls.ConnectionState) error { return s.verifyServer(p, state) }
	return c
}

// ClientConfig returns a configuration for a short-lived client: the files are read once. serverName is a DNS name or
// an IP address. TLS 1.2 or later is used, the server's name is verified, and revocation lists apply.
func ClientConfig(files Files, serverName string, now time.Time) (*tls.Config, error) {
	m, err := load(files, now)
	if err != nil {
		return nil, err
	}
	// crypto/tls verifies the server itself, because these authorities do not change.
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: m.trusted, ServerName: serverName,
		CipherSuites: DefaultCipherSuites()}
	if m.pair != nil {
		c.Certificates = []tls.Certificate{*m.pair}
	}
	c.VerifyConnection = func(state tls.ConnectionState) error { return m.revoked.check(state.VerifiedChains) }
	return c, nil
}

// base returns the common part of the configurations of servers and clients, with defaults for nil cipher suites and
// version 0.
func (s *Source) base(p Policy) *tls.Config {
	c := &tls.Config{
		MinVersion: p.MinVersion, MaxVersion: p.MaxVersion,
		CipherSuites: p.CipherSuites,
		NextProtos:   p.NextProtos,
		Time:         s.options.Clock.Now,
	}
	// Records have full size from the start, because clients need a complete response anyway.
	c.DynamicRecordSizingDisabled = true
	if c.MinVersion == 0 {
		c.MinVersion = tls.VersionTLS12
	}
	if c.CipherSuites == nil {
		c.CipherSuites = DefaultCipherSuites()
	}
	return c
}

// verifyServer verifies the certificate of a server like crypto/tls, with the current authorities. The names of the
// certificate are compared unless p.AnyName is set; without a name to compare, the handshake fails.
func (s *Source) verifyServer(p Policy, state tls.ConnectionState) error {
	m := s.current.Load()
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server presented no certificate")
	}
	leaf := state.PeerCertificates[0]
	if err := checkNames(leaf); err != nil {
		return err
	}
	// A nil pool means the operating system's authorities.
	options := x509.VerifyOptions{Roots: m.trusted, Intermediates: x509.NewCertPool(),
		CurrentTime: s.options.Clock.Now()}
	if !p.AnyName {
		if options.DNSName = p.ServerName; options.DNSName == "" {
			options.DNSName = state.ServerName
		}
		if options.DNSName == "" {
			// A client must not accept every trusted certificate by mistake, so this requires AnyName.
			return errors.New("tlsconfig: the name of the server is not known")
		}
	}
	// Peers send the certificates between their own and the root.
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	chains, err := leaf.Verify(options)
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return s.verified(p, m, leaf, chains)
}

// verified checks a peer's certificate beyond its signatures and dates.
func (s *Source) verified(p Policy, m *material, leaf *x509.Certificate, chains [][]*x509.Certificate) error {
	if err := checkNames(leaf); err != nil {
		return err
	}
	// crypto/tls does not check revocation lists.
	if err := m.revoked.check(chains); err != nil {
		return err
	}
	if validity := leaf.NotAfter.Sub(leaf.NotBefore); p.MaxValidity > 0 && validity > p.MaxValidity {
		return &ValidityError{Subject: leaf.Subject.String(),
			Reason: fmt.Sprintf("is issued for %v, and at most %v are allowed",
				validity.Round(time.Minute), p.MaxValidity)}
	}
	if left := leaf.NotAfter.Sub(s.options.Clock.Now()); p.MinValidity > 0 && left < p.MinValidity {
		return &ValidityError{Subject: leaf.Subject.String(),
			Reason: fmt.Sprintf("expires in %v, and must be valid for %v",
				left.Round(time.Minute), p.MinValidity)}
	}
	// Verify is called last, only for certificates that passed all other checks.
	if p.Verify != nil {
		return p.Verify(leaf)
	}
	return nil
}

// ValidityError is the error for a peer's certificate that is issued for too long, or expires too soon.
type ValidityError struct{ Subject, Reason string }

// Error returns a message that names the certificate.
func (e *ValidityError) Error() string {
	return fmt.Sprintf("the certificate of %q %s", e.Subject, e.Reason)
}

// SecureCipherSuites returns the names of the TLS 1.2 cipher suites that a Policy may contain, as in IANA's registry,
// which are also their names in Java. The caller owns the map.
func SecureCipherSuites() map[string]uint16 {
	suites := map[string]uint16{}
	for _, c := range tls.CipherSuites() {
		if slices.Contains(c.SupportedVersions, tls.VersionTLS12) {
			suites[c.Name] = c.ID
		}
	}
	return suites
}

// DefaultCipherSuites returns the TLS 1.2 cipher suites that are used unless others are configured: those with
// authenticated encryption. crypto/tls also has suites in CBC mode on by default, whose padding attackers have used to
// decrypt (Lucky Thirteen). They are sorted by number; crypto/tls has its own order of preference.
func DefaultCipherSuites() []uint16 {
	var suites []uint16
	for name, id := range SecureCipherSuites() {
		if !strings.Contains(name, "_CBC_") {
			suites = append(suites, id)
		}
	}
	slices.Sort(suites)
	return suites
}
