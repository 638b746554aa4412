package azuretables

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"cqld/auth"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// deletedHeader reports the number of entities that a delete by filter has deleted.
const deletedHeader = "x-cqld-deleted"

// deletePartition deletes a whole partition in one request (beyond Azure). It does not count the deleted entities.
func (c *call) deletePartition() error {
	if err := c.mayChange(deleteEntity(), c.path.Table); err != nil {
		return err
	}
	if c.grant.from != nil || c.grant.to != nil {
		return odata.Of(odata.AuthorizationFailure) // a signature with a key range does not cover a whole partition
	}
	if err := c.admit(c.path.Table, c.path.PartitionKey, 1); err != nil {
		return err
	}
	if err := c.server.o.Service.DeletePartition(&c.request, c.account.name, c.path.Table,
		c.path.PartitionKey); err != nil {
		return err
	}
	c.resp.status = 204
	c.resp.data()
	return nil
}

// deleteMatching deletes the entities that match a filter (beyond Azure), in one transaction after the other. An entity
// that changes between the read and the delete stays, and is read and matched again. After QueryTimeout the response
// contains a continuation, with which the client repeats the request.
func (c *call) deleteMatching() error {
	p := &c.params
	if strings.TrimSpace(p.filter) == "" {
		return odata.Of(odata.MethodNotAllowed) // an omitted filter must not delete the whole table
	}
	if p.hasTop || p.selected != "" || p.orderBy != "" {
		return odata.Of(odata.InvalidInput)
	}
	if err := c.mayChange(deleteEntity(), c.path.Table); err != nil {
		return err
	}
	if err := c.authorized(auth.Modify, c.path.Table); err != nil { // even if no entity matches
		return err
	}
	q, err := c.parseQuery()
	if err != nil {
		return err
	}
	until := c.server.o.Clock.Monotonic() + c.server.limits.QueryTimeout
	deleted := 0
	for c.server.o.Clock.Monotonic() < until {
		page, err := c.runQuery(q)
		if err != nil {
			return c.deletedSoFar(deleted, q.From, err)
		}
		n, again, err := c.deletePage(page.Entities, until)
		deleted += n
		if err != nil {
			return c.deletedSoFar(deleted, q.From, err)
		}
		if again {
			continue
		}
		if q.From = page.Next; page.Next == nil {
			return c.deletedAll(deleted)
		}
	}
	c.proceed(q.From)
	if q.From == nil {
		c.proceed(&entity.Position{})
	}
	return c.deletedAll(deleted)
}

func (c *call) deletedAll(n int) error {
	c.resp.status = 204
	c.resp.data()
	c.resp.add(deletedHeader, strconv.Itoa(n))
	return nil
}

// deletedSoFar returns err if nothing was deleted. Otherwise it reports the number deleted and a continuation.
func (c *call) deletedSoFar(n int, from *entity.Position, err error) error {
	if n == 0 {
		return err
	}
	if from == nil {
		from = &entity.Position{}
	}
	c.proceed(from)
	return c.deletedAll(n)
}

// deletePage deletes entities if they have not changed since they were read. again reports that some have changed, or
// that the time is over.
func (c *call) deletePage(entities []odata.Entity, until time.Duration) (deleted int, again bool, err error) {
	for len(entities) > 0 {
		n := 1
		for n < len(entities) && n < deletePage && entities[n].PartitionKey == entities[0].PartitionKey {
			n++
		}
		if c.server.o.Clock.Monotonic() >= until {
			return deleted, true, nil
		}
		ops := make([]entity.Operation, n)
		for i := range ops {
			e := &entities[i]
			ops[i] = entity.Operation{Kind: entity.Delete, Match: e.Timestamp, Conditional: true,
				Entity: odata.Entity{PartitionKey: e.PartitionKey, RowKey: e.RowKey}}
		}
		_, err := c.server.o.Service.Apply(&c.request, c.account.name, c.path.Table, ops)
		switch {
		case err == nil:
			deleted += n
			c.charge(c.path.Table, entities[0].PartitionKey, n)
		case changedMeanwhile(err):
			again = true
		default:
			return deleted, false, err
		}
		entities = entities[n:]
	}
	return deleted, again, nil
}

func changedMeanwhile(err error) bool {
	var e *odata.Error
	return errors.As(err, &e) && (e.Code == odata.UpdateConditionNotSatisfied || e.Code == odata.ResourceNotFound)
}
