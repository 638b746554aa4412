package azuretables

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"cqld/auth"
	"cqld/azuretables/odata"
	"cqld/schema"
)

// accounts finds accounts, first in the cluster's directory, which may change at any time, and then in the
// configuration. It keeps the HMAC states of each account until the account's keys, role or consistency change. It is
// safe for concurrent use. An account of the directory takes precedence over one of the configuration with the same
// name.
//
// An account is immutable: a changed one replaces it, so a request that has one keeps it until its end.
type accounts struct {
	directory   func() *auth.Directory // nil means that there is no directory
	configured  map[string]*account    // by name; never changes after configure
	development *account               // nil means that it is never served
	unknown     account                // without a name and keys, in place of one that does not exist

	mu   sync.RWMutex
	kept map[string]*account // of the directory
}

// configure is called once, before any other method. configure builds the configured accounts, and the development
// account if it may be served.
func (s *accounts) configure(o *Options) error {
	s.directory, s.configured, s.kept = o.Directory, map[string]*account{}, map[string]*account{}
	for _, a := range o.Accounts {
		// A configuration with an invalid account is refused at start; later changes of the directory cannot be.
		if err := CheckAccount(a); err != nil {
			return fmt.Errorf("azuretables: account %q: %w", a.Name, err)
		}
		// CheckAccount has decoded the key, so newAccount cannot fail.
		s.configured[a.Name], _ = newAccount(a.Name, a.Role, a.Consistency, [2]string{a.Key})
	}
	// A node with configured accounts never serves the public key.
	if o.Development && len(o.Accounts) == 0 {
		s.development, _ = newAccount(DevelopmentAccount, "", "", [2]string{DevelopmentKey})
	}
	return nil
}

// CheckAccount returns nil if the account's name and key are valid: 3 to 24 lower-case letters and digits, and base64
// of at least 16 bytes. The error describes the first problem, without the account's name.
func CheckAccount(a Account) error {
	problem := auth.CheckTablesName(a.Name)
	switch {
	case problem == "" && schema.IsSystem(a.Name):
		problem = "the name belongs to a system keyspace"
	// Consistency is checked last, so the message names the first problem.
	case problem == "":
		problem = auth.CheckTablesKey(a.Key)
	}
	if problem == "" {
		problem = auth.CheckTablesConsistency(a.Consistency)
	}
	if problem != "" {
		return errors.New(problem)
	}
	return nil
}

// secondarySuffix is the suffix of the name of an account's read-only endpoint.
const secondarySuffix = "-secondary"

// find returns the account with the given name, or nil. secondary reports whether the name belongs to its secondary
// endpoint. It does not authenticate.
func (s *accounts) find(name string) (a *account, secondary bool) {
	// The exact name is tried first. No account's name ends in -secondary, because names contain only letters and
	// digits.
	if a = s.named(name); a != nil {
		return a, false
	}
	if primary, ok := strings.CutSuffix(name, secondarySuffix); ok {
		return s.named(primary), true
	}
	return nil, false
}

// labelOf returns the first label of a host name if it is the name of an account or of its secondary endpoint, as in
// races.tables.example.com; else it is empty. Names of hosts have no case, and names of accounts are in lower case.
func (s *accounts) labelOf(host string) string {
	label, _, dotted := strings.Cut(host, ".")
	if !dotted {
		return ""
	}
	label = strings.ToLower(label)
	if a, _ := s.find(label); a == nil || isAddress(host) {
		return ""
	}
	return label
}

// isAddress reports whether a host, with or without a port, is an IPv4 address. Its first number may be the name of an
// account, too.
func isAddress(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	// Most names have a letter, and need no attempt, whose error would be allocated.
	if strings.Trim(name, "0123456789.") != "" {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// named returns the account with exactly this name, or nil. The order is directory, configuration, development.
func (s *accounts) named(name string) *account {
	// The directory is read for each request: a dropped account or a rotated key takes effect with the next request.
	var d *auth.Directory
	if s.directory != nil {
		d = s.directory()
		if a, ok := d.TablesAccount(name); ok {
			return s.current(a)
		}
	}
	// Not in the directory. It may have been there before, in which case its HMAC states hold a withdrawn key.
	s.forget(name)
	if a := s.configured[name]; a != nil {
		return a
	}
	// The development account disappears as soon as the cluster has an account of its own.
	if s.development != nil && name == DevelopmentAccount && (d == nil || !d.HasTablesAccounts()) {
		return s.development
	}
	return nil
}

// current returns the cached account of a name if its keys and its role are still the same. The comparison includes
// both keys: one rotation leaves the other key valid.
func (s *accounts) current(of *auth.TablesAccount) *account {
	// Most requests find the account unchanged, so a read lock suffices for them.
	s.mu.RLock()
	a := s.kept[of.Name]
	s.mu.RUnlock()
	if a != nil && a.role == of.Role && a.level == of.Consistency && a.given == of.Keys {
		return a
	}
	// The account is built outside the lock. Two requests may build it concurrently; the second replaces the first,
	// and both are valid.
	made, ok := newAccount(of.Name, of.Role, of.Consistency, of.Keys)
	if !ok { // the directory has checked its keys
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[of.Name] = made
	return made
}

// forget drops the cached account of a name that no longer exists. It is called for every unknown name.
func (s *accounts) forget(name string) {
	// Unknown names arrive from unauthenticated clients: they must not contend for the write lock.
	s.mu.RLock()
	_, kept := s.kept[name]
	s.mu.RUnlock()
	if kept {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.kept, name)
	}
}

// assumeRole makes the request run as the account's role. The role must exist and have LOGIN, and its restrictions of
// data centers and addresses apply. A client that has authenticated learns that it is not authorized. The error does
// not name the role or the rule. It must be called after authentication, and before anything is read.
func (c *call) assumeRole() error {
	role := c.account.role
	// An account without a role runs as anonymous; Service.Authorize then decides what it may do.
	if role == "" {
		return nil
	}
	s := &c.server.o
	// LOGIN is checked per request, because HTTP has no session that a revocation could end.
	if s.Directory != nil && !s.Directory().CanLogin(role) {
		return odata.Of(odata.AuthorizationFailure)
	}
	if s.Admit != nil && s.Admit(role, c.req.remote.Addr()) != nil {
		return odata.Of(odata.AuthorizationFailure)
	}
	// From here on, Service checks the permissions of this role.
	c.request.Principal = auth.Principal{Name: role}
	return nil
}
