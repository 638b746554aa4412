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

// indexedPart is the part of a restriction that an index can search for: the restriction of one column, or of one of
// its elements. Each execution evaluates the terms. Examples are c = 1 with the index on c, and m['a'] = 1 with the
// index on entries(m), whose element is 0.
type indexedPart struct {
	index   *schema.Index
	of      *restriction
	column  int // index in restriction.columns
	element int // index in restriction.elements, or -1
	// analyzer converts values to the terms of the index; nil means that values are the terms.
	analyzer *analysis.Analyzer
	// union contains the parts of the other branches of an OR; a matching row has a term of at least one branch.
	union []indexedPart
}

// rank orders the parts by how few rows they are expected to select: less is better. There are no statistics at
// compile time, so the ranks only express that = selects fewer rows than IN, and IN fewer than a range. ChooseIndex
// refines the order with counts.
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
	// An index covers one column, so search indexes for each column of the restriction.
	for i, col := range r.columns {
		for _, ix := range rs.table.Indexes() {
			if ix.Column != col.ID {
				continue
			}
			analyzer := analysis.Of(ix.Class.String(), ix.Options)
			// An analyzer that splits values finds more than equal values, so only LIKE uses such an index.
			if findsWhole(ix, r, col) && (analyzer == nil || !analyzer.Divides() || r.kind == kindLike) {
				dst = append(dst, indexedPart{ix, r, i, -1, analyzer, nil})
			}
			// Indexes on parts of a collection find its elements.
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

// analyze makes restrictions compare analyzed values if the statement uses an index with an analyzer that finds them.
// As in Cassandra, = on a column with an analyzer matches by terms, but only if the statement uses the index; the
// same WHERE with another plan compares values. It changes compiled restrictions, so it must run before the Set is
// used.
func (rs rules) analyze() {
	if !rs.usesIndex {
		return
	}
	used := rs.classUsed()
	for i := range rs.indexed {
		switch p := &rs.indexed[i]; {
		// The index has no analyzer or is not used, or the restriction does not compare one column.
		case p.analyzer == nil || p.index.Class != used || len(p.of.columns) > 1:
		// Make the filter compare analyzed values, as the index does.
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
		// No index finds the restriction, or Cassandra does not search it because the rows form a slice of a
		// partition.
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

// findsWhole reports whether an index finds the rows of =, a slice or LIKE of its column. The class of the index
// determines the restrictions that it supports, as in Cassandra's SASIIndex.supportsExpression and
// StorageAttachedIndex.supportsExpression. The target of an index is the indexed part of a collection; simple and
// full mean whole values.
func findsWhole(ix *schema.Index, r *restriction, col *schema.Column) bool {
	// With either target, the term is the whole value of the column.
	whole := ix.Target == schema.IndexSimple || ix.Target == schema.IndexFull
	if col.Type.Kind() == types.Vector {
		return false // a vector index only finds nearest vectors
	}
	switch r.kind {
	case kindEqual:
		return whole
	case kindSlice:
		if ix.Class == schema.SASI {
			// SASI finds ranges of values that are not literals, in the modes with ordered terms.
			return whole && !ix.Literal(col) && !findsParts(ix) && analysis.Of(ix.Class.String(), ix.Options) == nil
		}
		// Cassandra's legacy index stores terms as partition keys, which are ordered by hash, so it finds no ranges.
		return ix.Class != schema.LegacyIndex && ix.Target == schema.IndexSimple && ordered(col.Type)
	case kindLike:
		// LIKE needs SASI. ILIKE is an extension and uses any index whose terms are folded.
		return ix.Class == schema.SASI && !r.folded && ix.Literal(col) || r.folded && whole && foldsCase(ix, col)
	}
	return false
}

// foldsCase reports whether an index contains a column's values in lower case, which ILIKE finds. One test value
// suffices: only an analyzer that folds case maps "Aa" to "aa".
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

// ordered reports whether storage-attached indexes find ranges of values of a type. It excludes the types for which
// Cassandra's storage-attached indexes reject ranges.
func ordered(t *types.Type) bool {
	switch t.Kind() {
	case types.Text, types.Ascii, types.Boolean:
		return false
	}
	return !t.Kind().IsCollection() && t.Kind() != types.UDT && t.Kind() != types.Tuple && t.Kind() != types.Vector
}

// findsElement reports whether an index finds the rows whose collection matches an operator. CONTAINS needs a
// multi-cell collection, because the terms of an index on a frozen one are whole values.
func findsElement(ix *schema.Index, c *schema.Column, o cql.Operator) bool {
	switch o {
	// A list or set is indexed by its elements; a map has an index on its values.
	case cql.Contains:
		return ix.Target == schema.IndexValues && c.Type.MultiCell() || ix.Target == schema.IndexSimple &&
			c.Type.MultiCell()
	case cql.ContainsKey:
		return ix.Target == schema.IndexKeys
	// m[key] = value needs an index whose terms contain the key and the value.
	case cql.Equal:
		return ix.Target == schema.IndexEntries
	}
	return false
}

// findIndexes determines which restrictions indexes can find. The order of the lists ranks parts of equal rank.
func (rs rules) findIndexes() {
	for _, list := range [][]*restriction{rs.partition, rs.clustering, rs.other, rs.extra} {
		for _, r := range list {
			if r != nil {
				rs.indexed = rs.supporting(r, rs.indexed)
			}
		}
	}
}

// equalsVector reports whether a vector with an index is restricted by =. Cassandra does not support this search, but
// considers the column indexed, which changes the error.
func (rs rules) equalsVector() bool {
	return slices.ContainsFunc(rs.other, func(r *restriction) bool {
		return r.kind == kindEqual && r.first().Type.Kind() == types.Vector &&
			slices.ContainsFunc(rs.table.Indexes(), func(ix *schema.Index) bool {
				return ix.Column == r.first().ID &&
					ix.Class == schema.SAI
			})
	})
}

// queriable reports whether an index finds a restriction, so that it could be queried (Cassandra's term). The
// statement may still not use it.
func (rs *Set) queriable() bool { return len(rs.indexed) > 0 || rs.findsVector }

// queriableClustering reports whether an index finds a restriction of clustering columns.
func (rs *Set) queriableClustering() bool {
	return slices.ContainsFunc(rs.indexed, func(p indexedPart) bool { return p.of.first().Kind == schema.Clustering })
}

// needsFiltering reports whether Cassandra would filter rows, regardless of how cqld finds them. Cassandra does not
// filter if an index finds each restriction in rs.expected and, unless storage-attached indexes find all of them,
// only one column is restricted, with at most one CONTAINS. A statement uses only one legacy or SASI index, so a
// second column needs a filter. For example, a = 1 AND b = 2 with two legacy indexes needs ALLOW FILTERING, and with
// two storage-attached indexes does not.
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

// found reports whether indexes, or only storage-attached ones, find all columns of a restriction. For several
// restrictions on the elements of a collection, one suffices. For a restriction of several columns, an index must
// find each column.
func (rs *Set) found(r *restriction, attached bool) bool {
	// found is indexed by position in r.columns.
	found := make([]bool, len(r.columns))
	for _, p := range rs.indexed {
		if p.of == r && (p.index.Class == schema.SAI || !attached) {
			found[p.column] = true
		}
	}
	return !slices.Contains(found, false)
}

// chooseIndexes determines the indexes that can find the rows. It also considers restrictions that Cassandra only
// filters: IN, and OR as a union of indexes on its branches. WHERE is evaluated on the rows found, so an index may
// find too many rows, but never too few. It keeps at most candidatesMax candidates, because each execution may count
// their entries.
func (rs rules) chooseIndexes() {
	rs.analyze()
	// WHERE names the rows, so no search can be cheaper.
	if rs.exactRows() || rs.writes {
		return
	}
	var parts []indexedPart
	// Add the parts that Cassandra could use, except ranges of several columns, which are not an interval of one
	// column's terms.
	if rs.usesIndex {
		parts = slices.DeleteFunc(slices.Clone(rs.indexed),
			func(p indexedPart) bool { return p.of.multi && p.of.kind == kindSlice || p.misses() })
	}
	for _, r := range rs.filters {
		parts = rs.supportingList(r, parts)
		if union := rs.unionOf(r); len(union) > 0 {
			// The first part represents the union, and a search includes the others.
			union[0].union = union[1:]
			parts = append(parts, union[0])
		}
	}
	// The sort is stable, so parts of equal rank keep the order of the restrictions.
	slices.SortStableFunc(parts, func(a, b indexedPart) int { return a.rank() - b.rank() })
	rs.candidates = parts[:min(len(parts), candidatesMax)]
}

// supportingList appends the parts of an IN that indexes find. Cassandra filters IN, so these parts are not in
// rs.indexed, which only Cassandra's rules use. Indexes with analyzers are excluded, because IN compares values.
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

// exactRows reports whether WHERE names all rows by their complete keys. Reading these rows is never more expensive
// than an index search.
func (rs rules) exactRows() bool {
	return !rs.KeyRange && rs.WholeRows() && len(rs.table.Clustering) > 0
}

// UsesIndex reports whether, by Cassandra's rules, an index is used. Index may still be nil, if WHERE names the rows.
// The rules of ORDER BY and ALLOW FILTERING depend on it, whether or not an index is searched.
func (rs *Set) UsesIndex() bool { return rs.usesIndex }

// Index returns the first candidate among the indexes that can find the rows, or nil if there is none. ChooseIndex
// selects the candidate for each execution, so an execution may use another index.
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
	// An interval is half open: Start is included, End is not; a nil End is unbounded. After returns the least term
	// after its argument.
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

// checkSize returns an error if a value of n bytes exceeds the largest term of Cassandra's legacy indexes.
func (p *indexedPart) checkSize(n int) error {
	// The length of a legacy index's partition key has 16 bits in Cassandra.
	if p.index.Class == schema.LegacyIndex && n > math.MaxUint16 {
		return invalid.Errorf("Index expression values may not be larger than 64K")
	}
	return nil
}

// term appends the term of a value. If an analyzer splits the value into several terms, all of which a row must have,
// it appends one, and the filter checks the others. A value without terms is its own term.
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
		err = p.checkSize(len(x.key) + len(x.value) + schema.IndexEntryBytes)
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

// listTerms returns the terms of the values of IN. It omits null, which matches nothing, sorts the terms and removes
// duplicates. The bound on IN lists bounds the number of terms.
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
// finds text within terms, by scanning all terms. Cassandra's errors contain the form of the pattern. In short:
//
//	'ab'    the term ab            'ab%'   the terms from ab to before the next prefix
//	'%ab'   all terms, filtered    '%ab%'  all terms, filtered; both need the mode CONTAINS
func (p *indexedPart) patternTerms(s *term.Scope, col *schema.Column) ([]row.Slice, error) {
	x, err := p.of.evalPattern(s)
	if err != nil {
		return nil, err
	}
	// The filter evaluates ILIKE on the rows, so the interval only has to contain all matches.
	if x.folded {
		return []row.Slice{x.foldedTerms(col.Type)}, nil
	}
	contains := strings.EqualFold(p.index.Options[indexclass.OptionMode], "CONTAINS")
	// Cassandra rejects this form for an analyzer that splits values.
	if p.analyzer != nil && contains && p.analyzer.Divides() && x.end && !x.begin {
		return nil, invalid.Errorf("%s LIKE '<term>%%' %s is only supported on properly indexed columns", col.Name,
			x.text)
	}
	// A pattern is a single term, even for an analyzer that splits values.
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

// termsWithPrefix returns the interval of the terms of texts that begin with prefix. An empty prefix gives the
// interval of all texts.
func termsWithPrefix(t *types.Type, prefix []byte) row.Slice {
	b := t.AppendOrdered(nil, prefix, false)
	// The ordered form of a text is a tag, its bytes and a terminator. The forms of longer texts with the same prefix
	// begin with the same tag and bytes, so cut the terminator. Its length is the length of the ordered form of "a"
	// without the tag and the byte of a.
	end := len(b) - (len(t.AppendOrdered(nil, []byte{'a'}, false)) - 2)
	return row.Slice{Start: b[:end:end], End: row.After(b[:end:end])}
}

// foldedTerms returns an interval of lower-case terms that contains the terms of all matching texts. It uses only the
// leading ASCII characters of the pattern, because the lower case of some characters depends on the next one (Σ), and
// characters can be composed. It stops at i, which also is the first of the two characters of İ in lower case. The
// interval may contain other texts, which the filter drops. For example, ILIKE 'Straße%' has the text straße, and the
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

// refuseExpression returns the error for expr(index, …): no class of indexes here has a query language. The grammar
// accepts the relation because some of Cassandra's index classes have one.
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
