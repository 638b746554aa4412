package auth

import (
	"encoding/base64"
	"log/slog"
	"maps"
	"slices"
)

// The development account of Azure Tables, whose key is public. A Directory never contains either.
const (
	DevelopmentAccount = "devstoreaccount1"
	DevelopmentKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// TablesAccount is an account of Azure Tables. Its requests run as its role. It is immutable. Logs must not contain its
// keys: String and LogValue omit them.
type TablesAccount struct {
	Name, Role string
	// Keys are base64. Two of them let clients change from one to the other; at most one is empty.
	Keys [2]string
	// Consistency is TablesQuorum or TablesLocalQuorum; empty means the level of the node that serves the request.
	Consistency string
}

// The consistency of an Azure Tables account's requests: a majority of all replicas, with SERIAL, or of those in the
// data center of the node that serves the request, with LOCAL_SERIAL.
const (
	TablesQuorum      = "QUORUM"
	TablesLocalQuorum = "LOCAL_QUORUM"
)

// String returns the account without its keys.
func (a *TablesAccount) String() string {
	return "Azure Tables account " + a.Name + " of role " + a.Role
}

// LogValue implements slog.LogValuer, without the keys.
func (a *TablesAccount) LogValue() slog.Value { return slog.StringValue(a.String()) }

// TablesSettings create, change or remove an account of Azure Tables that belongs to the role of the change. Without
// New, Exists and Drop, an account is created or changed.
type TablesSettings struct {
	Account string
	// New makes the change fail if the account exists.
	New bool `json:",omitempty"`
	// Exists makes the change fail unless the account exists.
	Exists bool `json:",omitempty"`
	// Drop removes the account. Keys and Consistency are not used.
	Drop bool `json:",omitempty"`
	// Keys are base64; nil keeps a key, and an empty one removes it.
	Keys [2]*string
	// Consistency changes TablesAccount.Consistency; nil keeps it.
	Consistency *string `json:",omitempty"`
}

// String returns the settings without the keys.
func (s *TablesSettings) String() string { return "settings of Azure Tables account " + s.Account }

// TablesAccount returns an account of Azure Tables. It does not allocate.
func (d *Directory) TablesAccount(name string) (*TablesAccount, bool) {
	a, ok := d.accounts[name]
	return a, ok
}

// TablesAccounts returns the names of all accounts of Azure Tables, ascending.
func (d *Directory) TablesAccounts() []string { return slices.Sorted(maps.Keys(d.accounts)) }

// HasTablesAccounts reports whether there is an account of Azure Tables.
func (d *Directory) HasTablesAccounts() bool { return len(d.accounts) > 0 }

// apply changes an account of a role that exists.
func (s *TablesSettings) apply(d *Directory, role string) error {
	old := d.accounts[s.Account]
	switch {
	// An account never changes its role: its clients would silently get other permissions.
	case old != nil && old.Role != role:
		return invalidf("Azure Tables account %s belongs to another role", s.Account)
	case old != nil && s.New:
		return invalidf("Azure Tables account %s already exists", s.Account)
	case old == nil && (s.Drop || s.Exists):
		return invalidf("Azure Tables account %s doesn't exist", s.Account)
	case old == nil && len(d.accounts) >= accountsMax:
		return invalidf("there are already %d Azure Tables accounts, which is the maximum", accountsMax)
	}
	// Copy the map, which the old directory shares.
	if s.Drop {
		d.accounts = maps.Clone(d.accounts)
		delete(d.accounts, s.Account)
		return nil
	}
	// The old account may be in use by readers, so it is replaced.
	next := TablesAccount{Name: s.Account, Role: role}
	if old != nil {
		next.Keys, next.Consistency = old.Keys, old.Consistency
	}
	if s.Consistency != nil {
		next.Consistency = *s.Consistency
	}
	for i, key := range s.Keys {
		if key != nil {
			next.Keys[i] = *key
		}
	}
	// Check the result, not the settings: an existing account may lose one key, but not both.
	if err := next.check(); err != nil {
		return err
	}
	d.accounts = cloned(d.accounts)
	d.accounts[s.Account] = &next
	return nil
}

// check refuses names and keys that are not valid. Its errors do not contain keys.
func (a *TablesAccount) check() error {
	switch problem := CheckTablesName(a.Name); {
	case problem != "":
		return invalidf("Invalid name of an Azure Tables account: %s", problem)
	// The key of the development account is public, so no role may own it.
	case a.Name == DevelopmentAccount:
		return invalidf("Invalid name of an Azure Tables account: %s is the development account", a.Name)
	case CheckTablesConsistency(a.Consistency) != "":
		return invalidf("Invalid consistency of Azure Tables account %s: %s", a.Name,
			CheckTablesConsistency(a.Consistency))
	case a.Keys == [2]string{}:
		return invalidf("Azure Tables account %s needs a key; to remove the account, drop it", a.Name)
	}
	for i, key := range a.Keys {
		if key == "" {
			continue
		}
		if problem := CheckTablesKey(key); problem != "" {
			return invalidf("Invalid key %d of Azure Tables account %s: %s", i+1, a.Name, problem)
		}
		// An account with the public key would be open to everyone.
		if key == DevelopmentKey {
			return invalidf("Invalid key %d of Azure Tables account %s: it is the development account's, which is "+
				"public", i+1, a.Name)
		}
	}
	return nil
}

// CheckTablesName returns why a name is not valid for an account of Azure Tables, or an empty string if it is valid.
func CheckTablesName(name string) (problem string) {
	// These are Azure's rules for the names of storage accounts.
	if len(name) < 3 || len(name) > 24 {
		return "the name must be 3 to 24 characters long"
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return "the name must consist of lower case letters and digits"
		}
	}
	// Names of other system keyspaces contain an underscore, which the loop rejects.
	if name == "system" {
		return "the name belongs to a system keyspace"
	}
	return ""
}

// CheckTablesConsistency returns why a level is not valid as the consistency of an account, or an empty string if it is
// valid.
func CheckTablesConsistency(level string) (problem string) {
	if level != "" && level != TablesQuorum && level != TablesLocalQuorum {
		return "the level must be QUORUM or LOCAL_QUORUM, or empty for the default of the nodes (tables_consistency)"
	}
	return ""
}

// CheckTablesKey returns why a key is not valid, or an empty string if it is valid.
func CheckTablesKey(key string) (problem string) {
	// The message must not contain the key.
	b, err := base64.StdEncoding.DecodeString(key)
	if err != nil || len(b) < accountKeyBytesMin || len(b) > accountKeyBytesMax {
		return "the key must be base64 of at least 16 bytes; create one with: openssl rand -base64 64"
	}
	return ""
}

// dropAccounts removes the accounts of a role. The caller has removed the role.
func (d *Directory) dropAccounts(role string) {
	d.accounts = maps.Clone(d.accounts)
	maps.DeleteFunc(d.accounts, func(_ string, a *TablesAccount) bool { return a.Role == role })
}
