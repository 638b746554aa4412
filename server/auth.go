package server

import (
	"context"
	"crypto/x509"
	"net/netip"

	"cqld/query/invalid"
)

// Authenticator authenticates clients by SASL. Its methods are called concurrently. Package login implements it with
// passwords, and login/certificate with certificates. Check is called at the end of the exchange and after each
// change of roles, by several goroutines.
type Authenticator interface {
	// Class is the name that AUTHENTICATE contains. Some drivers accept only names that they know, such as
	// org.apache.cassandra.auth.PasswordAuthenticator.
	Class() string
	// Begin starts the exchange with one client.
	Begin(client netip.AddrPort) Exchange
	// Check returns the standing of an authenticated client according to the current roles. It must not block.
	Check(user string, client netip.AddrPort) Standing
}

// CertificateAuthenticator is an Authenticator that also uses the certificates of clients. The certificate is verified
// by TLS against the authorities of the configuration; whether it belongs to a role is decided here.
type CertificateAuthenticator interface {
	Authenticator
	// BeginCertificate starts the exchange with a client that has presented a certificate, which was verified; nil
	// means that it has presented none, or that the connection is not encrypted.
	BeginCertificate(client netip.AddrPort, certificate *x509.Certificate) Exchange
}

// begin starts the exchange with the client. It is called for each STARTUP, in the reader.
func (c *conn) begin(a Authenticator) Exchange {
	if a, ok := a.(CertificateAuthenticator); ok {
		return a.BeginCertificate(c.client, c.peer())
	}
	return a.Begin(c.client)
}

// Exchange is the authentication of one client. It is used by one goroutine. It needs no Close: it is discarded when
// the client is authenticated or its connection ends.
type Exchange interface {
	// Evaluate handles a token of the client. It returns the user once the client has been authenticated, or else a
	// challenge for another token. A *BadCredentials error refuses the client. Evaluate may block until ctx ends, which
	// is when the time for the handshake ends; an implementation that hashes passwords bounds how many calls do so at
	// once.
	Evaluate(ctx context.Context, token []byte) (user string, done bool, challenge []byte, err error)
}

// Standing determines whether an authenticated client may continue. The zero value means that it may. It changes
// while the client is connected, for example when its role loses LOGIN. A value is immutable and shared by goroutines
// through an atomic pointer.
type Standing struct {
	// Ended ends the connection: the role was dropped or may no longer log in.
	Ended bool
	// Refused is the error of each statement, or nil. The connection continues.
	Refused error
}

// same reports whether two standings have the same effect.
func (s Standing) same(other Standing) bool {
	if s.Ended != other.Ended || (s.Refused == nil) != (other.Refused == nil) {
		return false
	}
	return s.Refused == nil || s.Refused.Error() == other.Refused.Error()
}

// BadCredentials is the error for a client that could not be authenticated. It becomes the error code 0x0100 of the
// protocol.
type BadCredentials struct{ Message string }

// Error returns the message for the client.
func (e *BadCredentials) Error() string { return e.Message }

// AuthenticationOverloaded is the error for a client that could not be authenticated because too many others are being
// authenticated. Its credentials may be correct. It becomes the code Overloaded, so that drivers retry at another node
// instead of reporting wrong credentials.
type AuthenticationOverloaded struct{ Message string }

// Error returns the message for the client.
func (e *AuthenticationOverloaded) Error() string { return e.Message }

// errLoggedOut refuses statements that were not yet executed when the client's role was dropped.
var errLoggedOut = &invalid.Unauthorized{Msg: "You have not logged in"}

// RecheckClients applies a change of roles to the open connections. A connection whose role may no longer log in
// stops reading, and ends when its running requests have ended. It takes time proportional to the connections, and is
// called by the cluster's loop after a change of roles.
func (s *Server) RecheckClients() {
	if s.options.Authenticator == nil {
		return
	}
	// Each connection is checked against the current roles, not against the change.
	for _, c := range s.connections() {
		c.recheck()
	}
}

// recheck applies the standing of the connection's client. Concurrent calls may see different roles. The last one to
// store a standing checks after that, so the standing according to the latest roles remains.
func (c *conn) recheck() {
	user := c.user.Load()
	if user == nil {
		return // not authenticated yet: the reader calls recheck when it is
	}
	for {
		s := c.server.options.Authenticator.Check(user.Name, c.client)
		if s.Ended {
			c.revoke()
			return
		}
		// The standing is stored before the second check: a change of roles after that check calls recheck again.
		c.refused.Store(&s)
		// The roles have not changed since they were checked, so no other call can have stored an older standing after
		// this one.
		if c.server.options.Authenticator.Check(user.Name, c.client).same(s) {
			return
		}
	}
}

// revoke ends the connection after its running requests. It is permanent: a role that is created again is another one.
// The client gets answers to requests that run, and Unauthorized for those that were read and have not begun.
func (c *conn) revoke() {
	c.revoked.Store(true)
	c.stop()
}

// refusal returns the error with which statements of the client are refused, or nil.
func (c *conn) refusal() error {
	// Checked first: a role that may not log in has no other standing.
	if c.revoked.Load() {
		return errLoggedOut
	}
	if s := c.refused.Load(); s != nil {
		return s.Refused
	}
	return nil
}

// evaluate passes a token to the exchange. It takes no longer than the client has for the handshake.
func (c *conn) evaluate(token []byte) (user string, done bool, challenge []byte, err error) {
	// The deadline counts from the connection, not from the token: a client that sends tokens slowly gets no further
	// time.
	ctx, cancel := context.WithDeadline(c.ctx, c.opened.Add(c.server.limits.HandshakeTimeout))
	defer cancel()
	return c.exchange.Evaluate(ctx, token)
}
