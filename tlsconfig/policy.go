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

// ClientAuth is whether a server wants certificates of its clients. Certificates that clients present are always
// verified.
type ClientAuth uint8

// Values of ClientAuth.
const (
	// Clients are not asked for a certificate.
	ClientAuthNone ClientAuth = iota
	// Clients may present a certificate.
	ClientAuthOptional
	// Clients must present a certificate.
	ClientAuthRequired
)

// Policy is how the files of a Source are used. The zero value is a server for all clients, or a client that verifies
// the server's certificate and name, with TLS 1.2 and 1.3. A Policy is copied into the configuration; its slices must
// not change.
type Policy struct {
	// ClientAuth is for servers.
	ClientAuth ClientAuth
	// MinVersion and MaxVersion are tls.VersionTLS12 or tls.VersionTLS13. 0 means the former and the latter.
	MinVersion, MaxVersion uint16
	// CipherSuites applies to TLS 1.2; nil means DefaultCipherSuites. TLS 1.3 has no configurable suites.
	CipherSuites []uint16
	// NextProtos are the application protocols (ALPN), the preferred ones first.
	NextProtos []string
	// ServerName is what the server's certificate must contain, a DNS name or an IP address. A client without a
	// ServerName must set AnyName.
	ServerName string
	// AnyName makes a client accept each trusted certificate whatever its names. The caller sets Verify instead.
	AnyName bool
	// MaxValidity and MinValidity refuse peers' certificates that are issued for longer, or expire sooner. 0 means no
	// bound.
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
	// A configuration is made for each material, not for each connection: crypto/tls keeps the keys of session tickets
	// in it. Two connections may both make one after a reload; one of them is then used only once.
	var cached atomic.Pointer[serverConfig]
	outer := s.base(p)
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		m := s.current.Load()
		if m.pair == nil {
			return nil, errNoCertificate
		}
		c := cached.Load()
		// The files were read again since the configuration was made.
		if c == nil || c.material != m {
			c = &serverConfig{m, s.serverConfig(p, m)}
			cached.Store(c)
		}
		return c.config, nil
	}
	// crypto/tls requires a certificate in the outer configuration, which is not used.
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
	// A certificate that is presented is verified even if none is required.
	c.ClientAuth = tls.VerifyClientCertIfGiven
	if p.ClientAuth == ClientAuthRequired {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if c.ClientCAs = m.trusted; c.ClientCAs == nil {
		c.ClientCAs = x509.NewCertPool() // nil would mean the authorities of the operating system
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
		return &tls.Certificate{}, nil // presents none
	}
	// The authorities of a configuration cannot change, so VerifyConnection verifies the server instead.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(state tls.ConnectionState) error { return s.verifyServer(p, state) }
	return c
}

// ClientConfig returns a configuration for a client that runs for a short time: the files are read once. serverName is
// a DNS name or an IP address. It has no Policy: TLS 1.2 or later, the name of the server is verified, and revocation
// lists apply.
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

// base returns the part of a configuration that is the same for servers and clients. Nil cipher suites and version 0
// are replaced by their defaults.
func (s *Source) base(p Policy) *tls.Config {
	c := &tls.Config{
		MinVersion: p.MinVersion, MaxVersion: p.MaxVersion,
		CipherSuites: p.CipherSuites,
		NextProtos:   p.NextProtos,
		Time:         s.options.Clock.Now,
	}
	// Records of full size from the beginning: answers are read as a whole.
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
	// A nil pool means the authorities of the operating system.
	options := x509.VerifyOptions{Roots: m.trusted, Intermediates: x509.NewCertPool(),
		CurrentTime: s.options.Clock.Now()}
	if !p.AnyName {
		if options.DNSName = p.ServerName; options.DNSName == "" {
			options.DNSName = state.ServerName
		}
		if options.DNSName == "" {
			// A client must not accept every trusted certificate by mistake, so this requires an explicit AnyName.
			return errors.New("tlsconfig: the name of the server is not known")
		}
	}
	// Peers send the certificates between theirs and the root.
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
	// crypto/tls does not know revocation lists.
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
	// The caller's function sees only certificates that passed everything else.
	if p.Verify != nil {
		return p.Verify(leaf)
	}
	return nil
}

// ValidityError is the error for a peer whose certificate is issued for too long, or expires too soon.
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
