package entity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cqld/auth"
	"cqld/azuretables/odata"
	"cqld/request"
	"cqld/schema"
	"cqld/types"
)

// altering groups the columns that this node adds: one schema change of a table runs at a time, and the next one adds
// the columns of all writers that have waited for it. Any number of writers with new property names thus needs two
// schema changes, not one each.
type altering struct {
	sync.Mutex
	tables map[schema.UUID]*alteration
}

// alteration is the state of one table whose schema is changing or about to change.
type alteration struct {
	running bool
	wanted  []schema.ColumnSpec // of waiting writers, each name once
	waiting []func()            // wake the writers
}

// add adds columns to a.wanted, each name once. If two writers want different types for one name, the first is added;
// the other writer then finds the name in use and chooses another.
func (a *alteration) add(specs []schema.ColumnSpec) {
	for _, spec := range specs {
		if !slices.ContainsFunc(a.wanted, func(s schema.ColumnSpec) bool { return s.Name == spec.Name }) {
			a.wanted = append(a.wanted, spec)
		}
	}
}

// begin returns the columns that the caller must add, its own first, and true. If a change of the table is running, it
// returns false: the next change includes the caller's columns, and wake is called when the running one has ended.
func (a *altering) begin(table schema.UUID, missing []schema.ColumnSpec, wake func()) (all []schema.ColumnSpec,
	first bool) {
	a.Lock()
	defer a.Unlock()
	t := a.tables[table]
	if t != nil && t.running {
		t.add(missing)
		t.waiting = append(t.waiting, wake)
		return nil, false
	}
	next := &alteration{running: true}
	if a.tables == nil {
		a.tables = map[schema.UUID]*alteration{}
	}
	a.tables[table] = next
	all = slices.Clone(missing)
	if t != nil {
		own := &alteration{wanted: all}
		own.add(t.wanted)
		all = own.wanted
	}
	return all, true
}

// end ends the change that begin allowed and wakes the waiting writers.
func (a *altering) end(table schema.UUID) {
	a.Lock()
	t := a.tables[table]
	waiting := t.waiting
	t.running, t.waiting = false, nil
	if len(waiting) == 0 {
		delete(a.tables, table)
	}
	a.Unlock()
	for _, wake := range waiting {
		wake()
	}
}

// awaitAlter returns the columns that the caller must add to the table; the caller then calls altering.end. If it
// returns none, another writer has just changed the table, and the caller checks it again.
func (s *Store) awaitAlter(r *request.Request, table schema.UUID,
	missing []schema.ColumnSpec) (all []schema.ColumnSpec, err error) {
	waiter := s.o.Executor.NewWaiter()
	var once sync.Once
	wake := func() { once.Do(waiter.Signal) }
	if all, first := s.altering.begin(table, missing, wake); first {
		return all, nil
	}
	late := s.o.Clock.Monotonic() + s.o.Timeouts.Change
	timer := s.o.Clock.After(s.o.Timeouts.Change, wake)
	defer timer.Stop()
	defer context.AfterFunc(r.Context, wake)()
	waiter.Wait()
	if err := r.Context.Err(); err != nil {
		return nil, err
	}
	if s.o.Clock.Monotonic() >= late {
		return nil, odata.Of(odata.ServerBusy)
	}
	return nil, nil
}

// planFor returns the plan of the table with columns for all properties that ops write. It adds missing columns by one
// schema change, and repeats that if another writer has added one of them with another type first.
func (s *Store) planFor(r *request.Request, account, table string, ops []Operation) (*plan, error) {
	for i := range altersMax {
		p, err := s.plan(account, table)
		if err == nil && i == 0 {
			err = s.permits(r, auth.Modify, p)
		}
		if err != nil {
			return nil, err
		}
		missing, err := p.missing(ops)
		if err != nil || len(missing) == 0 {
			return p, err
		}
		if n := len(p.table.Regulars) + len(missing); n > s.o.Limits.Columns {
			return nil, invalid(fmt.Sprintf("The entities of table %s have %d properties of different name or type, "+
				"and %s is one "+
				"too many: %d are kept.", p.spelled, len(p.table.Regulars), missing[0].Name, s.o.Limits.Columns))
		}
		all, err := s.awaitAlter(r, p.table.ID, missing)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			continue
		}
		err = func() error {
			defer s.altering.end(p.table.ID) // so that a panic does not block the other writers
			return s.addColumns(r, account, p.table, missing, all)
		}()
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

// addColumns proposes a change that adds all columns. If it is refused because of another writer's columns, it proposes
// one with the caller's own columns only.
func (s *Store) addColumns(r *request.Request, account string, t *schema.Table, own, all []schema.ColumnSpec) error {
	all = all[:min(len(all), max(len(own), s.o.Limits.Columns-len(t.Regulars)))]
	propose := func(add []schema.ColumnSpec) error {
		return s.propose(r, &schema.AlterTable{Keyspace: account, Table: t.Name, Add: add, AddIfNotExists: true})
	}
	err := propose(all)
	var refused *schema.Invalid
	if errors.As(err, &refused) && len(all) > len(own) {
		err = propose(own)
	}
	return err
}

// missing returns the columns that ops need and the table lacks.
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
				if slices.ContainsFunc(specs, func(s schema.ColumnSpec) bool {
					return s.Name == wanted &&
						s.Type != t
				}) {
					wanted = name + typeSuffix(v.Type) // another operation adds the name with another type
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
