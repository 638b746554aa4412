package restriction

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
	"cqld/schema/indexclass"
	"cqld/types"
	"cqld/types/analysis"
)

// indexedPart is the part of a restriction that an index finds: the restriction of one column, or of one of its
// elements. A part is compiled once; its terms are evaluated for each execution. Examples are c = 1 with the index on
// c, and m['a'] = 1 with the index on entries(m), whose element is 0.
type indexedPart struct {
	index   *schema.Index
	of      *restriction
	column  int // of restriction.columns
	element int // of restriction.elements, or -1
	// analyzer converts values to the terms of the index; nil means that values are terms.
	analyzer *analysis.Analyzer
	// union has the parts of the other branches of OR; rows have one of all the parts.
	union []indexedPart
}

// rank orders the parts by how few rows they are expected to select: less is better. There are no statistics of values
// at compile time: the ranks only express that = selects fewer rows than IN, and IN fewer than a range. ChooseIndex
// refines the order by counts.
func (p *indexedPart) rank() int {
	switch {
	case len(p.union) > 0:
		return 6
	case p.element >= 0 && p.of.elements[p.element].operator == cql.Equal:
		return 1 // an entry of a map
	case p.element >= 0:
		return 2
	case p.of.kind == kindEqual:
		return 0
	case p.of.kind == kindIn:
		return 3
	case p.of.lower != nil && p.of.upper != nil:
		return 4
	}
	return 5
}

// supporting appends the parts of r that indexes find. A restriction may have several parts, for several columns,
// elements or indexes. It depends on r and the table only, so it may be called before findIndexes. dst is returned with
// the parts appended, in the order of columns and then of indexes.
func (rs rules) supporting(r *restriction, dst []indexedPart) []indexedPart {
	// An index has one column, so each column of the restriction is examined.
	for i, col := range r.columns {
		for _, ix := range rs.table.Indexes() {
			if ix.Column != col.ID {
				continue
			}
			analyzer := analysis.Of(ix.Class.String(), ix.Options)
			// An analyzer that divides values into terms finds more than equal values, so that only LIKE uses it.
			if findsWhole(ix, r, col) && (analyzer == nil || !analyzer.Divides() || r.kind == kindLike) {
				dst = append(dst, indexedPart{ix, r, i, -1, analyzer, nil})
			}
			// Elements have indexes on parts of the collection.
			if r.kind != kindContains {
				continue
			}
			for k, e := range r.elements {
				if findsElement(ix, col, e.operator) {
					dst = append(dst, indexedPart{ix, r, i, k, analyzer, nil})
				}
			}
		}
	}
	return dst
}

// analyze makes restrictions that indexes with analyzers find compare analyzed values, if an index is used. As in
// Cassandra, = on a column with an analyzer matches by terms, but only if the statement uses the index; the same WHERE
// with another plan compares values. It changes compiled restrictions, so it must run before the Set is used.
func (rs rules) analyze() {
	if !rs.usesIndex {
		return
	}
	used := rs.classUsed()
	for i := range rs.indexed {
		switch p := &rs.indexed[i]; {
		// Not with an analyzer, not used, or not a comparison of one column.
		case p.analyzer == nil || p.index.Class != used || len(p.of.columns) > 1:
		// The filter then compares analyzed values, as the index does.
		case p.element >= 0:
			p.of.elements[p.element].analyzer = p.analyzer
		case p.of.kind == kindEqual, p.of.kind == kindLike && !p.of.folded:
			p.of.analyzer = p.analyzer
		}
	}
}

// classUsed returns the class of the indexes by which Cassandra finds the rows, if several classes find restrictions:
// SASI, else legacy, else storage-attached ones. Cassandra compares estimates of rows. The estimate of SASI is the
// least integer, and the estimate of storage-attached indexes the greatest.
func (rs *Set) classUsed() (used schema.IndexClass) {
	for _, p := range rs.indexed {
		switch class := p.index.Class; {
		// No index finds it, or Cassandra does not search one for it: the rows are in a slice of a partition.
		case p.of.multi && p.of.kind == kindSlice, !slices.Contains(rs.expected, p.of):
		case used == 0, class == schema.SASI, class == schema.LegacyIndex && used == schema.SAI:
			used = class
		}
	}
	return used
}

// misses reports whether the index may lack rows that match, because WHERE compares by the analyzer of another index.
func (p *indexedPart) misses() bool {
	analyzer := p.of.analyzer
	if p.element >= 0 {
		analyzer = p.of.elements[p.element].analyzer
	}
	return analyzer != nil && p.analyzer != analyzer
}

// findsWhole reports whether an index finds the rows of =, a slice or LIKE of its column. Which restrictions an index
// supports follows the class: storage-attached indexes, SASI, and the legacy index. Targets are the parts of a
// collection that are indexed; simple and full mean whole values. Cassandra's SASIIndex.supportsExpression and
// StorageAttachedIndex.supportsExpression are the models.
func findsWhole(ix *schema.Index, r *restriction, col *schema.Column) bool {
	// Both targets have the whole value of a column as term.
	whole := ix.Target == schema.IndexSimple || ix.Target == schema.IndexFull
	if col.Type.Kind() == types.Vector {
		return false // its index only finds the nearest vectors
	}
	switch r.kind {
	case kindEqual:
		return whole
	case kindSlice:
		if ix.Class == schema.SASI {
			// SASI finds ranges of values that are not literals, in the modes with ordered terms.
			return whole && !ix.Literal(col) && !findsParts(ix) && analysis.Of(ix.Class.String(), ix.Options) == nil
		}
		// Cassandra's legacy index has its terms as partition keys, in the order of their hashes.
		return ix.Class != schema.LegacyIndex && ix.Target == schema.IndexSimple && ordered(col.Type)
	case kindLike:
		// LIKE needs SASI. ILIKE is an extension and uses any index whose terms are folded.
		return ix.Class == schema.SASI && !r.folded && ix.Literal(col) || r.folded && whole && foldsCase(ix, col)
	}
	return false
}

// foldsCase reports whether an index contains a column's values in lower case, which ILIKE finds. The test with one
// pattern decides: an analyzer is a function of its options, and only folding maps "Aa" to "aa".
func foldsCase(ix *schema.Index, col *schema.Column) bool {
	// Only text has case.
	if k := col.Type.Kind(); k != types.Text && k != types.Ascii {
		return false
	}
	analyzer := analysis.Of(ix.Class.String(), ix.Options)
	return analyzer != nil && !analyzer.Divides() && string(analyzer.Pattern([]byte("Aa"))) == "aa"
}

// findsParts reports whether a SASI index finds parts of its values. Such an index finds no ranges in Cassandra.
func findsParts(ix *schema.Index) bool {
	return strings.EqualFold(ix.Options[indexclass.OptionMode], "CONTAINS")
}

// ordered reports whether storage-attached indexes find ranges of values of a type. The types whose ranges Cassandra's
// storage-attached indexes refuse are refused here as well.
func ordered(t *types.Type) bool {
	switch t.Kind() {
	case types.Text, types.Ascii, types.Boolean:
		return false
	}
	return !t.Kind().IsCollection() && t.Kind() != types.UDT && t.Kind() != types.Tuple && t.Kind() != types.Vector
}

// findsElement reports whether an index finds the rows whose collection matches an operator. CONTAINS needs a
// multi-cell collection: an index on a frozen one has whole values as terms.
func findsElement(ix *schema.Index, c *schema.Column, o cql.Operator) bool {
	switch o {
	// A list or set is indexed by its elements; a map has an index on its values.
	case cql.Contains:
		return ix.Target == schema.IndexValues && c.Type.MultiCell() || ix.Target == schema.IndexSimple &&
			c.Type.MultiCell()
	case cql.ContainsKey:
		return ix.Target == schema.IndexKeys
	// An entry of a map: its key and its value together.
	case cql.Equal:
		return ix.Target == schema.IndexEntries
	}
	return false
}

// findIndexes determines which restrictions indexes can find. The order of the lists decides between parts of equal
// rank.
func (rs rules) findIndexes() {
	for _, list := range [][]*restriction{rs.partition, rs.clustering, rs.other, rs.extra} {
		for _, r := range list {
			if r != nil {
				rs.indexed = rs.supporting(r, rs.indexed)
			}
		}
	}
}

// equalsVector reports whether a vector with an index is restricted by =. Cassandra has no such search, but counts the
// index as one that supports the column, which changes the error.
func (rs rules) equalsVector() bool {
	return slices.ContainsFunc(rs.other, func(r *restriction) bool {
		return r.kind == kindEqual && r.first().Type.Kind() == types.Vector &&
			slices.ContainsFunc(rs.table.Indexes(), func(ix *schema.Index) bool {
				return ix.Column == r.first().ID &&
					ix.Class == schema.SAI
			})
	})
}

// queriable reports whether an index finds some restriction. Cassandra's term: an index can be queried for the
// statement. It does not mean that it is used.
func (rs *Set) queriable() bool { return len(rs.indexed) > 0 || rs.findsVector }

// queriableClustering reports whether an index finds a restriction of clustering columns.
func (rs *Set) queriableClustering() bool {
	return slices.ContainsFunc(rs.indexed, func(p indexedPart) bool { return p.of.first().Kind == schema.Clustering })
}

// needsFiltering reports whether rows must be filtered by Cassandra's rules, which do not depend on how they are found
// here: an index must find each restriction and, unless storage-attached indexes find all, there may be one restricted
// column, with one CONTAINS. expected are the restrictions that Cassandra would have to filter without an index. Legacy
// and SASI indexes find one column at a time, so that a second column needs a filter. For example, a = 1 AND b = 2 with
// two legacy indexes needs ALLOW FILTERING, and with two storage-attached indexes does not.
func (rs *Set) needsFiltering() bool {
	attached, columns, elements := len(rs.expected) > 0, 0, 0
	// A restriction that no index finds is always filtered.
	for _, r := range rs.expected {
		if rs.usesIndex && !rs.found(r, false) {
			return true
		}
		attached = attached && rs.found(r, true)
		columns += len(r.columns)
		elements = max(elements, len(r.elements))
	}
	// The disjuncts are: several columns; only clustering columns; several elements; or one column without an index.
	return !attached && (columns > 1 || columns == 0 && len(rs.clustering) > 0 || elements > 1 || columns == 1 &&
		!rs.usesIndex)
}

// found reports whether indexes, or only storage-attached ones, find all columns of a restriction. Of several
// restrictions on the elements of a collection, one is enough. A restriction of several columns is found only if each
// of its columns is.
func (rs *Set) found(r *restriction, attached bool) bool {
	// By position in r.columns.
	found := make([]bool, len(r.columns))
	for _, p := range rs.indexed {
		if p.of == r && (p.index.Class == schema.SAI || !attached) {
			found[p.column] = true
		}
	}
	return !slices.Contains(found, false)
}

// chooseIndexes determines by which indexes rows can be found. For the rows that Cassandra filters, there may be one,
// too: for IN. An OR is replaced by the union of indexes on its branches. WHERE is evaluated on the rows that are
// found, so an index may find too many rows, but never too few. At most candidatesMax of them are kept, because each
// one may be counted at every execution.
func (rs rules) chooseIndexes() {
	rs.analyze()
	// The rows are named, so no search can be cheaper.
	if rs.exactRows() || rs.writes {
		return
	}
	var parts []indexedPart
	// The parts that Cassandra could use. A range of several columns is no interval of the terms of one of them.
	if rs.usesIndex {
		parts = slices.DeleteFunc(slices.Clone(rs.indexed),
			func(p indexedPart) bool { return p.of.multi && p.of.kind == kindSlice || p.misses() })
	}
	for _, r := range rs.filters {
		parts = rs.supportingList(r, parts)
		if union := rs.unionOf(r); len(union) > 0 {
			// The first part stands for the union; the others are searched with it.
			union[0].union = union[1:]
			parts = append(parts, union[0])
		}
	}
	// Stable, so that the order of the restrictions decides between equal ranks.
	slices.SortStableFunc(parts, func(a, b indexedPart) int { return a.rank() - b.rank() })
	rs.candidates = parts[:min(len(parts), candidatesMax)]
}

// supportingList appends the parts of an IN that indexes find. Its values are compared as they are. Cassandra filters
// IN, so this list is not part of rs.indexed, which its rules are evaluated on. Indexes with analyzers are excluded,
// because IN compares values.
func (rs rules) supportingList(r *restriction, dst []indexedPart) []indexedPart {
	for _, ix := range rs.table.Indexes() {
		if r.kind == kindIn && !r.multi && r.first().Type.Kind() != types.Vector && ix.Column == r.first().ID &&
			(ix.Target == schema.IndexSimple || ix.Target == schema.IndexFull) &&
			analysis.Of(ix.Class.String(), ix.Options) == nil {
			dst = append(dst, indexedPart{ix, r, 0, -1, nil, nil})
		}
	}
	return dst
}

// exactRows reports whether WHERE names the rows, of few partitions. Reading these rows is never more expensive than an
// index search.
func (rs rules) exactRows() bool {
	return !rs.KeyRange && rs.WholeRows() && len(rs.table.Clustering) > 0
}

// UsesIndex reports whether, by Cassandra's rules, an index is used. Index may still be nil, if WHERE names the rows.
// The rules of ORDER BY and ALLOW FILTERING depend on it, whether or not an index is searched.
func (rs *Set) UsesIndex() bool { return rs.usesIndex }

// Index returns the index by which rows are found, or nil. If there are several, ChooseIndex decides for each
// execution. nil at compilation means nil for all executions. It is the first candidate, which is not the one that
// every execution uses.
func (rs *Set) Index() *schema.Index {
	if len(rs.candidates) == 0 {
		return nil
	}
	return rs.candidates[0].index
}

// terms evaluates the intervals of terms in which the index is searched, ascending and disjoint. A term is the ordered
// form of a value (types.AppendOrdered), so that the order of terms as bytes is the order of values. No interval means
// that no row can match.
func (p *indexedPart) terms(s *term.Scope) ([]row.Slice, error) {
	col := p.of.columns[p.column]
	if p.element >= 0 {
		return p.elementTerms(s, col)
	}
	switch p.of.kind {
	case kindLike:
		return p.patternTerms(s, col)
	case kindIn:
		return p.listTerms(s, col)
	}
	// value returns the term of a bound. Null is an error, as in a filter.
	value := func(v *valueTerm) ([]byte, error) {
		values, err := filterValues(s, v, p.of.columns)
		if err != nil {
			return nil, err
		}
		return p.term(nil, col.Type, values[p.column]), nil
	}
	// = may be of several columns; the part is one of them.
	if p.of.kind == kindEqual {
		values, err := filterValues(s, p.of.equal, p.of.columns)
		if err == nil {
			err = p.checkSize(len(values[p.column]))
		}
		if err != nil {
			return nil, err
		}
		return []row.Slice{row.ExactRow(p.term(nil, col.Type, values[p.column]))}, nil
	}
	// An interval is half open: Start is included, End is not; a nil End is unbounded. After makes the least term that
	// follows.
	var out row.Slice
	if b := p.of.lower; b != nil {
		var err error
		if out.Start, err = value(b.value); err != nil {
			return nil, err
		}
		if !b.inclusive {
			out.Start = row.After(out.Start)
		}
	}
	if b := p.of.upper; b != nil {
		var err error
		if out.End, err = value(b.value); err != nil {
			return nil, err
		}
		if b.inclusive {
			out.End = row.After(out.End)
		}
	}
	// The bounds exclude each other.
	if out.Empty() {
		return nil, nil
	}
	return []row.Slice{out}, nil
}

// entryBytes is the size of an indexed entry of a map besides its key and value: the lengths of a composite, which has
// two bytes before and one byte after each of its two components.
const entryBytes = 6

// checkSize returns an error for a value of n bytes that is larger than what a legacy index of Cassandra can be
// searched for. It is larger than any value that such an index contains.
func (p *indexedPart) checkSize(n int) error {
	// The length of a legacy index's partition key has 16 bits in Cassandra.
	if p.index.Class == schema.LegacyIndex && n > math.MaxUint16 {
		return invalid.Errorf("Index expression values may not be larger than 64K")
	}
	return nil
}

// term appends the term of a value. Of several terms, which the value of a row must have, it is one. The other terms
// are checked by the filter on the rows that are found. A value without terms is searched as it is.
func (p *indexedPart) term(dst []byte, t *types.Type, value []byte) []byte {
	if p.analyzer != nil {
		if terms := p.analyzer.Terms(value); len(terms) > 0 {
			value = terms[0]
		}
	}
	return t.AppendOrdered(dst, value, false)
}

// elementTerms returns the term of an element, a key or an entry of a collection.
func (p *indexedPart) elementTerms(s *term.Scope, col *schema.Column) ([]row.Slice, error) {
	x, err := p.of.elements[p.element].eval(s, col)
	if err == nil {
		err = p.checkSize(len(x.value))
	}
	// The term of an entry contains both.
	if err == nil && x.key != nil {
		err = p.checkSize(len(x.key) + len(x.value) + entryBytes)
	}
	if err != nil {
		return nil, err
	}
	elems := col.Type.Elems()
	var b []byte
	switch x.operator {
	case cql.Contains:
		b = p.term(nil, elems[len(elems)-1], x.value)
	case cql.ContainsKey:
		b = p.term(nil, elems[0], x.value)
	default:
		// An entry is the ordered key followed by the ordered value.
		b = elems[1].AppendOrdered(elems[0].AppendOrdered(nil, x.key, false), x.value, false)
	}
	return []row.Slice{row.ExactRow(b)}, nil
}

// listTerms returns the terms of the values of IN. Null equals nothing. The terms are sorted and unique, because lists
// of clients are not. The number of values is bounded by the bound on IN lists.
func (p *indexedPart) listTerms(s *term.Scope, col *schema.Column) (out []row.Slice, err error) {
	all, err := p.of.evalFilterIn(s)
	if err == nil {
		err = s.Grow(clusteringBytes([][]byte{nil}, all))
	}
	if err != nil {
		return nil, err
	}
	for _, values := range all {
		if values[0] != nil {
			out = append(out, row.ExactRow(col.Type.AppendOrdered(nil, values[0], false)))
		}
	}
	slices.SortFunc(out, func(a, b row.Slice) int { return bytes.Compare(a.Start, b.Start) })
	return slices.CompactFunc(out, func(a, b row.Slice) bool { return bytes.Equal(a.Start, b.Start) }), nil
}

// patternTerms returns the interval of the terms that begin with the text of LIKE. An index in the mode CONTAINS also
// finds text within terms, by looking at all terms. Cassandra's errors contain the form of the pattern. In short:
//
//	'ab'    the term ab            'ab%'   the terms from ab to before the next prefix
//	'%ab'   all terms, filtered    '%ab%'  all terms, filtered; both need the mode CONTAINS
func (p *indexedPart) patternTerms(s *term.Scope, col *schema.Column) ([]row.Slice, error) {
	x, err := p.of.evalPattern(s)
	if err != nil {
		return nil, err
	}
	// ILIKE is checked on the rows; its interval only has to contain all matches.
	if x.folded {
		return []row.Slice{x.foldedTerms(col.Type)}, nil
	}
	contains := strings.EqualFold(p.index.Options[indexclass.OptionMode], "CONTAINS")
	// Cassandra refuses this form for tokenized terms.
	if p.analyzer != nil && contains && p.analyzer.Divides() && x.end && !x.begin {
		return nil, invalid.Errorf("%s LIKE '<term>%%' %s is only supported on properly indexed columns", col.Name,
			x.text)
	}
	// A pattern is one term, also for an analyzer that divides values.
	if p.analyzer != nil && (x.begin || x.end) {
		x.text = p.analyzer.Pattern(x.text)
	}
	// Without wildcards, LIKE is =, by terms.
	if !x.begin && !x.end {
		return []row.Slice{row.ExactRow(p.term(nil, col.Type, x.text))}, nil
	}
	// The text is the beginning of a term, or the whole of it.
	if !x.begin {
		exact := row.ExactRow(col.Type.AppendOrdered(nil, x.text, false))
		if x.end {
			exact = termsWithPrefix(col.Type, x.text)
		}
		return []row.Slice{exact}, nil
	}
	// In the mode PREFIX, a text within terms has no interval.
	if !contains {
		shown := "'%<term>'"
		if x.end {
			shown = "'%<term>%'"
		}
		return nil, invalid.Errorf("%s LIKE %s %s is only supported on properly indexed columns", col.Name, shown,
			x.text)
	}
	// Every term can contain the text, so the whole index is read and rows are filtered.
	return []row.Slice{row.AllRows()}, nil
}

// termsWithPrefix returns the interval of the terms of texts that begin with prefix. It also works for an empty prefix,
// whose interval has all texts.
func termsWithPrefix(t *types.Type, prefix []byte) row.Slice {
	b := t.AppendOrdered(nil, prefix, false)
	// The ordered form of a text is a tag, its bytes and an end, of which longer texts have only the tag and the bytes.
	// The difference is the bytes that end a text: the length of the form of "a" without its tag and the byte of a.
	end := len(b) - (len(t.AppendOrdered(nil, []byte{'a'}, false)) - 2)
	return row.Slice{Start: b[:end:end], End: row.After(b[:end:end])}
}

// foldedTerms returns an interval of terms in lower case that contains those of all texts which match. The case of some
// texts depends on what follows (Σ), and a character can be composed with the next one, so it is determined by the
// first characters of ASCII only. The letter i also comes from İ, which has two characters in lower case. The interval
// is a superset: the filter ignores case on the rows. For example, ILIKE 'Straße%' has the text straße, and the
// interval of the terms that begin with str.
func (p *pattern) foldedTerms(t *types.Type) row.Slice {
	n := 0
	for n < len(p.text) && p.text[n] < utf8.RuneSelf && p.text[n] != 'i' {
		n++
	}
	if p.begin || n < 2 {
		return row.AllRows()
	}
	// The last of the n characters is not used either: a combining character after it may change it.
	return termsWithPrefix(t, p.text[:n-1])
}

// refuseExpression returns the error for expr(index, …): no class of indexes has a language of its own. The grammar
// accepts the relation, as Cassandra has classes of indexes with such languages.
func (c compiler) refuseExpression(r *cql.IndexRelation) error {
	ix := c.Table.Index(r.Index.Name)
	switch {
	case ix == nil:
		return invalid.Errorf("Invalid index expression, index %s not found for %s.%s", r.Index.Name, c.Table.Keyspace,
			c.Table.Name)
	case ix.Class == schema.LegacyIndex:
		return invalid.Errorf("Only CUSTOM indexes may be used in custom index expressions, %s is not valid", ix.Name)
	}
	return invalid.Errorf("Index %s does not support custom expressions", ix.Name)
}
