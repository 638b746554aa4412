package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// Observation is an operation that a client of the control port requested. The audit log records it, so it must not
// contain secrets when it is formatted; use String. Requests for pages and for unknown names have none.
type Observation struct {
	Name   string // empty if the client had no valid token
	Client string // address of the client; empty or "@" for the socket
	// Args are as the client sent them, with secrets. They are nil if the request had no valid token.
	Args json.RawMessage
	Err  error // nil after a success
}

// errToken is the error for requests without the token.
var errToken = errors.New("the control token is missing or wrong")

// Refused reports whether the client was not allowed to request the operation. Invalid arguments and failures are not
// refusals.
func (o *Observation) Refused() bool {
	var e *Error
	return errors.Is(o.Err, errToken) || errors.As(o.Err, &e) && e.Code == Denied
}

// String returns the operation and its arguments as JSON. Arguments with names of secrets are redacted. It is the name
// alone without arguments.
func (o *Observation) String() string {
	if len(o.Args) == 0 {
		return o.Name
	}
	var args any
	d := json.NewDecoder(bytes.NewReader(o.Args))
	// Tokens of the ring do not fit into the 53 bits of a float64.
	d.UseNumber()
	if err := d.Decode(&args); err != nil {
		return o.Name + " (invalid arguments)"
	}
	redact(args)
	text, err := json.Marshal(args)
	if err != nil || string(text) == "{}" {
		return o.Name
	}
	return o.Name + " " + string(text)
}

// redact replaces the values of secrets in decoded JSON. It changes v in place. Objects are searched at every depth, so
// that nested arguments need no registration.
func redact(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if secret(name) && !ringTokens(name, value) {
				v[name] = "*******"
				continue
			}
			redact(value)
		}
	case []any:
		for _, value := range v {
			redact(value)
		}
	}
}

// ringTokens reports whether an argument contains tokens of the ring, as numbers: a token that authorizes is a text.
func ringTokens(name string, value any) bool {
	if _, number := value.(json.Number); number {
		return name == "token" || name == "start_token" || name == "end_token"
	}
	list, ok := value.([]any)
	return ok && name == "tokens" && !slices.ContainsFunc(list, func(v any) bool {
		_, number := v.(json.Number)
		return !number
	})
}

// secret reports whether an argument's name says that it is a password or a key. It errs on the side of redaction,
// because new arguments are not listed here.
func secret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"password", "secret", "token", "hash", "credential"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	// The keys of an account are numbered: key1, tables_key2.
	name = strings.TrimRight(name, "0123456789")
	return name == "key" || name == "keys" || strings.HasSuffix(name, "_key")
}

// observe passes an observation to the observer, if there is one.
func (s *Server) observe(o Observation) {
	if s.Observe != nil {
		s.Observe(o)
	}
}
