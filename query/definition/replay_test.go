package definition

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cqld/cql"
	"cqld/query/function"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// world is a schema that statements change.
type world struct {
	t      *testing.T
	schema *schema.Schema
	ids    byte
	micros int64
}

func (w *world) run(text string) {
	w.t.Helper()
	stmt, err := cql.Parse(text)
	if err != nil {
		w.t.Fatalf("%s: %v", text, err)
	}
	d := &Definer{Schema: w.schema, Topology: ring.NewTopology(1, nil), Keyspace: "k", Functions: function.New(),
		Masking: true,
		NewID: func() schema.UUID {
			w.ids++
			return schema.UUID{w.ids}
		},
		NowMicros: func() int64 {
			w.micros++
			return w.micros
		}}
	def, err := d.Define(stmt)
	if err != nil {
		w.t.Fatalf("%s: %v", text, err)
	}
	if w.schema, err = schema.Apply(w.schema, def.Change); err != nil {
		w.t.Fatalf("%s: %v", text, err)
	}
}

// describe returns the statements that create the keyspace k.
func (w *world) describe(internals bool) []string {
	w.t.Helper()
	d := &Describer{Schema: w.schema, Topology: ring.NewTopology(1, nil), Internals: internals}
	_, rows, _, err := d.Describe(&cql.Describe{Kind: cql.DescribeKeyspace, Name: cql.QualifiedName{Name: "k"}})
	if err != nil {
		w.t.Fatal(err)
	}
	var texts []string
	for _, row := range rows {
		texts = append(texts, string(row[3]))
	}
	return texts
}

// randomMask returns the mask of a column, or "". An empty type stands for any type.
func randomMask(rnd *rand.Rand, typ string) string {
	masks := []string{"", "", "DEFAULT", "mask_null()", "mask_replace(null)"}
	masks = append(masks, map[string][]string{
		"text":              {"mask_inner(1, null)", "mask_outer(null, -3, '#')", "mask_replace('it''s')"},
		"int":               {"mask_replace(-5)"},
		"list<text>":        {"mask_replace(['a', ''])"},
		"u":                 {`mask_replace({"F F": {f: 3}, g: null})`},
		"frozen<u>":         {`mask_replace({g: ['x''y']})`},
		"tuple<int, text>":  {"mask_replace((null, ':'))"},
		"vector<float, 3>":  {"mask_replace([1, 2.5, -0.0])"},
		"duration":          {"mask_replace(1mo2d3ns)"},
		"frozen<list<int>>": {"mask_replace([])"},
	}[typ]...)
	if mask := masks[rnd.IntN(len(masks))]; mask != "" {
		return " MASKED WITH " + mask
	}
	return ""
}

// randomTable returns a CREATE TABLE with random columns, names that must be quoted, and non-default options.
func randomTable(rnd *rand.Rand, name string) string {
	kinds := []string{"int", "text", "timeuuid", "frozen<list<int>>", "frozen<u>", "tuple<int, text>",
		"vector<float, 3>"}
	values := append([]string{"list<text>", "set<frozen<u>>", "map<text, frozen<map<int, text>>>", "u", "duration"},
		kinds...)
	var columns, partition, clustering, order []string
	for i := range 1 + rnd.IntN(2) {
		partition = append(partition, fmt.Sprintf("p%d", i))
		columns = append(columns, fmt.Sprintf("p%d %s", i, kinds[rnd.IntN(len(kinds))])+randomMask(rnd, ""))
	}
	for i := range rnd.IntN(3) {
		clustering = append(clustering, fmt.Sprintf(`"C %d"`, i))
		columns = append(columns, fmt.Sprintf(`"C %d" %s`, i, kinds[rnd.IntN(len(kinds))]))
		order = append(order, fmt.Sprintf(`"C %d" %s`, i, []string{"ASC", "DESC"}[rnd.IntN(2)]))
	}
	for i := range rnd.IntN(5) {
		typ := values[rnd.IntN(len(values))]
		column := fmt.Sprintf(`"v""%d" %s`, i, typ)
		if len(clustering) > 0 && rnd.IntN(3) == 0 {
			column += " STATIC"
		}
		column += randomMask(rnd, typ)
		columns = append(columns, column)
	}
	with := []string{"comment = 'it''s'", "gc_grace_seconds = " + fmt.Sprint(rnd.IntN(1000)),
		"tombstone_gc = 'timeout'"}
	if order != nil {
		with = append(with, "CLUSTERING ORDER BY ("+strings.Join(order, ", ")+")")
	}
	if rnd.IntN(2) == 0 {
		with = append(with, "compaction = {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4, L8'}",
			"bloom_filter_fp_chance = 0.00071", "speculative_retry = 'min(99.5p, 10ms)'", "extensions = {'x': 0x01ff}",
			"compression = {'enabled': false}")
	}
	key := append([]string{"(" + strings.Join(partition, ", ") + ")"}, clustering...)
	return "CREATE TABLE " + name + " (" + strings.Join(columns, ", ") + ", PRIMARY KEY (" + strings.Join(key, ", ") +
		")) WITH " +
		strings.Join(with, " AND ")
}

// The statements of DESCRIBE create the same keyspace again; with internals, also the same ids and dropped columns.
func TestDescribeCanBeReplayed(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		w := &world{t: t, schema: schema.Initial()}
		w.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3} AND " +
			"durable_writes = false")
		w.run("CREATE TYPE z (f int)")
		w.run(`CREATE TYPE u ("F F" frozen<z>, g frozen<list<text>>)`)
		for i := range 3 {
			w.run(randomTable(rnd, fmt.Sprint("t", i)))
		}
		table := w.schema.Table("k", "t0")
		for _, c := range table.Regulars {
			if c.Type.Kind() != types.UDT && rnd.IntN(2) == 0 {
				w.run("ALTER TABLE t0 DROP " + types.QuoteName(c.Name))
				if rnd.IntN(2) == 0 {
					w.run("ALTER TABLE t0 ADD " + types.QuoteName(c.Name) + " " + c.Type.String())
				}
			}
		}
		for _, internals := range []bool{false, true} {
			texts := w.describe(internals)
			again := &world{t: t, schema: schema.Initial()}
			for _, text := range texts {
				for _, statement := range strings.Split(text, ";\n") {
					again.run(statement)
				}
			}
			if got, want := strings.Join(again.describe(internals), "\n\n"), strings.Join(texts, "\n\n"); got != want {
				t.Fatalf("seed %d: replayed:\n%s\n\nwas:\n%s", seed, got, want)
			}
			if internals && again.schema.Table("k", "t0").ID != table.ID {
				t.Fatalf("seed %d: the table's id is another", seed)
			}
		}
	}
}
