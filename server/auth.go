package server

import (
	"context"
	"net/netip"
)

// Authenticator authenticates clients by SASL.
type Authenticator interface {
	// Class is the name that AUTHENTICATE contains. Some drivers accept only names that they know, such as
	// org.apache.cassandra.auth.PasswordAuthenticator.
	Class() string
	// Begin starts the exchange with one client.
	Begin(client netip.AddrPort) Exchange
}

// Exchange is the authentication of one client. It is used by one goroutine.
type Exchange interface {
	// Evaluate handles a token of the client. It returns the user once the client has been authenticated, or else a
	// challenge for another token. A *BadCredentials error refuses the client. Evaluate may block; an implementation
	// that hashes passwords bounds how many calls do so at once.
	Evaluate(ctx context.Context, token []byte) (user string, done bool, challenge []byte, err error)
}

// BadCredentials is the error for a client that could not be authenticated.
type BadCredentials struct{ Message string }

// Error returns the message for the client.
func (e *BadCredentials) Error() string { return e.Message }
