package query

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"

	"cqld/cql"
	"cqld/cql/types"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// describe answers DESCRIBE, by pages.
func (p *Processor) describe(_ context.Context, s *Session, stmt *cql.Describe, params *Params) (*Result, error) {
	d := &describer{schema: p.o.View.Schema(), topology: p.o.View.Topology(), cluster: p.o.ClusterName,
		keyspace: s.Keyspace, internals: stmt.Internals}
	if params.Keyspace != "" {
		d.keyspace = params.Keyspace
	}
	if err := d.describe(stmt); err != nil {
		return nil, err
	}
	return d.page(params)
}

// describer collects the rows of one DESCRIBE from one snapshot.
type describer struct {
	schema    *schema.Schema
	topology  *ring.Topology
	cluster   string
	keyspace  string // in use
	internals bool

	columns []Column
	rows    [][][]byte
}

// describe fills in the columns and rows.
func (d *describer) describe(stmt *cql.Describe) error {
	switch stmt.Kind {
	case cql.DescribeCluster:
		return d.describeCluster()
	case cql.DescribeKeyspaces, cql.DescribeTables, cql.DescribeTypes, cql.DescribeFunctions, cql.DescribeAggregates:
		d.textColumns("keyspace_name", "type", "name")
		return d.list(stmt.Kind)
	}
	d.textColumns("keyspace_name", "type", "name", "create_statement")
	if stmt.Kind == cql.DescribeSchema {
		for _, name := range ignoringCase(d.schema.KeyspaceNames()) {
			if stmt.Full || !schema.IsSystem(name) {
				d.addKeyspace(d.schema.Keyspace(name), false)
			}
		}
		return nil
	}
	return d.element(stmt)
}

func (d *describer) textColumns(names ...string) {
	for _, name := range names {
		d.columns = append(d.columns, describeColumn(name, types.Native(types.Text)))
	}
}

// describeColumn is a column of the table that Cassandra says the rows are from.
func describeColumn(name string, t *types.Type) Column {
	return Column{Keyspace: "system", Table: "describe", Name: name, Type: t}
}

func (d *describer) addRow(values ...string) {
	row := make([][]byte, len(values))
	for i, v := range values {
		row[i] = []byte(v)
	}
	d.rows = append(d.rows, row)
}

// list names the keyspaces; or the tables or types of the keyspace in use, or else of all.
func (d *describer) list(kind cql.DescribeKind) error {
	keyspaces := ignoringCase(d.schema.KeyspaceNames())
	if kind == cql.DescribeKeyspaces {
		for _, name := range keyspaces {
			d.addRow(types.QuoteName(name), "keyspace", types.QuoteName(name))
		}
		return nil
	}
	if d.keyspace != "" {
		keyspaces = []string{d.keyspace}
	}
	for _, keyspace := range keyspaces {
		k := d.schema.Keyspace(keyspace)
		if k == nil {
			return notInKeyspaces(keyspace)
		}
		switch kind {
		case cql.DescribeTables:
			for _, name := range ignoringCase(k.TableNames()) {
				d.addRow(types.QuoteName(keyspace), "table", types.QuoteName(name))
			}
		case cql.DescribeTypes:
			for _, name := range ignoringCase(k.TypeNames()) {
				d.addRow(types.QuoteName(keyspace), "type", types.QuoteName(name))
			}
		}
	}
	return nil
}

// ignoringCase sorts names as Cassandra lists them.
func ignoringCase(names []string) []string {
	slices.SortStableFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	return names
}

func notInKeyspaces(name string) error { return invalidf("'%s' not found in keyspaces", name) }

// element describes what one name stands for.
func (d *describer) element(stmt *cql.Describe) error {
	name := stmt.Name
	if stmt.Kind == cql.DescribeKeyspace {
		if name.Name == "" {
			name.Name = d.keyspace
		}
		if name.Name == "" {
			return noKeyspace()
		}
		k := d.schema.Keyspace(name.Name)
		if k == nil {
			return notInKeyspaces(name.Name)
		}
		d.addKeyspace(k, stmt.Only)
		return nil
	}
	if stmt.Kind == cql.DescribeGeneric && name.Keyspace == "" {
		if k := d.schema.Keyspace(name.Name); k != nil {
			d.addKeyspace(k, false)
			return nil
		}
		if d.keyspace == "" {
			return notInKeyspaces(name.Name)
		}
	}
	keyspace := name.Keyspace
	if keyspace == "" {
		keyspace = d.keyspace
	}
	if keyspace == "" {
		return noKeyspace()
	}
	k := d.schema.Keyspace(keyspace)
	if k == nil {
		return notInKeyspaces(keyspace)
	}
	return d.elementOf(k, stmt.Kind, name.Name)
}

func noKeyspace() error { return invalidf("No keyspace specified and no current keyspace") }

// elementOf describes an element of a keyspace.
func (d *describer) elementOf(k *schema.Keyspace, kind cql.DescribeKind, name string) error {
	switch kind {
	case cql.DescribeTable, cql.DescribeGeneric:
		if t := k.Table(name); t != nil {
			d.addTable(k, t)
			return nil
		}
		if kind == cql.DescribeTable {
			return invalidf("Table '%s' not found in keyspace '%s'", name, k.Name)
		}
		return invalidf("'%s' not found in keyspace '%s'", name, k.Name)
	case cql.DescribeType:
		if t := k.Type(name); t != nil {
			d.addType(k, t)
			return nil
		}
		return invalidf("User defined type '%s' not found in '%s'", name, k.Name)
	case cql.DescribeIndex:
		return invalidf("Table for existing index '%s' not found in '%s'", name, k.Name)
	case cql.DescribeMaterializedView:
		return invalidf("Materialized view '%s' not found in '%s'", name, k.Name)
	case cql.DescribeFunction:
		return invalidf("User defined function '%s' not found in '%s'", name, k.Name)
	case cql.DescribeAggregate:
		return invalidf("User defined aggregate '%s' not found in '%s'", name, k.Name)
	}
	return NotSupported("This DESCRIBE")
}

// addKeyspace adds a keyspace, and what is in it unless only it is wanted.
func (d *describer) addKeyspace(k *schema.Keyspace, only bool) {
	d.addRow(types.QuoteName(k.Name), "keyspace", types.QuoteName(k.Name), keyspaceText(k))
	if only {
		return
	}
	for _, t := range typesInOrder(k) {
		d.addType(k, t)
	}
	for _, name := range ignoringCase(k.TableNames()) {
		d.addTable(k, k.Table(name))
	}
}

func (d *describer) addType(k *schema.Keyspace, t *types.Type) {
	d.addRow(types.QuoteName(k.Name), "type", types.QuoteName(t.UDTName()), typeText(t))
}

func (d *describer) addTable(k *schema.Keyspace, t *schema.Table) {
	d.addRow(types.QuoteName(k.Name), "table", types.QuoteName(t.Name), tableText(k, t, d.internals))
}

// typesInOrder are the types of k, each after those it is made of.
func typesInOrder(k *schema.Keyspace) []*types.Type {
	var ordered []*types.Type
	placed := map[string]bool{}
	var place func(t *types.Type)
	place = func(t *types.Type) {
		if t.Kind() == types.UDT && placed[t.UDTName()] {
			return
		}
		for _, e := range t.Elems() {
			place(e)
		}
		if t.Kind() == types.UDT {
			placed[t.UDTName()] = true
			ordered = append(ordered, k.Type(t.UDTName()))
		}
	}
	for _, name := range ignoringCase(k.TypeNames()) {
		place(k.Type(name))
	}
	return ordered
}

// describeCluster describes the ring, and with a user's keyspace in use who holds its ranges.
func (d *describer) describeCluster() error {
	d.textColumns("cluster", "partitioner", "snitch")
	d.addRow(d.cluster, "Murmur3Partitioner", "DynamicEndpointSnitch")
	k := d.schema.Keyspace(d.keyspace)
	if k == nil || schema.IsSystem(d.keyspace) {
		return nil
	}
	text := types.Native(types.Text)
	d.columns = append(d.columns, describeColumn("range_ownership", types.NewMap(text, types.NewList(text, true), true)))
	d.rows[0] = append(d.rows[0], d.ownership(k))
	return nil
}

// ownership is a map from the token that ends a range to the addresses of its replicas.
func (d *describer) ownership(k *schema.Keyspace) []byte {
	placement := d.topology.Placement(k.Replication)
	type entry struct {
		token string
		value []byte
	}
	var entries []entry
	for _, token := range d.topology.Tokens() {
		replicas := placement.Replicas(token).Natural
		list := wire.AppendInt32(nil, int32(len(replicas)))
		for _, id := range replicas {
			list = wire.AppendBytes(list, []byte("/"+d.topology.Node(id).Internode.String()))
		}
		entries = append(entries, entry{token.String(), list})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.token, b.token) })
	out := wire.AppendInt32(nil, int32(len(entries)))
	for _, e := range entries {
		out = wire.AppendBytes(out, []byte(e.token))
		out = wire.AppendBytes(out, e.value)
	}
	return out
}

// describeStateFormat marks a paging state of DESCRIBE: the version of the schema that the pages
// before were made from, and how many rows they had.
const describeStateFormat = 0xD1

// page cuts the page out of the rows that params asks for.
func (d *describer) page(params *Params) (*Result, error) {
	from := 0
	version := d.schema.Version()
	if params.PagingState != nil {
		state := params.PagingState
		if len(state) != 1+16+4 || state[0] != describeStateFormat {
			return nil, &BadRequest{Msg: "Invalid value for the paging state"}
		}
		if !bytes.Equal(state[1:17], version[:]) {
			return nil, invalidf("The schema has changed since the previous page of the DESCRIBE statement result. " +
				"Please retry the DESCRIBE statement.")
		}
		from = min(int(binary.BigEndian.Uint32(state[17:])), len(d.rows))
	}
	until := len(d.rows)
	var next []byte
	if size := int(params.PageSize); size > 0 && from+size < until {
		until = from + size
		next = append([]byte{describeStateFormat}, version[:]...)
		next = wire.AppendUint32(next, uint32(until))
	}
	var out []byte
	for _, row := range d.rows[from:until] {
		for _, value := range row {
			out = wire.AppendBytes(out, value)
		}
	}
	return &Result{Kind: KindRows, Metadata: &Metadata{Columns: d.columns}, RowCount: int32(until - from), Rows: out,
		PagingState: next}, nil
}
