package internodetls

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"cqld/tlsconfig"
)

// Encryption is internode_encryption: the peers to which connections are encrypted.
type Encryption string

// The values of Encryption.
const (
	None       Encryption = "none"
	Rack       Encryption = "rack" // peers in other racks
	Datacenter Encryption = "dc"   // peers in other data centers
	All        Encryption = "all"
)

// Place is where a member is, as seen from this node.
type Place struct {
	SameDatacenter bool
	SameRack       bool // of the same data center
}

// Options configure a Security.
type Options struct {
	Cluster    string // name of the cluster
	Encryption Encryption
	// Optional means that peers may open unencrypted connections, and that this node falls back to one if a peer does
	// not support TLS. It is for the time in which the nodes of a ring change from no encryption to encryption.
	Optional bool
	// VerifyEndpoint requires that certificates contain the address of their node.
	VerifyEndpoint bool
	Source         *tlsconfig.Source
	// Policy has the versions and cipher suites; its other fields are ignored.
	Policy tlsconfig.Policy
	// Place returns the place of the member at an address; ok is false if no member has the address. It is required for
	// Rack and Datacenter, and must not block.
	Place func(netip.Addr) (p Place, ok bool)
	// Resolver resolves DNS names of certificates. nil means the resolver of the operating system.
	Resolver Resolver
}

// Resolver returns the IP addresses of a host name.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Security implements messaging.Security.
type Security struct {
	opts           Options
	server, client *tls.Config
	verify         func(tls.ConnectionState) error
}

// New returns a Security. The caller closes Options.Source after the transport.
func New(o Options) (*Security, error) {
	if !o.Source.HasCertificate() || !o.Source.HasTrusted() {
		return nil, errors.New("internodetls: a certificate and trusted authorities are required")
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	p := o.Policy
	name := serverName(o.Cluster)
	p.ClientAuth, p.AnyName, p.ServerName, p.Verify = tlsconfig.ClientAuthRequired, true, name, nil
	s := &Security{opts: o, server: guarded(o.Source.Server(p), name), client: o.Source.Client(p)}
	s.client.DynamicRecordSizingDisabled = true
	// The client's verification requires that the certificate may be used by a server, with the current files.
	s.verify = s.client.VerifyConnection
	return s, nil
}

// serverName returns the server name that nodes of a cluster send in the first message of a TLS handshake. In TLS,
// servers present their certificates first, and certificates of nodes contain the name of the cluster. The server name
// proves nothing, but a process that does not know it receives no certificate, and costs no signature.
func serverName(cluster string) string {
	sum := sha256.Sum256([]byte("cqld internode TLS " + cluster))
	return hex.EncodeToString(sum[:16]) + ".cqld"
}

// errServerName is the error for a peer that does not send serverName.
var errServerName = errors.New("internodetls: the peer does not know the name of the cluster")

// guarded returns a configuration of servers that refuses other server names. It never divides what it writes into
// small records, which are for web pages: each record is a system call.
func guarded(server *tls.Config, name string) *tls.Config {
	current := server.GetConfigForClient
	server.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if subtle.ConstantTimeCompare([]byte(hello.ServerName), []byte(name)) == 0 {
			return nil, errServerName
		}
		c, err := current(hello)
		if err == nil {
			c = c.Clone() // other connections share it
			c.DynamicRecordSizingDisabled = true
		}
		return c, err
	}
	return server
}

// Server implements messaging.Security.
func (s *Security) Server() *tls.Config { return s.server }

// Client implements messaging.Security.
func (s *Security) Client(netip.AddrPort) *tls.Config { return s.client }

// Encrypts implements messaging.Security.
func (s *Security) Encrypts(to netip.AddrPort) bool { return s.encrypts(to.Addr()) }

// encrypts reports whether the connections to and from a peer are encrypted. A peer that is not a member is assumed to
// be in another data center.
func (s *Security) encrypts(peer netip.Addr) bool {
	switch s.opts.Encryption {
	case None:
		return false
	case All:
		return true
	}
	p, ok := s.opts.Place(peer.Unmap())
	if s.opts.Encryption == Datacenter {
		return !ok || !p.SameDatacenter
	}
	return !ok || !p.SameDatacenter || !p.SameRack
}

// FallsBack implements messaging.Security.
func (s *Security) FallsBack(netip.AddrPort) bool { return s.opts.Optional }

// AcceptsPlain implements messaging.Security.
func (s *Security) AcceptsPlain(from netip.Addr) bool { return s.opts.Optional || !s.encrypts(from) }

// EndpointError is the error for a certificate that does not belong to the node at an address.
type EndpointError struct {
	Address netip.Addr
	Problem string
}

// Error returns a message with the address.
func (e *EndpointError) Error() string {
	return fmt.Sprintf("the certificate of %s %s", e.Address, e.Problem)
}

// Authenticate implements messaging.Security with the rules of the package.
func (s *Security) Authenticate(ctx context.Context, state tls.ConnectionState, peer netip.Addr) error {
	if err := s.verify(state); err != nil {
		return err
	}
	leaf := state.PeerCertificates[0]
	refuse := func(format string, args ...any) error { return &EndpointError{peer, fmt.Sprintf(format, args...)} }
	_, named := tlsconfig.SPIFFE(leaf)
	_, node := tlsconfig.Node(leaf, s.opts.Cluster)
	switch {
	case named && !node:
		return refuse("is not one of a node of this cluster: none of its identities begins with %s",
			tlsconfig.NodeIdentity(s.opts.Cluster, ""))
	case !s.opts.VerifyEndpoint && !node:
		return refuse("has no identity %sNAME, which is required if require_endpoint_verification is false",
			tlsconfig.NodeIdentity(s.opts.Cluster, ""))
	case !s.opts.VerifyEndpoint, s.contains(ctx, leaf, peer):
		return nil
	}
	return refuse("is for other addresses: %s", names(leaf))
}

// contains reports whether a certificate includes an address.
func (s *Security) contains(ctx context.Context, leaf *x509.Certificate, peer netip.Addr) bool {
	for _, ip := range leaf.IPAddresses {
		if a, ok := netip.AddrFromSlice(ip); ok && a.Unmap() == peer {
			return true
		}
	}
	for _, name := range leaf.DNSNames[:min(len(leaf.DNSNames), namesResolvedMax)] {
		if strings.Contains(name, "*") {
			continue
		}
		addrs, err := s.opts.Resolver.LookupNetIP(ctx, "ip", name)
		if err == nil && slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap() == peer }) {
			return true
		}
	}
	return false
}

// names returns the names of a certificate, for messages.
func names(leaf *x509.Certificate) string {
	var all []string
	for _, ip := range leaf.IPAddresses[:min(len(leaf.IPAddresses), namesShownMax)] {
		all = append(all, ip.String())
	}
	for _, n := range leaf.DNSNames[:min(len(leaf.DNSNames), namesShownMax)] {
		all = append(all, fmt.Sprintf("%.100q", n))
	}
	if len(all) == 0 {
		return "it has none"
	}
	return strings.Join(all, ", ")
}

// Revoked implements messaging.Security.
func (s *Security) Revoked(state tls.ConnectionState) error {
	err := s.verify(state)
	var revoked *tlsconfig.RevokedError
	if errors.As(err, &revoked) {
		return err
	}
	return nil // what is expired or no longer trusted ends with the connection
}

// Reason implements messaging.Security.
func (s *Security) Reason(err error) string {
	var e *EndpointError
	switch {
	case errors.As(err, &e):
		return "endpoint"
	case errors.Is(err, errServerName):
		return "cluster"
	}
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage {
		return "usage"
	}
	if r := tlsconfig.ReasonOf(err); r != tlsconfig.ReasonProtocol {
		return string(r)
	}
	return ""
}
