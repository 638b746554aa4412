package query

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cqld/auth"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// maskedTable is a random table some of whose columns are masked. Every value of a masked column contains a secret.
type maskedTable struct {
	rnd     *rand.Rand
	columns []*maskedColumn
	secrets [][]byte
}

type maskedColumn struct {
	name, typ, kind string // kind: key, clustering, static, regular
	mask            string // empty: none
}

// secretBytes is contained in the texts and, as a prefix, in the numbers that are secret.
const (
	secretText   = "SECRET"
	secretNumber = 0x5EC1E700
)

func newMaskedTable(rnd *rand.Rand) *maskedTable {
	m := &maskedTable{rnd: rnd, secrets: [][]byte{[]byte(secretText), []byte("secret"), {0x5E, 0xC1, 0xE7},
		[]byte("5345435245"), []byte("15908")}} // numbers and texts in decimal and hexadecimal digits as well
	scalars := []string{"int", "text", "blob"}
	others := append([]string{"list<text>", "set<text>", "map<text, int>", "ut", "frozen<ut>", "frozen<list<int>>",
		"tuple<int, text>"}, scalars...)
	add := func(prefix, kind string, n int, kinds []string) {
		for i := range n {
			c := &maskedColumn{name: fmt.Sprintf("%s%d", prefix, i), kind: kind, typ: kinds[rnd.IntN(len(kinds))]}
			if rnd.IntN(3) > 0 {
				c.mask = m.randomMask(c.typ)
			}
			m.columns = append(m.columns, c)
		}
	}
	add("k", "key", 1+rnd.IntN(2), scalars)
	add("c", "clustering", 1+rnd.IntN(2), scalars)
	add("s", "static", rnd.IntN(2), others)
	add("v", "regular", 1+rnd.IntN(5), others)
	return m
}

func (m *maskedTable) randomMask(typ string) string {
	masks := []string{"DEFAULT", "mask_null()", "mask_default()", "mask_replace(null)"}
	switch typ {
	case "int":
		masks = append(masks, "mask_replace(7)")
	case "text":
		masks = append(masks, "mask_replace('x')", "mask_inner(0, 0)", "mask_inner(null, null, '#')",
			"mask_outer(99, 0)")
	case "blob":
		masks = append(masks, "mask_hash()", "mask_hash('SHA-512')")
	}
	return masks[m.rnd.IntN(len(masks))]
}

func (m *maskedTable) create() string {
	var parts []string
	names := map[string][]string{}
	for _, c := range m.columns {
		text := c.name + " " + c.typ
		if c.kind == "static" {
			text += " static"
		}
		if c.mask != "" {
			text += " MASKED WITH " + c.mask
		}
		parts = append(parts, text)
		names[c.kind] = append(names[c.kind], c.name)
	}
	return fmt.Sprintf("CREATE TABLE t (%s, PRIMARY KEY ((%s), %s))", strings.Join(parts, ", "),
		strings.Join(names["key"], ", "), strings.Join(names["clustering"], ", "))
}

// value returns a literal that is secret if the column is masked.
func (m *maskedTable) value(c *maskedColumn) string {
	n, s := fmt.Sprint(m.rnd.IntN(4)), fmt.Sprintf("'p%d'", m.rnd.IntN(4))
	if c.mask != "" {
		n, s = fmt.Sprint(secretNumber+m.rnd.IntN(4)), fmt.Sprintf("'%s%d'", secretText, m.rnd.IntN(4))
	}
	switch c.typ {
	case "int":
		return n
	case "text":
		return s
	case "blob":
		return "textasblob(" + s + ")"
	case "list<text>":
		return "[" + s + "]"
	case "set<text>":
		return "{" + s + "}"
	case "map<text, int>":
		return "{" + s + ": " + n + "}"
	case "ut", "frozen<ut>":
		return "{a: " + n + ", b: " + s + "}"
	case "frozen<list<int>>":
		return "[" + n + "]"
	}
	return "(" + n + ", " + s + ")"
}

func (m *maskedTable) insert() string {
	var names, values []string
	for _, c := range m.columns {
		if c.kind == "key" || c.kind == "clustering" || m.rnd.IntN(5) > 0 {
			names, values = append(names, c.name), append(values, m.value(c))
		}
	}
	return fmt.Sprintf("INSERT INTO t (%s) VALUES (%s)", strings.Join(names, ", "), strings.Join(values, ", "))
}

// selector returns a random expression of a column.
func (m *maskedTable) selector() string {
	c := m.columns[m.rnd.IntN(len(m.columns))]
	forms := []string{"%s", "%s", "%s AS x", "tojson(%s)", "(%s, %[1]s)", "[%s]", "max(%s)", "min(%s)", "count(%s)",
		"mask_default(%s)",
		"mask_replace(%s, %[1]s)", "(" + c.typ + ")%s"}
	if c.kind == "static" || c.kind == "regular" {
		forms = append(forms, "writetime(%s)", "ttl(%s)", "maxwritetime(%s)")
	}
	switch c.typ {
	case "int":
		forms = append(forms, "%s + 1", "-%s", "cast(%s as text)", "intasblob(%s)", "abs(%s)", "cast(%s as double)")
	case "text":
		forms = append(forms, "textasblob(%s)", "mask_inner(%s, 1, 1)", "mask_outer(%s, 1, 1)", "{%s}")
	case "set<text>":
		forms = append(forms, "%s['p1']", "%s['S'..'T']", "writetime(%s['p1'])", "collection_max(%s)")
	case "map<text, int>":
		forms = append(forms, "%s['p1']", "%s['S'..'T']", "map_keys(%s)", "map_values(%s)", "collection_count(%s)")
	case "ut", "frozen<ut>":
		forms = append(forms, "%s.a", "%s.b", "tojson(%s.b)")
	}
	return fmt.Sprintf(forms[m.rnd.IntN(len(forms))], c.name)
}

// statement returns a random statement that reads.
func (m *maskedTable) statement() string {
	keys, in := m.keyNames("key"), m.keyNames("clustering")
	if m.rnd.IntN(6) == 0 {
		return m.insert() + " IF NOT EXISTS"
	}
	var selected []string
	for range 1 + m.rnd.IntN(4) {
		selected = append(selected, m.selector())
	}
	list := strings.Join(selected, ", ")
	switch m.rnd.IntN(8) {
	case 0:
		list = "*"
	case 1:
		list = "JSON *"
	case 2:
		list = "JSON " + list
	case 3:
		return "SELECT DISTINCT " + strings.Join(keys, ", ") + " FROM t"
	case 4:
		list += ", token(" + strings.Join(keys, ", ") + ")"
	}
	text := "SELECT " + list + " FROM t"
	switch m.rnd.IntN(6) {
	case 0:
		text += " GROUP BY " + strings.Join(append(keys, in[:m.rnd.IntN(len(in)+1)]...), ", ")
	case 1:
		text += " LIMIT 3"
	case 2:
		text += " PER PARTITION LIMIT 1"
	case 3:
		c := m.columns[m.rnd.IntN(len(m.columns))]
		text += " WHERE " + c.name + " = " + m.value(c) + " ALLOW FILTERING"
	}
	if m.rnd.IntN(8) == 0 {
		return "EXPLAIN ANALYZE " + text
	}
	return text
}

func (m *maskedTable) keyNames(kind string) (names []string) {
	for _, c := range m.columns {
		if c.kind == kind {
			names = append(names, c.name)
		}
	}
	return names
}

// addTokens makes the tokens of masked partition keys secret, as 8 bytes and as digits.
func (m *maskedTable) addTokens(p *Processor, t *schema.Table, store *modelStore) {
	if !strings.Contains(m.create()[:strings.Index(m.create(), " c0 ")], "MASKED") {
		return
	}
	cmd := &row.ReadCommand{Table: t.StorageID, Slices: []row.Slice{row.AllRows()},
		Range:        row.KeyRange{Tokens: ring.FullRange()},
		StaticCounts: true, Now: p.services.Moment(&Params{}).Seconds}
	var page row.PageReader
	page.Reset(store.table(t.StorageID).Read(cmd))
	for page.NextPartition() {
		token := int64(page.Key.Token)
		m.secrets = append(m.secrets, wire.AppendInt64(nil, token), fmt.Append(nil, token))
		var r row.Row
		for page.NextRow(&r) {
		}
	}
}

// seen returns everything that a client sees of a statement's execution, page by page.
func (m *maskedTable) seen(p *Processor, s *Session, role, text string) []byte {
	var out []byte
	size := int32(1 + m.rnd.IntN(4))
	var state []byte
	for range 50 {
		req := tracedAt(ring.One)
		req.Principal.Name = role
		r, err := p.Query(req, s, text, &Params{PageSize: size, PagingState: state})
		if err != nil {
			return append(out, strings.ReplaceAll(err.Error(), text, "")...)
		}
		out = append(out, strings.Join(req.Warnings, "\n")...)
		if r.Metadata != nil {
			out = append(append(out, r.Rows...), r.PagingState...)
			for _, c := range r.Metadata.Columns {
				if !strings.Contains(text, c.Name) { // a name can be the client's own text
					out = append(out, c.Name...)
				}
			}
		}
		if state = bytes.Clone(r.PagingState); state == nil {
			break
		}
	}
	return out
}

func (m *maskedTable) leaks(seen []byte) []byte {
	for _, secret := range m.secrets {
		if bytes.Contains(seen, secret) {
			return secret
		}
	}
	return nil
}

// TestMaskedClientsSeeNoMaskedValue executes random statements on random tables. Nothing that a client without UNMASK
// and SELECT_MASKED receives may contain a value of a masked column; a client with UNMASK shows that the values can be
// recognized.
func TestMaskedClientsSeeNoMaskedValue(t *testing.T) {
	recognized := 0
	for seed := range uint64(20) {
		m := newMaskedTable(rand.New(rand.NewPCG(seed, 31)))
		store := &modelStore{}
		p, s := newMaskingProcessorOver(t, store)
		s.Keyspace = "msk"
		mustQuery(t, p, s, "CREATE TYPE ut (a int, b text)")
		mustQuery(t, p, s, m.create())
		for range 12 {
			mustQuery(t, p, s, m.insert())
		}
		m.addTokens(p, p.o.View.Schema().Table("msk", "t"), store)
		for range 40 {
			text := m.statement()
			if secret := m.leaks(m.seen(p, s, "msk_low", text)); secret != nil {
				t.Fatalf("seed %d: %s\n%s\nthe client sees %q", seed, m.create(), text, secret)
			}
			if m.leaks(m.seen(p, s, "msk_un", text)) != nil {
				recognized++
			}
		}
	}
	if recognized < 20*40/4 {
		t.Errorf("only %d statements show masked values to a client with UNMASK", recognized)
	}
}

// TestGrantsOfUnmaskDecideAtEachExecution grants and revokes UNMASK at every level, to a role and to the role whose
// member it is, and executes one prepared statement after each.
func TestGrantsOfUnmaskDecideAtEachExecution(t *testing.T) {
	directory := auth.NewDirectory()
	change := func(changes ...auth.Change) {
		t.Helper()
		for _, c := range changes {
			next, err := auth.Apply(directory, c)
			if err != nil {
				t.Fatal(err)
			}
			directory = next
		}
	}
	yes := true
	change(&auth.CreateRole{Name: "root", Settings: auth.RoleSettings{Superuser: &yes}},
		&auth.CreateRole{Name: "readers"},
		&auth.CreateRole{Name: "alice"}, &auth.GrantRole{Role: "readers", Grantee: "alice"},
		&auth.GrantPermissions{Role: "alice", Resource: auth.Keyspace("msk"),
			Permissions: auth.NewPermissionSet(auth.Select)})
	p, s := newMaskingProcessorFor(t, &modelStore{}, auth.CassandraAuthorizer{Directory: func() *auth.Directory {
		return directory
	}}, "root")
	s.Keyspace = "msk"
	for _, text := range []string{"CREATE TABLE t (k int PRIMARY KEY, v int MASKED WITH DEFAULT)",
		"INSERT INTO t (k, v) VALUES (1, 2)"} {
		if got := runStatementAs(p, s, "root", text); got != "ok\n" {
			t.Fatalf("%s: %s", text, got)
		}
	}
	prepared, err := p.Prepare(at(ring.One), s, "SELECT v FROM t", "")
	if err != nil {
		t.Fatal(err)
	}
	sees := func(when, role, want string) {
		t.Helper()
		req := at(ring.One)
		req.Principal.Name = role
		r, err := p.Execute(req, s, prepared.Prepared.ID, &Params{})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if got := renderRows(r); got != "v int\n"+want+"\n" {
			t.Errorf("%s, %s sees %s", when, role, got)
		}
	}
	for _, resource := range []auth.Resource{auth.Table("msk", "t"), auth.AllTables("msk"), auth.Keyspace("msk"),
		auth.AllKeyspaces()} {
		for _, role := range []string{"alice", "readers"} {
			what := role + " on " + resource.String()
			sees("before a grant to "+what, "alice", "0")
			change(&auth.GrantPermissions{Role: role, Resource: resource,
				Permissions: auth.NewPermissionSet(auth.Unmask)})
			sees("after a grant to "+what, "alice", "2")
			sees("after a grant to "+what, "root", "2")
			change(&auth.RevokePermissions{Role: role, Resource: resource,
				Permissions: auth.NewPermissionSet(auth.Unmask)})
		}
	}
	change(&auth.GrantPermissions{Role: "readers", Resource: auth.Table("msk", "other"),
		Permissions: auth.NewPermissionSet(auth.Unmask)})
	sees("after a grant on another table", "alice", "0")
}
