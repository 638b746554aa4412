package azuretables

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"strings"
	"sync"
	"time"

	"cqld/auth"
	"cqld/azuretables/odata"
	"cqld/ring"
)

// Account is an account of the configuration: its name and key, as in a connection string, and the role as which its
// requests run; empty means that they are anonymous. Configuration holds one key per account; accounts of the directory
// have two, so that a key can be rotated. It is immutable after New.
type Account struct {
	Name string
	Key  string // base64
	Role string
	// Consistency is Quorum or LocalQuorum; empty means Options.Consistency.
	Consistency string
}

// The levels of Options.Consistency and Account.Consistency.
const (
	Quorum      = auth.TablesQuorum
	LocalQuorum = auth.TablesLocalQuorum
)

// The development account, whose key is public; it is served on loopback addresses only.
const (
	DevelopmentAccount = auth.DevelopmentAccount
	DevelopmentKey     = auth.DevelopmentKey
)

// account is an account with its keys. It pools HMAC states that are initialized with a key, because creating one costs
// more than hashing a request. All fields but the pools and the cache are immutable. It is found by accounts, and
// replaced when it changes.
type account struct {
	name       string    // also the keyspace of its tables
	role       string    // empty means that requests are anonymous
	given      [2]string // the keys as configured
	level      string    // empty means the level of the server
	wellKnown  bool      // a key is DevelopmentKey
	keys       []*key    // one or two
	properties propertiesCache
}

// key is one key of an account. The pool's signers hold the secret; the key itself is not kept. Signers are created as
// needed, one for each request at a time.
type key struct{ hashes sync.Pool } // of *signer

// signer computes one HMAC at a time. Its buffers avoid allocations. A signer is used by one goroutine at a time.
type signer struct {
	mac     hash.Hash
	sum     [sha256.Size]byte     // the computed HMAC
	given   [sha256.Size + 2]byte // the client's signature, decoded; base64 may decode to two bytes more
	scratch []byte
}

// newAccount returns an account with one or two keys; an empty string is not a key. It returns false if a key is not
// base64. given is kept to detect changes.
func newAccount(name, role, level string, keys [2]string) (*account, bool) {
	made := &account{name: name, role: role, level: level, given: keys}
	for _, given := range keys {
		// The second key is optional.
		if given == "" {
			continue
		}
		secret, err := base64.StdEncoding.DecodeString(given)
		if err != nil {
			return nil, false
		}
		// A known key makes the account subject to checkHost, whatever its name.
		made.wellKnown = made.wellKnown || given == DevelopmentKey
		k := &key{}
		// Reset of an HMAC restores the state after the key was hashed, which saves two blocks per request.
		k.hashes.New = func() any { return &signer{mac: hmac.New(sha256.New, secret)} }
		made.keys = append(made.keys, k)
	}
	return made, true
}

// levels returns the consistency of the account's requests (docs/adr/0042). server is the level of accounts that have
// none of their own. The first result is the level of reads and writes, the second is the serial level. Conditional
// changes need the serial level.
func (a *account) levels(server string) (ring.Consistency, ring.Consistency) {
	level := a.level
	if level == "" {
		level = server
	}
	if level == LocalQuorum {
		return ring.LocalQuorum, ring.LocalSerial
	}
	return ring.Quorum, ring.Serial
}

// memoryRole returns the name of the role that the memory of requests counts for: the account's role, or the account if
// it has none. The prefix separates accounts from roles of the same name. Requests of several accounts with one role
// share its memory.
func (a *account) memoryRole() string {
	if a.role != "" {
		return a.role
	}
	return "tables:" + a.name
}

// verify reports whether signature (base64) is the HMAC, by any of the account's keys, of the bytes that build appends.
// Comparing takes constant time for each key; the total time shows at most which key was used. Both keys are valid at
// any time, which lets clients rotate them.
func (a *account) verify(signature string, build func(dst []byte) []byte) bool {
	for _, k := range a.keys {
		if k.verify(signature, build) {
			return true
		}
	}
	return false
}

// verify is account.verify for one key. It allocates nothing after the first use.
func (k *key) verify(signature string, build func(dst []byte) []byte) bool {
	s := k.hashes.Get().(*signer)
	defer k.hashes.Put(s)
	// The length is public. It bounds what Decode writes to given.
	if len(signature) != base64.StdEncoding.EncodedLen(sha256.Size) {
		return false
	}
	s.scratch = append(s.scratch[:0], signature...)
	n, err := base64.StdEncoding.Decode(s.given[:], s.scratch)
	if err != nil {
		return false
	}
	// The string is built only for signatures of the right form.
	s.scratch = build(s.scratch[:0])
	s.mac.Reset()
	s.mac.Write(s.scratch)
	return subtle.ConstantTimeCompare(s.mac.Sum(s.sum[:0]), s.given[:n]) == 1
}

// authorizeKey checks an Authorization header (SharedKey or SharedKeyLite) that signs path. An unknown scheme is
// InvalidAuthenticationInfo; everything else that does not fit is AuthenticationFailed. path is the path as sent,
// without the query.
func (a *account) authorizeKey(req *httpRequest, path, comp string, now time.Time) error {
	scheme, rest, _ := strings.Cut(req.header.authorization, " ")
	name, signature, ok := strings.Cut(strings.TrimSpace(rest), ":")
	// SharedKeyLite signs the date and the resource only.
	lite := scheme == "SharedKeyLite"
	switch {
	case !ok || scheme != "SharedKey" && !lite:
		return odata.Of(odata.InvalidAuthenticationInfo)
	// The account in the header must be the one that the URL addresses.
	case name != a.name:
		return odata.Of(odata.AuthenticationFailed)
	}
	// x-ms-date precedes Date, because browsers and proxies set Date.
	date := req.header.msDate
	if date == "" {
		date = req.header.date
	}
	at, ok := parseDate(date)
	// A signature is valid for dateSkew in both directions, which limits replays.
	if !ok || now.Sub(at).Abs() > dateSkew {
		return odata.Of(odata.AuthenticationFailed)
	}
	if !a.verify(signature, func(dst []byte) []byte { return a.appendStringToSign(dst, req, path, lite, date, comp) }) {
		return odata.Of(odata.AuthenticationFailed)
	}
	return nil
}

// appendStringToSign appends the string that a request signs. The resource consists of the account and the path as
// sent, so the account occurs twice if the URL has the emulator's form. (REST reference, "Authorize with Shared Key",
// "Table service".)
func (a *account) appendStringToSign(dst []byte, req *httpRequest, path string, lite bool, date, comp string) []byte {
	// The Lite string lacks the method, the MD5 and the type.
	if !lite {
		dst = append(append(dst, req.method...), '\n')
		dst = append(append(dst, req.header.contentMD5...), '\n')
		dst = append(append(dst, req.header.contentType...), '\n')
	}
	dst = append(append(dst, date...), '\n')
	dst = append(append(dst, '/'), a.name...)
	dst = append(dst, path...)
	// comp is the only parameter that is signed.
	if comp != "" {
		dst = append(append(dst, "?comp="...), comp...)
	}
	return dst
}
