package entity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cqld/cql/types"
	"cqld/schema"
	"cqld/table/odata"
)

// altering is the tables that this node adds columns to at the moment: of those who want the same columns
// one asks, and the others wait.
type altering struct {
	sync.Mutex
	tables map[schema.UUID][]func() // wake those who wait
}

// begin says whether the caller may add columns to the table; if not, wake is called when it may be its turn.
func (a *altering) begin(table schema.UUID, wake func()) (first bool) {
	a.Lock()
	defer a.Unlock()
	waiting, busy := a.tables[table]
	if busy {
		a.tables[table] = append(waiting, wake)
		return false
	}
	if a.tables == nil {
		a.tables = map[schema.UUID][]func(){}
	}
	a.tables[table] = nil
	return true
}

func (a *altering) end(table schema.UUID) {
	a.Lock()
	waiting := a.tables[table]
	delete(a.tables, table)
	a.Unlock()
	for _, wake := range waiting {
		wake()
	}
}

// turn says whether the caller may add columns to the table, and must say when it has. If not, others have
// just done so, and it is to look again.
func (s *Store) turn(ctx context.Context, table schema.UUID) (first bool, err error) {
	waiter := s.o.NewWaiter()
	var once sync.Once
	wake := func() { once.Do(waiter.Signal) }
	if s.altering.begin(table, wake) {
		return true, nil
	}
	late := s.o.Clock.Monotonic() + s.o.Timeouts.Change
	timer := s.o.Clock.After(s.o.Timeouts.Change, wake)
	defer timer.Stop()
	defer context.AfterFunc(ctx, wake)()
	waiter.Wait()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if s.o.Clock.Monotonic() >= late {
		return false, odata.Of(odata.ServerBusy)
	}
	return false, nil
}

// planFor is the table with columns for all properties that ops write. What is missing is added by one
// change of the schema; when another was faster with another type, there is more to add.
func (s *Store) planFor(ctx context.Context, account, table string, ops []Operation) (*plan, error) {
	for range altersMax {
		p, err := s.plan(account, table)
		if err != nil {
			return nil, err
		}
		missing, err := p.missing(ops)
		if err != nil || len(missing) == 0 {
			return p, err
		}
		if n := len(p.table.Regulars) + len(missing); n > s.o.Limits.Columns {
			return nil, invalid(fmt.Sprintf("The entities of table %s have %d properties of different name or type, and %s is one "+
				"too many: %d are kept.", p.spelled, len(p.table.Regulars), missing[0].Name, s.o.Limits.Columns))
		}
		if first, err := s.turn(ctx, p.table.ID); err != nil {
			return nil, err
		} else if !first {
			continue
		}
		err = s.o.Changer.ProposeSchema(ctx, &schema.AlterTable{Keyspace: account, Table: p.table.Name, Add: missing, AddIfNotExists: true})
		s.altering.end(p.table.ID)
		var gone *schema.NotFound
		var refused *schema.Invalid
		switch {
		case errors.As(err, &refused):
			return nil, invalid(refused.Msg)
		case errors.As(err, &gone):
			return nil, odata.Of(odata.TableNotFound)
		case err != nil:
			return nil, err
		}
	}
	return nil, odata.Of(odata.ServerBusy)
}

// missing are the columns that ops need and the table lacks.
func (p *plan) missing(ops []Operation) (specs []schema.ColumnSpec, err error) {
	add := func(name string, t *types.Type) {
		if !slices.ContainsFunc(specs, func(s schema.ColumnSpec) bool { return s.Name == name }) {
			specs = append(specs, schema.ColumnSpec{Name: name, Kind: schema.Regular, Type: t})
		}
	}
	for i := range ops {
		if ops[i].Kind == Delete {
			continue
		}
		properties := ops[i].Entity.Properties
		for k := range properties {
			name, v := properties[k].Name, &properties[k].Value
			col, wanted := p.target(name, v.Type)
			if col == nil {
				if err := checkProperty(name); err != nil {
					return nil, err
				}
				t := cqlType(v.Type)
				if slices.ContainsFunc(specs, func(s schema.ColumnSpec) bool { return s.Name == wanted && s.Type != t }) {
					wanted = name + typeSuffix(v.Type) // another operation adds it with another type
				}
				add(wanted, t)
			}
			if v.Type != odata.DateTime {
				continue
			}
			if _, rest := splitTicks(v.Int); rest != 0 && (p.byName[name] == nil || p.byName[name].ticks == nil) {
				if p.table.Column(name+ticksSuffix) != nil {
					return nil, invalid("Column " + name + ticksSuffix + " is in the way of a DateTime's fraction.")
				}
				add(name+ticksSuffix, types.Native(types.Smallint))
			}
		}
	}
	return specs, nil
}

func checkProperty(name string) error {
	if name == "" || strings.Contains(name, separator) {
		return odata.Of(odata.PropertyNameInvalid)
	}
	return nil
}
