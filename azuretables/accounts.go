package azuretables

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cqld/auth"
	"cqld/azuretables/odata"
	"cqld/schema"
)

// accounts finds accounts: those of the cluster's directory, which change at any time, then those of the configuration.
// It keeps the HMAC states of each account until the account's keys, role or consistency change. It is safe for
// concurrent use.
type accounts struct {
	directory   func() *auth.Directory // nil means that there is none
	configured  map[string]*account
	development *account // nil means that it is never served

	mu   sync.RWMutex
	kept map[string]*account // of the directory
}

// configure is called once, before any other method.
func (s *accounts) configure(o *Options) error {
	s.directory, s.configured, s.kept = o.Directory, map[string]*account{}, map[string]*account{}
	for _, a := range o.Accounts {
		if err := CheckAccount(a); err != nil {
			return fmt.Errorf("azuretables: account %q: %w", a.Name, err)
		}
		s.configured[a.Name], _ = newAccount(a.Name, a.Role, a.Consistency, [2]string{a.Key})
	}
	if o.Development && len(o.Accounts) == 0 {
		s.development, _ = newAccount(DevelopmentAccount, "", "", [2]string{DevelopmentKey})
	}
	return nil
}

// CheckAccount returns nil if the account's name and key are valid: 3 to 24 lower-case letters and digits, and base64
// of at least 16 bytes.
func CheckAccount(a Account) error {
	problem := auth.CheckTablesName(a.Name)
	switch {
	case problem == "" && schema.IsSystem(a.Name):
		problem = "the name is that of a system keyspace"
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

// secondarySuffix ends the name of an account's read-only endpoint.
const secondarySuffix = "-secondary"

// find returns the account with the given name, or nil. secondary reports whether the name belongs to its secondary
// endpoint.
func (s *accounts) find(name string) (a *account, secondary bool) {
	if a = s.named(name); a != nil {
		return a, false
	}
	if primary, ok := strings.CutSuffix(name, secondarySuffix); ok {
		return s.named(primary), true
	}
	return nil, false
}

func (s *accounts) named(name string) *account {
	var d *auth.Directory
	if s.directory != nil {
		d = s.directory()
		if a, ok := d.TablesAccount(name); ok {
			return s.current(a)
		}
	}
	s.forget(name)
	if a := s.configured[name]; a != nil {
		return a
	}
	if s.development != nil && name == DevelopmentAccount && (d == nil || !d.HasTablesAccounts()) {
		return s.development
	}
	return nil
}

// current returns what is kept for an account, if its keys and its role are still the same.
func (s *accounts) current(of *auth.TablesAccount) *account {
	s.mu.RLock()
	a := s.kept[of.Name]
	s.mu.RUnlock()
	if a != nil && a.role == of.Role && a.level == of.Consistency && a.given == of.Keys {
		return a
	}
	made, ok := newAccount(of.Name, of.Role, of.Consistency, of.Keys)
	if !ok { // the directory has checked its keys
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[of.Name] = made
	return made
}

// forget drops what is kept for an account that no longer exists.
func (s *accounts) forget(name string) {
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
// data centers and addresses apply. A client that has authenticated learns that it is not authorized.
func (c *call) assumeRole() error {
	role := c.account.role
	if role == "" {
		return nil
	}
	s := &c.server.o
	if s.Directory != nil && !s.Directory().CanLogin(role) {
		return odata.Of(odata.AuthorizationFailure)
	}
	if s.Admit != nil && s.Admit(role, c.req.remote.Addr()) != nil {
		return odata.Of(odata.AuthorizationFailure)
	}
	c.request.Principal = auth.Principal{Name: role}
	return nil
}
