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
	tablesKey2    = "tables_key2"         // like tables_key1
	tablesLevel   = "tables_consistency"  // QUORUM or LOCAL_QUORUM; empty means the default of the nodes
	tablesDrop    = "drop_tables_account" // the account to remove

	// generateKey as the value of a key requests a generated key.
	generateKey = "generate"
)

// isTables reports whether an option concerns an account of Azure Tables.
func isTables(option string) bool {
	return option == tablesAccount || option == tablesLevel || option == tablesKey1 || option == tablesKey2 ||
		option == tablesDrop
}

// onlyTables reports whether options concern nothing but accounts of Azure Tables. It reports false for an empty map,
// and for a key that is not a constant, which optionMap rejects.
func onlyTables(m *cql.MapLiteral) bool {
	for _, entry := range m.Entries {
		if key, ok := constant(entry.Key); !ok || !isTables(key) {
			return false
		}
	}
	return len(m.Entries) > 0
}

// tablesSettings converts the options of Azure Tables accounts. A new account without keys gets two generated ones. A
// key of an existing account that is not mentioned does not change. The result is nil without such options.
// auth.Apply validates names, keys and levels.
func (e *execution) tablesSettings(given map[string]string) (*auth.TablesSettings, error) {
	if len(given) == 0 {
		return nil, nil
	}
	// One statement is one change, so it cannot drop one account and change another.
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
	// keyed means that the statement mentions a key. A new account then gets only the mentioned keys.
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
	// Keys[i] remains nil if the statement does not change the key, and points to an empty text if it removes the
	// key.
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
	// A statement with only a name creates an account. For an existing account it would do nothing, although the
	// client expects keys, so reject it.
	if exists && len(given) == 1 {
		return nil, invalid.Errorf("Azure Tables account %s already exists; set '%s' or '%s' to change a key, or '%s'",
			name, tablesKey1, tablesKey2, tablesLevel)
	}
	return out, nil
}

// proposeWithSecrets executes a change of a role. If the statement generated a password or keys of an Azure Tables
// account, the result is one row with them; no later statement shows them. The row is built after the change is in
// force, so a failed statement returns no secrets.
//
// A change with IF [NOT] EXISTS may have had no effect, because a concurrent statement created or dropped the role.
// The generated secrets are then not in use, and the result is void.
func (e *execution) proposeWithSecrets(change auth.Change, role string, settings *auth.RoleSettings) error {
	if err := e.propose(change); err != nil {
		return err
	}
	now := e.o.Directory()
	tables := settings.Tables
	var columns []Column
	var row [][]byte
	// Hashes of equal passwords differ in their salts, so an equal hash proves that this statement has set the
	// password.
	if r, exists := now.Role(role); e.password != "" && exists && r.Hash == *settings.Hash {
		e.result.Table = "roles"
		columns, row = append(columns, textColumn("generated_password")), append(row, text(e.password))
	}
	// If the statement generated both, one row contains all of them, and Table names the accounts.
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
	// Compare only generated keys: a key from the statement may be equal even if the change had no effect.
	for i, key := range account.Keys {
		if generated[i] && key != *tables.Keys[i] {
			return false
		}
	}
	return true
}
