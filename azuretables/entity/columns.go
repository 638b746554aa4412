package entity

import (
	"math"
	"strings"
	"sync"

	"cqld/azuretables/odata"
	"cqld/schema"
	"cqld/types"
)

// A property p is stored in column p, with the CQL type of the property's type. If column p has another type, the
// property is stored in column p@Edm.Type. Column p@ticks stores the part of a DateTime below a millisecond. Names of
// columns are case-sensitive, as names of properties are. For example:
//
//	property "n" Int32, later "n" String      columns n int, n@Edm.String text
//	property "t" DateTime with 0.0001234 s    columns t timestamp, t@ticks smallint
const (
	separator   = "@"
	ticksSuffix = "@ticks"
)

// typesCount is the size of an array indexed by odata.Type, whose values begin at 1. Index 0 is unused.
const typesCount = int(odata.Int64) + 1

// typeSuffix returns the suffix of a column p@Edm.Type. The names are the EDM names, as in odata.type.
func typeSuffix(t odata.Type) string { return separator + t.String() }

// cqlType returns the CQL type that stores values of t without loss. Every type of the service has one. It determines
// the columns that are created.
func cqlType(t odata.Type) *types.Type {
	switch t {
	case odata.String:
		return types.Native(types.Text)
	case odata.Binary:
		return types.Native(types.Blob)
	case odata.Boolean:
		return types.Native(types.Boolean)
	case odata.DateTime:
		return types.Native(types.Timestamp)
	case odata.Double:
		return types.Native(types.Double)
	case odata.GUID:
		return types.Native(types.UUID)
	case odata.Int32:
		return types.Native(types.Int)
	}
	// The last one is Int64.
	return types.Native(types.Bigint)
}

// shownAs returns the type of properties for values of a CQL type. CQL types without a counterpart are shown as text:
// decimal as digits, collections as JSON.
func shownAs(t *types.Type) odata.Type {
	switch t.Kind() {
	case types.Blob:
		return odata.Binary
	case types.Boolean:
		return odata.Boolean
	case types.Timestamp:
		return odata.DateTime
	case types.Double, types.Float:
		return odata.Double
	case types.UUID, types.Timeuuid:
		return odata.GUID
	case types.Int, types.Smallint, types.Tinyint:
		return odata.Int32
	case types.Bigint, types.Counter:
		return odata.Int64
	}
	// Among them are the types whose values exceed every type of the service, such as varint.
	return odata.String
}

// property is a property name of a table's entities, with the columns that store it. At least one of its columns is not
// nil. A value is read from the newest of its columns.
type property struct {
	name  string              // as in requests
	index int                 // in plan.properties
	base  *column             // column p, if there is one that can be shown
	typed [typesCount]*column // p@Edm.Type; nil for types without a column
	ticks *column             // p@ticks; nil if no value had a fraction
}

// column is a column of a table and its role in entities. It is immutable. Its fields but readOnly describe how cells
// are decoded.
type column struct {
	*schema.Column
	prop  *property  // never nil
	shown odata.Type // the type of the property's values in responses
	// readOnly is true for static and multi-cell columns.
	readOnly bool
	// many is true for multi-cell columns, including counters.
	many bool
	// ticks is true if the column stores the ticks of a DateTime.
	ticks bool
}

// plan contains what reads and writes of entities need to know about one version of a table. It is immutable once
// built, and shared by requests.
type plan struct {
	table   *schema.Table
	spelled string    // the Azure table's name
	desc    bool      // the clustering order is descending
	once    sync.Once // guards what follows

	byID       []*column            // nil if no property uses the column
	byName     map[string]*property // by name
	properties []*property          // in the order of their columns
	statics    bool                 // the table has static columns, whose values belong to every entity of a partition
	counters   bool                 // a table of counters, which entities cannot be changed in
}

// newPlan returns a plan without its columns.
func newPlan(t *schema.Table) *plan {
	p := &plan{table: t, spelled: t.Name, desc: t.Clustering[0].Desc}
	// An extension with another name is ignored: CQL could have set it, and two tables would have one name.
	if name := string(t.Options.Extensions[nameExtension]); strings.EqualFold(name, t.Name) {
		p.spelled = name
	}
	return p
}

// build fills in the columns. plan.once calls it once. The table does not change, so its columns are computed once.
func (p *plan) build() {
	// Column IDs are small and never reused, so an array finds a column without hashing.
	p.byID = make([]*column, p.table.NextColumn)
	p.byName = map[string]*property{}
	p.counters = p.table.IsCounter()
	p.statics = len(p.table.Statics) > 0
	// Key columns are in the entity's keys and not among its properties.
	for _, list := range [][]*schema.Column{p.table.Statics, p.table.Regulars} {
		for _, c := range list {
			p.add(c)
		}
	}
}

// add adds a column to the plan. Columns that no property can have are ignored: their cells are skipped. A property may
// have up to eight typed columns, and one for ticks.
func (p *plan) add(c *schema.Column) {
	col := &column{Column: c, shown: shownAs(c.Type)}
	// A counter is a set of shards in storage.
	col.many = c.Type.MultiCell() || c.Type.Kind() == types.Counter
	// Static columns belong to the partition, and an entity is one row.
	col.readOnly = c.Kind == schema.Static || col.many
	at := strings.LastIndex(c.Name, separator)
	if at < 0 {
		switch c.Name {
		// properties of the entity itself; other columns may have these names, too
		case "PartitionKey", "RowKey", "Timestamp":
			return
		}
		col.prop = p.property(c.Name)
		col.prop.base = col
	} else {
		name, suffix := c.Name[:at], c.Name[at:]
		switch {
		// A suffix of a static or multi-cell column has no meaning here.
		case name == "" || col.readOnly:
			return
		// Only columns that this package would create get the special meaning, so a CQL column "x@y" is not shown.
		case suffix == ticksSuffix && c.Type.Kind() == types.Smallint:
			col.prop, col.ticks = p.property(name), true
			col.prop.ticks = col
		case suffix == typeSuffix(col.shown) && c.Type.Equal(cqlType(col.shown)):
			col.prop = p.property(name)
			col.prop.typed[col.shown] = col
		default:
			return
		}
	}
	p.byID[c.ID] = col
}

// property returns the property with the given name and creates it if necessary. index is its place in arrays of the
// decoder.
func (p *plan) property(name string) *property {
	prop := p.byName[name]
	if prop == nil {
		prop = &property{name: name, index: len(p.properties)}
		p.byName[name] = prop
		p.properties = append(p.properties, prop)
	}
	return prop
}

// column returns the column of a cell, or nil if no property uses it. Column IDs of a newer version of the table may be
// greater. It is called for each cell.
func (p *plan) column(id schema.ColumnID) *column {
	if int(id) < len(p.byID) {
		return p.byID[id]
	}
	return nil
}

// target returns the column to which a value of type t is written. If there is none yet, it returns nil and the name of
// the missing column. The missing column's name depends on what the table has now, and may be in use by the time it is
// added. It does not add the column: alter does.
func (p *plan) target(name string, t odata.Type) (col *column, missing string) {
	prop := p.byName[name]
	if prop == nil {
		return nil, p.nameFor(name, t)
	}
	switch {
	// The type must match exactly: an Int32 cannot be stored in a bigint column, or it would be read as an Int64.
	case prop.base != nil && prop.base.shown == t:
		return prop.base, ""
	case prop.typed[t] != nil:
		return prop.typed[t], ""
	}
	return nil, p.nameFor(name, t)
}

// nameFor returns the name of the column to create for a property. The plain name is preferred, because CQL can use it
// without quoting. The result is free in this version of the table.
func (p *plan) nameFor(name string, t odata.Type) string {
	if p.table.Column(name) == nil && p.wasNot(name, cqlType(t)) {
		return name
	}
	return name + typeSuffix(t)
}

// wasNot reports whether a column with this name and type can be created: none with another type or kind was dropped.
// A dropped column's cells may still exist in storage, and would be read with the new type.
func (p *plan) wasNot(name string, t *types.Type) bool {
	for i := range p.table.Dropped {
		d := &p.table.Dropped[i]
		if d.Name == name && (d.Kind != schema.Regular || !d.Type.Equal(t)) {
			return false
		}
	}
	return true
}

// ticksPerMilli is the number of ticks in a millisecond, the resolution of a CQL timestamp. odata.DateTime has a
// higher resolution, so the rest is stored in a separate column.
const ticksPerMilli = 10_000

// splitTicks splits a DateTime into milliseconds and the remaining ticks. rest is 0 to 9,999.
func splitTicks(ticks int64) (millis int64, rest int16) {
	millis = ticks / ticksPerMilli
	rest = int16(ticks % ticksPerMilli)
	// Go divides toward zero, and the rest must not be negative.
	if rest < 0 {
		millis, rest = millis-1, rest+ticksPerMilli
	}
	return millis, rest
}

// joinTicks returns the DateTime of its two parts. Times in CQL that are outside the service's range become the nearest
// end of that range. rest is 0 to 9,999.
func joinTicks(millis int64, rest int16) int64 {
	// The multiplication below cannot overflow after these checks.
	if millis > math.MaxInt64/ticksPerMilli-1 {
		return odata.MaxDateTime
	}
	if millis < math.MinInt64/ticksPerMilli+1 {
		return odata.MinDateTime
	}
	return min(max(millis*ticksPerMilli+int64(rest), odata.MinDateTime), odata.MaxDateTime)
}
