package entity_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/auth"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/internal/wire"
)

func (r *testRing) get(table, pk, rk string) *odata.Entity {
	r.t.Helper()
	e, err := r.nodes[0].store.Get(anyone(), account, table, pk, rk, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

func (r *testRing) absent(table, pk, rk string) {
	r.t.Helper()
	if e, err := r.nodes[0].store.Get(anyone(), account, table, pk, rk, nil); code(err) != odata.ResourceNotFound {
		r.t.Errorf("%v, %v; want nothing", e, err)
	}
}

// refuse applies operations that must fail with a code.
func (r *testRing) refuse(want odata.Code, table string, ops ...entity.Operation) error {
	r.t.Helper()
	_, err := r.nodes[0].store.Apply(anyone(), account, table, ops)
	if code(err) != want {
		r.t.Errorf("%v, want %s", err, want)
	}
	return err
}

const keyspace = "CREATE KEYSPACE acme WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"

// TestPropertiesAreTypedColumns checks that each type is stored as its CQL type in a column with the property's name.
func TestPropertiesAreTypedColumns(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Types")
	day := int64(16220440870454448)
	guid := []byte("0123456789abcdef")
	r.apply("types", op(entity.Insert, "p", "r", text("s", "x"), number("i", 7),
		odata.Property{Name: "b", Value: odata.Value{Type: odata.Binary, Bytes: []byte{1}}},
		odata.Property{Name: "f", Value: odata.Value{Type: odata.Boolean, Int: 1}},
		odata.Property{Name: "d", Value: odata.Value{Type: odata.DateTime, Int: day}},
		odata.Property{Name: "D", Value: odata.Value{Type: odata.Double, Float: 1.5}},
		odata.Property{Name: "g", Value: odata.Value{Type: odata.GUID, Bytes: guid}},
		odata.Property{Name: "l", Value: odata.Value{Type: odata.Int64, Int: 1 << 40}},
	))
	for column, want := range map[string][]byte{
		"s": []byte("x"), "i": wire.AppendInt32(nil, 7), "b": {1}, "f": {1}, "d": wire.AppendInt64(nil, day/10_000),
		`"d@ticks"`: wire.AppendUint16(nil, uint16(day%10_000)), `"D"`: {0x3F, 0xF8, 0, 0, 0, 0, 0, 0}, "g": guid,
		"l": wire.AppendInt64(nil, 1<<40),
	} {
		if got := r.scalar("SELECT " + column + ` FROM acme.types WHERE "PartitionKey" = 'p' AND "RowKey" = 'r'`); !bytes.Equal(got, want) {
			t.Errorf("%s is %x, want %x", column, got, want)
		}
	}
	var types []string
	for _, c := range r.nodes[0].Schema().Table(account, "types").Regulars {
		types = append(types, c.Name+" "+c.Type.String())
	}
	if got := strings.Join(types, ", "); got != "D double, b blob, d timestamp, d@ticks smallint, f boolean, g "+
		"uuid, i int, l bigint, s text" {
		t.Error(got)
	}
	if r.alters != 1 {
		t.Errorf("%d changes of the schema for one entity", r.alters)
	}
}

// TestTicksBelongToTheirWrite checks that if CQL writes a DateTime's column without its ticks, the old ticks do
// not apply to the new value.
func TestTicksBelongToTheirWrite(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("When")
	at := func(ticks int64) odata.Property {
		return odata.Property{Name: "at", Value: odata.Value{Type: odata.DateTime, Int: ticks}}
	}
	r.apply("when", op(entity.Insert, "p", "r", at(16220440870454448)))
	r.exec(`UPDATE acme.when SET at = '2021-05-26T15:48:08.123Z' WHERE "PartitionKey" = 'p' AND "RowKey" = 'r'`)
	if got := show(r.get("when", "p", "r")); got != `p/r at:Edm.DateTime="2021-05-26T15:48:08.123Z"` {
		t.Error(got)
	}
	r.apply("when", op(entity.Merge, "p", "r", at(16220440870451234)))
	if got := show(r.get("when", "p", "r")); got != `p/r at:Edm.DateTime="2021-05-26T15:48:07.0451234Z"` {
		t.Error(got)
	}
	r.apply("when", op(entity.Merge, "p", "r", at(16220440870450000)))
	if got := show(r.get("when", "p", "r")); got != `p/r at:Edm.DateTime="2021-05-26T15:48:07.045Z"` {
		t.Error(got)
	}
}

// TestPropertyTypeChanges checks that a property's type may change, which deletes the value of the old type, in CQL
// too.
func TestPropertyTypeChanges(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Things")
	r.apply("things", op(entity.Insert, "p", "r", text("v", "x")))
	r.apply("things", op(entity.Merge, "p", "r", number("v", 1)))
	if got := show(r.get("things", "p", "r")); got != "p/r v:Edm.Int32=1" {
		t.Error(got)
	}
	const where = ` FROM acme.things WHERE "PartitionKey" = 'p' AND "RowKey" = 'r'`
	if v := r.scalar("SELECT v" + where); v != nil {
		t.Errorf("v is still %q", v)
	}
	if v := r.scalar(`SELECT "v@Edm.Int32"` + where); !bytes.Equal(v, []byte{0, 0, 0, 1}) {
		t.Errorf("v@Edm.Int32 is %x", v)
	}
	r.exec(`UPDATE acme.things SET v = 'newer' WHERE "PartitionKey" = 'p' AND "RowKey" = 'r'`)
	if got := show(r.get("things", "p", "r")); got != `p/r v:Edm.String="newer"` {
		t.Error(got)
	}
}

// TestRowsOfCQLAreEntities checks that rows written by CQL are entities, whether a row marker or a cell keeps them
// alive.
func TestRowsOfCQLAreEntities(t *testing.T) {
	r := newTestRing(t, 1)
	r.exec(keyspace, `CREATE TABLE acme.users (country text, id text, owner text static, age smallint, score float, tags set<text>,
		names list<text>, born date, address inet, at timeuuid, n varint, PRIMARY KEY (country, id)) WITH CLUSTERING ORDER BY (id DESC)`)
	r.exec(`INSERT INTO acme.users (country, id, owner, age, score, tags, names, born, address, at, n) VALUES ('se', '1', 'me', 7, 1.5,
		{'a', 'b'}, ['x', 'y'], '1973-10-04', '10.0.0.1', c9da6455-213d-11ee-9a79-3e9149a57833, 123456789012345678901234567890)`,
		`UPDATE acme.users SET age = 8 WHERE country = 'se' AND id = '2'`,
		`INSERT INTO acme.users (country, owner) VALUES ('dk', 'nobody')`)
	e := r.get("Users", "se", "1")
	want := `se/1 address:Edm.String="10.0.0.1" age:Edm.Int32=7 at:Edm.Guid="c9da6455-213d-11ee-9a79-3e9149a57833" born:Edm.String="1973-10-04" ` +
		`n:Edm.String="123456789012345678901234567890" names:Edm.String="[\"x\", \"y\"]" owner:Edm.String="me" score:Edm.Double=1.5 tags:Edm.String="[\"a\", \"b\"]"`
	if got := show(e); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	page, err := r.nodes[0].store.Query(anyone(), account, "users", &entity.Query{})
	if err != nil || len(page.Entities) != 2 || show(&page.Entities[1]) != `se/2 age:Edm.Int32=8 owner:Edm.String="me"` {
		t.Errorf("%v, %v", page, err)
	}

	// Values can be written back as read; a changed value that only CQL can write is refused.
	back := entity.Operation{Kind: entity.Update, Entity: *e, Match: e.Timestamp, Conditional: true}
	r.apply("users", back)
	if got := show(r.get("users", "se", "1")); got != want {
		t.Errorf("written back: %s", got)
	}
	r.refuse(odata.InvalidInput, "users", op(entity.Merge, "se", "1", text("owner", "you")))
	r.refuse(odata.InvalidInput, "users", op(entity.Merge, "se", "1", text("tags", `["c"]`)))
	r.refuse(odata.InvalidInput, "users", op(entity.Merge, "se", "1", text("n", "no number")))
	r.refuse(odata.InvalidInput, "users", op(entity.Merge, "se", "1", number("age", 70_000)))
	r.refuse(odata.InvalidInput, "users", op(entity.Merge, "se", "1",
		odata.Property{Name: "at", Value: odata.Value{Type: odata.GUID, Bytes: make([]byte, 16)}}))
	r.apply("users", op(entity.Merge, "se", "1", text("n", "-5"), text("born", "2000-01-01"), number("age", 9),
		text("country", "x")))
	e = r.get("users", "se", "1")
	if p := e.Property("n"); p == nil || string(p.Value.Bytes) != "-5" {
		t.Error(show(e))
	}
	// in addition to the key column of that name
	if p := e.Property("country"); p == nil || string(p.Value.Bytes) != "x" {
		t.Error(show(e))
	}
	r.apply("users", op(entity.InsertOrReplace, "se", "1"))
	if got := show(r.get("users", "se", "1")); got != `se/1 owner:Edm.String="me"` {
		t.Errorf("replaced by nothing: %s", got)
	}
	if v := r.scalar("SELECT tags FROM acme.users WHERE country = 'se' AND id = '1'"); v != nil {
		t.Errorf("tags are still %q", v)
	}
	// A row without a row marker exists as long as a cell does; replaced by an empty entity, it still exists.
	r.exec("DELETE age FROM acme.users WHERE country = 'se' AND id = '2'")
	r.absent("users", "se", "2")
	r.exec("DELETE FROM acme.users WHERE country = 'se' AND id = '1'")
	r.absent("users", "se", "1")
}

func TestCountersAreShownAndNotWritten(t *testing.T) {
	r := newTestRing(t, 1)
	r.exec(keyspace, "CREATE TABLE acme.hits (p text, r text, n counter, PRIMARY KEY (p, r))")
	r.refuse(odata.InvalidInput, "hits", op(entity.InsertOrMerge, "p", "r",
		odata.Property{Name: "n", Value: odata.Value{Type: odata.Int64, Int: 1}}))
	r.refuse(odata.InvalidInput, "hits", op(entity.InsertOrMerge, "p", "r", text("x", "y")))
	if err := r.nodes[0].store.DeletePartition(anyone(), account, "hits", "p"); code(err) != odata.InvalidInput {
		t.Error(err)
	}
}

// TestTimestampIsTheNewestLiveWrite checks that the Timestamp is the newest write of live data, by either protocol.
func TestTimestampIsTheNewestLiveWrite(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Things")
	old := time.Now().Add(-time.Hour).UnixMicro()
	r.exec(fmt.Sprintf(`INSERT INTO acme.things ("PartitionKey", "RowKey") VALUES ('p', 'r') USING TIMESTAMP %d`, old))
	if e := r.get("things", "p", "r"); e.Timestamp != 10*old {
		t.Errorf("%d, want %d", e.Timestamp, 10*old)
	}
	r.apply("things", entity.Operation{Kind: entity.Merge, Entity: odata.Entity{PartitionKey: "p", RowKey: "r",
		Properties: []odata.Property{text("v", "x")}}, Match: 10 * old, Conditional: true})
	r.exec(`ALTER TABLE acme.things ADD n int`)
	r.exec(fmt.Sprintf(`UPDATE acme.things USING TIMESTAMP %d SET n = 1 WHERE "PartitionKey" = 'p' AND "RowKey" = 'r'`,
		old+5))
	e := r.get("things", "p", "r")
	if e.Timestamp <= 10*(old+5) {
		t.Errorf("%d: the merge was later", e.Timestamp)
	}
	r.refuse(odata.UpdateConditionNotSatisfied, "things", entity.Operation{Kind: entity.Delete,
		Entity: odata.Entity{PartitionKey: "p", RowKey: "r"}, Match: 10 * old, Conditional: true})
}

func TestExpiredPropertiesAreAbsent(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Things")
	short, long := op(entity.Insert, "p", "short", text("v", "x")), op(entity.Insert, "p", "long", text("v", "x"))
	short.TTL = 100
	r.apply("things", short, long)
	merged := op(entity.Merge, "p", "long", text("w", "y"))
	merged.TTL = 100
	r.apply("things", merged)
	r.exec(`INSERT INTO acme.things ("PartitionKey", "RowKey", v) VALUES ('p', 'cql', 'z') USING TTL 100`)
	page := func() (out []string) {
		t.Helper()
		p, err := r.nodes[0].store.Query(anyone(), account, "things", &entity.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Entities {
			out = append(out, show(&p.Entities[i]))
		}
		return out
	}
	if got := page(); len(got) != 3 {
		t.Error(got)
	}
	r.clock.offset.Store(int64(101 * time.Second))
	if got := fmt.Sprint(page()); got != `[p/long v:Edm.String="x"]` {
		t.Error(got)
	}
	r.apply("things", op(entity.Insert, "p", "short"))
	if got := fmt.Sprint(page()); got != `[p/long v:Edm.String="x" p/short]` {
		t.Error(got)
	}
}

// TestReplacedTicksDoNotKeepEntities checks that an entity that replaces a DateTime with a fraction below a millisecond
// expires, whether or not it has another DateTime.
func TestReplacedTicksDoNotKeepEntities(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Things")
	precise := odata.Property{Name: "at", Value: odata.Value{Type: odata.DateTime, Int: 10_000_000*ticksPerMilliOf + 7}}
	coarse := odata.Property{Name: "at", Value: odata.Value{Type: odata.DateTime, Int: 10_000_000 * ticksPerMilliOf}}
	for name, properties := range map[string][]odata.Property{"none": nil, "coarse": {coarse}, "precise": {precise}} {
		r.apply("things", op(entity.Insert, "p", name, precise))
		replaced := op(entity.InsertOrReplace, "p", name, properties...)
		replaced.TTL = 100
		r.apply("things", replaced)
		if e := r.get("things", "p", name); len(e.Properties) != len(properties) {
			t.Errorf("%s: %s", name, show(e))
		}
	}
	r.clock.offset.Store(int64(101 * time.Second))
	for _, name := range []string{"none", "coarse", "precise"} {
		r.absent("things", "p", name)
		r.apply("things", op(entity.Insert, "p", name))
	}
}

// ticksPerMilliOf is the number of ticks in a millisecond.
const ticksPerMilliOf = 10_000

// TestDroppedColumnsAreNoProperties checks that a dropped column's values disappear, and that it may be created again
// with another type.
func TestDroppedColumnsAreNoProperties(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Things")
	r.apply("things", op(entity.Insert, "p", "r", text("v", "x"), number("n", 1)))
	r.exec("ALTER TABLE acme.things DROP v")
	if got := show(r.get("things", "p", "r")); got != "p/r n:Edm.Int32=1" {
		t.Error(got)
	}
	r.apply("things", op(entity.Merge, "p", "r", number("v", 2)))
	r.apply("things", op(entity.Merge, "p", "r", number("v", 3)))
	if got := show(r.get("things", "p", "r")); got != "p/r n:Edm.Int32=1 v:Edm.Int32=3" {
		t.Error(got)
	}
}

// allowed is an Authorizer: each principal has these permissions on everything.
type allowed []auth.Permission

func (a allowed) Authorize(_ context.Context, p auth.Principal, need auth.Requirement) error {
	if slices.Contains(a, need.Permission) {
		return nil
	}
	return &auth.Denied{Principal: p, Requirement: need}
}

// TestMaskedEntitiesRequireUnmask checks that entities of a table with masks can be written, but not read, without
// UNMASK.
func TestMaskedEntitiesRequireUnmask(t *testing.T) {
	for _, unmask := range []bool{false, true} {
		may := allowed{auth.Create, auth.Select, auth.Modify, auth.Alter}
		if unmask {
			may = append(may, auth.Unmask)
		}
		r := newTestRing(t, 1, func(o *entity.Options) {
			n := o.View.(*testNode)
			n.authorizer = may
			o.Executor = n.executor(nil)
		})
		r.create("People")
		r.apply("people", op(entity.Insert, "p", "r", text("name", "secret")))
		store := r.nodes[0].store
		read := func(when string, refused bool) {
			t.Helper()
			_, get := store.Get(anyone(), account, "people", "p", "r", nil)
			_, query := store.Query(anyone(), account, "people", &entity.Query{})
			for _, err := range []error{get, query} {
				var denied *auth.Denied
				if errors.As(err, &denied) != refused || err != nil && !refused || refused &&
					denied.Requirement.Permission != auth.Unmask {
					t.Errorf("%s, unmask %t: %v", when, unmask, err)
				}
			}
		}
		read("without mask", false)
		r.exec("ALTER TABLE acme.people ALTER name MASKED WITH DEFAULT")
		read("with mask", !unmask)
		r.apply("people", op(entity.InsertOrReplace, "p", "r", text("name", "other")))
		r.exec("ALTER TABLE acme.people ALTER name DROP MASKED")
		read("after DROP MASKED", false)
	}
}
