package row

import (
	"bytes"
	"cmp"
	"slices"

	"cqld/schema"
	"cqld/types"
)

// FilterOperator is the comparison of a Condition.
type FilterOperator uint8

// The operators. A null value satisfies none of them.
const (
	FilterEqual FilterOperator = iota + 1
	FilterLess
	FilterLessOrEqual
	FilterGreater
	FilterGreaterOrEqual
	// FilterIn is satisfied by any of the values.
	FilterIn
	// FilterContains is satisfied by a list or set with the element, and by a map with the value.
	FilterContains
	// FilterContainsKey is satisfied by a map with the key.
	FilterContainsKey
	// FilterEntry is satisfied by a map in which the key Values[0] has the value Values[1].
	FilterEntry
)

// Condition compares one column with constants.
type Condition struct {
	Kind     schema.ColumnKind
	Column   schema.ColumnID // id of a static or regular column
	Position int             // position of a partition key or clustering column
	Operator FilterOperator
	// Type is the type of the column, which compares values.
	Type   *types.Type
	Values [][]byte // in wire form, none of them null; one unless the operator is FilterIn or FilterEntry
}

// OnKey reports whether the condition is on a column of the primary key. All versions of a row have the same key, so
// all replicas evaluate such a condition alike.
func (c *Condition) OnKey() bool { return c.Kind == schema.PartitionKey || c.Kind == schema.Clustering }

// ClusteringColumn is the type and the direction of a clustering column.
type ClusteringColumn struct {
	Type *types.Type
	Desc bool
}

// Filter is a conjunction of conditions on rows. A replica omits the following from a page:
//
//   - a partition, with its tombstones, if a condition on the partition key or on a static column fails;
//   - a row, also a deleted one, if a condition on a clustering column fails;
//   - a live row if a condition on a regular column fails.
//
// Conditions on static and regular columns depend on the version of the row. Only a replica whose answer is returned to
// the client without a merge may evaluate them: among several replicas, the version that does not match may be the
// newest one. The coordinator therefore sends only KeyConditions to the others, and replicas need not know how many
// replicas answer.
//
// A filter refers to columns by number and contains their types, so that a replica evaluates it without its schema.
type Filter struct {
	Conditions []Condition
	// PartitionKey is the number of columns of the partition key.
	PartitionKey int
	// Clustering contains the clustering columns up to the last one that has a condition.
	Clustering []ClusteringColumn
	// Decisive means that the answer of one replica is returned without a merge. The replica then also omits
	// partitions without remaining rows and tombstones.
	Decisive bool
}

// Supports reports whether replicas can evaluate the condition.
func (c *Condition) Supports() bool {
	if len(c.Values) > filterValuesMax || slices.ContainsFunc(c.Values, func(v []byte) bool { return v == nil }) ||
		!encodableType(c.Type, filterTypeDepthMax) {
		return false
	}
	// Contains and the other operators on elements need a type with elements.
	switch c.Operator {
	case FilterContains:
		return c.Type.Kind().IsCollection()
	case FilterContainsKey, FilterEntry:
		return c.Type.Kind() == types.Map
	}
	return !c.Type.MultiCell() && c.Type.Kind() != types.Counter
}

// Add adds a condition that Supports allows, and reports whether the filter has space for it. After false, the
// coordinator evaluates the condition on the rows that replicas return.
func (f *Filter) Add(c Condition) bool {
	if len(f.Conditions) >= filterConditionsMax {
		return false
	}
	f.Conditions = append(f.Conditions, c)
	return true
}

// KeyConditions returns the filter with the conditions on the primary key only, or nil if there is none. The result
// shares memory with f. Decisive is not set, because several answers are merged.
func (f *Filter) KeyConditions() *Filter {
	if f == nil || !slices.ContainsFunc(f.Conditions, func(c Condition) bool { return c.OnKey() }) {
		return nil
	}
	// The lists of columns are shared: a filter is not modified once it is used.
	keys := &Filter{PartitionKey: f.PartitionKey, Clustering: f.Clustering}
	for i := range f.Conditions {
		if c := &f.Conditions[i]; c.OnKey() {
			keys.Conditions = append(keys.Conditions, *c)
		}
	}
	return keys
}

// OnKey reports whether all conditions are on columns of the primary key.
func (f *Filter) OnKey() bool {
	return !slices.ContainsFunc(f.Conditions, func(c Condition) bool { return !c.OnKey() })
}

// Clone returns a copy of f that shares only types with it.
func (f *Filter) Clone() *Filter {
	if f == nil {
		return nil
	}
	own := *f
	own.Clustering = slices.Clone(f.Clustering)
	own.Conditions = slices.Clone(f.Conditions)
	for i := range own.Conditions {
		c := &own.Conditions[i]
		c.Values = slices.Clone(c.Values)
		for j := range c.Values {
			c.Values[j] = bytes.Clone(c.Values[j])
		}
	}
	return &own
}

// FilterMatcher evaluates a Filter. It is reused by Reset, and is not safe for concurrent use.
type FilterMatcher struct {
	f   *Filter
	now int64 // seconds

	// These report which methods have conditions to evaluate.
	onPartition, onClustering, onRow bool

	// nil for a condition that compares values.
	paths  [][]byte // by condition: the path of the element of a multi-cell column that it names
	memory []byte   // of paths
	value  []byte   // of one decoded component
	parts  [][]byte // of one clustering

	regular []int // conditions on regular columns, in the order of the columns
	static  []int // those on static columns
	open    []int // conditions that no cell of the row has satisfied yet
}

// Reset prepares m for a filter, which may be nil. now, in seconds, determines which cells are live.
func (m *FilterMatcher) Reset(f *Filter, now int64) {
	m.f, m.now = f, now
	m.onPartition, m.onClustering, m.onRow = false, false, false
	m.paths, m.memory, m.regular, m.static = m.paths[:0], m.memory[:0], m.regular[:0], m.static[:0]
	if f == nil {
		return
	}
	for i := range f.Conditions {
		c := &f.Conditions[i]
		switch c.Kind {
		case schema.PartitionKey:
			m.onPartition = true
		case schema.Static:
			m.onPartition = true
			m.static = append(m.static, i)
		case schema.Clustering:
			m.onClustering = true
		default:
			m.onRow = true
			m.regular = append(m.regular, i)
		}
		// Compute paths once, not for each row.
		m.paths = append(m.paths, m.path(c))
	}
	byColumn := func(i, j int) int { return cmp.Compare(f.Conditions[i].Column, f.Conditions[j].Column) }
	// Sort in the order of the cells, so that one pass over a row suffices.
	slices.SortStableFunc(m.regular, byColumn)
	slices.SortStableFunc(m.static, byColumn)
}

// path returns the path of the element that a condition names, or nil if it names none by its path.
func (m *FilterMatcher) path(c *Condition) []byte {
	// The element of a set and the key of a map are the path of a cell; the element of a list is its value.
	byPath := c.Operator == FilterContainsKey || c.Operator == FilterEntry ||
		c.Operator == FilterContains && c.Type.Kind() == types.Set
	if !byPath || !c.Type.MultiCell() {
		return nil
	}
	from := len(m.memory)
	m.memory = c.Type.Elems()[0].AppendOrdered(m.memory, c.Values[0], false)
	return m.memory[from:len(m.memory):len(m.memory)]
}

// Active reports whether there is a filter.
func (m *FilterMatcher) Active() bool { return m.f != nil }

// Partition evaluates the conditions on the partition key and on static columns. header contains the static cells that
// are not deleted.
func (m *FilterMatcher) Partition(key PartitionKey, header *Row) bool {
	if !m.key(key) {
		return false
	}
	for _, i := range m.static {
		if !m.cells(&m.f.Conditions[i], m.paths[i], header) {
			return false
		}
	}
	return true
}

// EncodedPartition is Partition for an encoded header. Its memory does not depend on the size of collections.
func (m *FilterMatcher) EncodedPartition(s *Streamer, key PartitionKey, header []byte) (bool, error) {
	if !m.key(key) {
		return false, nil
	}
	return m.encoded(s, header, m.static)
}

// key evaluates the conditions on the partition key.
func (m *FilterMatcher) key(key PartitionKey) bool {
	if !m.onPartition {
		return true
	}
	for i := range m.f.Conditions {
		c := &m.f.Conditions[i]
		if c.Kind != schema.PartitionKey {
			continue
		}
		// A key with too few bytes does not belong to the table and matches no condition.
		if v, ok := keyComponent(key.Bytes, c.Position, m.f.PartitionKey); !ok || !c.compares(v) {
			return false
		}
	}
	return true
}

// Clustering evaluates the conditions on clustering columns.
func (m *FilterMatcher) Clustering(clustering []byte) bool {
	if !m.onClustering {
		return true
	}
	rest := clustering
	m.value, m.parts = m.value[:0], m.parts[:0]
	for _, column := range m.f.Clustering {
		from := len(m.value)
		// All components up to the last one with a condition are decoded, because each begins where the previous ends.
		value, after, err := column.Type.ConsumeOrdered(m.value, rest, column.Desc)
		if err != nil {
			return true // not a clustering of this table; leave the row to the coordinator
		}
		rest = after
		// A null component satisfies no condition.
		if value == nil {
			m.parts = append(m.parts, nil)
			continue
		}
		m.value = value
		m.parts = append(m.parts, value[from:len(value):len(value)])
	}
	for i := range m.f.Conditions {
		c := &m.f.Conditions[i]
		if c.Kind == schema.Clustering && (m.parts[c.Position] == nil || !c.compares(m.parts[c.Position])) {
			return false
		}
	}
	return true
}

// Row evaluates the conditions on regular columns. r contains no cells that are deleted by a deletion of wider scope.
func (m *FilterMatcher) Row(r *Row) bool {
	if !m.onRow {
		return true
	}
	for i := range m.f.Conditions {
		if c := &m.f.Conditions[i]; c.Kind == schema.Regular && !m.cells(c, m.paths[i], r) {
			return false
		}
	}
	return true
}

// cells reports whether the live cells of the condition's column satisfy it.
func (m *FilterMatcher) cells(c *Condition, path []byte, r *Row) bool {
	multiple := c.Type.MultiCell()
	for i := range r.Cells {
		cell := &r.Cells[i]
		switch {
		case cell.Column < c.Column:
			continue
		// Cells are in the order of columns, so the column has none.
		case cell.Column > c.Column:
			return false
		case m.cell(c, path, cell):
			return true
		// The only cell of the column does not match.
		case !multiple:
			return false
		}
	}
	return false
}

// cell reports whether a cell of the condition's column satisfies it.
func (m *FilterMatcher) cell(c *Condition, path []byte, cell *Cell) bool {
	if c.Type.MultiCell() {
		return cell.Live(m.now) && c.element(path, cell)
	}
	return cell.Live(m.now) && c.compares(notNull(cell.Value))
}

// Encoded is Row for an encoded row. It visits the cells one by one and retains none, so its memory does not grow
// with collections.
func (m *FilterMatcher) Encoded(s *Streamer, encoded []byte) (bool, error) {
	return m.encoded(s, encoded, m.regular)
}

// encoded evaluates conditions, which are in the order of the columns, on an encoded row.
func (m *FilterMatcher) encoded(s *Streamer, encoded []byte, conditions []int) (bool, error) {
	if len(conditions) == 0 {
		return true, nil
	}
	// open contains the conditions that no cell has satisfied yet. The pass ends when it is empty.
	m.open = append(m.open[:0], conditions...)
	for s.a.begin(&s.heads[0], encoded); s.a.ok && len(m.open) > 0; s.a.next() {
		// The pass is beyond the column of the first open condition, which is therefore not satisfied.
		if m.f.Conditions[m.open[0]].Column < s.a.Column || !m.visit(&s.a.Cell) {
			return false, s.a.c.Err()
		}
	}
	return len(m.open) == 0, s.a.c.Err()
}

// visit removes the open conditions that a cell satisfies. It returns false if the cell is the only one of its column
// and does not satisfy a condition.
func (m *FilterMatcher) visit(cell *Cell) bool {
	// Filter in place; left never overtakes the index of the loop.
	left := m.open[:0]
	for k, i := range m.open {
		c := &m.f.Conditions[i]
		if c.Column != cell.Column {
			// Conditions are sorted by column, so none after this one is about the cell.
			left = append(left, m.open[k:]...)
			break
		}
		if m.cell(c, m.paths[i], cell) {
			continue
		}
		if !c.Type.MultiCell() {
			return false
		}
		left = append(left, i)
	}
	m.open = left
	return true
}

// element reports whether a cell of a multi-cell collection satisfies the condition.
func (c *Condition) element(path []byte, cell *Cell) bool {
	// The condition names one element, and this cell is another.
	if path != nil && !bytes.Equal(cell.Path, path) {
		return false
	}
	elems := c.Type.Elems()
	switch {
	case c.Operator == FilterEntry:
		return elems[1].Compare(notNull(cell.Value), c.Values[1]) == 0
	// The path is equal, which is the whole condition.
	case path != nil:
		return true
	}
	// The last element type is the one of values: a list has one, a map has two.
	return elems[len(elems)-1].Compare(notNull(cell.Value), c.Values[0]) == 0
}

// compares reports whether a value in wire form, which is not null, satisfies the condition.
func (c *Condition) compares(v []byte) bool {
	switch c.Operator {
	case FilterContains:
		return c.Type.Contains(v, c.Values[0])
	case FilterContainsKey:
		_, ok := c.Type.Lookup(v, c.Values[0])
		return ok
	case FilterEntry:
		found, ok := c.Type.Lookup(v, c.Values[0])
		return ok && c.Type.Elems()[1].Compare(found, c.Values[1]) == 0
	case FilterIn:
		return slices.ContainsFunc(c.Values, func(x []byte) bool { return c.Type.Compare(v, x) == 0 })
	}
	// The remaining operators compare by the order of the type.
	n := c.Type.Compare(v, c.Values[0])
	switch c.Operator {
	case FilterLess:
		return n < 0
	case FilterLessOrEqual:
		return n <= 0
	case FilterGreater:
		return n > 0
	case FilterGreaterOrEqual:
		return n >= 0
	}
	return n == 0
}

// notNull returns b, or an empty value instead of nil.
func notNull(b []byte) []byte {
	if b == nil {
		return emptyValue
	}
	return b
}
