package azuretables

import (
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"cqld/auth"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/internal/env"
	"cqld/request"
)

// memory is an entity.Service without a cluster. fail, if set, is the result of all further calls.
type inMemory struct {
	mu     sync.Mutex
	tables map[string]*memoryTable
	own    map[string][]byte
	ticks  int64
	fail   error
	writes int
}

type memoryTable struct {
	spelled string
	rows    map[entity.Position]odata.Entity
	own     map[string][]byte
}

func newMemory() *inMemory {
	return &inMemory{tables: map[string]*memoryTable{}, own: map[string][]byte{}, ticks: 16220452870454448}
}

func (m *inMemory) table(account, name string) *memoryTable {
	return m.tables[account+"/"+strings.ToLower(name)]
}

func (m *inMemory) Tables(_ *request.Request, account, from string, match func(string) bool, top int) (names []string,
	next string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, t := range m.tables {
		if strings.HasPrefix(key, account+"/") && strings.ToLower(t.spelled) >= strings.ToLower(from) &&
			(match == nil || match(t.spelled)) {
			names = append(names, t.spelled)
		}
	}
	sort.Strings(names)
	if len(names) > top {
		return names[:top], names[top], m.fail
	}
	return names, "", m.fail
}

func (m *inMemory) CreateTable(_ *request.Request, account, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.fail != nil:
		return m.fail
	case m.table(account, name) != nil:
		return odata.Of(odata.TableAlreadyExists)
	}
	if err := odata.CheckTableName(name); err != nil {
		return err
	}
	m.writes++
	m.tables[account+"/"+strings.ToLower(name)] = &memoryTable{name, map[entity.Position]odata.Entity{},
		map[string][]byte{}}
	return nil
}

func (m *inMemory) DeleteTable(_ *request.Request, account, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.table(account, name) == nil {
		return odata.Of(odata.ResourceNotFound)
	}
	m.writes++
	delete(m.tables, account+"/"+strings.ToLower(name))
	return m.fail
}

func (m *inMemory) Exists(account, name string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.table(account, name); t != nil {
		return t.spelled, true
	}
	return "", false
}

func (m *inMemory) Apply(_ *request.Request, account, table string, ops []entity.Operation) ([]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table(account, table)
	switch {
	case m.fail != nil:
		return nil, m.fail
	case t == nil:
		return nil, odata.Of(odata.TableNotFound)
	}
	for i, op := range ops {
		old, there := t.rows[entity.Position{PartitionKey: op.Entity.PartitionKey, RowKey: op.Entity.RowKey}]
		code := odata.Code("")
		switch {
		case op.Kind == entity.Insert && there:
			code = odata.EntityAlreadyExists
		case !there && (op.Kind == entity.Update || op.Kind == entity.Merge || op.Kind == entity.Delete):
			code = odata.ResourceNotFound
		case op.Conditional && old.Timestamp != op.Match:
			code = odata.UpdateConditionNotSatisfied
		}
		if code != "" {
			return nil, &entity.Failed{Index: i, Err: odata.Of(code)}
		}
	}
	m.ticks += 10_000
	m.writes++
	stamps := make([]int64, len(ops))
	for i, op := range ops {
		at := entity.Position{PartitionKey: strings.Clone(op.Entity.PartitionKey),
			RowKey: strings.Clone(op.Entity.RowKey)}
		stamps[i] = m.ticks
		switch old, there := t.rows[at]; {
		case op.Kind == entity.Delete:
			delete(t.rows, at)
		case there && (op.Kind == entity.Merge || op.Kind == entity.InsertOrMerge):
			for _, p := range op.Entity.Properties {
				if q := old.Property(p.Name); q != nil {
					*q = cloned(p)
				} else {
					old.Properties = append(old.Properties, cloned(p))
				}
			}
			old.Timestamp = m.ticks
			t.rows[at] = old
		default:
			e := odata.Entity{PartitionKey: at.PartitionKey, RowKey: at.RowKey, Timestamp: m.ticks}
			for _, p := range op.Entity.Properties {
				e.Properties = append(e.Properties, cloned(p))
			}
			t.rows[at] = e
		}
	}
	return stamps, nil
}

func cloned(p odata.Property) odata.Property {
	p.Name, p.Value.Bytes = strings.Clone(p.Name), slices.Clone(p.Value.Bytes)
	return p
}

func (m *inMemory) Get(_ *request.Request, account, table, partitionKey, rowKey string, _ []string) (*odata.Entity,
	error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table(account, table)
	if m.fail != nil {
		return nil, m.fail
	}
	if t == nil {
		return nil, odata.Of(odata.TableNotFound)
	}
	e, ok := t.rows[entity.Position{PartitionKey: partitionKey, RowKey: rowKey}]
	if !ok {
		return nil, odata.Of(odata.ResourceNotFound)
	}
	return &e, nil
}

func (m *inMemory) Query(r *request.Request, account, table string, q *entity.Query) (*entity.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table(account, table)
	if m.fail != nil {
		return nil, m.fail
	}
	if t == nil {
		return nil, odata.Of(odata.TableNotFound)
	}
	var all []odata.Entity
	for _, e := range t.rows {
		all = append(all, e)
	}
	sign := 1
	if q.Order == entity.Descending {
		sign = -1
	}
	compare := func(a odata.Entity, p, r string) int {
		if c := strings.Compare(a.PartitionKey, p); c != 0 {
			return c
		}
		return sign * strings.Compare(a.RowKey, r)
	}
	slices.SortFunc(all, func(a, b odata.Entity) int { return compare(a, b.PartitionKey, b.RowKey) })
	page := &entity.Page{Plan: entity.TableScan}
	top := q.Top
	if top == 0 {
		top = 1000
	}
	for i := range all {
		e := &all[i]
		if q.From != nil && compare(*e, q.From.PartitionKey, q.From.RowKey) < 0 {
			continue
		}
		if page.Count == top && !q.CountOnly {
			page.Next = &entity.Position{PartitionKey: e.PartitionKey, RowKey: e.RowKey}
			break
		}
		r.Cost.Rows++
		if q.Filter != nil && !odata.Matches(q.Filter, e) {
			continue
		}
		page.Count++
		switch {
		case q.CountOnly:
		case q.Each != nil:
			q.Each(e)
		default:
			page.Entities = append(page.Entities, *e)
		}
	}
	return page, nil
}

func (m *inMemory) DeletePartition(_ *request.Request, account, table, partitionKey string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table(account, table)
	if t == nil {
		return odata.Of(odata.TableNotFound)
	}
	m.writes++
	for at := range t.rows {
		if at.PartitionKey == partitionKey {
			delete(t.rows, at)
		}
	}
	return m.fail
}

func (m *inMemory) Property(account, table, name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if table == "" {
		return m.own[account+"/"+name]
	}
	if t := m.table(account, table); t != nil {
		return t.own[name]
	}
	return nil
}

func (m *inMemory) SetProperty(_ *request.Request, account, table, name string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	if table == "" {
		m.own[account+"/"+name] = value
	} else {
		m.table(account, table).own[name] = value
	}
	return m.fail
}

// Authorize implements entity.Service: everything is allowed.
func (m *inMemory) Authorize(*request.Request, auth.Permission, string, string) error { return nil }

// stillClock is a clock that tests advance.
type stillClock struct {
	mu  sync.Mutex
	now time.Time
}

func newStillClock() *stillClock {
	return &stillClock{now: time.Date(2021, 5, 26, 15, 48, 7, 0, time.UTC)}
}

func (c *stillClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stillClock) Monotonic() time.Duration { return c.Now().Sub(time.Unix(0, 0)) }

func (c *stillClock) After(time.Duration, func()) env.Timer {
	panic("After is not supported by this clock")
}

func (c *stillClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// counting is a sequence of numbers that makes ids distinct.
type counting struct {
	mu sync.Mutex
	n  uint64
}

func (c *counting) Uint64() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}
