package schema

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"cqld/ring"
	"cqld/schema/refused"
	"cqld/types"
)

func mustApply(t testing.TB, s *Schema, changes ...Change) *Schema {
	t.Helper()
	for _, c := range changes {
		next, err := Apply(s, c)
		if err != nil {
			t.Fatalf("Apply(%T): %v", c, err)
		}
		s = next
	}
	return s
}

func createKeyspace(name string) *CreateKeyspace {
	return &CreateKeyspace{Keyspace: name, Replication: ring.Replication{Class: ring.Simple, Factor: 3},
		DurableWrites: true}
}

func createTable(keyspace, name string, id byte) *CreateTable {
	return &CreateTable{Keyspace: keyspace, Table: name, ID: UUID{id}, Options: DefaultOptions(), Columns: []ColumnSpec{
		{Name: "k", Kind: PartitionKey, Type: types.Native(types.Int)},
		{Name: "c", Kind: Clustering, Desc: true, Type: types.Native(types.Text)},
		{Name: "v", Kind: Regular, Type: types.Native(types.Int)},
		{Name: "s", Kind: Static, Type: types.NewSet(types.Native(types.Text), false)},
	}}
}

func TestRacingCreateTableMakesOne(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1))
	_, err := Apply(s, createTable("k", "t", 2))
	var exists *refused.Exists
	if !errors.As(err, &exists) || exists.Keyspace != "k" || exists.Table != "t" {
		t.Fatalf("the second CREATE TABLE: %v", err)
	}
	if id := s.Table("k", "t").ID; id != (UUID{1}) {
		t.Fatalf("the table has the losing definition: %s", id)
	}
	again := createTable("k", "t", 2)
	again.IfNotExists = true
	if next, err := Apply(s, again); err != nil || next != s {
		t.Fatalf("IF NOT EXISTS changed something: %v", err)
	}
}

func TestStorageIDsAreNeverUsedAgain(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1))
	first := s.Table("k", "t").StorageID
	if first < FirstStorageID {
		t.Fatalf("storage id %d is a system table's", first)
	}
	s = mustApply(t, s, &DropTable{Keyspace: "k", Table: "t"}, createTable("k", "t", 2))
	if second := s.Table("k", "t").StorageID; second <= first || s.TableByStorage(first) != nil {
		t.Fatalf("storage ids %d, then %d", first, second)
	}
}

func TestColumnComesBackUnderItsOldID(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1))
	v := s.Table("k", "t").Column("v")
	s = mustApply(t, s,
		&AlterTable{Keyspace: "k", Table: "t", Drop: []string{"v"}, DropMicros: 77},
		&AlterTable{Keyspace: "k", Table: "t", Add: []ColumnSpec{{Name: "w", Kind: Regular,
			Type: types.Native(types.Int)}}})
	if c := s.Table("k", "t").ColumnByID(v.ID); c != nil {
		t.Fatalf("the dropped column's id is now %s", c.Name)
	}
	add := &AlterTable{Keyspace: "k", Table: "t", Add: []ColumnSpec{{Name: "v", Kind: Regular, Type: v.Type}}}
	s = mustApply(t, s, add)
	if back := s.Table("k", "t").Column("v"); back.ID != v.ID || back.DroppedMicros != 77 {
		t.Fatalf("it was decoded as %+v", back)
	}
	s = mustApply(t, s, &AlterTable{Keyspace: "k", Table: "t", Drop: []string{"v"}, DropMicros: 5})
	s = mustApply(t, s, add)
	if back := s.Table("k", "t").Column("v"); back.DroppedMicros != 77 {
		t.Fatalf("an older drop brought cells back: %+v", back)
	}
}

func TestRenameKeepsTheID(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1))
	id := s.Table("k", "t").Column("c").ID
	s = mustApply(t, s, &AlterTable{Keyspace: "k", Table: "t", Rename: []Rename{{From: "c", To: "cc"}}})
	if c := s.Table("k", "t").Column("cc"); c == nil || c.ID != id || s.Table("k", "t").Column("c") != nil {
		t.Fatalf("renamed: %+v", c)
	}
}

func TestAlteredReplicationReachesTheTables(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1))
	r := ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "dc1", Factor: 2})
	s = mustApply(t, s, &AlterKeyspace{Keyspace: "k", Replication: &r})
	if !s.Table("k", "t").Replication.Equal(r) {
		t.Fatal("the table keeps the old replication")
	}
}

func TestAlteredTypeReachesTheColumns(t *testing.T) {
	udt := types.NewUDT("k", "u", []string{"a"}, []*types.Type{types.Native(types.Int)}, false)
	create := createTable("k", "t", 1)
	create.Columns = append(create.Columns, ColumnSpec{Name: "u", Kind: Regular,
		Type: types.NewMap(types.Native(types.Text), udt, false)})
	s := mustApply(t, Initial(), createKeyspace("k"), &CreateType{Type: udt}, create,
		&AlterType{Keyspace: "k", Name: "u", Field: "b", FieldType: types.Native(types.Text)})
	inner := s.Table("k", "t").Column("u").Type.Elems()[1]
	if !slices.Equal(inner.FieldNames(), []string{"a", "b"}) || !inner.Frozen() {
		t.Fatalf("the column's type is %s %v", inner, inner.FieldNames())
	}
	if _, err := Apply(s, &DropType{Keyspace: "k", Name: "u"}); err == nil {
		t.Fatal("a type in use was dropped")
	}
	// A table whose definition contains the older version of the type gets the newer one.
	late := createTable("k", "late", 2)
	late.Columns = append(late.Columns, ColumnSpec{Name: "u", Kind: Regular, Type: udt})
	s = mustApply(t, s, late)
	if n := len(s.Table("k", "late").Column("u").Type.FieldNames()); n != 2 {
		t.Fatalf("the late table's type has %d fields", n)
	}
}

func TestSystemTablesAreCassandras(t *testing.T) {
	s := Initial()
	for name, id := range map[string]string{"local": "7ad54392-bcdd-35a6-8417-4e047860b377",
		"peers_v2": "c4325fbb-8e5e-3baf-bd07-0f9250ed818e"} {
		if got := s.Table("system", name).ID.String(); got != id {
			t.Errorf("the id of system.%s is %s, Cassandra's is %s", name, got, id)
		}
	}
	if got := s.Table("system_traces", "sessions").ID.String(); got != "c5e99f16-8677-3914-b17e-960613512345" {
		t.Errorf("the id of system_traces.sessions is %s", got)
	}
	seen := map[StorageID]string{}
	for _, keyspace := range s.KeyspaceNames() {
		for _, name := range s.Keyspace(keyspace).TableNames() {
			table := s.Table(keyspace, name)
			if other := seen[table.StorageID]; other != "" || table.StorageID >= FirstStorageID {
				t.Errorf("%s.%s has storage id %d, as %q", keyspace, name, table.StorageID, other)
			}
			seen[table.StorageID] = keyspace + "." + name
		}
	}
	local := s.Table("system", "local")
	if got := local.Column("truncated_at").Type.String(); got != "map<uuid, blob>" {
		t.Errorf("truncated_at is %s", got)
	}
}

func TestSystemIsNotForUsers(t *testing.T) {
	s := Initial()
	for _, c := range []Change{createTable("system", "x", 1), createTable("system_views", "x", 1),
		&DropTable{Keyspace: "system_traces", Table: "sessions"}, &DropKeyspace{Keyspace: "system_auth"},
		createKeyspace("system"), &AlterTable{Keyspace: "system", Table: "local", Drop: []string{"tokens"}}} {
		if _, err := Apply(s, c); err == nil {
			t.Errorf("%T was accepted: %+v", c, c)
		}
	}
}

// randomChange returns random changes, many of which are valid and many of which are not.
func randomChange(rnd *rand.Rand) Change {
	name := func(prefix string) string { return fmt.Sprint(prefix, rnd.IntN(3)) }
	k, table := name("k"), name("t")
	kinds := []types.Kind{types.Int, types.Text, types.Counter, types.Duration}
	typ := types.Native(kinds[rnd.IntN(len(kinds))])
	switch rnd.IntN(13) {
	case 12:
		return &UndropKeyspace{Keyspace: fmt.Sprintf("%s#%d", k, 1024+rnd.IntN(20)), As: name("k")}
	case 10:
		return &AlterKeyspace{Keyspace: k, Extend: map[string][]byte{name("x"): randomExtension(rnd)}}
	case 11:
		return &AlterTable{Keyspace: k, Table: table, Extend: map[string][]byte{name("x"): randomExtension(rnd)}}
	case 0:
		return createKeyspace(k)
	case 1:
		return &DropKeyspace{Keyspace: k, IfExists: rnd.IntN(2) == 0,
			Retention: []*Retention{nil, {Dropped: 1, Until: 2}}[rnd.IntN(2)]}
	case 2, 3:
		c := createTable(k, table, byte(rnd.IntN(200)))
		c.IfNotExists = rnd.IntN(2) == 0
		return c
	case 4:
		return &DropTable{Keyspace: k, Table: table}
	case 5, 6:
		return &AlterTable{Keyspace: k, Table: table, Add: []ColumnSpec{{Name: name("v"), Kind: Regular, Type: typ}}}
	case 7:
		return &AlterTable{Keyspace: k, Table: table, Drop: []string{name("v")}, DropMicros: rnd.Int64N(100)}
	case 8:
		return &CreateType{Type: types.NewUDT(k, name("u"), []string{"a", "b"}, []*types.Type{typ, typ}, false)}
	}
	durable := rnd.IntN(2) == 0
	return &AlterKeyspace{Keyspace: k, DurableWrites: &durable}
}

// randomExtension returns a value, an empty one, or nil.
func randomExtension(rnd *rand.Rand) []byte {
	return [][]byte{nil, {}, {1}, {2, 3}}[rnd.IntN(4)]
}

// The same changes give the same schema on every node, also after encoding and decoding, and from a snapshot taken at
// any point.
func TestApplyIsDeterministic(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		a, b := Initial(), Initial()
		for range 60 {
			c := randomChange(rnd)
			decoded, err := DecodeChange(EncodeChange(c))
			if err != nil {
				t.Fatalf("seed %d: %T: %v", seed, c, err)
			}
			na, errA := Apply(a, c)
			nb, errB := Apply(b, decoded)
			if fmt.Sprint(errA) != fmt.Sprint(errB) {
				t.Fatalf("seed %d: %+v: %v, decoded: %v", seed, c, errA, errB)
			}
			if errA != nil {
				continue
			}
			if (na == a) != (len(Diff(a, na)) == 0) {
				t.Fatalf("seed %d: %+v: changed %v, but Diff returns %v", seed, c, na != a, Diff(a, na))
			}
			if nb, err = Decode(Encode(nb)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if na.Version() != nb.Version() || len(Diff(na, nb)) != 0 {
				t.Fatalf("seed %d: %+v: the nodes disagree: %v", seed, c, Diff(na, nb))
			}
			if na != a && na.Version() == a.Version() {
				t.Fatalf("seed %d: %+v did not change the version", seed, c)
			}
			a, b = na, nb
		}
	}
}

func FuzzDecode(f *testing.F) {
	s := Initial()
	f.Add(Encode(s))
	for i := range 5 {
		rnd := rand.New(rand.NewPCG(uint64(i), 2))
		f.Add(EncodeChange(randomChange(rnd)))
	}
	f.Add([]byte(`{"Format":1,"Keyspaces":[{"Name":"k","Tables":[{"Columns":[{"ID":9}]}]}]}`))
	f.Add([]byte(`{"Format":1,"CreateType":{"Type":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := Decode(b); err == nil {
			if again, err := Decode(Encode(s)); err != nil || again.Version() != s.Version() {
				t.Fatalf("decoded once, not twice: %v", err)
			}
		}
		c, err := DecodeChange(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("not an ErrFormat: %v", err)
			}
			return
		}
		if _, err := DecodeChange(EncodeChange(c)); err != nil {
			t.Fatalf("decoded once, not twice: %v", err)
		}
		_, _ = Apply(s, c) // must not panic
	})
}

func TestDiffListsDropsFirst(t *testing.T) {
	before := mustApply(t, Initial(), createKeyspace("a"), createKeyspace("k"), createTable("k", "same", 1),
		createTable("k", "gone", 2), createTable("k", "again", 3), createTable("k", "changed", 4))
	after := mustApply(t, before, &DropKeyspace{Keyspace: "a"}, createKeyspace("b"), createTable("b", "t", 5),
		&DropTable{Keyspace: "k", Table: "gone"}, &DropTable{Keyspace: "k", Table: "again"},
		createTable("k", "again", 6),
		&AlterTable{Keyspace: "k", Table: "changed", Drop: []string{"v"}, DropMicros: 1},
		&CreateType{Type: types.NewUDT("k", "u", []string{"f"}, []*types.Type{types.Native(types.Int)}, false)})
	want := []Event{
		{Change: Dropped, Target: TargetKeyspace, Keyspace: "a", Name: ""},
		{Change: Created, Target: TargetKeyspace, Keyspace: "b", Name: ""},
		{Change: Created, Target: TargetTable, Keyspace: "b", Name: "t"},
		{Change: Dropped, Target: TargetTable, Keyspace: "k", Name: "again"},
		{Change: Dropped, Target: TargetTable, Keyspace: "k", Name: "gone"},
		{Change: Created, Target: TargetType, Keyspace: "k", Name: "u"},
		{Change: Created, Target: TargetTable, Keyspace: "k", Name: "again"},
		{Change: Updated, Target: TargetTable, Keyspace: "k", Name: "changed"},
	}
	if got := Diff(before, after); !reflect.DeepEqual(got, want) {
		t.Errorf("Diff:\n%v, want\n%v", got, want)
	}
	// A schema is unchanged by encoding and decoding.
	decoded, err := Decode(Encode(after))
	if err != nil {
		t.Fatal(err)
	}
	if got := Diff(after, decoded); len(got) != 0 {
		t.Errorf("Diff of a copy: %v", got)
	}
}

// Every schema that Apply returns can be decoded again: types whose expansion would be too deep or too large are
// rejected in all cases.
func TestTypesStayReadable(t *testing.T) {
	integer := types.Native(types.Int)
	pair := func(name string, of *types.Type) *types.Type {
		return types.NewUDT("k", name, []string{"a", "b"}, []*types.Type{of.Freeze(), of.Freeze()}, false)
	}
	s := mustApply(t, Initial(), createKeyspace("k"))
	last, made := integer, 0
	for i := range 40 {
		last = pair(fmt.Sprint("u", i), last)
		next, err := Apply(s, &CreateType{Type: last})
		if err != nil {
			break
		}
		s, made = next, i+1
	}
	if made < 5 || made > 20 {
		t.Errorf("%d types, each twice in the next, could be made", made)
	}
	deep := integer
	for range 20 {
		deep = types.NewList(deep, true)
	}
	// The first type of the chain becomes deep, and with it all types that contain it.
	c := &AlterType{Keyspace: "k", Name: "u0", Field: "deep", FieldType: deep}
	for i := range 4 {
		c.Field = fmt.Sprint("deep", i)
		next, err := Apply(s, c)
		if err != nil {
			break
		}
		s = next
	}
	if _, err := Decode(Encode(s)); err != nil {
		t.Errorf("the schema cannot be read again: %v", err)
	}
	for range 300 {
		deep = types.NewList(deep, true)
	}
	create := createTable("k", "t", 1)
	create.Columns[2].Type = deep
	if _, err := Apply(s, create); err == nil {
		t.Error("a column's type may be of any depth")
	}
}

func TestReplicatedSystemKeyspacesCanBeAltered(t *testing.T) {
	r := ring.Replication{Class: ring.Simple, Factor: 4}
	s := mustApply(t, Initial(), &AlterKeyspace{Keyspace: "system_auth", Replication: &r})
	again, err := Decode(Encode(s))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Schema{s, again} {
		if !s.Keyspace("system_auth").Replication.Equal(r) || !s.Table("system_auth", "roles").Replication.Equal(r) {
			t.Errorf("system_auth: %+v", s.Keyspace("system_auth").Replication)
		}
		if s.TableByStorage(s.Table("system_auth", "roles").StorageID) != s.Table("system_auth", "roles") {
			t.Error("the table under its storage id is another")
		}
	}
}

// TestDroppedDistinguishesRecreatedTable checks that Dropped distinguishes both by storage ID, in every catalog.
func TestDroppedDistinguishesRecreatedTable(t *testing.T) {
	s := Empty()
	apply := func(c Change) {
		t.Helper()
		next, err := Apply(s, c)
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	table := &CreateTable{Keyspace: "ks", Table: "t", ID: UUID{1}, Options: DefaultOptions(), Columns: []ColumnSpec{
		{Name: "k", Kind: PartitionKey, Type: types.Native(types.Text)},
	}}
	apply(&CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: 1}})
	if s.Dropped(FirstStorageID) || s.Dropped(1) {
		t.Error("a table that is not created yet was dropped")
	}
	apply(table)
	first := s.Table("ks", "t").StorageID
	if s.Dropped(first) || s.Dropped(first+1) {
		t.Error("a table that exists, or a later one, was dropped")
	}
	apply(&DropTable{Keyspace: "ks", Table: "t"})
	again := *table
	apply(&again)
	if second := s.Table("ks", "t").StorageID; !s.Dropped(first) || s.Dropped(second) || second == first {
		t.Errorf("of tables %d and %d, the first was dropped", first, second)
	}
	if decoded, err := Decode(Encode(s)); err != nil || !decoded.Dropped(first) || decoded.Dropped(first+2) {
		t.Errorf("the decoded catalog differs: %v", err)
	}
}
