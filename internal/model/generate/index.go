package generate

import (
	"fmt"
	"strings"
)

// createIndex generates CREATE INDEX of any class on any column, with a target that is valid for most types. The
// classes are StorageAttachedIndex by three names, SASI, the legacy index by its name, and the default index. A name is
// one of those that Cassandra 5 accepts, including the class name in full.
func (o *Objects) createIndex() Step {
	t := &text{}
	c := o.any(o.Columns)
	if o.oneIn(3) {
		c = o.any(o.of(Regular))
	}
	name := fmt.Sprintf("%s_i%d", o.table, len(o.created))
	if o.oneIn(10) {
		// A name that is taken, which is refused, or does nothing with IF NOT EXISTS.
		name = o.anyCreated("_i0")
	}
	target := o.target(c)
	// Nothing but a repeated name makes IF NOT EXISTS interesting, so it is rare.
	exists := ""
	if o.oneIn(10) {
		exists = "IF NOT EXISTS "
	}
	switch n := o.r.IntN(8); {
	// Only this class indexes vectors.
	case c.Type.kind() == "vector", n < 2:
		t.add("CREATE CUSTOM INDEX %s%s ON %s (%s) USING '%s'", exists, name, o.table, target,
			[]string{"StorageAttachedIndex", "org.apache.cassandra.index.sai.StorageAttachedIndex", "sai"}[o.r.IntN(3)])
		o.attachedOptions(t, c)
	case n == 2:
		t.add("CREATE INDEX %s%s ON %s (%s) USING 'sai'", exists, name, o.table, target)
		o.attachedOptions(t, c)
	case n == 3 && !o.Compact:
		t.add("CREATE CUSTOM INDEX %s%s ON %s (%s) USING 'org.apache.cassandra.index.sasi.SASIIndex'", exists, name,
			o.table, target)
		o.arrayOptions(t)
	case n == 4:
		t.add("CREATE INDEX %s%s ON %s (%s) USING 'legacy_local_table'", exists, name, o.table, target)
	default:
		t.add("CREATE INDEX %s%s ON %s (%s)", exists, name, o.table, target)
	}
	// Recorded even if the server refuses the statement: later statements then name an index that does not exist.
	o.created, o.indexed = append(o.created, name), append(o.indexed, c)
	return step(t)
}

// target returns what of the column is indexed. A map can be indexed by its keys, values or entries, a frozen
// collection only as a whole (FULL).
func (o *Objects) target(c Column) string {
	plain := []string{"%s"}
	switch kind := c.Type.kind(); {
	// Targets that fit collections only, so they are refused for most columns.
	case o.oneIn(10):
		plain = []string{"VALUES(%s)", "KEYS(%s)", "ENTRIES(%s)", "FULL(%s)"}
	case len(c.Type.Elems) > 0 && !c.Type.Multi && kind != "tuple" && kind != "udt" && kind != "vector":
		plain = []string{"FULL(%s)"}
	case c.Type.Multi && kind == "map":
		plain = []string{"%s", "VALUES(%s)", "KEYS(%s)", "ENTRIES(%s)"}
	case c.Type.Multi && kind != "udt":
		plain = []string{"%s", "VALUES(%s)"}
	}
	return fmt.Sprintf(plain[o.r.IntN(len(plain))], c.Name)
}

// attachedOptions adds options of StorageAttachedIndex. Vectors have a similarity function, whose name may be in upper
// or lower case. The others are options of the analyzer, which Cassandra refuses for types other than text: they
// "cannot be analyzed".
func (o *Objects) attachedOptions(t *text, c Column) {
	var list []string
	if c.Type.kind() == "vector" {
		if !o.oneIn(4) {
			list = []string{fmt.Sprintf("'similarity_function': '%s'",
				[]string{"cosine", "EUCLIDEAN", "dot_product"}[o.r.IntN(3)])}
		}
	} else if o.oneIn(3) {
		for _, name := range []string{"case_sensitive", "normalize", "ascii"} {
			if o.oneIn(2) {
				list = append(list, fmt.Sprintf("'%s': '%s'", name, []string{"true", "false"}[o.r.IntN(2)]))
			}
		}
	}
	// An option that does not exist.
	if o.oneIn(30) {
		list = append(list, "'unknown': 'x'")
	}
	if len(list) > 0 {
		t.add(" WITH OPTIONS = {%s}", strings.Join(list, ", "))
	}
}

// arrayOptions adds options of SASIIndex. PREFIX is the default mode, CONTAINS serves also LIKE '%a%', and SPARSE is
// refused for text. With the analyzer, values are compared without regard to case.
func (o *Objects) arrayOptions(t *text) {
	var list []string
	if !o.oneIn(3) {
		list = append(list, fmt.Sprintf("'mode': '%s'",
			[]string{"PREFIX", "CONTAINS", "CONTAINS", "SPARSE"}[o.r.IntN(4)]))
	}
	if o.oneIn(3) {
		list = append(list, "'analyzer_class': 'org.apache.cassandra.index.sasi.analyzer.NonTokenizingAnalyzer'",
			"'case_sensitive': 'false'")
	}
	if len(list) > 0 {
		t.add(" WITH OPTIONS = {%s}", strings.Join(list, ", "))
	}
}

// selectIndexed generates a SELECT with restrictions on indexed columns, and perhaps on others. Its Step is paged. With
// an index, a page can end between two matches of one partition.
func (o *Objects) selectIndexed() Step {
	t := &text{}
	t.add("SELECT ")
	if o.oneIn(6) {
		t.add("count(*)")
	} else if o.oneIn(3) {
		t.add("*")
	} else {
		// The key identifies rows in the comparison; one random column shows their values.
		t.WriteString(strings.Join(names(append(o.of(PartitionKey, Clustering), o.any(o.Columns))), ", "))
	}
	t.add(" FROM %s WHERE ", o.table)
	// One to three relations; the first is always on an indexed column.
	n := 1 + b2i(o.oneIn(2)) + b2i(o.oneIn(4))
	// With the partition key, the index is read on the replicas of one partition only.
	key := o.oneIn(4)
	if key {
		t.each(len(o.of(PartitionKey)), " AND ", func(i int) { o.relation(t, o.of(PartitionKey)[i], o.oneIn(8)) })
		t.add(" AND ")
	}
	t.each(n, " AND ", func(i int) {
		c := o.any(o.indexed)
		if i > 0 && o.oneIn(3) {
			c = o.any(o.Columns)
		}
		o.indexRelation(t, c)
	})
	// ORDER BY with an index is refused.
	if o.oneIn(20) && len(o.of(Clustering)) > 0 {
		t.add(" ORDER BY %s", o.of(Clustering)[0].Name)
	}
	if o.oneIn(5) {
		t.add(" LIMIT %d", 1+o.r.IntN(5))
	}
	if o.oneIn(2) {
		t.add(" ALLOW FILTERING")
	}
	s := step(t)
	s.Paged = true
	return s
}

// indexRelation adds a relation that an index may serve. Whether the index serves it depends on the class; a query that
// no index serves needs ALLOW FILTERING, or is refused.
func (o *Objects) indexRelation(t *text, c Column) {
	kind := c.Type.kind()
	switch {
	// Only SASI serves LIKE. The letter A shows whether the index respects the case.
	case kind == "text" && o.oneIn(4):
		t.add("%s LIKE '%s'", c.Name, []string{"a%", "%b", "%a%", "ab", "%", "A%", "%%"}[o.r.IntN(7)])
	case kind == "map" && o.oneIn(3):
		t.add("%s[", c.Name)
		t.bind(o.value(c.Type.Elems[0]))
		t.add("] %s ", []string{"=", "=", "=", "<", ">="}[o.r.IntN(5)])
		t.bind(o.value(c.Type.Elems[1]))
	case kind == "map" && o.oneIn(3):
		t.add("%s CONTAINS KEY ", c.Name)
		t.bind(o.value(c.Type.Elems[0]))
	// The values of a map are its last element type.
	case (kind == "map" || kind == "set" || kind == "list") && !o.oneIn(4):
		t.add("%s CONTAINS ", c.Name)
		t.bind(o.value(c.Type.Elems[len(c.Type.Elems)-1]))
	// IN, which few classes of indexes serve.
	case o.oneIn(12):
		o.relation(t, c, true)
	default:
		t.add("%s %s ", c.Name, []string{"=", "=", "=", "<", ">=", ">", "<="}[o.r.IntN(7)])
		t.bind(o.value(c.Type))
	}
}

// vector returns the type of vectors of n floats.
func vector(n int) *Type {
	t := &Type{Name: fmt.Sprintf("vector<float, %d>", n)}
	// vectorValue generates a float for each element.
	for range n {
		t.Elems = append(t.Elems, native("float"))
	}
	return t
}

// nearest generates a SELECT with ORDER BY … ANN OF. Vectors are hardly ever equal, so hardly two rows have the same
// distance, which would leave their order open.
func (o *Objects) nearest() Step {
	t := &text{}
	e := vector(3)
	t.add("SELECT %s, e FROM %s", strings.Join(names(o.of(PartitionKey, Clustering)), ", "), o.table)
	if o.oneIn(3) {
		t.add(" WHERE ")
		o.indexRelation(t, o.any(o.Columns))
	}
	t.add(" ORDER BY e ANN OF ")
	t.bind(o.value(e))
	// Without LIMIT the query is refused.
	if !o.oneIn(8) {
		t.add(" LIMIT %d", 1+o.r.IntN(6))
	}
	if o.oneIn(4) {
		t.add(" ALLOW FILTERING")
	}
	return step(t)
}
