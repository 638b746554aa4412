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
	"cqld/schema/refused"
	"cqld/types"
)

// altering groups the columns that this node adds: one schema change of a table runs at a time, and the next one adds
// the columns of all writers that have waited for it. Any number of writers with new property names thus needs two
// schema changes, not one each. The state is of this node only: other nodes may change the same table at the same
// time, which the schema change itself settles (AddIfNotExists).
type altering struct {
	sync.Mutex
	tables map[schema.UUID]*alteration // tables with a running change or with columns left for the next one
}

// alteration is the state of one table whose schema is changing or about to change.
type alteration struct {
	running bool      // a writer of this node is proposing a change
	wanted  columnSet // of waiting writers
	waiting []func()  // wake the writers
}

// columnSet is a list of columns with different names. The zero value is empty.
type columnSet struct {
	list []schema.ColumnSpec
	// The types by name. A $batch may name 25,200 properties, so the list is not searched.
	types map[string]*types.Type
}

// add adds a column unless there is one of this name. If two writers want different types for one name, the first is
// added; the other writer then finds the name in use and chooses another. The types are compared only when the writer
// makes its plan again.
func (s *columnSet) add(spec schema.ColumnSpec) {
	if s.types == nil {
		s.types = map[string]*types.Type{}
	}
	if _, ok := s.types[spec.Name]; !ok {
		s.types[spec.Name] = spec.Type
		s.list = append(s.list, spec)
	}
}

// addAll adds columns in their order.
func (s *columnSet) addAll(specs []schema.ColumnSpec) {
	for _, spec := range specs {
		s.add(spec)
	}
}

// begin returns the columns that the caller must add, its own first, and true. If a change of the table is running,
// it returns false: the next change includes the caller's columns, and wake is called when the running one has ended.
// The table is identified by its ID, so a table that is dropped and created again has a separate state.
func (a *altering) begin(table schema.UUID, missing []schema.ColumnSpec, wake func()) (all []schema.ColumnSpec,
	first bool) {
	a.Lock()
	defer a.Unlock()
	t := a.tables[table]
	// The caller's columns join the next change, which the first of the woken writers proposes.
	if t != nil && t.running {
		t.wanted.addAll(missing)
		t.waiting = append(t.waiting, wake)
		return nil, false
	}
	// The caller takes over the columns that have been collected, so none of the collected writers must propose again.
	next := &alteration{running: true}
	if a.tables == nil {
		a.tables = map[schema.UUID]*alteration{}
	}
	a.tables[table] = next
	// The caller's columns come first, because addColumns cuts the list at its end if it is too long.
	var own columnSet
	own.addAll(missing)
	if t != nil {
		own.addAll(t.wanted.list)
	}
	return own.list, true
}

// end ends the change that begin allowed and wakes the waiting writers. It must be called exactly once for each begin
// that returned true, also after an error.
func (a *altering) end(table schema.UUID) {
	a.Lock()
	t := a.tables[table]
	waiting := t.waiting
	// wanted stays: the first writer that is woken takes it.
	t.running, t.waiting = false, nil
	// No writer waits, so no columns were collected either.
	if len(waiting) == 0 {
		delete(a.tables, table)
	}
	a.Unlock()
	// The writers are woken outside the lock, because a woken writer may call begin at once.
	for _, wake := range waiting {
		wake()
	}
}

// awaitAlter returns the columns that the caller must add to the table; the caller then calls altering.end. If it
// returns none, another writer has just changed the table, and the caller checks it again. Errors: ServerBusy after
// Timeouts.Change, or the error of the request's context.
func (s *Store) awaitAlter(r *request.Request, table schema.UUID,
	missing []schema.ColumnSpec) (all []schema.ColumnSpec, err error) {
	waiter := s.o.Executor.NewWaiter()
	var once sync.Once
	// Three events may wake the writer: the end of the change, the timeout, and the cancellation of the request.
	wake := func() { once.Do(waiter.Signal) }
	if all, first := s.altering.begin(table, missing, wake); first {
		return all, nil
	}
	late := s.o.Clock.Monotonic() + s.o.Timeouts.Change
	// The wait has its own bound, because a schema change needs a majority of voters, which may be down.
	timer := s.o.Clock.After(s.o.Timeouts.Change, wake)
	defer timer.Stop()
	defer context.AfterFunc(r.Context, wake)()
	waiter.Wait()
	if err := r.Context.Err(); err != nil {
		return nil, err
	}
	// The same event wakes the writer for both outcomes, so the clock decides which one it was.
	if s.o.Clock.Monotonic() >= late {
		return nil, odata.Of(odata.ServerBusy)
	}
	return nil, nil
}

// planFor returns the plan of the table with columns for all properties that ops write. It adds missing columns by one
// schema change, and repeats that if another writer has added one of them with another type first. The permission to
// modify is checked once, and before anything about the columns is revealed. Errors: TableNotFound, InvalidInput for
// names and for too many columns, ServerBusy after altersMax changes.
func (s *Store) planFor(r *request.Request, account, table string, ops []Operation) (*plan, error) {
	for i := range altersMax {
		// Each iteration sees the newest schema, in which another writer's columns may exist.
		p, err := s.plan(account, table)
		if err == nil && i == 0 {
			err = s.permits(r, auth.Modify, p)
		}
		if err != nil {
			return nil, err
		}
		// The plan suffices for nearly every change: new names are rare.
		// The limit counts columns: a name with values of two types needs two.
		most := s.o.Limits.Columns - len(p.table.Regulars)
		missing, err := p.missing(ops, most)
		if err != nil || len(missing) == 0 {
			return p, err
		}
		if len(missing) > most {
			return nil, invalid(fmt.Sprintf("The entities of table %s have %d properties of different name or type, "+
				"and %s is one "+
				"too many: %d are kept.", p.spelled, len(p.table.Regulars), missing[0].Name, s.o.Limits.Columns))
		}
		all, err := s.awaitAlter(r, p.table.ID, missing)
		if err != nil {
			return nil, err
		}
		// Another writer's change has ended; the columns may exist now.
		if len(all) == 0 {
			continue
		}
		err = func() error {
			defer s.altering.end(p.table.ID) // so that a panic does not block the other writers
			now, err := s.plan(account, table)
			if err != nil {
				return err
			}
			// Another change may have ended between the caller's plan and its turn. Proposing its columns again would
			// cost a change of the cluster's schema that changes nothing.
			exists := func(c schema.ColumnSpec) bool { return now.table.Column(c.Name) != nil }
			missing, all = slices.DeleteFunc(missing, exists), slices.DeleteFunc(all, exists)
			return s.addColumns(r, account, now.table, missing, all)
		}()
		var gone *refused.NotFound
		var refused *refused.Invalid
		switch {
		// The column's name or type is refused for good, as after a column with another type was dropped.
		case errors.As(err, &refused):
			return nil, invalid(refused.Msg)
		// The table was dropped meanwhile.
		case errors.As(err, &gone):
			return nil, odata.Of(odata.TableNotFound)
		case err != nil:
			return nil, err
		}
	}
	// Other writers have added the same names with other types each time.
	return nil, odata.Of(odata.ServerBusy)
}

// addColumns proposes a change that adds all columns. If it is refused because of another writer's columns, it proposes
// one with the caller's own columns only.
func (s *Store) addColumns(r *request.Request, account string, t *schema.Table, own, all []schema.ColumnSpec) error {
	// The caller's own columns always stay in the list; others are dropped if the table would have too many.
	all = all[:min(len(all), max(len(own), s.o.Limits.Columns-len(t.Regulars)))]
	if len(all) == 0 {
		return nil
	}
	propose := func(add []schema.ColumnSpec) error {
		// AddIfNotExists: writers on other nodes may add the same column. Its type is checked by the next plan.
		return s.propose(r, &schema.AlterTable{Keyspace: account, Table: t.Name, Add: add, AddIfNotExists: true})
	}
	err := propose(all)
	var refused *refused.Invalid
	// One writer's invalid column must not fail the others.
	if errors.As(err, &refused) && len(all) > len(own) {
		err = propose(own)
	}
	return err
}

// missing returns the columns that ops need and the table lacks. Each column is listed once, for all operations. It
// ends when there are more than most. Errors: PropertyNameInvalid, InvalidInput.
func (p *plan) missing(ops []Operation, most int) ([]schema.ColumnSpec, error) {
	var found columnSet
	add := func(name string, t *types.Type) {
		found.add(schema.ColumnSpec{Name: name, Kind: schema.Regular, Type: t})
	}
	for i := range ops {
		// A delete writes no properties.
		if ops[i].Kind == Delete {
			continue
		}
		properties := ops[i].Entity.Properties
		for k := range properties {
			name, v := properties[k].Name, &properties[k].Value
			// target prefers existing columns, so that a value of a known type never needs a new one.
			col, wanted := p.target(name, v.Type)
			if col == nil {
				if err := checkProperty(name); err != nil {
					return nil, err
				}
				t := cqlType(v.Type)
				// The operations of one change may use one name with two types. Both need a column, and only one can
				// have the plain name.
				if other := found.types[wanted]; other != nil && other != t {
					wanted = name + typeSuffix(v.Type) // another operation adds the name with another type
				}
				add(wanted, t)
			}
			if len(found.list) > max(most, 0) {
				return found.list, nil
			}
			if v.Type != odata.DateTime {
				continue
			}
			// A DateTime that is a whole number of milliseconds needs no second column.
			if _, rest := splitTicks(v.Int); rest != 0 && (p.byName[name] == nil || p.byName[name].ticks == nil) {
				// A column of CQL with that name, and of another type, is not a ticks column.
				if p.table.Column(name+ticksSuffix) != nil {
					return nil, invalid("Column " + name + ticksSuffix + " is in the way of a DateTime's fraction.")
				}
				add(name+ticksSuffix, types.Native(types.Smallint))
			}
		}
	}
	return found.list, nil
}

// checkProperty refuses names that cannot be a column's name: "@" separates the name from the type. Package odata
// refuses it in requests already.
func checkProperty(name string) error {
	if name == "" || strings.Contains(name, separator) {
		return odata.Of(odata.PropertyNameInvalid)
	}
	return nil
}
