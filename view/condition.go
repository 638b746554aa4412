package view

import (
	"bytes"
	"math"
	"slices"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// condition is a schema.ViewCondition on key columns of the base table, with what evaluates it. A tuple such as (a, b)
// > (1, 2) has two columns and two values; IN has the values of its alternatives one after the other.
type condition struct {
	operator schema.ViewOperator
	columns  []*schema.Column
	values   [][]byte
}

// newCondition returns a condition on a base table.
func newCondition(base *schema.Table, c *schema.ViewCondition) condition {
	// Decoded once: a Mapper evaluates it for each row.
	out := condition{operator: c.Operator, values: c.Values}
	for _, id := range c.Columns {
		out.columns = append(out.columns, base.ColumnByID(id))
	}
	return out
}

// satisfied evaluates the condition on the row that m has decoded. As elsewhere in CQL, null satisfies no condition. m
// must have decoded a row (Mapper.decode).
func (c *condition) satisfied(m *Mapper) bool {
	n := len(c.columns)
	// IN is null only for the alternative that contains the null.
	if c.operator != schema.ViewIn && slices.ContainsFunc(c.values, func(v []byte) bool { return v == nil }) {
		return false
	}
	switch c.operator {
	case schema.ViewIn:
		// The alternatives follow one another, each with a value for every column.
		for i := 0; i+n <= len(c.values); i += n {
			in := c.values[i : i+n]
			if !slices.ContainsFunc(in, func(v []byte) bool { return v == nil }) && c.compare(m, in) == 0 {
				return true
			}
		}
		return false
	case schema.ViewContains:
		return c.columns[0].Type.Contains(m.keyValue(c.columns[0]), c.values[0])
	case schema.ViewContainsKey:
		_, ok := c.columns[0].Type.Lookup(m.keyValue(c.columns[0]), c.values[0])
		return ok
	}
	switch order := c.compare(m, c.values); c.operator {
	case schema.ViewLess:
		return order < 0
	case schema.ViewLessOrEqual:
		return order <= 0
	case schema.ViewGreater:
		return order > 0
	case schema.ViewGreaterOrEqual:
		return order >= 0
	default:
		return order == 0
	}
}

// compare compares the columns, as a tuple, with values. Cassandra compares the columns of a tuple from the left, too.
func (c *condition) compare(m *Mapper, values [][]byte) int {
	// The order of values, not of clusterings: DESC does not invert it.
	for i, column := range c.columns {
		if order := column.Type.Compare(m.keyValue(column), values[i]); order != 0 {
			return order
		}
	}
	return 0
}

// keyValue returns the value of a key column of the base row.
func (m *Mapper) keyValue(column *schema.Column) []byte {
	// Conditions are on key columns, so the cell of the additional column is not needed.
	return m.value(&part{kind: column.Kind, position: column.Position})
}

// places returns the terms of the rows that a command reads in a view, as ascending and disjoint intervals. One
// partition with the slices [a, b) and [d, e) gives two intervals that begin with its place:
//
//	token │ length │ key │ a  to  token │ length │ key │ b
//	token │ length │ key │ d  to  token │ length │ key │ e
func places(cmd *row.ReadCommand) []row.Slice {
	if !cmd.SinglePartition() {
		s := row.Slice{}
		// Ranges of tokens are (start, end], slices of terms [start, end).
		if tokens := cmd.Range.Tokens; tokens.Start != tokens.End {
			// A view may have a partition with an empty key, whose token is the least.
			if s.Start = appendToken(nil, tokens.Start+1); tokens.Start == ring.MinToken {
				s.Start = nil
			}
		}
		if end := cmd.Range.Tokens.End; end != ring.MinToken && end != ring.Token(math.MaxInt64) {
			s.End = appendToken(nil, end+1)
		}
		if after := cmd.Range.After; after != nil {
			// 0xFF skips the rows of this partition. readsPartition excludes those that sort after it.
			if behind := append(AppendTerm(nil, *after, nil), 0xFF); bytes.Compare(behind, s.Start) > 0 {
				s.Start = behind
			}
		}
		if s.Empty() {
			return nil
		}
		return []row.Slice{s}
	}
	// One partition: its slices are slices of terms with a common prefix.
	prefix := AppendTerm(nil, cmd.Key, nil)
	var out []row.Slice
	for _, c := range cmd.Slices {
		// Without an end, a slice reaches to the end of the partition.
		s := row.Slice{Start: append(bytes.Clone(prefix), c.Start...), End: row.After(prefix)}
		if c.End != nil {
			s.End = append(bytes.Clone(prefix), c.End...)
		}
		if !c.Empty() {
			out = append(out, s)
		}
	}
	checkPlaces(out)
	return out
}
