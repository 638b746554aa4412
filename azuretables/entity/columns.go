package entity

import (
	"math"
	"strings"
	"sync"

	"cqld/azuretables/odata"
	"cqld/schema"
	"cqld/types"
)

// A property p of a type is kept in column p of that type's CQL type; where column p is something else,
// in column p@Edm.Type. What a DateTime has below its milliseconds is kept in p@ticks.
const (
	separator   = "@"
	ticksSuffix = "@ticks"
)

// typesCount is how many types there are, and one: they begin at 1.
const typesCount = int(odata.Int64) + 1

// typeSuffix is what a column's name ends with that keeps a property beside its column.
func typeSuffix(t odata.Type) string { return separator + t.String() }

// cqlType is the CQL type that keeps values of t as they are.
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

// shownAs is the type that values of a CQL type are shown as.
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

// property is a name that entities of a table have a value for, and the columns that keep it.
type property struct {
	name  string
	index int // in plan.properties
	base  *column
	typed [typesCount]*column // p@Edm.Type; nil where there is none
	ticks *column
}

// column is a column of a table, and what it is for an entity.
type column struct {
	*schema.Column
	prop  *property
	shown odata.Type
	// readOnly: static, or of many cells.
	readOnly bool
	// many: of many cells, a counter's among them.
	many bool
	// ticks: it keeps the rest of a DateTime.
	ticks bool
}

// plan is all about a version of a table that reading and writing entities must know. It is immutable once
// it was built.
type plan struct {
	table   *schema.Table
	spelled string // the Azure table's name
	desc    bool   // the clustering descends
	once    sync.Once

	byID       []*column // nil: no property's
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

// build looks at the columns. It is called once, by plan.once.
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
		case "PartitionKey", "RowKey", "Timestamp": // of the entity; a column beside the keys can have them, too
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

// property is the property of a name.
func (p *plan) property(name string) *property {
	prop := p.byName[name]
	if prop == nil {
		prop = &property{name: name, index: len(p.properties)}
		p.byName[name] = prop
		p.properties = append(p.properties, prop)
	}
	return prop
}

// column is the column of a cell; nil when it is no property's.
func (p *plan) column(id schema.ColumnID) *column {
	if int(id) < len(p.byID) {
		return p.byID[id]
	}
	return nil
}

// target is the column that a value of a type is written to; nil when there is none yet, and missing says
// which it will be.
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

// nameFor is the name of a column to be made for a property.
func (p *plan) nameFor(name string, t odata.Type) string {
	if p.table.Column(name) == nil && p.wasNot(name, cqlType(t)) {
		return name
	}
	return name + typeSuffix(t)
}

// wasNot says whether no column of that name was dropped that was of another type or kind: a new one could
// not be made.
func (p *plan) wasNot(name string, t *types.Type) bool {
	for i := range p.table.Dropped {
		d := &p.table.Dropped[i]
		if d.Name == name && (d.Kind != schema.Regular || !d.Type.Equal(t)) {
			return false
		}
	}
	return true
}

// ticksPerMilli is how many ticks a CQL timestamp cannot tell apart.
const ticksPerMilli = 10_000

// splitTicks is a DateTime as milliseconds and the rest.
func splitTicks(ticks int64) (millis int64, rest int16) {
	millis = ticks / ticksPerMilli
	rest = int16(ticks % ticksPerMilli)
	if rest < 0 {
		millis, rest = millis-1, rest+ticksPerMilli
	}
	return millis, rest
}

// joinTicks is a DateTime from its parts. CQL has later and earlier times than the service: those are shown
// as the last, and the first, that it has.
func joinTicks(millis int64, rest int16) int64 {
	if millis > math.MaxInt64/ticksPerMilli-1 {
		return odata.MaxDateTime
	}
	if millis < math.MinInt64/ticksPerMilli+1 {
		return odata.MinDateTime
	}
	return min(max(millis*ticksPerMilli+int64(rest), odata.MinDateTime), odata.MaxDateTime)
}
