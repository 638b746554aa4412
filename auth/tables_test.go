package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// key returns a valid key.
func key(n int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "key number %08d", n))
}

// randomTables returns a change of an account that may be possible or not.
func randomTables(r *rand.Rand, role string) Change {
	s := &TablesSettings{Account: "account" + names()[r.IntN(len(names()))], New: r.IntN(4) == 0,
		Exists: r.IntN(4) == 0, Drop: r.IntN(5) == 0}
	for i := range s.Keys {
		if k := key(r.IntN(5)); r.IntN(2) == 0 {
			if s.Keys[i] = &k; r.IntN(4) == 0 {
				k = ""
			}
		}
	}
	if levels := []string{TablesQuorum, TablesLocalQuorum, "", "LOCAL_ONE"}; r.IntN(2) == 0 {
		s.Consistency = &levels[r.IntN(len(levels))]
	}
	if r.IntN(3) == 0 {
		return &CreateRole{Name: role, Settings: RoleSettings{Tables: s}}
	}
	return &AlterRole{Name: role, Settings: RoleSettings{Tables: s}}
}

// setTables makes a change of an account that the directory has accepted.
func (m *model) setTables(role string, s *TablesSettings) {
	if s == nil {
		return
	}
	a := m.accounts[s.Account]
	for i, k := range s.Keys {
		if k != nil {
			a.Keys[i] = *k
		}
	}
	if s.Consistency != nil {
		a.Consistency = *s.Consistency
	}
	if a.Name, a.Role = s.Account, role; s.Drop {
		delete(m.accounts, s.Account)
	} else {
		m.accounts[s.Account] = a
	}
}

// TestAccountsAreChecked checks what is refused, and that no message contains a key.
func TestAccountsAreChecked(t *testing.T) {
	good, other, none, short, known := key(1), key(2), "", "c2hvcnQ=", DevelopmentKey
	d := NewDirectory()
	for _, c := range []struct {
		role, want string
		s          TablesSettings
	}{
		{"a", "", TablesSettings{Account: "shop", Keys: [2]*string{&good}}},
		{"a", "already exists", TablesSettings{Account: "shop", New: true, Keys: [2]*string{&good}}},
		{"b", "belongs to another role", TablesSettings{Account: "shop", Keys: [2]*string{&good}}},
		{"b", "belongs to another role", TablesSettings{Account: "shop", Drop: true}},
		{"a", "needs a key", TablesSettings{Account: "shop", Keys: [2]*string{&none}}},
		{"a", "needs a key", TablesSettings{Account: "other"}},
		{"a", "doesn't exist", TablesSettings{Account: "other", Exists: true, Keys: [2]*string{&good}}},
		{"a", "doesn't exist", TablesSettings{Account: "other", Drop: true}},
		{"a", "Invalid key 2", TablesSettings{Account: "shop", Keys: [2]*string{&good, &short}}},
		{"a", "which is public", TablesSettings{Account: "shop", Keys: [2]*string{nil, &known}}},
		{"a", "is the development account", TablesSettings{Account: DevelopmentAccount, Keys: [2]*string{&good}}},
		{"a", "3 to 24 characters", TablesSettings{Account: "ab", Keys: [2]*string{&good}}},
		{"a", "lower case", TablesSettings{Account: "Shop", Keys: [2]*string{&good}}},
		{"a", "system keyspace", TablesSettings{Account: "system", Keys: [2]*string{&good}}},
		{"a", "", TablesSettings{Account: "shop", Exists: true, Keys: [2]*string{nil, &other}}},
		{"a", "", TablesSettings{Account: "shop", Exists: true, Keys: [2]*string{&none}}},
		{"a", "", TablesSettings{Account: "shop", Drop: true}},
	} {
		for _, role := range []string{"a", "b"} {
			d, _ = apply(d, &CreateRole{Name: role, IfNotExists: true})
		}
		next, err := apply(d, &AlterRole{Name: c.role, Settings: RoleSettings{Tables: &c.s}})
		var invalid *Invalid
		if (err == nil) != (c.want == "") || err != nil &&
			(!errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.s.Account, err, c.want)
		}
		d = next
		if text := fmt.Sprintf("%v %+v %v", err, &c.s, d.accounts["shop"]); strings.Contains(text, good[:12]) ||
			strings.Contains(text, known) {
			t.Errorf("%s contains a key", text)
		}
	}
	if d.HasTablesAccounts() {
		t.Error("the account is still there")
	}
}

// apply returns the same directory if the change is refused.
func apply(d *Directory, c Change) (*Directory, error) {
	next, err := Apply(d, c)
	if err != nil {
		return d, err
	}
	return next, nil
}
