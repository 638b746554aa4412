package roles

import (
	"strings"

	"cqld/auth"
	"cqld/cql"
	"cqld/query/invalid"
)

// The options of roles that create, change and remove accounts of Azure Tables.
const (
	tablesAccount = "tables_account"      // the account to create or change
	tablesKey1    = "tables_key1"         // base64, or generateKey; empty removes the key
	tablesKey2    = "tables_key2"         // likewise
	tablesLevel   = "tables_consistency"  // QUORUM or LOCAL_QUORUM; empty means the default of the nodes
	tablesDrop    = "drop_tables_account" // the account to remove

	// generateKey as the value of a key makes a new one.
	generateKey = "generate"
)

// isTables reports whether an option concerns an account of Azure Tables.
func isTables(option string) bool {
	return option == tablesAccount || option == tablesLevel || option == tablesKey1 || option == tablesKey2 ||
		option == tablesDrop
}

// onlyTables reports whether options concern nothing but accounts of Azure Tables. An empty map concerns none. The
// result is false for a key that is no constant, which optionMap refuses.
func onlyTables(m *cql.MapLiteral) bool {
	for _, entry := range m.Entries {
		if key, ok := constant(entry.Key); !ok || !isTables(key) {
			return false
		}
	}
	return len(m.Entries) > 0
}

// tablesSettings converts the options of Azure Tables accounts. A new account without keys gets two generated ones. A
// key that is not mentioned stays as it is in an existing account. The result is nil without such options. Names, keys
// and levels are validated by auth.Apply.
func (e *execution) tablesSettings(given map[string]string) (*auth.TablesSettings, error) {
	if len(given) == 0 {
		return nil, nil
	}
	// To drop an account and to change another one in the same statement would be two changes.
	if name, drop := given[tablesDrop]; drop {
		if len(given) > 1 {
			return nil, invalid.Errorf("Option '%s' cannot be combined with others of Azure Tables accounts",
				tablesDrop)
		}
		return &auth.TablesSettings{Account: name, Drop: true}, nil
	}
	name, ok := given[tablesAccount]
	if !ok {
		return nil, invalid.Errorf("Keys and the consistency of an Azure Tables account need the option '%s'",
			tablesAccount)
	}
	out := &auth.TablesSettings{Account: name}
	_, exists := e.directory.TablesAccount(name)
	// keyed means that the statement mentions a key. Then a new account gets only the keys that are mentioned.
	keyed := false
	for _, option := range []string{tablesKey1, tablesKey2} {
		_, set := given[option]
		keyed = keyed || set
	}
	// auth compares levels in upper case.
	if level, set := given[tablesLevel]; set {
		level = strings.ToUpper(level)
		out.Consistency = &level
	}
	// Keys[i] remains nil if the key is not to be changed, and points to an empty text if it is to be removed.
	for i, option := range []string{tablesKey1, tablesKey2} {
		key, set := given[option]
		switch {
		case !set && (exists || keyed):
			continue
		case !set, key == generateKey:
			key, e.generated[i] = e.o.NewKey(), true
		}
		out.Keys[i] = &key
	}
	// The name alone creates an account. For an existing one the statement would do nothing, and the client would wait
	// for keys that it does not get.
	if exists && len(given) == 1 {
		return nil, invalid.Errorf("Azure Tables account %s already exists; set '%s' or '%s' to change a key, or '%s'",
			name, tablesKey1, tablesKey2, tablesLevel)
	}
	return out, nil
}

// proposeWithSecrets makes a change of a role. If it generated a password or keys of an Azure Tables account, the
// result is one row with them: they are not shown again. The row is made after the change is in force: an error returns
// no secrets.
//
// A change with IF [NOT] EXISTS may have had no effect, because a concurrent statement created or dropped the role. The
// secrets are then not the ones of the role, and the result is void.
func (e *execution) proposeWithSecrets(change auth.Change, role string, settings *auth.RoleSettings) error {
	if err := e.propose(change); err != nil {
		return err
	}
	now := e.o.Directory()
	tables := settings.Tables
	var columns []Column
	var row [][]byte
	// Hashes of equal passwords differ by their salts, so that only this statement can have set this one.
	if r, exists := now.Role(role); e.password != "" && exists && r.Hash == *settings.Hash {
		e.result.Table = "roles"
		columns, row = append(columns, textColumn("generated_password")), append(row, text(e.password))
	}
	// A statement that generates both has one row with all of them; Table then names the accounts.
	if tables != nil && (e.generated[0] || e.generated[1]) && hasGenerated(now, tables, e.generated) {
		e.result.Table = "tables_accounts"
		columns, row = append(columns, textColumn(tablesAccount)), append(row, text(tables.Account))
		for i, name := range []string{tablesKey1, tablesKey2} {
			if e.generated[i] {
				columns, row = append(columns, textColumn(name)), append(row, text(*tables.Keys[i]))
			}
		}
	}
	if len(row) > 0 {
		e.result.Columns, e.result.Rows = columns, [][][]byte{row}
	}
	return nil
}

// hasGenerated reports whether an account of Azure Tables has the keys that a statement generated.
func hasGenerated(d *auth.Directory, tables *auth.TablesSettings, generated [2]bool) bool {
	account, exists := d.TablesAccount(tables.Account)
	if !exists {
		return false
	}
	// A key that the statement contained may be equal also without its effect.
	for i, key := range account.Keys {
		if generated[i] && key != *tables.Keys[i] {
			return false
		}
	}
	return true
}
