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
// property is stored in column p@Edm.Type. Column p@ticks stores the part of a DateTime below a millisecond.
const (
	separator   = "@"
	ticksSuffix = "@ticks"
)

// typesCount is the size of an array indexed by odata.Type, whose values begin at 1.
const typesCount = int(odata.Int64) + 1

// typeSuffix returns the suffix of a column p@Edm.Type.
func typeSuffix(t odata.Type) string { return separator + t.String() }

// cqlType returns the CQL type that stores values of t without loss.
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
	return types.Native(types.Bigint)
}

// shownAs returns the type of properties for values of a CQL type.
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
	return odata.String
}

// property is a property name of a table's entities, with the columns that store it.
type property struct {
	name  string
	index int // in plan.properties
	base  *column
	typed [typesCount]*column // p@Edm.Type; nil where there is none
	ticks *column
}

// column is a column of a table and its role in entities.
type column struct {
	*schema.Column
	prop  *property
	shown odata.Type
	// readOnly is true for static and multi-cell columns.
	readOnly bool
	// many is true for multi-cell columns, including counters.
	many bool
	// ticks is true if the column stores the ticks of a DateTime.
	ticks bool
}

// plan contains what reads and writes of entities need to know about one version of a table. It is immutable once
// built.
type plan struct {
	table   *schema.Table
	spelled string // the Azure table's name
	desc    bool   // the clustering order is descending
	once    sync.Once

	byID       []*column // nil if no property uses the column
	byName     map[string]*property
	properties []*property
	statics    bool
	counters   bool
}

func newPlan(t *schema.Table) *plan {
	p := &plan{table: t, spelled: t.Name, desc: t.Clustering[0].Desc}
	if name := string(t.Options.Extensions[nameExtension]); strings.EqualFold(name, t.Name) {
		p.spelled = name
	}
	return p
}

// build fills in the columns. plan.once calls it once.
func (p *plan) build() {
	p.byID = make([]*column, p.table.NextColumn)
	p.byName = map[string]*property{}
	p.counters = p.table.IsCounter()
	p.statics = len(p.table.Statics) > 0
	for _, list := range [][]*schema.Column{p.table.Statics, p.table.Regulars} {
		for _, c := range list {
			p.add(c)
		}
	}
}

func (p *plan) add(c *schema.Column) {
	col := &column{Column: c, shown: shownAs(c.Type)}
	col.many = c.Type.MultiCell() || c.Type.Kind() == types.Counter
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
		case name == "" || col.readOnly:
			return
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

// property returns the property with the given name and creates it if necessary.
func (p *plan) property(name string) *property {
	prop := p.byName[name]
	if prop == nil {
		prop = &property{name: name, index: len(p.properties)}
		p.byName[name] = prop
		p.properties = append(p.properties, prop)
	}
	return prop
}

// column returns the column of a cell, or nil if no property uses it.
func (p *plan) column(id schema.ColumnID) *column {
	if int(id) < len(p.byID) {
		return p.byID[id]
	}
	return nil
}

// target returns the column to which a value of type t is written. If there is none yet, it returns nil and the name of
// the missing column.
func (p *plan) target(name string, t odata.Type) (col *column, missing string) {
	prop := p.byName[name]
	if prop == nil {
		return nil, p.nameFor(name, t)
	}
	switch {
	case prop.base != nil && prop.base.shown == t:
		return prop.base, ""
	case prop.typed[t] != nil:
		return prop.typed[t], ""
	}
	return nil, p.nameFor(name, t)
}

// nameFor returns the name of the column to create for a property.
func (p *plan) nameFor(name string, t odata.Type) string {
	if p.table.Column(name) == nil && p.wasNot(name, cqlType(t)) {
		return name
	}
	return name + typeSuffix(t)
}

// wasNot reports whether a column with this name and type can be created: none with another type or kind was dropped.
func (p *plan) wasNot(name string, t *types.Type) bool {
	for i := range p.table.Dropped {
		d := &p.table.Dropped[i]
		if d.Name == name && (d.Kind != schema.Regular || !d.Type.Equal(t)) {
			return false
		}
	}
	return true
}

// ticksPerMilli is the number of ticks in a millisecond, the resolution of a CQL timestamp.
const ticksPerMilli = 10_000

// splitTicks splits a DateTime into milliseconds and the remaining ticks.
func splitTicks(ticks int64) (millis int64, rest int16) {
	millis = ticks / ticksPerMilli
	rest = int16(ticks % ticksPerMilli)
	if rest < 0 {
		millis, rest = millis-1, rest+ticksPerMilli
	}
	return millis, rest
}

// joinTicks returns the DateTime of its two parts. Times in CQL that are outside the service's range become the nearest
// end of that range.
func joinTicks(millis int64, rest int16) int64 {
	if millis > math.MaxInt64/ticksPerMilli-1 {
		return odata.MaxDateTime
	}
	if millis < math.MinInt64/ticksPerMilli+1 {
		return odata.MinDateTime
	}
	return min(max(millis*ticksPerMilli+int64(rest), odata.MinDateTime), odata.MaxDateTime)
}
