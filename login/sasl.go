package login

import (
	"bytes"

	"cqld/server"
)

// Credentials are what a client sends. Password must not be kept: it is a part of the buffer of the request.
type Credentials struct {
	Role     string
	Password []byte
}

// ParsePlain parses a token of SASL PLAIN: an authorization identity, which Cassandra ignores and which may be omitted,
// the user name, and the password, separated by NUL. It returns *server.BadCredentials with Cassandra's messages. The
// password refers to the token.
//
//	[authorization identity] NUL user NUL password
//
// RFC 4616 defines the form.
func ParsePlain(token []byte) (Credentials, error) {
	rest, password, ok := cutLast(token)
	if !ok {
		return Credentials{}, &server.BadCredentials{Message: "Password must not be null"}
	}
	rest, role, named := cutLast(rest)
	switch {
	case named && bytes.IndexByte(rest, 0) >= 0:
		return Credentials{}, &server.BadCredentials{
			Message: "Credential format error: username or password is empty or contains NUL(\\0) character"}
	case len(password) == 0:
		return Credentials{}, &server.BadCredentials{Message: "Password must not be null"}
	case len(role) == 0:
		return Credentials{}, &server.BadCredentials{Message: "Authentication ID must not be null"}
	}
	return Credentials{Role: string(role), Password: password}, nil
}

// cutLast cuts b at its last NUL. Without one, ok is false and before is b.
func cutLast(b []byte) (before, after []byte, ok bool) {
	i := bytes.LastIndexByte(b, 0)
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+1:], true
}
